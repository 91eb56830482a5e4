use proptest::prelude::*;

use super::*;
use crate::wire::Consistency;

type Fields = Vec<Option<Vec<u8>>>;

proptest! {
    #[test]
    fn what_was_written_is_read(rows in rows(3)) {
        let page = read(&written(&rows), 3).unwrap();
        let found: Vec<(Op, Fields)> = page
            .records
            .iter()
            .map(|record| (record.op, record.values().map(|value| value.map(<[u8]>::to_vec)).collect()))
            .collect();
        let deletes = rows.iter().filter(|(op, _)| *op == Op::Delete).count();
        prop_assert_eq!((page.records.upserts, page.records.deletes), (rows.len() - deletes, deletes));
        prop_assert_eq!(found, rows);
    }

    // Table behaviour 11
    #[test]
    fn a_page_that_is_cut_anywhere_is_no_page(rows in rows(2), cut in 0_usize..10_000) {
        let whole = written(&rows);
        let cut = cut % whole.len();
        prop_assert!(read(&whole[..cut], 2).is_err());
    }

    #[test]
    fn garbage_is_refused_without_a_panic(garbage in prop::collection::vec(any::<u8>(), 0..200), columns in 0_usize..4) {
        let _ = read(&garbage, columns);
        let with_head = [written(&[]), garbage.clone()].concat();
        prop_assert_eq!(read(&with_head, columns).is_ok(), garbage.is_empty());
    }

    #[test]
    fn a_length_that_leads_anywhere_is_refused(length in any::<i32>()) {
        let mut bytes = written(&[(Op::Upsert, vec![Some(b"abc".to_vec())])]);
        let at = bytes.len() - 7;
        bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        prop_assert_eq!(read(&bytes, 1).is_ok(), length == 3);
    }
}

#[test]
fn a_record_of_another_shape_is_named() {
    let bytes = written(&[(Op::Upsert, vec![None]), (Op::Upsert, vec![None, None])]);
    assert_eq!(read(&bytes, 1), Err(PageError::Fields { index: 1, found: 3, expected: 2 }));
}

#[test]
fn ops_of_texts_are_digits() {
    let row = [&2_i16.to_be_bytes()[..], &1_i32.to_be_bytes(), b"1", &(-1_i32).to_be_bytes()].concat();
    let bytes = [head(1), row].concat();
    let page = Page::new(Answer::parse(bytes.clone().into()).unwrap(), 1, Values::Text).unwrap();
    assert_eq!((page.records.upserts, page.records.deletes), (0, 1));
    assert_eq!(read(&bytes, 1), Err(PageError::Op { index: 0 }));
}

fn read(bytes: &[u8], columns: usize) -> Result<Page, PageError> {
    Page::new(Answer::parse(Bytes::copy_from_slice(bytes))?, columns, Values::Binary)
}

fn rows(columns: usize) -> impl Strategy<Value = Vec<(Op, Fields)>> {
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..9));
    let op = prop::bool::ANY.prop_map(|is_delete| if is_delete { Op::Delete } else { Op::Upsert });
    prop::collection::vec((op, prop::collection::vec(value, columns)), 0..9)
}

fn written(rows: &[(Op, Fields)]) -> Vec<u8> {
    let mut bytes = head(rows.len());
    for (op, fields) in rows {
        let op = vec![0, u8::from(*op == Op::Delete)];
        bytes.extend(i16::try_from(fields.len() + 1).unwrap().to_be_bytes());
        for field in [Some(op)].iter().chain(fields) {
            let length = field.as_ref().map_or(-1, |field| i32::try_from(field.len()).unwrap());
            bytes.extend(length.to_be_bytes());
            bytes.extend(field.iter().flatten());
        }
    }
    bytes
}

fn head(records: usize) -> Vec<u8> {
    let head = PageHead {
        records,
        has_more: false,
        next_cursor: "c".to_owned(),
        consistency: Consistency::Strict,
        lag_ms: 0,
        held_by: None,
        schema_version: "1".to_owned(),
    };
    let head = serde_json::to_vec(&head).unwrap();
    [&u32::try_from(head.len()).unwrap().to_be_bytes()[..], &head].concat()
}
