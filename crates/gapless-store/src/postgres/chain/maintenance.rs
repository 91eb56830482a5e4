//! Deletes what isn't kept any longer, one transaction a step.

use gapless_proto::{ChainId, ChainTextError, Seq, Timestamp};

use super::super::commit::{BEGIN, COMMIT, roll_back};
use super::super::fault::{Fault, within};
use super::super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::super::rows::{self, bigint};
use super::info;
use super::statements::{
    BEGIN_ANEW, DELETE_ALL_BLOCKS, DELETE_ALL_ENTRIES, DELETE_ALL_VALUES, FIRST_REVOCABLE, INFO, LOCK,
    NEXT_CHAIN, RAISE_EPOCH, RAISE_MIN_SEQ, TRIM_END, TRIM_ENTRIES, TRIM_VALUES,
};
use crate::{ChainInfo, ChainNews, Rewound};

/// How many entries a step of a trim deletes at most.
const STEP_ENTRIES_MAX: u64 = 1_000;

/// Takes one step of a trim. Returns the oldest seq kept, and whether that was the last step; `None` when there is no such feed.
pub(in crate::postgres) async fn trim_step(
    session: &Session,
    chain: ChainId,
    below: Seq,
) -> Result<Option<(Seq, bool)>, Fault> {
    let chain = chain.to_string();
    let Some(info) = lock(session, &chain).await? else {
        return Ok(None);
    };
    let revocable = within(LOCKED_PATIENCE, session.rows(FIRST_REVOCABLE, [&chain])).await?;
    let revocable = revocable.first().map(|row| rows::seq(row, 0)).transpose()?;
    let goal = below.min(revocable.unwrap_or(info.head.next()));
    if goal <= info.min_seq {
        roll_back(session).await?;
        return Ok(Some((info.min_seq, true)));
    }
    let (from, entries) = (bigint(info.min_seq.get()), bigint(STEP_ENTRIES_MAX));
    let end = within(LOCKED_PATIENCE, session.rows(TRIM_END, [&chain, &from, &entries])).await?;
    let end = end.first().map(|row| rows::seq(row, 0)).transpose()?;
    let step = end.map_or(goal, |end| end.min(goal));
    let (first, end) = (bigint(info.min_seq.get()), bigint(step.get()));
    within(WRITTEN_PATIENCE, async {
        session.run(TRIM_VALUES, [&chain, &first, &end]).await?;
        session.run(TRIM_ENTRIES, [&chain, &first, &end]).await?;
        session.run(RAISE_MIN_SEQ, [&chain, &end]).await?;
        session.command(COMMIT).await
    })
    .await?;
    Ok(Some((step, step == goal)))
}

/// Raises the epochs of all chains, one transaction each.
pub(in crate::postgres) async fn raise_epochs(
    session: &Session,
    now: Timestamp,
) -> Result<Vec<ChainNews>, Fault> {
    let mut news = Vec::new();
    let mut name = String::new();
    loop {
        let next = within(LOCKED_PATIENCE, session.rows(NEXT_CHAIN, [&name])).await?;
        let Some(next) = next.first() else {
            return Ok(news);
        };
        name = next.try_get(0)?;
        let chain = name.parse().map_err(|error: ChainTextError| Fault::unreadable("chain", error))?;
        let Some(before) = lock(session, &name).await? else { continue };
        let rewound = Rewound::at(before.head, now);
        let epoch = before.epoch.raised(now);
        let (raised, to, after) =
            (bigint(epoch.get()), bigint(rewound.to.get()), bigint(rewound.after.get()));
        within(WRITTEN_PATIENCE, async {
            session.run(RAISE_EPOCH, [&name, &raised, &to, &after]).await?;
            session.command(COMMIT).await
        })
        .await?;
        let info = ChainInfo { epoch, head: rewound.to, rewound: Some(rewound), ..before };
        news.push(ChainNews { chain, info, entries: Vec::new() });
    }
}

/// Begins a feed anew. `None` when there is none.
pub(in crate::postgres) async fn restart(
    session: &Session,
    chain: ChainId,
    now: Timestamp,
) -> Result<Option<ChainNews>, Fault> {
    let name = chain.to_string();
    let Some(before) = lock(session, &name).await? else {
        return Ok(None);
    };
    let info = ChainInfo {
        epoch: before.epoch.raised(now),
        min_seq: before.head.next(),
        block: None,
        finalized: None,
        ..before
    };
    let (epoch, min_seq) = (bigint(info.epoch.get()), bigint(info.min_seq.get()));
    for statement in [DELETE_ALL_BLOCKS, DELETE_ALL_ENTRIES, DELETE_ALL_VALUES] {
        within(WRITTEN_PATIENCE, session.run(statement, [&name])).await?;
    }
    within(WRITTEN_PATIENCE, async {
        session.run(BEGIN_ANEW, [&name, &epoch, &min_seq]).await?;
        session.command(COMMIT).await
    })
    .await?;
    Ok(Some(ChainNews { chain, info, entries: Vec::new() }))
}

/// Opens a transaction and locks the row of a chain; without one, there is no transaction either.
async fn lock(session: &Session, chain: &str) -> Result<Option<ChainInfo>, Fault> {
    let rows = within(LOCKED_PATIENCE, async {
        session.command(BEGIN).await?;
        session.rows(LOCK, [&chain]).await?;
        session.rows(INFO, [&chain]).await
    })
    .await?;
    match rows.first() {
        Some(row) => info(row, 0).map(Some),
        None => {
            roll_back(session).await?;
            Ok(None)
        }
    }
}
