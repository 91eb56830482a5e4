//! The project's commands: run, test, ci, services.
fn main() {}
