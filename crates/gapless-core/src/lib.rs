//! The decisions of gapless as pure state machines.
