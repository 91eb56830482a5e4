//! `gapless token`.

use std::time::SystemTime;

use gapless_proto::Timestamp;
use gapless_server::{AuthConfig, Authenticator, Rights, Scopes, Secret};

use crate::command::{SECRET, gapless, run, said};

#[test]
fn a_token_says_what_was_asked_for() {
    let mut command = gapless(&[
        "token",
        "--user",
        "alice",
        "--device",
        "phone",
        "--scope",
        "service,admin",
        "--ttl",
        "15m",
    ]);
    let said = said(command.env("GAPLESS_AUTH_SECRETS", SECRET));
    let auth = AuthConfig::Jwt([Secret::new(SECRET).unwrap()].into_iter().collect());
    let identity = Authenticator::new(auth).authenticate(said.printed(), now()).unwrap();
    assert_eq!((identity.user.as_str(), identity.device.as_str()), ("alice", "phone"));
    assert_eq!(identity.rights, Rights::Scopes(Scopes { service: true, admin: true, ..Scopes::default() }));
    let left = identity.expires_at.unwrap().get() - now().get();
    assert!((800_000..=901_000).contains(&left), "{left} ms");
}

#[test]
fn a_token_that_can_not_be_made_is_refused_with_the_reason() {
    for (arguments, code, complaint) in [
        (&["token", "--user", "alice"][..], 1, "`auth.secrets` isn't set"),
        (&["token", "--user", "a b", "--secret", SECRET], 2, "white space"),
        (&["token", "--user", "a", "--secret", SECRET, "--scope", "root"], 2, "there is no scope `root`"),
        (&["token", "--user", "a", "--secret", SECRET, "--ttl", "soon"], 2, "--ttl"),
        (&["token", "--user", "a", "--secret", SECRET, "--ttl", "forever"], 2, "may be after 10years"),
        (&["token", "--user", "a", "--secret", SECRET, "--ttl", "0s"], 2, "as in 15m, 1h or 30days"),
        (&["token", "--secret", SECRET], 2, "--user"),
    ] {
        let said = run(arguments);
        assert!(said.code == Some(code) && said.stderr.contains(complaint), "{complaint}\n{said}");
        assert!(said.stdout.is_empty() && !said.stderr.contains(SECRET), "{said}");
    }
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::new(u64::try_from(since_epoch.as_millis()).unwrap()).unwrap()
}
