//! The metrics of this process, and how they are read.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// The metrics of the process; one for all gateways in it.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Bounds of the histograms of times, in seconds: from a cached page to a request that times out.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Begins to count. What is counted before isn't kept; a second call does nothing.
pub(crate) fn install() {
    recorder();
}

/// Everything that was counted, in the text form of Prometheus.
pub(crate) fn render() -> String {
    recorder().render()
}

/// Sums up what was measured since the last time. Without it, what nobody reads would pile up; call it every few seconds.
pub(crate) fn upkeep() {
    recorder().run_upkeep();
}

fn recorder() -> &'static PrometheusHandle {
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .expect("the bounds aren't empty");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder of metrics is installed in this process; /metrics stays empty");
        }
        handle
    })
}
