//! The ways in which a reader can be wrong.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A row of the table that the reader doesn't hold.
    Missing,
    /// A row of which it holds an older version.
    Stale,
    /// A version that it was given again.
    Repeated,
    /// A row that it holds though it was deleted.
    Phantom,
    /// It was given the same full page twice, and would be for ever.
    Stuck,
}

impl Fault {
    pub(super) const ALL: [Self; 5] =
        [Self::Missing, Self::Stale, Self::Repeated, Self::Phantom, Self::Stuck];

    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Repeated => "repeated",
            Self::Phantom => "phantoms",
            Self::Stuck => "stuck",
        }
    }
}

/// What a strategy is known to do wrong. Whatever is named nowhere must not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prediction {
    /// It must happen; otherwise the experiment didn't see what it is about.
    pub(super) certain: &'static [Fault],
    /// It may happen; whether it does is left to chance.
    pub(super) possible: &'static [Fault],
}

impl Prediction {
    /// What must be seen, for a report.
    pub(super) fn text(self) -> String {
        named(|fault| self.certain.contains(&fault))
    }

    /// What was seen, without what is left to chance.
    pub(super) fn seen(self, happened: impl Fn(Fault) -> bool) -> String {
        named(|fault| happened(fault) && !self.possible.contains(&fault))
    }
}

fn named(is_one: impl Fn(Fault) -> bool) -> String {
    let names: Vec<_> = Fault::ALL.into_iter().filter(|fault| is_one(*fault)).map(Fault::name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREDICTION: Prediction =
        Prediction { certain: &[Fault::Missing, Fault::Phantom], possible: &[Fault::Stale] };

    #[test]
    fn what_is_left_to_chance_changes_nothing() {
        for stale in [true, false] {
            let seen = PREDICTION.seen(|fault| match fault {
                Fault::Missing | Fault::Phantom => true,
                Fault::Stale => stale,
                Fault::Repeated | Fault::Stuck => false,
            });
            assert_eq!(seen, PREDICTION.text());
        }
    }

    #[test]
    fn a_fault_that_was_not_predicted_and_one_that_did_not_happen_are_told_apart() {
        assert_eq!(PREDICTION.seen(|fault| fault != Fault::Stuck), "missing, repeated, phantoms");
        assert_eq!(PREDICTION.seen(|fault| fault == Fault::Missing), "missing");
        assert_eq!(PREDICTION.seen(|_| false), "nothing");
    }
}
