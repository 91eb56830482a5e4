//! Rows of a page as the data of a `COPY`.

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt as _;
use tokio_postgres::{Error, Statement, Transaction};

use crate::replicate::page::Records;

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TRAILER: &[u8] = &[0xff, 0xff];
/// How much is handed over at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Hands the tuples of a `COPY` over.
pub(super) async fn copy(
    transaction: &Transaction<'_>,
    statement: &Statement,
    chunks: impl Iterator<Item = Bytes>,
) -> Result<(), Error> {
    let sink = transaction.copy_in(statement).await?;
    let mut sink = std::pin::pin!(sink);
    sink.feed(Bytes::from_static(HEADER)).await?;
    for chunk in chunks {
        sink.feed(chunk).await?;
    }
    sink.feed(Bytes::from_static(TRAILER)).await?;
    sink.finish().await?;
    Ok(())
}

/// The tuples with the op as their first field, as they came.
pub(super) fn with_op(records: &Records) -> impl Iterator<Item = Bytes> {
    let mut rest = records.bytes().clone();
    std::iter::from_fn(move || (!rest.is_empty()).then(|| rest.split_to(rest.len().min(CHUNK_BYTES))))
}

/// The tuples without the op.
pub(super) fn without_op(records: &Records, columns: i16) -> impl Iterator<Item = Bytes> {
    let mut records = records.iter();
    std::iter::from_fn(move || {
        let mut chunk = BytesMut::new();
        for record in records.by_ref() {
            let fields = record.encoded_fields();
            if chunk.is_empty() {
                chunk.reserve(CHUNK_BYTES.max(fields.len() + 2));
            }
            chunk.extend_from_slice(&columns.to_be_bytes());
            chunk.extend_from_slice(fields);
            if chunk.len() + fields.len() >= CHUNK_BYTES {
                break;
            }
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    })
}
