//! What a token allows beyond what every user may do.

use std::fmt;
use std::sync::Arc;

/// One word of a token's `scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A trusted backend: acts for any user and reads any log.
    Service,
    /// An operator: trims, raises epochs, ends connections.
    Admin,
}

/// The scopes of a token. None of them: an ordinary user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes {
    /// Whether [`Scope::Service`] is among them.
    pub service: bool,
    /// Whether [`Scope::Admin`] is among them.
    pub admin: bool,
    /// Which topics may be read; see [`Readable`].
    pub readable: Readable,
}

/// The topics that may be read: from each scope `read:TOPIC` that topic, and from `read:BEGINNING*` all that begin so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readable(Vec<Arc<str>>);

/// What the scopes begin with that say what may be read.
const READ: &str = "read:";

impl Readable {
    /// Whether a topic may be read.
    pub fn allows(&self, topic: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => topic == &**pattern,
        })
    }

    /// Whether all that these allow is allowed by others.
    fn is_within(&self, others: &Self) -> bool {
        self.0.iter().all(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => others.0.iter().any(|other| {
                other
                    .strip_suffix('*')
                    .is_some_and(|beginning_of_other| beginning.starts_with(beginning_of_other))
            }),
            None => others.allows(pattern),
        })
    }
}

impl Scope {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }

    /// Reads a word; `None` when there is no such scope.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "service" => Some(Self::Service),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Scopes {
    /// Reads the scopes that a new token should have; an unknown one is an error, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scopes = Self::default();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            if !scopes.add(word) {
                let unknown =
                    format!("there is no scope `{word}`; there are `service`, `admin` and `read:TOPIC`");
                return Err(unknown.chars().take(120).collect());
            }
        }
        Ok(scopes)
    }

    /// Reads a token's `scope`: words between spaces. Those that aren't known are another server's and are passed over.
    pub(crate) fn from_claim(claim: &str) -> Self {
        let mut scopes = Self::default();
        for word in claim.split(' ') {
            scopes.add(word);
        }
        scopes
    }

    /// As a token's `scope`; `None` when there are none.
    pub(crate) fn to_claim(&self) -> Option<String> {
        let service = self.service.then(|| Scope::Service.to_string());
        let admin = self.admin.then(|| Scope::Admin.to_string());
        let readable = self.readable.0.iter().map(|pattern| format!("{READ}{pattern}"));
        let words: Vec<String> = service.into_iter().chain(admin).chain(readable).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Whether none of them is missing in `others`. A backend reads everything.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        (others.service || !self.service)
            && (others.admin || !self.admin)
            && (others.service || self.readable.is_within(&others.readable))
    }

    /// Adds a scope; `false` when there is no such.
    fn add(&mut self, word: &str) -> bool {
        match (Scope::from_name(word), word.strip_prefix(READ)) {
            (Some(Scope::Service), _) => self.service = true,
            (Some(Scope::Admin), _) => self.admin = true,
            (None, Some(pattern)) if !pattern.is_empty() => self.readable.0.push(Arc::from(pattern)),
            (None, _) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_that_are_known_allow_something() {
        for (claim, service, admin) in [
            ("", false, false),
            ("service", true, false),
            ("openid admin  service", true, true),
            ("services SERVICE service,admin", false, false),
        ] {
            assert_eq!(Scopes::from_claim(claim), scopes(service, admin), "{claim:?}");
        }
    }

    #[test]
    fn a_claim_is_read_back_as_it_was_written() {
        let reader = Scopes::parse("read:chain:1:*,admin read:chain:2:a").unwrap();
        for scopes in [scopes(true, true), scopes(false, true), reader] {
            assert_eq!(Scopes::from_claim(&scopes.to_claim().unwrap()), scopes);
        }
        assert_eq!(Scopes::default().to_claim(), None);
    }

    #[test]
    fn scopes_are_within_others_that_have_them_all() {
        let (all, admin) = (scopes(true, true), scopes(false, true));
        assert!(admin.are_within(&all) && Scopes::default().are_within(&admin));
        assert!(!all.are_within(&admin));
        let read = |scope| Scopes::from_claim(scope);
        assert!(read("read:chain:1:a").are_within(&read("read:chain:1:*")));
        assert!(read("read:chain:1:*").are_within(&read("read:chain:*")));
        assert!(!read("read:chain:*").are_within(&read("read:chain:1:*")));
        assert!(!read("read:chain:1:*").are_within(&read("read:chain:1:a")));
        assert!(read("read:*").are_within(&all));
    }

    #[test]
    fn a_topic_is_read_by_its_name_or_its_beginning() {
        let readable = Scopes::from_claim("read:chain:1:a read:chain:2:*").readable;
        for (topic, is_allowed) in [
            ("chain:1:a", true),
            ("chain:1:ab", false),
            ("chain:2:x", true),
            ("chain:21:x", false),
            ("", false),
        ] {
            assert_eq!(readable.allows(topic), is_allowed, "{topic}");
        }
        assert!(!Readable::default().allows("chain:1:a"));
        assert!(Scopes::parse("read:").is_err());
    }

    fn scopes(service: bool, admin: bool) -> Scopes {
        Scopes { service, admin, ..Scopes::default() }
    }
}
