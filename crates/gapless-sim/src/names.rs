//! The names of a world's parts.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $letter:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
}

number!(
    /// One device of one user.
    DeviceNo(usize),
    "device "
);
number!(
    /// One gateway, over all its lives.
    GatewayNo(usize),
    "gateway "
);
number!(
    /// One connection; never used twice.
    LinkNo(u64),
    "link "
);
number!(
    /// One transaction of the store; never used twice.
    BatchNo(u64),
    "batch "
);
number!(
    /// One life of a process, from its start to its end; never used twice.
    Life(u64),
    "life "
);
