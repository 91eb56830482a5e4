//! Where the server is.

use std::fmt;
use std::str::FromStr;

use tokio_tungstenite::tungstenite::http::Uri;

/// The address of a server, as in `http://127.0.0.1:7700` or `wss://chat.example.com/gapless`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    is_encrypted: bool,
    /// Host and port.
    authority: String,
    /// The path that the server stands under; without a slash at the end.
    path: String,
}

/// Why a text is no [`ServerUrl`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    /// It is one but for what stands in front of it.
    #[error(
        "{text:?} doesn't say how to speak to the server; write http://{text}, or https://{text} if it has TLS"
    )]
    NoScheme {
        /// What was given.
        text: String,
    },
    /// It is none.
    #[error(
        "{text:?} is no address of a server; give one like http://127.0.0.1:7700 or https://chat.example.com"
    )]
    NoAddress {
        /// What was given.
        text: String,
    },
}

/// Where the WebSocket is, below the server's own path.
const WEBSOCKET_PATH: &str = "/v1/ws";

impl ServerUrl {
    /// The address of the WebSocket with query parameters.
    pub(crate) fn websocket(&self, query: &[(&str, &str)]) -> String {
        let scheme = if self.is_encrypted { "wss" } else { "ws" };
        let mut url = format!("{scheme}://{}{}{WEBSOCKET_PATH}", self.authority, self.path);
        for (index, (name, value)) in query.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            push_encoded(&mut url, value);
        }
        url
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let text = text.trim();
        parse(text).ok_or_else(|| match parse(&format!("http://{text}")) {
            Some(_) if !text.contains("//") => ServerUrlError::NoScheme { text: text.to_owned() },
            Some(_) | None => ServerUrlError::NoAddress { text: text.to_owned() },
        })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

fn parse(text: &str) -> Option<ServerUrl> {
    let uri: Uri = text.parse().ok()?;
    let is_encrypted = match uri.scheme_str()? {
        "https" | "wss" => true,
        "http" | "ws" => false,
        _ => return None,
    };
    let authority = uri.authority()?;
    if uri.query().is_some() || authority.host().is_empty() || authority.as_str().contains('@') {
        return None;
    }
    let path = uri.path().trim_end_matches('/');
    let path = path.strip_suffix(WEBSOCKET_PATH).unwrap_or(path);
    Some(ServerUrl { is_encrypted, authority: authority.as_str().to_owned(), path: path.to_owned() })
}

/// Percent-encodes all but what RFC 3986 §2.3 leaves unreserved.
fn push_encoded(url: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_usual_way_to_write_the_address_is_understood() {
        for (text, websocket) in [
            ("http://127.0.0.1:7700", "ws://127.0.0.1:7700/v1/ws"),
            ("http://127.0.0.1:7700/", "ws://127.0.0.1:7700/v1/ws"),
            ("ws://localhost:7700/v1/ws", "ws://localhost:7700/v1/ws"),
            ("https://chat.example.com/gapless/", "wss://chat.example.com/gapless/v1/ws"),
            ("wss://[::1]:443", "wss://[::1]:443/v1/ws"),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.websocket(&[]), websocket);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in ["", "ftp://host", "http://", "http://h/?a=b", "http://user:pw@host", "alice@h", "//h"] {
            let error = text.parse::<ServerUrl>().unwrap_err().to_string();
            assert!(error.contains("give one like http://127.0.0.1:7700"), "{text}: {error}");
        }
    }

    #[test]
    fn a_missing_scheme_is_refused_with_the_address_as_it_should_be() {
        for text in ["127.0.0.1:7700", "localhost:7700", "chat.example.com/gapless", "[::1]:7700"] {
            let error = text.parse::<ServerUrl>().unwrap_err().to_string();
            assert!(error.contains(&format!("write http://{text},")), "{error}");
        }
    }

    #[test]
    fn a_user_with_any_characters_fits_into_the_query() {
        let url: ServerUrl = "http://h".parse().unwrap();
        assert_eq!(
            url.websocket(&[("user", "a&b=ü"), ("device", "d-1")]),
            "ws://h/v1/ws?user=a%26b%3D%C3%BC&device=d-1"
        );
    }
}
