//! Rows by their keys, for who mends a copy.

use futures_util::TryStreamExt as _;
use tokio_postgres::types::ToSql;

use super::encoding::{Encoder, Form};
use super::page::PAGE_BYTES_MAX;
use super::statements::Values;
use super::{Source, SourceError};
use crate::digest::by_column;
use crate::quoting::identifier;
use crate::wire::RowsHead;

/// Rows that were asked for by their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRows {
    /// What is said about them.
    pub head: RowsHead,
    /// The records, in the form that was asked for.
    pub rows: Vec<u8>,
}

impl Source {
    /// Reads the rows of some keys, at most 1,000, in the order of the keys: each is an upsert, or a delete where there is no such row. There
    /// are fewer records than keys if they would have more than 8 MiB, but at least one.
    pub async fn rows(&self, keys: &[Vec<String>], form: Form) -> Result<KeyedRows, SourceError> {
        self.check_keys(keys)?;
        let _turn = self.pool.heavy_turn().await.ok_or(SourceError::Crowded)?;
        let client = self.connection().await?;
        let (found, columns) = (&self.table.found, by_column(keys, self.table.found.key.len()));
        let columns: Vec<_> = columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let mut encoder = Encoder::of_keys(form, &found.columns, &found.key);
        let rows = client
            .query_raw(&self.rows_statement(form.values()), columns)
            .await
            .map_err(|error| self.of_asker(error))?;
        let mut rows = std::pin::pin!(rows);
        let mut records = 0;
        let mut is_cut = false;
        while let Some(row) = rows.try_next().await.map_err(|error| self.of_asker(error))? {
            is_cut = records > 0 && encoder.bytes.len() >= PAGE_BYTES_MAX;
            if is_cut {
                break;
            }
            encoder.write(&row, row.try_get::<_, i16>(0)? == 1)?;
            records += 1;
        }
        if is_cut {
            // The rest would have to be received before the connection could do anything else.
            drop(deadpool_postgres::Object::take(client));
        } else {
            self.is_same(&client).await?;
        }
        let schema_version = self.table.description.schema_version.clone();
        Ok(KeyedRows { head: RowsHead { records, schema_version }, rows: encoder.bytes })
    }

    fn rows_statement(&self, values: Values) -> String {
        let compared = self.compared();
        let key = &self.table.found.key;
        let columns = self.table.found.columns.iter().map(|column| {
            let name = format!("t.{}", identifier(&column.name));
            let place = key.iter().position(|key| key.name == column.name);
            let value = match place {
                // A key is there even if its row isn't.
                Some(place) => format!("coalesce({name}, k.k{}::{})", place + 1, column.type_name),
                None => name,
            };
            if values.are_texts(column) { format!("{value}::text") } else { value }
        });
        let columns: Vec<String> = columns.collect();
        let is_gone = key.first().map(|key| format!("t.{} IS NULL", identifier(&key.name)));
        format!(
            "SELECT CASE WHEN {} THEN 1::int2 ELSE 0::int2 END, {} FROM {} ORDER BY k.n",
            is_gone.unwrap_or_default(),
            columns.join(", "),
            compared.by_keys("LEFT JOIN")
        )
    }
}
