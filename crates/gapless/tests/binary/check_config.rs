//! `gapless check-config`.

use std::fs;

use tempfile::TempDir;

use crate::command::{gapless, run, said};

#[test]
fn a_configuration_is_shown_with_the_place_of_each_value_and_without_secrets() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gapless.toml");
    fs::write(&file, "[limits]\nbody_bytes_max = 1000\n").unwrap();
    let mut command =
        gapless(&["check-config", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:1"]);
    let shown = said(command.env("GAPLESS_AUTH_SECRETS", "a secret that nobody may ever see"));
    let shown = shown.printed();
    for (line, place) in [
        ("listen = \"127.0.0.1:1\"", "# --listen"),
        ("limits.body_bytes_max = 1000", "gapless.toml:2"),
        ("# auth.secrets has 1, hidden", "# GAPLESS_AUTH_SECRETS"),
        ("heartbeat.ping_after = \"25s\"", "# default"),
    ] {
        let found = shown.lines().find(|found| found.starts_with(line));
        assert!(found.is_some_and(|found| found.ends_with(place)), "{line}\n{shown}");
    }
    assert!(!shown.contains("nobody may ever see"), "{shown}");
}

#[test]
fn a_wrong_configuration_is_told_and_fails() {
    for (arguments, complaint) in [
        (
            &["--auth", "open", "--listen", "0.0.0.0:1"][..],
            "`auth.mode` (--auth) doesn't go with `listen` (--listen)",
        ),
        (&[], "`auth.secrets` isn't set"),
        (&["--secret", "short"], "`auth.secrets` has a wrong value: a secret of 5 bytes is too short"),
        (&["--auth", "none"], "--auth: `auth.mode` can't be `none`: write one of jwt, open"),
        (
            &["--auth", "open", "--set", "log.levl=info"],
            "--set log.levl: there is no key `log.levl`; did you mean `log.level`?",
        ),
        (&["--auth", "open", "--set", "log.level"], "--set log.level: `log.level` can't be ``"),
        (
            &["--auth", "open", "--set", "heartbeat.ping_after=25"],
            "can't be `25`: write a time from 10ms to 1h",
        ),
        (&["--auth", "open", "--store", "redis://x"], "`redis` names no store"),
        (
            &["--auth", "open", "--store", "postgres://h/d?foo=1"],
            "`foo` isn't a parameter of a PostgreSQL address",
        ),
        (&["--config", "/nowhere.toml"], "/nowhere.toml: can't be read"),
    ] {
        for command in ["check-config", "serve"] {
            let mut all = vec![command];
            all.extend(arguments);
            let said = run(&all);
            assert!(said.complained().contains(complaint), "{complaint}\n{said}");
        }
    }
    let said = said(gapless(&["serve", "--auth", "open"]).env("GAPLESS_LISTN", "127.0.0.1:1"));
    assert!(said.complained().contains("did you mean GAPLESS_LISTEN?"), "{said}");
}

#[test]
fn what_is_wrong_with_each_file_of_a_chain_is_told_beside_the_rest() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("one.toml");
    fs::write(&file, "chain = 1\nnodes = []\ntopics = []\n").unwrap();
    let follow = format!("chains.follow=/nowhere.toml,{}", file.display());
    let said = run(&["check-config", "--set", &follow]);
    for words in ["`auth.secrets` isn't set", "reading /nowhere.toml", "one.toml: no topic is declared"] {
        assert!(said.complained().contains(words), "{words}\n{said}");
    }
}

#[test]
fn a_flag_of_its_own_counts_more_than_set_and_of_two_sets_the_last() {
    let sets = ["--auth", "open", "--set", "listen=127.0.0.1:1", "--set", "listen=127.0.0.1:2"];
    let shown = |further: &[&str]| {
        let mut arguments = vec!["check-config"];
        arguments.extend(sets.iter().chain(further));
        run(&arguments).printed().lines().find(|line| line.starts_with("listen = ")).unwrap().to_owned()
    };
    assert!(shown(&[]).contains("127.0.0.1:2"));
    assert!(shown(&["--listen", "127.0.0.1:3"]).contains("127.0.0.1:3"));
}

#[test]
fn a_reader_that_has_seen_enough_of_it_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = gapless(&["check-config", "--auth", "open"]).stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
