//! Something to try: a conversation, and what to type.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gapless_core::{Append, Authority, History, Operation};
use gapless_proto::{Body, ConvId, Key, UserId};
use gapless_server::{AuthConfig, Authenticator, Scopes, TokenRequest};
use gapless_store::{CreateError, Creation, Store};

use crate::token;

const CONV: &str = "demo";
const ALICE: &str = "alice";
const BOB: &str = "bob";
/// What there is to read before anybody has sent something.
const MESSAGES: [(&str, &str); 3] = [
    (ALICE, "Hello, Bob. Can you hear me?"),
    (BOB, "Loud and clear. I was in a tunnel, and missed nothing."),
    (ALICE, "Stop the server, send something, start it again: it arrives, once."),
];
/// Where a client looks for the server when nobody says.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7700";

/// Makes the conversation, unless it is there.
pub(crate) async fn make(store: &dyn Store) -> anyhow::Result<()> {
    let creation = Creation {
        conv: ConvId::new(CONV)?,
        creator: UserId::new(ALICE)?,
        members: vec![UserId::new(BOB)?],
        history: History::All,
    };
    match store.create(creation).await {
        Ok(_) | Err(CreateError::Exists) => {}
        Err(CreateError::Store(error)) => return Err(error.into()),
    }
    // A start that was interrupted here is made good by the next one: the keys are the same.
    for (number, (sender, text)) in MESSAGES.into_iter().enumerate() {
        let operation = Operation::Message {
            sender: UserId::new(sender)?,
            key: Key::new(&format!("demo-{number}"))?,
            body: Body::from_value(&serde_json::json!({ "text": text }))?,
        };
        let append = Append { conv: ConvId::new(CONV)?, authority: Authority::Service, operation };
        store.append(append, None).await?;
    }
    Ok(())
}

/// What to type in other terminals, in the folder where this one is.
pub(crate) fn how_to_try(address: SocketAddr, auth: &AuthConfig) -> anyhow::Result<String> {
    let program = program();
    let url = if address.to_string() == DEFAULT_ADDRESS {
        String::new()
    } else {
        format!(" --url http://{address}")
    };
    let [alice, bob] = [who(ALICE, auth)?, who(BOB, auth)?];
    Ok(format!(
        "\nIn another terminal, in this folder, watch the conversation as bob:\n\n\
         \x20   {program} tail{url} {bob} {CONV}\n\n\
         and in a third one send to it as alice:\n\n\
         \x20   {program} send{url} {alice} {CONV} \"hello\"\n\n\
         Ctrl-C stops the server."
    ))
}

/// How one says who one is.
fn who(user: &str, auth: &AuthConfig) -> anyhow::Result<String> {
    Ok(match auth {
        AuthConfig::Open => format!("--user {user}"),
        AuthConfig::Jwt(_) => {
            let request = TokenRequest {
                user: UserId::new(user)?,
                device: None,
                scopes: Scopes::default(),
                ttl: Duration::from_secs(24 * 3600),
            };
            let minted = Authenticator::new(auth.clone()).mint(&request, token::now()?)?;
            format!("--token {}", minted.token)
        }
    })
}

/// This program as one would type it here.
fn program() -> String {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("gapless"));
    let here = env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    typed(&program, &here)
}

fn typed(program: &Path, here: &Path) -> String {
    let typed = match program.strip_prefix(here) {
        Ok(below) => format!("./{}", below.display()),
        Err(_) => program.display().to_string(),
    };
    let is_plain = typed.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if is_plain { typed } else { format!("'{}'", typed.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_as_one_would_type_it() {
        for (program, here, said) in [
            ("/p/target/debug/gapless", "/p", "./target/debug/gapless"),
            ("/usr/bin/gapless", "/p", "/usr/bin/gapless"),
            ("/p/my folder/gapless", "/p", "'./my folder/gapless'"),
            ("/it's/gapless", "/", r"'./it'\''s/gapless'"),
        ] {
            assert_eq!(typed(Path::new(program), Path::new(here)), said);
        }
    }

    #[test]
    fn what_to_type_names_the_server_only_when_it_is_not_where_clients_look() {
        let at = |address: &str| how_to_try(address.parse().unwrap(), &AuthConfig::Open).unwrap();
        assert!(at("127.0.0.1:7700").contains(" tail --user bob demo\n"));
        assert!(
            at("127.0.0.1:1234").contains(" send --url http://127.0.0.1:1234 --user alice demo \"hello\"\n")
        );
    }
}
