//! The gateway: WebSocket and HTTP over the store.
