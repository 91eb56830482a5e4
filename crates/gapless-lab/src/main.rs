//! Experiments with negative controls, and benchmarks.
fn main() {}
