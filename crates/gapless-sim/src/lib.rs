//! Seeded simulation of whole worlds (test only).
