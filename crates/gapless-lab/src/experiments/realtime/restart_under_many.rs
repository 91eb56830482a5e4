//! `05-restart-under-many` and `05-control-no-jitter`. Chain behaviour 5.

use std::time::Duration;

use gapless_client::TopicsStart;

use super::Conditions;
use crate::chain::{ChainWorld, FollowingClient, beginning};
use crate::crowd::{self, Crowd, Pause, Reunion};
use crate::database::Databases;
use crate::exhibit::Exhibit;
use crate::finding::{Check, Outcome};

/// How many clients of the crate `gapless-client` are among them.
const REAL_CLIENTS: usize = 5;
/// Events before the restart, and while most are away.
const BEFORE: [u64; 10] = [2; 10];
const MEANWHILE: [u64; 10] = [2; 10];
/// Within how much time how many come back is compared.
const WAVE: Duration = Duration::from_millis(100);

/// How many clients the control has at most: a wave of more would only overrun the machine.
const CONTROL_CLIENTS_MAX: u64 = 300;

fn clients_of(conditions: Conditions) -> u64 {
    // A proxy has one thread for all of them.
    let usual = if conditions.network.is_narrow() { (60, 300) } else { (300, 5_000) };
    conditions.clients.unwrap_or_else(|| conditions.size.pick(usual.0, usual.1))
}

/// How the server goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    Killed,
    Drained,
}

pub(super) async fn run(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let clients = clients_of(conditions);
    let mut outcome = Outcome::default();
    for going in [Going::Killed, Going::Drained] {
        let name = match going {
            Going::Killed => "killed",
            Going::Drained => "drained",
        };
        let Restarted { reunion, gone_ms, holding, real_wrong } =
            restart(databases, conditions, clients, going, Pause::Spread).await?;
        let share = |count: u64| count * 100 / clients;
        let first_returns = first_of(&reunion.returns_ms, clients);
        outcome.checks.extend([
            Check::at_least(
                &format!("clients that came back, server {name}"),
                clients,
                reunion.returns_ms.len() as u64,
            ),
            Check::exactly(&format!("clients that hold what is true, server {name}"), clients, holding),
            Check::exactly(
                &format!("events missing, wrong or double with real clients, server {name}"),
                0,
                real_wrong,
            ),
            Check::exactly(&format!("events told twice, server {name}"), 0, reunion.doubles),
            Check::exactly(&format!("resets, server {name}"), 0, reunion.resets.len()),
            Check::at_most(
                &format!("percent that came within 100 ms, server {name}"),
                60,
                share(crowd::peak(&first_returns, WAVE)),
            ),
        ]);
        let title = format!("{clients} clients, server {name}: when they were back");
        outcome.exhibits.push(Exhibit::histogram(&title, &since(gone_ms, &reunion.returns_ms)));
    }
    Ok(outcome)
}

/// Clients that all wait the same time come back in one wave, and again in the next when that one fails.
pub(super) async fn control(databases: &Databases, conditions: Conditions) -> anyhow::Result<Outcome> {
    let clients = clients_of(conditions).min(CONTROL_CLIENTS_MAX);
    let mut exhibits = Vec::new();
    let mut peaks = Vec::new();
    for (pause, name) in [(Pause::Even, "without jitter"), (Pause::Spread, "with jitter")] {
        let restarted = restart(databases, conditions, clients, Going::Killed, pause).await?;
        let tries = restarted.reunion.tries_ms;
        peaks.push(crowd::peak(&tries, WAVE));
        let title = format!("{clients} clients {name}: when they tried to come back");
        exhibits.push(Exhibit::histogram(&title, &since(restarted.gone_ms, &tries)));
    }
    let [even, spread] = [peaks[0], peaks[1]];
    let checks = vec![
        Check::at_least("percent that try within the same 100 ms without jitter", 40, even * 100 / clients),
        Check::at_least("that, in percent of those with jitter", 150, even * 100 / spread.max(1)),
    ];
    Ok(Outcome { checks, exhibits })
}

/// What came of a restart.
struct Restarted {
    reunion: Reunion,
    /// When the server went.
    gone_ms: u64,
    /// How many hold what is true in the end.
    holding: u64,
    /// What is missing, wrong or double with real clients, all together.
    real_wrong: u64,
}

async fn restart(
    databases: &Databases,
    conditions: Conditions,
    clients: u64,
    going: Going,
    pause: Pause,
) -> anyhow::Result<Restarted> {
    let settings = [("drain.reconnect_spread", "3s")];
    let mut world = ChainWorld::begin(databases, conditions.network, &settings).await?;
    let line = world.line()?;
    let server = if conditions.network.is_narrow() { line.address() } else { world.address() };
    let mut crowd = Crowd::gather(server, clients, pause).await?;
    let mut real_clients = Vec::new();
    for _ in 0..REAL_CLIENTS {
        let start = TopicsStart::After(beginning()?);
        real_clients.push(FollowingClient::start(line.address(), start).await?);
    }
    world.indexer.mine(&BEFORE).await?;

    let gone_ms = crowd::now_ms();
    match going {
        Going::Killed => world.kill_server().await?,
        Going::Drained => world.drain_server().await?,
    }
    world.start_server().await?;
    // Some have seen the three blocks that vanish meanwhile, and some haven't.
    world.indexer.mine(&MEANWHILE).await?;
    world.indexer.reorganise(3, &[1, 0, 1, 1]).await?;
    crowd.announce_last(world.indexer.next_number()).await?;
    world.indexer.mine(&[1]).await?;

    let reunion = crowd.reunite().await?;
    let canonical = world.indexer.canonical();
    let newest = canonical.last().map(|held| held.number);
    let mut real_wrong = 0;
    for client in &mut real_clients {
        client.follow_until(|fold| fold.newest() == newest).await?;
        let fold = client.fold();
        real_wrong += fold.missing(&canonical) + fold.wrong(&canonical) + fold.doubles();
    }
    for client in real_clients {
        client.close().await;
    }
    world.end().await?;
    Ok(Restarted { holding: reunion.holding(&canonical), reunion, gone_ms, real_wrong })
}

/// The first so many.
fn first_of(moments_ms: &[u64], count: u64) -> Vec<u64> {
    let mut sorted = moments_ms.to_vec();
    sorted.sort_unstable();
    sorted.truncate(count as usize);
    sorted
}

fn since(start_ms: u64, moments_ms: &[u64]) -> Vec<u64> {
    moments_ms.iter().map(|moment| moment.saturating_sub(start_ms)).collect()
}
