//! Keeps web pages away from an open server.
//!
//! Whoever reaches an open server is let in, and a web page that is open on the same machine reaches loopback, too: directly, or with
//! a name of its own that it makes point there. A browser can't keep such a page from telling its name in `Host` or `Origin`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Refuses requests to an open server that come through another name than loopback's.
pub(super) async fn guard(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    if gateway.authenticator().is_open() && !is_local(request.headers()) {
        let refusal = Refusal::forbidden(
            "this server is open and answers only requests to a loopback address, from pages of one; \
             use `http://127.0.0.1`, or start it with `--auth jwt`",
        );
        return refusal.into_response();
    }
    next.run(request).await
}

fn is_local(headers: &HeaderMap) -> bool {
    let local = |name, is_local: fn(&str) -> bool| {
        let values = headers.get_all(name).into_iter().map(HeaderValue::to_str);
        values.into_iter().all(|value| value.is_ok_and(is_local))
    };
    local(header::HOST, is_loopback) && local(header::ORIGIN, is_loopback_origin)
}

/// Whether an origin is `SCHEME://HOST` or `SCHEME://HOST:PORT` of this machine, and nothing more.
pub(super) fn is_loopback_origin(origin: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(is_loopback)
}

/// Whether a host, with or without a port, is this machine whatever its resolver says.
fn is_loopback(authority: &str) -> bool {
    let Some((host, port)) = split(authority) else {
        return false;
    };
    is_loopback_host(host) && port.is_none_or(is_port)
}

/// Host and port; `None` for what is neither of the two and yet there, as behind the bracket of an IPv6 address.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let host_ends = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    match authority.split_at(host_ends) {
        (host, "") => Some((host, None)),
        (host, rest) => Some((host, Some(rest.strip_prefix(':')?))),
    }
}

fn is_loopback_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return bracketed.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    let address = host.parse::<Ipv4Addr>().ok();
    address.is_some_and(|address| address.is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

/// Digits alone: a number that is parsed could have a sign.
fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        for (headers, local) in [
            (&[][..], true),
            (&[("host", "127.0.0.1:7700")], true),
            (&[("host", "127.8.8.8")], true),
            (&[("host", "[::1]:7700")], true),
            (&[("host", "LOCALHOST:7700"), ("origin", "http://localhost:5173")], true),
            (&[("host", "localhost"), ("origin", "https://127.0.0.1")], true),
            (&[("host", "evil.example")], false),
            (&[("host", "localhost.evil.example:7700")], false),
            (&[("host", "127.0.0.1.evil.example")], false),
            (&[("host", "10.0.0.1")], false),
            (&[("host", "[::2]")], false),
            (&[("host", "[::1")], false),
            (&[("host", "")], false),
            (&[("host", "127.0.0.1:80@evil.example")], false),
            (&[("host", "127.0.0.1:")], false),
            (&[("host", "127.0.0.1:+80")], false),
            (&[("host", "127.0.0.1:65536")], false),
            (&[("host", "[::1]evil.example")], false),
            (&[("host", "localhost"), ("origin", "http://[::1]:5173")], true),
            (&[("host", "localhost"), ("origin", "http://127.0.0.1:80@evil.example")], false),
            (&[("host", "localhost"), ("origin", "http://localhost:80:evil.example")], false),
            (&[("host", "localhost"), ("origin", "http://[::1]@evil.example")], false),
            (&[("host", "localhost"), ("origin", "http://localhost/")], false),
            (&[("host", "localhost"), ("origin", "http://localhost?evil.example")], false),
            (&[("host", "localhost"), ("origin", "http://alice@localhost")], false),
            (&[("host", "localhost"), ("origin", "http://")], false),
            (&[("host", "localhost"), ("origin", "localhost")], false),
            (&[("host", "localhost"), ("origin", "null")], false),
            (&[("host", "localhost"), ("origin", "https://evil.example")], false),
            (
                &[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")],
                false,
            ),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_local(&map), local, "{headers:?}");
        }
    }
}
