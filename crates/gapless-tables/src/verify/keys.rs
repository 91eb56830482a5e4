//! Keys as they are asked for.

use std::collections::BTreeMap;

use super::Key;
use crate::wire::RowDigest;

/// How many rows of one side are looked up in the other at once.
pub(super) const LOOKED_UP: u32 = 1_000;
/// How many bytes of keys are sent at once; a server takes at least twice as much.
const KEY_BYTES_MAX: usize = 32 << 10;

/// Hashes of rows by their keys.
pub(super) fn by_key(rows: Vec<RowDigest>) -> BTreeMap<Key, String> {
    rows.into_iter().map(|row| (row.key, row.digest)).collect()
}

/// Keys in parts that may be sent at once.
pub(super) fn parts(keys: &[Key]) -> impl Iterator<Item = &[Key]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |key: &&Key| {
            // As they are written in JSON, where each byte may take six.
            bytes += key.iter().map(|text| 6 * text.len() + 4).sum::<usize>();
            bytes <= KEY_BYTES_MAX
        };
        let fitting = rest.iter().take(LOOKED_UP as usize).take_while(fits).count().max(1);
        let (part, behind) = rest.split_at(fitting.min(rest.len()));
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sent_in_parts_that_a_server_takes() {
        let key = |length: usize| vec!["x".repeat(length)];
        let lengths = |keys: &[Key]| parts(keys).map(<[Key]>::len).collect::<Vec<_>>();
        assert!(lengths(&[]).is_empty());
        assert_eq!(lengths(&vec![key(1); 2_500]), [1_000, 1_000, 500]);
        assert_eq!(lengths(&vec![key(2_000); 5]), [2, 2, 1]);
        assert_eq!(lengths(&[key(1), key(KEY_BYTES_MAX), key(1)]), [1, 1, 1]);
    }
}
