//! The quiet half of the gateway: what backends and operators can rely on.

mod admin;
mod api;
mod auth;
mod chains;
mod conversations;
mod description;
mod digests;
mod entries;
mod event_source;
mod garbage;
mod health;
mod members;
mod open_mode;
mod openapi;
mod origins;
mod privacy;
mod tables;
