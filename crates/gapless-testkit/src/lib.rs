//! Starts the real services that tests need (test only).
