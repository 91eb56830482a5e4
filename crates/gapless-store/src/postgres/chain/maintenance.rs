//! Deletes what isn't kept any longer, one transaction a step.

use gapless_proto::{ChainId, ChainTextError, Seq, Timestamp};

use super::super::commit::{BEGIN, COMMIT, roll_back};
use super::super::fault::{Fault, within};
use super::super::link::{LOCKED_PATIENCE, Session, WRITTEN_PATIENCE};
use super::super::rows::{self, bigint};
use super::info;
use super::statements::{
    BEGIN_ANEW, CLEAR_ENTRIES, CLEAR_VALUES, CLEARED, DELETE_ALL_BLOCKS, FIRST_REVOCABLE, INFO, LOCK,
    NEXT_CHAIN, RAISE_EPOCH, RAISE_MIN_SEQ, TORN_STRETCH, TRIM_END, TRIM_ENTRIES, TRIM_VALUES,
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
    let is_cleared = clear_step(session, chain).await?;
    let chain = chain.to_string();
    let Some(info) = lock(session, &chain).await? else {
        return Ok(None);
    };
    if !is_cleared {
        roll_back(session).await?;
        return Ok(Some((info.min_seq, false)));
    }
    let revocable = within(LOCKED_PATIENCE, session.rows(FIRST_REVOCABLE, [&chain])).await?;
    let revocable = revocable.first().map(|row| rows::seq(row, 0)).transpose()?;
    let goal = below.min(revocable.unwrap_or(info.head.next()));
    let goal = torn_stretch(session, &chain, info.min_seq, goal).await?.map_or(goal, |(first, _)| first);
    if goal <= info.min_seq {
        roll_back(session).await?;
        return Ok(Some((info.min_seq, true)));
    }
    let (from, entries) = (bigint(info.min_seq.get()), bigint(STEP_ENTRIES_MAX));
    let end = within(LOCKED_PATIENCE, session.rows(TRIM_END, [&chain, &from, &entries])).await?;
    let end = end.first().map(|row| rows::seq(row, 0)).transpose()?;
    let step = end.map_or(goal, |end| end.min(goal));
    let step = match torn_stretch(session, &chain, info.min_seq, step).await? {
        None => step,
        Some((first, _)) if first > info.min_seq => first,
        Some((_, last)) => last.next(),
    };
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

/// The first event and the revoke of what a trim up to a seq would tear apart: a revoke and what it took back go together, lest a reader who
/// never saw either be told of the one alone.
async fn torn_stretch(
    session: &Session,
    chain: &String,
    min_seq: Seq,
    end: Seq,
) -> Result<Option<(Seq, Seq)>, Fault> {
    let (min_seq, end) = (bigint(min_seq.get()), bigint(end.get()));
    let torn = within(LOCKED_PATIENCE, session.rows(TORN_STRETCH, [chain, &min_seq, &end])).await?;
    let Some(row) = torn.first() else { return Ok(None) };
    Ok(rows::seq_or_null(row, 0)?.zip(rows::seq_or_null(row, 1)?))
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
        let rewound = Rewound::at(&before, now);
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

/// Takes one step of deleting what a feed that was given up has left. Returns whether nothing is left.
pub(in crate::postgres) async fn clear_step(session: &Session, chain: ChainId) -> Result<bool, Fault> {
    let chain = chain.to_string();
    let entries = bigint(STEP_ENTRIES_MAX);
    within(LOCKED_PATIENCE, session.command(BEGIN)).await?;
    let locked = within(LOCKED_PATIENCE, session.rows(LOCK, [&chain])).await?;
    let is_clearing = locked.first().map_or(Ok(false), |row| row.try_get(1))?;
    if !is_clearing {
        roll_back(session).await?;
        return Ok(true);
    }
    within(WRITTEN_PATIENCE, async {
        let deleted = session.rows(CLEAR_ENTRIES, [&chain, &entries]).await?.len()
            + session.rows(CLEAR_VALUES, [&chain, &entries]).await?.len();
        if deleted == 0 {
            session.run(CLEARED, [&chain]).await?;
        }
        session.command(COMMIT).await?;
        Ok(deleted == 0)
    })
    .await
}

/// Begins a feed anew; what it had is out of sight, and left for [`clear_step`]. `None` when there is none.
pub(in crate::postgres) async fn restart(
    session: &Session,
    chain: ChainId,
    now: Timestamp,
) -> Result<Option<ChainNews>, Fault> {
    let name = chain.to_string();
    let Some(before) = lock(session, &name).await? else {
        return Ok(None);
    };
    let info = before.anew(now);
    let (epoch, anew_after) = (bigint(info.epoch.get()), bigint(before.head.get()));
    let (head, min_seq) = (bigint(info.head.get()), bigint(info.min_seq.get()));
    within(WRITTEN_PATIENCE, async {
        // There are no more of them than a reorg may reach.
        session.run(DELETE_ALL_BLOCKS, [&name]).await?;
        session.run(BEGIN_ANEW, [&name, &epoch, &head, &min_seq, &anew_after]).await?;
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
