use proptest::prelude::*;

use super::*;

fn cursor(text: &str) -> Result<ChainCursor, ChainTextError> {
    text.parse()
}

#[test]
fn a_cursor_is_written_so_that_people_can_read_it() {
    let text = "1:00000000020134:0007:88213";
    let read = cursor(text).unwrap();
    assert_eq!((read.chain.get(), read.point.block.get(), read.point.log), (1, 20_134, 7));
    assert_eq!(read.seq, Some(Seq::new(88_213).unwrap()));
    assert_eq!(read.to_string(), text);
}

#[test]
fn a_cursor_of_three_parts_has_no_seq() {
    let text = "1:00000000020134:0007";
    assert_eq!(cursor(text).unwrap().seq, None);
    assert_eq!(cursor(text).unwrap().to_string(), text);
}

// Chain behaviour 14
#[test]
fn the_largest_chain_and_logs_beyond_four_digits_are_compared_as_numbers() {
    let small = cursor("18446744073709551615:00000000000000:9999:1").unwrap();
    let large = cursor("18446744073709551615:00000000000000:10000:2").unwrap();
    assert_eq!(small.chain.get(), u64::MAX);
    assert!(small.point < large.point);
    assert_eq!(large.to_string(), "18446744073709551615:00000000000000:10000:2");
}

#[test]
fn what_is_no_cursor_is_refused() {
    let texts = [
        "",
        "1",
        "1:2",
        "1:2:3:4:5",
        "1:2:3:",
        "-1:2:3:4",
        "+1:2:3:4",
        "1: 2:3:4",
        "1:x:3:4",
        "1:2:4294967296:4",
        "18446744073709551616:2:3:4",
        "1:9007199254740992:3:4",
        "1:2:3:9007199254740992",
    ];
    for text in texts {
        assert_eq!(cursor(text), Err(ChainTextError::Cursor), "{text}");
    }
}

#[test]
fn a_hash_is_read_in_either_case_and_written_in_small_letters() {
    let text = format!("0x{}", "aB".repeat(32));
    let hash: BlockHash = serde_json::from_str(&format!("\"{text}\"")).unwrap();
    assert_eq!(hash, BlockHash([0xab; 32]));
    assert_eq!(hash.to_string(), text.to_lowercase());
}

#[test]
fn what_is_no_hash_is_refused() {
    let short = format!("0x{}", "a".repeat(63));
    let long = format!("0x{}", "a".repeat(65));
    let bare = "a".repeat(64);
    let foreign = format!("0x{}", "g".repeat(64));
    let signed = format!("0x{}", "+a".repeat(32));
    let wide = format!("0x{}", "é".repeat(32));
    for text in ["", "0x", &short, &long, &bare, &foreign, &signed, &wide] {
        assert_eq!(text.parse::<BlockHash>(), Err(ChainTextError::Hash), "{text}");
    }
}

proptest! {
    #[test]
    fn a_cursor_comes_back_as_it_went(chain: u64, block in 0..1_u64 << 53, log: u32, seq in proptest::option::of(0..1_u64 << 53)) {
        let cursor = ChainCursor {
            chain: ChainId::new(chain),
            point: ChainPoint { block: BlockNumber::new(block).unwrap(), log },
            seq: seq.map(|seq| Seq::new(seq).unwrap()),
        };
        prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}
