//! What a token allows beyond what every user may do.

use std::fmt;

/// One word of a token's `scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A trusted backend: acts for any user and reads any log.
    Service,
    /// An operator: trims, raises epochs, ends connections.
    Admin,
}

/// The scopes of a token. None of them: an ordinary user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes {
    /// Whether [`Scope::Service`] is among them.
    pub service: bool,
    /// Whether [`Scope::Admin`] is among them.
    pub admin: bool,
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
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let unknown = |word: &str| {
            format!("there is no scope `{word}`; there are `service` and `admin`").chars().take(120).collect()
        };
        words.map(|word| Scope::from_name(word).ok_or_else(|| unknown(word))).collect()
    }

    /// Reads a token's `scope`: words between spaces. Those that aren't known are another server's and are passed over.
    pub(crate) fn from_claim(claim: &str) -> Self {
        claim.split(' ').filter_map(Scope::from_name).collect()
    }

    /// As a token's `scope`; `None` when there are none.
    pub(crate) fn to_claim(self) -> Option<String> {
        let words: Vec<&str> = self.iter().map(Scope::as_str).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Whether none of them is missing in `others`.
    pub(crate) fn are_within(self, others: Self) -> bool {
        (others.service || !self.service) && (others.admin || !self.admin)
    }

    fn iter(self) -> impl Iterator<Item = Scope> {
        let service = self.service.then_some(Scope::Service);
        let admin = self.admin.then_some(Scope::Admin);
        service.into_iter().chain(admin)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::default(), |scopes, scope| match scope {
            Scope::Service => Self { service: true, ..scopes },
            Scope::Admin => Self { admin: true, ..scopes },
        })
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
            assert_eq!(Scopes::from_claim(claim), Scopes { service, admin }, "{claim:?}");
        }
    }

    #[test]
    fn a_claim_is_read_back_as_it_was_written() {
        for scopes in [Scopes { service: true, admin: true }, Scopes { service: false, admin: true }] {
            assert_eq!(Scopes::from_claim(&scopes.to_claim().unwrap()), scopes);
        }
        assert_eq!(Scopes::default().to_claim(), None);
    }

    #[test]
    fn scopes_are_within_others_that_have_them_all() {
        let all = Scopes { service: true, admin: true };
        let admin = Scopes { service: false, admin: true };
        assert!(admin.are_within(all) && Scopes::default().are_within(admin));
        assert!(!all.are_within(admin));
    }
}
