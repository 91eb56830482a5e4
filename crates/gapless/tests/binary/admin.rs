//! `gapless admin`, against a server that runs.

use gapless_testkit::free_port;
use tempfile::TempDir;

use crate::command::{SECRET, admin, run, serve};

#[test]
fn an_operator_runs_conversations_on_an_open_server() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    for (arguments, printed) in [
        (&["create", "c", "--creator", "alice", "--member", "bob", "--history", "all"][..], "c"),
        (&["add", "c", "carol", "--user", "alice"], "carol is a member of c, from seq 3 on"),
        (&["add", "c", "carol", "--user", "alice"], "carol is a member of c, already since seq 3 on"),
        (&["remove", "c", "bob", "--user", "alice"], "bob is no member of c, from seq 4 on"),
        (&["trim", "c", "--below", "3"], "c is kept from seq 3 on; 2 entries went"),
        (&["kick", "bob"], "0 connections of bob were ended"),
    ] {
        assert_eq!(admin(&server, arguments).printed(), printed);
    }
    for (arguments, printed) in [
        (
            &["epoch", "c"][..],
            "c began a new life; its readers start over: the connected ones within about 7 s",
        ),
        (
            &["epoch", "--all"],
            "1 conversations began a new life; their readers start over: the connected ones",
        ),
    ] {
        let raised = admin(&server, arguments);
        assert!(raised.printed().starts_with(printed), "{raised}");
    }
    let generated = admin(&server, &["create"]);
    assert_eq!(generated.printed().len(), 32, "{generated}");
    let refused = admin(&server, &["trim", "absent", "--below", "3"]);
    assert!(refused.complained().ends_with("(NOT_FOUND)"), "{refused}");
    let taken = admin(&server, &["create", "c"]);
    assert!(taken.complained().contains("GET /v1/conversations/{id}"), "{taken}");
    let unnamed = admin(&server, &["epoch"]);
    assert!(unnamed.code == Some(2) && unnamed.stderr.contains("<CONV|--all>"), "{unnamed}");
    let no_chain = admin(&server, &["trim-chain", "1", "--below", "3"]);
    assert!(no_chain.complained().ends_with("(NOT_FOUND)"), "{no_chain}");
    let negative = admin(&server, &["trim", "c", "--below", "-1"]);
    assert!(negative.code == Some(2) && negative.stderr.contains("0 or more"), "{negative}");
}

#[test]
fn a_token_needs_the_scope_for_what_is_done() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--secret", SECRET]);
    let token = |scope: &str| {
        let said = run(&["token", "--user", "op", "--secret", SECRET, "--scope", scope]);
        said.printed().to_owned()
    };
    let (none, operator, backend) = (token(""), token("admin"), token("service"));

    let nobody = admin(&server, &["epoch", "--all"]);
    assert!(nobody.complained().contains("no token was given"), "{nobody}");
    assert!(nobody.complained().contains("gapless token --user NAME --scope service"), "{nobody}");
    let plain = admin(&server, &["epoch", "--all", "--token", &none]);
    assert!(plain.complained().contains("gapless token --user NAME --scope admin"), "{plain}");
    let operator_creates = admin(&server, &["create", "c", "--token", &operator]);
    assert!(operator_creates.complained().contains("--scope service"), "{operator_creates}");
    admin(&server, &["create", "c", "--creator", "alice", "--token", &backend]).printed();
    admin(&server, &["add", "c", "bob", "--token", &backend]).printed();
    assert!(admin(&server, &["epoch", "--all", "--token", &operator]).printed().starts_with("1 "));
}

#[test]
fn an_address_is_understood_as_other_commands_understand_it() {
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, &["--auth", "open"]);
    for url in [format!("ws://{}", server.address()), format!("ws://{}/v1/ws", server.address())] {
        run(&["admin", "--url", &url, "epoch", "--all"]).printed();
    }
    let bare = run(&["admin", "--url", "localhost:7700", "epoch", "--all"]);
    assert!(bare.code == Some(2) && bare.stderr.contains("write http://localhost:7700"), "{bare}");
    let below = format!("{}/elsewhere", server.url());
    let below = run(&["admin", "--url", &below, "epoch", "--all"]);
    assert!(below.complained().contains("Leave out /elsewhere"), "{below}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let said = run(&["admin", "--url", &url, "epoch", "--all"]);
    assert!(said.complained().contains(&format!("can't reach {url}")), "{said}");
}
