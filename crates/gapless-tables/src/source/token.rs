//! Cursors as readers hold them: opaque, and only as we made them.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gapless_core::TableCursor;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::catalog::Cluster;

/// What a cursor is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The name the table goes by.
    pub(crate) table: String,
    pub(crate) cluster: Cluster,
    /// Which table of the database.
    pub(crate) oid: u32,
    /// Changes when the meaning of a cursor does: with the key, the cursor column, the filter, or the consistency.
    pub(crate) meaning: u64,
}

/// Signs cursors with the first of its keys, and takes those that any of them has signed.
#[derive(Clone)]
pub struct CursorKeys(Vec<Vec<u8>>);

/// Why a cursor can't be used. Nothing is read then; whoever asks decides whether to begin anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// It isn't one, or was altered, or cut.
    #[error(
        "this is no cursor of this server, or it was altered on the way; send the last `next_cursor` as it came"
    )]
    Invalid,
    /// It is of another table.
    #[error("the cursor is of table `{0}`; send the one that this table gave")]
    OtherTable(String),
    /// The table lives in another database now, or in another life of it.
    #[error(
        "the cursor is of another database than this one: it was restored, failed over or replaced, so that nobody knows what the \
         cursor has seen; begin anew without a cursor, or with `since` some time before that happened"
    )]
    OtherCluster,
    /// The table was made anew.
    #[error("the table was dropped and made again since the cursor was given; begin anew without a cursor")]
    OtherIncarnation,
    /// It means something else now.
    #[error(
        "key, cursor column, filter or consistency of the table were changed since the cursor was given, or what notes its changes \
         was away for a while; begin anew without a cursor"
    )]
    OtherMeaning,
    /// What it needs of the notes of deleted rows isn't there any more.
    #[error(
        "the notes of rows that were deleted up to {purged_up_to} were purged, and the cursor may not have passed them all, so that a copy \
         would keep rows that are gone; begin anew without a cursor, into an empty copy (a `since` must be later than that)"
    )]
    Expired {
        /// The highest value of the cursor column among what was purged, as PostgreSQL writes it.
        purged_up_to: String,
    },
}

/// The first byte, so that later forms can be told from this one.
const VERSION: u8 = 1;
/// Half of a SHA-256 is more than anyone can guess.
const TAG_BYTES: usize = 16;
/// No cursor is longer: see [`gapless_core::Snapshot::capped`], and the longest key that is named.
const BYTES_MAX: usize = 64 << 10;

impl CursorKeys {
    /// Keys made from secrets, the newest first. Without any, one that everybody knows: right only where everybody is let in anyway.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut keys: Vec<Vec<u8>> =
            secrets.into_iter().map(|secret| tag(secret, b"gapless cursor of a table")).collect();
        if keys.is_empty() {
            keys.push(tag(b"", b"gapless cursor of a table"));
        }
        Self(keys)
    }

    pub(crate) fn seal(&self, subject: &Subject, cursor: &TableCursor) -> String {
        let content = postcard::to_stdvec(&(subject, cursor)).expect("it holds only numbers and texts");
        let mut bytes = vec![VERSION];
        bytes.extend(content);
        let tag = tag(&self.0[0], &bytes);
        bytes.extend(&tag[..TAG_BYTES]);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(crate) fn open(&self, token: &str, subject: &Subject) -> Result<TableCursor, CursorError> {
        if token.len() > BYTES_MAX {
            return Err(CursorError::Invalid);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| CursorError::Invalid)?;
        let (signed, found) = bytes.split_last_chunk::<TAG_BYTES>().ok_or(CursorError::Invalid)?;
        let is_ours = self.0.iter().any(|key| mac(key, signed).verify_truncated_left(found).is_ok());
        let content = match (is_ours, signed.split_first()) {
            (true, Some((&VERSION, content))) => content,
            _ => return Err(CursorError::Invalid),
        };
        let (of, cursor): (Subject, TableCursor) =
            postcard::from_bytes(content).map_err(|_| CursorError::Invalid)?;
        let Subject { table, cluster, oid, meaning } = of;
        if table != subject.table {
            return Err(CursorError::OtherTable(table));
        }
        if cluster != subject.cluster {
            return Err(CursorError::OtherCluster);
        }
        if oid != subject.oid {
            return Err(CursorError::OtherIncarnation);
        }
        if meaning != subject.meaning {
            return Err(CursorError::OtherMeaning);
        }
        Ok(cursor)
    }
}

