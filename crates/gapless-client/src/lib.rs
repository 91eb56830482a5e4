//! The Rust client of gapless.
