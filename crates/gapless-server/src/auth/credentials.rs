//! What a request shows of who sends it.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::http::query;

/// What browsers, which can't set headers on a WebSocket, put before their token in the list of subprotocols.
const BEARER_SUBPROTOCOL: &str = "bearer.";

/// The token of a request: from `Authorization: Bearer`, else from the list of subprotocols, else from the query.
pub(super) fn token(parts: &Parts) -> Option<String> {
    bearer(&parts.headers)
        .or_else(|| subprotocol(&parts.headers))
        .or_else(|| query::find(parts.uri.query(), "token"))
}

/// A name that a request to an open server gives: from the query, else from a header.
pub(super) fn name(parts: &Parts, parameter: &str, header: &str) -> Option<String> {
    let from_header = || str::from_utf8(parts.headers.get(header)?.as_bytes()).ok().map(str::to_owned);
    query::find(parts.uri.query(), parameter).or_else(from_header)
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

fn subprotocol(headers: &HeaderMap) -> Option<String> {
    let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let mut protocols = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
    protocols.find_map(|protocol| protocol.trim().strip_prefix(BEARER_SUBPROTOCOL)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_token_is_found_where_it_may_stand() {
        for (uri, headers) in [
            ("/v1/ws", &[("authorization", "Bearer T.O.K")][..]),
            ("/v1/ws", &[("authorization", "bearer  T.O.K ")]),
            ("/v1/ws", &[("sec-websocket-protocol", "gapless.v1, bearer.T.O.K")]),
            (
                "/v1/ws",
                &[("sec-websocket-protocol", "gapless.v1"), ("sec-websocket-protocol", "bearer.T.O.K")],
            ),
            ("/v1/ws?after=1&token=T.O.K", &[]),
            ("/v1/ws?token=other", &[("authorization", "Bearer T.O.K")]),
        ] {
            assert_eq!(token(&parts(uri, headers)).as_deref(), Some("T.O.K"), "{uri} {headers:?}");
        }
    }

    #[test]
    fn other_credentials_are_no_token() {
        for headers in [
            &[("authorization", "Basic YTpi")][..],
            &[("authorization", "T.O.K")],
            &[("sec-websocket-protocol", "gapless.v1")],
        ] {
            assert_eq!(token(&parts("/v1/ws?tokens=x", headers)), None, "{headers:?}");
        }
    }
}
