//! The gapless command: server, client and tools in one binary.
fn main() {}