fn mac(key: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is right for a key");
    mac.update(bytes);
    mac
}

fn tag(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    mac(key, bytes).finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use gapless_core::{Mark, Place, StepEnd};

    use super::*;

    fn subject() -> Subject {
        Subject {
            table: "orders".to_owned(),
            cluster: Cluster { system: -7, timeline: 1 },
            oid: 16_400,
            meaning: 5,
        }
    }

    fn cursor() -> TableCursor {
        let mut cursor = TableCursor::since(-1);
        cursor.begin(Mark { snapshot: "10:20:10,14".parse().unwrap(), oldest_start: None });
        cursor.handle_rows(Some(Place { at: 5, key: Some(vec![vec![0, 1], vec![]]) }), StepEnd::Full);
        cursor
    }

    // Table behaviour 9
    #[test]
    fn a_cursor_is_taken_back_as_it_was_given_and_in_no_other_form() {
        let keys = CursorKeys::new([b"new".as_slice(), b"old".as_slice()]);
        let token = keys.seal(&subject(), &cursor());
        assert_eq!(keys.open(&token, &subject()), Ok(cursor()));
        for index in 0..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[index] = if altered[index] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(keys.open(&altered, &subject()), Err(CursorError::Invalid), "{index}");
            assert_eq!(keys.open(&token[..index], &subject()), Err(CursorError::Invalid), "{index}");
        }
    }

    // Table behaviour 9
    #[test]
    fn an_old_key_is_good_until_it_is_taken_away() {
        let before = CursorKeys::new([b"old".as_slice()]);
        let token = before.seal(&subject(), &cursor());
        let rotated = CursorKeys::new([b"new".as_slice(), b"old".as_slice()]);
        assert_eq!(rotated.open(&token, &subject()), Ok(cursor()));
        let after = CursorKeys::new([b"new".as_slice()]);
        assert_eq!(after.open(&token, &subject()), Err(CursorError::Invalid));
        assert_eq!(CursorKeys::new([]).open(&token, &subject()), Err(CursorError::Invalid));
    }

    // Table behaviour 9
    #[test]
    fn a_cursor_of_something_else_says_of_what() {
        let keys = CursorKeys::new([]);
        let token = keys.seal(&subject(), &cursor());
        let other = |subject: Subject| keys.open(&token, &subject).unwrap_err();
        assert_eq!(
            other(Subject { table: "users".to_owned(), ..subject() }),
            CursorError::OtherTable("orders".to_owned())
        );
        for cluster in [Cluster { system: 8, timeline: 1 }, Cluster { system: -7, timeline: 2 }] {
            assert_eq!(other(Subject { cluster, ..subject() }), CursorError::OtherCluster);
        }
        assert_eq!(other(Subject { oid: 1, ..subject() }), CursorError::OtherIncarnation);
        assert_eq!(other(Subject { meaning: 6, ..subject() }), CursorError::OtherMeaning);
    }

    // Table behaviour 4
    #[test]
    fn a_cursor_stays_small_however_many_transactions_are_open() {
        let open: Vec<String> = (0..10_000_u64).map(|n| (1_000_000_000_000 + 3 * n).to_string()).collect();
        let snapshot = format!("1000000000000:1000000099999:{}", open.join(","));
        let snapshot: gapless_core::Snapshot = snapshot.parse().unwrap();
        let mark = Mark {
            snapshot: snapshot.capped(super::super::OPEN_LISTED_MAX, None),
            oldest_start: Some(i64::MIN),
        };
        let mut cursor = TableCursor::new();
        cursor.begin(mark.clone());
        cursor.handle_rows(Some(Place { at: i64::MAX, key: Some(vec![vec![0; 2_700]]) }), StepEnd::Through);
        cursor.begin(mark);
        let token = CursorKeys::new([]).seal(&subject(), &cursor);
        assert!(token.len() < 16 << 10, "{}", token.len());
    }
}
