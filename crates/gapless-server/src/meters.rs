//! What the live half of the gateway counts: the one place where its metrics are named.

use std::time::Duration;

use gapless_core::Appended;
use gapless_proto::{CloseCode, Page};
use gapless_store::{AppendError, PageError};
use metrics::{Counter, Gauge, Histogram, Unit};

/// The metrics of one gateway, looked up once so that counting costs an addition.
///
/// Install the recorder before making one.
pub(crate) struct Meters {
    /// `gapless_connections`: WebSocket sessions now.
    pub(crate) connections: Gauge,
    /// `gapless_event_streams`: streams of server-sent events now.
    event_streams: Gauge,
    /// `gapless_sends_total{outcome}`.
    sends: [Counter; 4],
    /// `gapless_pages_total`: pages that were served.
    pages: Counter,
    /// `gapless_page_entries_total`: the entries in them.
    page_entries: Counter,
    /// `gapless_pages_refused_total`: syncs that were answered with an error.
    pages_refused: Counter,
    /// `gapless_pushes_total`: entries queued for a session.
    pub(crate) pushes: Counter,
    /// `gapless_hints_total`: hints queued for a session.
    pub(crate) hints: Counter,
    /// `gapless_overflows_total`: queues that went because a reader was too slow.
    pub(crate) overflows: Counter,
    /// `gapless_sweeps_total`: looks for readers that lag.
    pub(crate) sweeps: Counter,
    /// `gapless_log_reads_total`: reads of the log that close a gap in the news.
    pub(crate) log_reads: Counter,
    /// `gapless_look_ups_total`: standings that were looked up anew.
    pub(crate) look_ups: Counter,
    /// `gapless_append_seconds`: from a send to the store's answer.
    append_seconds: Histogram,
    /// `gapless_page_seconds`: from a sync to the store's answer.
    page_seconds: Histogram,
}

/// What is counted of reads of one kind that all share who ask for the same.
pub(crate) struct ReadMeters {
    /// `gapless_chain_reads_total{of}`: reads of the store.
    pub(crate) reads: Counter,
    /// `gapless_chain_reads_shared_total{of}`: answers that took no read of their own.
    pub(crate) shared: Counter,
}

impl ReadMeters {
    pub(crate) fn new(of: &'static str) -> Self {
        Self {
            reads: metrics::counter!("gapless_chain_reads_total", "of" => of),
            shared: metrics::counter!("gapless_chain_reads_shared_total", "of" => of),
        }
    }
}

/// A stream that is counted for as long as there is this.
pub(crate) struct CountedStream(Gauge);

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// What a send came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendOutcome {
    /// It was stored.
    Stored,
    /// It was there already.
    Duplicate,
    /// It was refused for good.
    Refused,
    /// It failed for a passing reason.
    Failed,
}

impl SendOutcome {
    const ALL: [Self; 4] = [Self::Stored, Self::Duplicate, Self::Refused, Self::Failed];

    fn of(outcome: &Result<Appended, AppendError>) -> Self {
        match outcome {
            Ok(Appended { duplicate: false, .. }) => Self::Stored,
            Ok(Appended { duplicate: true, .. }) => Self::Duplicate,
            Err(AppendError::Refused(_)) => Self::Refused,
            Err(AppendError::Store(_)) => Self::Failed,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Duplicate => "duplicate",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Meters {
    pub(crate) fn new() -> Self {
        describe();
        Self {
            connections: metrics::gauge!("gapless_connections"),
            event_streams: metrics::gauge!("gapless_event_streams"),
            sends: SendOutcome::ALL
                .map(|outcome| metrics::counter!("gapless_sends_total", "outcome" => outcome.as_str())),
            pages: metrics::counter!("gapless_pages_total"),
            page_entries: metrics::counter!("gapless_page_entries_total"),
            pages_refused: metrics::counter!("gapless_pages_refused_total"),
            pushes: metrics::counter!("gapless_pushes_total"),
            hints: metrics::counter!("gapless_hints_total"),
            overflows: metrics::counter!("gapless_overflows_total"),
            sweeps: metrics::counter!("gapless_sweeps_total"),
            log_reads: metrics::counter!("gapless_log_reads_total"),
            look_ups: metrics::counter!("gapless_look_ups_total"),
            append_seconds: metrics::histogram!("gapless_append_seconds"),
            page_seconds: metrics::histogram!("gapless_page_seconds"),
        }
    }

    /// Counts a stream of server-sent events until what is returned is dropped.
    pub(crate) fn count_event_stream(&self) -> CountedStream {
        self.event_streams.increment(1);
        CountedStream(self.event_streams.clone())
    }

    pub(crate) fn count_send(&self, outcome: &Result<Appended, AppendError>, took: Duration) {
        self.sends[SendOutcome::of(outcome) as usize].increment(1);
        self.append_seconds.record(took);
    }

    pub(crate) fn count_page(&self, outcome: &Result<Page, PageError>, took: Duration) {
        self.page_seconds.record(took);
        match outcome {
            Ok(page) => {
                self.pages.increment(1);
                self.page_entries.increment(page.events.len() as u64);
            }
            Err(_) => self.pages_refused.increment(1),
        }
    }

    /// `gapless_closes_total{code}`: connections that the server ended, by close code.
    pub(crate) fn count_close(code: CloseCode) {
        metrics::counter!("gapless_closes_total", "code" => code.number().to_string()).increment(1);
    }
}

fn describe() {
    metrics::describe_gauge!("gapless_connections", "WebSocket sessions now");
    metrics::describe_gauge!("gapless_event_streams", "streams of server-sent events now");
    metrics::describe_counter!("gapless_closes_total", "connections that the server ended, by close code");
    metrics::describe_counter!("gapless_sends_total", "sends, by what they came to");
    metrics::describe_counter!("gapless_pages_total", "pages that were served");
    metrics::describe_counter!("gapless_page_entries_total", "entries in the pages that were served");
    metrics::describe_counter!("gapless_pages_refused_total", "syncs that were answered with an error");
    metrics::describe_counter!("gapless_pushes_total", "entries queued for a session");
    metrics::describe_counter!("gapless_hints_total", "hints queued for a session");
    metrics::describe_counter!("gapless_overflows_total", "queues dropped because a reader was too slow");
    metrics::describe_counter!("gapless_sweeps_total", "looks for readers that lag behind");
    metrics::describe_counter!("gapless_log_reads_total", "reads of the log that close a gap in the news");
    metrics::describe_counter!("gapless_chain_reads_total", "reads of the feeds of chains, by what was read");
    metrics::describe_counter!(
        "gapless_chain_reads_shared_total",
        "answers about the feeds of chains that took no read of their own"
    );
    metrics::describe_counter!(
        "gapless_table_changes_total",
        "changes of tables that their followers were told"
    );
    metrics::describe_counter!(
        "gapless_table_follower_reads_total",
        "reads of a table by followers that were behind the others"
    );
    metrics::describe_counter!("gapless_look_ups_total", "standings that were looked up anew");
    metrics::describe_histogram!(
        "gapless_append_seconds",
        Unit::Seconds,
        "from a send to the store's answer"
    );
    metrics::describe_histogram!("gapless_page_seconds", Unit::Seconds, "from a sync to the store's answer");
}
