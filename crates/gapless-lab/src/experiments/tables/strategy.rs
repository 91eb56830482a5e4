//! The ways to read a table that are run side by side.

use gapless_tables::Consistency;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fault::{Fault, Prediction};
use super::gapless::Gapless;
use super::holding::Holding;
use super::paging::{Cursor, Paging};
use super::push::Push;
use crate::database::Database;

/// One of them. A further one needs a name, a prediction, and an arm in [`Strategy::start`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    /// Counts the rows, and reads pages by their number.
    OffsetPages,
    /// Rows with a higher id than the last.
    IdAfter,
    /// Rows with a later timestamp than the last.
    TimeAfter,
    /// Rows with the timestamp of the last, or a later one.
    TimeFrom,
    /// Timestamp and id, but the timestamp is kept in milliseconds, as JavaScript does.
    Milliseconds,
    /// Told by the database as it happens, and nothing is repeated for who wasn't connected.
    Push,
    /// Timestamp and id: the textbook form.
    Compound,
    /// The same, one second behind.
    Delayed,
    /// gapless, with rows that are stamped with their transaction.
    GaplessStrict,
    /// gapless, without any change to the table but for the deletes.
    GaplessWatched,
}

impl Strategy {
    pub(super) const ALL: [Self; 10] = [
        Self::OffsetPages,
        Self::IdAfter,
        Self::TimeAfter,
        Self::TimeFrom,
        Self::Milliseconds,
        Self::Push,
        Self::Compound,
        Self::Delayed,
        Self::GaplessStrict,
        Self::GaplessWatched,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OffsetPages => "OFFSET and COUNT",
            Self::IdAfter => "id >",
            Self::TimeAfter => "updated_at >",
            Self::TimeFrom => "updated_at >=",
            Self::Milliseconds => "(updated_at, id) > in milliseconds",
            Self::Push => "push without replay",
            Self::Compound => "(updated_at, id) >",
            Self::Delayed => "(updated_at, id) >, 1 s behind",
            Self::GaplessStrict => "gapless, strict",
            Self::GaplessWatched => "gapless, watched",
        }
    }

    /// What it does wrong on a busy table.
    pub(super) const fn prediction(self) -> Prediction {
        use Fault::{Missing, Phantom, Repeated, Stale, Stuck};
        match self {
            // Each update takes a row from before the offset to the end; each late commit puts one before it.
            Self::OffsetPages => Prediction { certain: &[Missing, Stale, Repeated, Phantom], possible: &[] },
            // It never looks back: not at updates, and not at what commits later with a lower id.
            Self::IdAfter => Prediction { certain: &[Missing, Stale, Phantom], possible: &[] },
            // The rest of a tie, and what commits late.
            Self::TimeAfter => Prediction { certain: &[Missing, Stale, Phantom], possible: &[] },
            // A tie that is longer than a page holds it for ever.
            Self::TimeFrom | Self::Milliseconds => {
                Prediction { certain: &[Missing, Repeated, Stuck], possible: &[Stale, Phantom] }
            }
            // Whatever happens while it isn't connected.
            Self::Push => Prediction { certain: &[Missing, Stale, Phantom], possible: &[] },
            // What commits after a later timestamp was read.
            Self::Compound => Prediction { certain: &[Missing, Stale, Phantom], possible: &[] },
            // The same, of transactions that are open for more than the second. Few of them update.
            Self::Delayed => Prediction { certain: &[Missing, Phantom], possible: &[Stale] },
            Self::GaplessStrict => Prediction { certain: &[], possible: &[] },
            // Of transactions that were open at the pass before, it can't tell what they have delivered.
            Self::GaplessWatched => Prediction { certain: &[Repeated], possible: &[] },
        }
    }

    /// Starts a reader of an empty table, which reads until it is told to finish. It is connected when this returns.
    pub(super) async fn start(
        self,
        database: &Database,
        readers: &mut JoinSet<anyhow::Result<(Self, Holding)>>,
        finish: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let cursor = match self {
            Self::Push => {
                let push = Push::connect(database.url()).await?;
                readers.spawn(async move { Ok((self, push.read(finish).await?)) });
                return Ok(());
            }
            Self::GaplessStrict => {
                return self.start_gapless(Consistency::Strict, database, readers, finish).await;
            }
            Self::GaplessWatched => {
                return self.start_gapless(Consistency::Watched, database, readers, finish).await;
            }
            Self::OffsetPages => Cursor::offset(),
            Self::IdAfter => Cursor::id(),
            Self::TimeAfter => Cursor::time_after(),
            Self::TimeFrom => Cursor::time_from(),
            Self::Milliseconds => Cursor::milliseconds(),
            Self::Compound => Cursor::compound(),
            Self::Delayed => Cursor::delayed(),
        };
        let paging = Paging::prepare(database.postgres().await?, cursor).await?;
        readers.spawn(async move { Ok((self, paging.read(finish).await?)) });
        Ok(())
    }
    async fn start_gapless(
        self,
        consistency: Consistency,
        database: &Database,
        readers: &mut JoinSet<anyhow::Result<(Self, Holding)>>,
        finish: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let gapless = Gapless::open(&database.url(), consistency).await?;
        readers.spawn(async move { Ok((self, gapless.read(finish).await?)) });
        Ok(())
    }
}
