//! The web pages that may use the server.

use axum::http::{HeaderValue, Uri};

/// The origins whose pages may read what HTTP answers. Browsers ask; nobody else is kept out by it, tokens do that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Those of any site.
    Any,
    /// Those of these origins; an open server adds those of its own machine.
    These(Vec<HeaderValue>),
}

impl Default for Origins {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

/// An origin as a browser sends it: `SCHEME://HOST`, and `:PORT` if it isn't the scheme's own. `None` for anything else.
pub(super) fn origin(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let own_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let is_as_sent = !authority.as_str().contains('@')
        && authority.port_u16() != Some(own_port)
        && text == format!("{scheme}://{authority}").to_ascii_lowercase();
    is_as_sent.then(|| HeaderValue::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for (text, is_origin) in [
            ("https://app.example", true),
            ("http://127.0.0.1:5173", true),
            ("http://[::1]:5173", true),
            ("https://app.example/", false),
            ("https://App.example", false),
            ("https://app.example:443", false),
            ("https://alice@app.example", false),
            ("app.example", false),
            ("ws://app.example", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origin(text).is_some(), is_origin, "{text}");
        }
    }
}
