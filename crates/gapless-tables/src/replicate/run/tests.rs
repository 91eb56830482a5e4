use async_trait::async_trait;

use super::*;
use crate::replicate::page::Values;
use crate::replicate::source_client::Reader;

#[tokio::test(start_paused = true)]
async fn one_who_wants_to_end_gives_up_after_a_minute_and_has_told_each_failure() {
    let (replicator, mut told) = replicator(true);
    let started_at = Instant::now();
    let (ended, failures) = tokio::join!(replicator.run(), async {
        let mut failures = 0;
        while let Some(report) = told.recv().await {
            assert!(
                matches!(report, Report::Failed { side: Side::Source, failures: count, .. } if count == failures + 1)
            );
            failures += 1;
        }
        failures
    });
    assert!(matches!(ended, Err(RunError::GaveUp(Fault::Source(_)))), "{ended:?}");
    assert!(started_at.elapsed() >= GIVE_UP_AFTER && failures > 3, "{failures}");
}

#[tokio::test(start_paused = true)]
async fn one_who_follows_never_gives_up() {
    let (replicator, mut told) = replicator(false);
    let failures = async {
        for _ in 0..100 {
            assert!(matches!(told.recv().await, Some(Report::Failed { .. })));
        }
    };
    tokio::select! {
        ended = replicator.run() => panic!("{ended:?}"),
        () = failures => {}
    }
}

/// A replicator whose server isn't there.
fn replicator(once: bool) -> (Replicator, mpsc::Receiver<Report>) {
    // A provider that was installed before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let nowhere = "http://127.0.0.1:1".parse().unwrap();
    let source = SourceClient::new(nowhere, "orders", Reader::User("me".to_owned())).unwrap();
    let (reports, told) = mpsc::channel(1);
    let config = ReplicaConfig { page_rows: 10, since: None, anew: false, once, seed: 1 };
    (Replicator::new(source, Box::new(Untouched), config, reports), told)
}

/// A target that nothing gets to.
struct Untouched;

#[async_trait]
impl Sink for Untouched {
    fn values(&self) -> Values {
        Values::Binary
    }

    async fn prepare(&mut self, _: &TableDescription) -> Result<Position, SinkError> {
        unreachable!("the source doesn't answer")
    }

    async fn note(&mut self, _: &Position, _: &Position) -> Result<(), SinkError> {
        unreachable!("the source doesn't answer")
    }

    async fn apply(&mut self, _: &Page, _: &Position, _: &Position) -> Result<(), SinkError> {
        unreachable!("the source doesn't answer")
    }

    async fn clear(&mut self) -> Result<(), SinkError> {
        unreachable!("the source doesn't answer")
    }
}
