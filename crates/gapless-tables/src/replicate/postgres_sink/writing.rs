//! Writes pages.

use tokio_postgres::{Client, Error, Statement, Transaction};

use super::copying::{copy, with_op, without_op};
use super::errors::Trouble;
use super::state;
use super::statements::{Statements, Way};
use crate::replicate::page::{Page, Records};
use crate::replicate::position::Position;

/// A page with more behind it needn't be on disk yet: whatever a crash of the target takes back, it takes back together with the
/// position, and the last page of a pass takes all that came before it to disk.
const NOT_YET_ON_DISK: &str = "SET LOCAL synchronous_commit = off";

/// The statements of a table, prepared on a connection that has a table for pages.
pub(super) struct Prepared {
    pub(super) statements: Statements,
    advance: Statement,
    copy_straight: Statement,
    copy_staged: Statement,
    merge: Statement,
    upsert: Statement,
    delete: Statement,
}

impl Prepared {
    pub(super) async fn new(client: &Client, statements: Statements) -> Result<Self, Error> {
        client.batch_execute(&statements.stage).await?;
        Ok(Self {
            advance: client.prepare(&state::advance(&statements.target)).await?,
            copy_straight: client.prepare(&statements.copy_straight).await?,
            copy_staged: client.prepare(&statements.copy_staged).await?,
            merge: client.prepare(&statements.merge).await?,
            upsert: client.prepare(&statements.upsert).await?,
            delete: client.prepare(&statements.delete).await?,
            statements,
        })
    }

    /// Writes a page and its position in one transaction.
    pub(super) async fn write(
        &self,
        client: &mut Client,
        way: Way,
        page: &Page,
        from: &Position,
        to: &Position,
    ) -> Result<(), Trouble> {
        let transaction = client.transaction().await?;
        if page.head.has_more {
            transaction.batch_execute(NOT_YET_ON_DISK).await?;
        }
        let counts = (page.records.upserts, page.records.deletes);
        self.advance(&transaction, from, to, counts).await?;
        self.put(&transaction, way, &page.records).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Writes records.
    pub(super) async fn put(
        &self,
        transaction: &Transaction<'_>,
        way: Way,
        records: &Records,
    ) -> Result<(), Error> {
        match way {
            _ if records.is_empty() => {}
            Way::Straight => {
                copy(transaction, &self.copy_straight, without_op(records, self.statements.columns)).await?;
            }
            Way::Staged | Way::Merged => {
                copy(transaction, &self.copy_staged, with_op(records)).await?;
                if way == Way::Merged {
                    transaction.execute(&self.merge, &[]).await?;
                }
                if records.deletes > 0 {
                    transaction.execute(&self.delete, &[]).await?;
                }
                if records.upserts > 0 {
                    transaction.execute(&self.upsert, &[]).await?;
                }
            }
        }
        Ok(())
    }

    /// Moves the position alone.
    pub(super) async fn note(
        &self,
        client: &mut Client,
        from: &Position,
        to: &Position,
    ) -> Result<(), Trouble> {
        let transaction = client.transaction().await?;
        self.advance(&transaction, from, to, (0, 0)).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn advance(
        &self,
        transaction: &Transaction<'_>,
        from: &Position,
        to: &Position,
        (upserts, deletes): (usize, usize),
    ) -> Result<(), Trouble> {
        let count = |records| i64::try_from(records).unwrap_or(i64::MAX);
        let (since_before, replay_before) = from.replay_parts();
        let (since, replay) = to.replay_parts();
        let moved = transaction
            .execute(
                &self.advance,
                &[
                    &self.statements.target.table,
                    &to.cursor,
                    &since,
                    &replay,
                    &to.is_filling,
                    &count(upserts),
                    &count(deletes),
                    &from.cursor,
                    &since_before,
                    &replay_before,
                    &from.repairs,
                ],
            )
            .await?;
        if moved == 1 {
            return Ok(());
        }
        let kept = state::read(transaction, &self.statements.target).await?;
        let is_repaired = kept.is_some_and(|kept| kept.position.differs_by_repairs(from));
        Err(if is_repaired { Trouble::Repaired } else { Trouble::Moved })
    }
}
