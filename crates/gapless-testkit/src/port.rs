//! Ports that a service can be given and come back to.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which the kernel takes the ports of outgoing connections, so that none of these can take the
/// port of a service that was killed and is about to come back.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Finds a port of 127.0.0.1 on which nobody listens.
///
/// Nothing holds the port for the caller: a service that can't bind it should be given another one.
///
/// # Panics
///
/// When none of the 12,000 ports from 20,000 on is free.
pub fn free_port() -> u16 {
    let start = RandomState::new().hash_one("port") % u64::from(COUNT);
    let start = u16::try_from(start).expect("a remainder of a u16 is a u16");
    (0..COUNT)
        .map(|step| FIRST + (start + step) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("all ports from 20000 to 31999 are taken; stop what holds them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on() {
        TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).unwrap();
    }
}
