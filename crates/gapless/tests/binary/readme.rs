//! The recipes of the README: their own commands, typed into terminals as somebody would.

use std::env;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use gapless_testkit::{ANVIL_PACKAGE, Postgres, anvil_command, free_port, poll_until, tied_command};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::command::lines_of;
use crate::node::get;

const README: &str = include_str!("../../../../README.md");
const PATIENCE: Duration = Duration::from_secs(30);

// Chain behaviour 7
#[test]
fn the_recipe_for_a_chain_shows_transfers_and_takes_them_back() {
    let blocks = recipe("### Events of a chain\n");
    let [npx, serve, tail, browser, send, reorg] = &blocks[..] else { panic!("{blocks:#?}") };
    let desk = Desk::new();
    let _node = desk.terminal(npx);
    poll_until(PATIENCE, || Ok(TcpStream::connect(desk.node).is_ok().then_some(()))).unwrap().unwrap();
    let _server = desk.terminal(serve);
    let is_there = || {
        let is_up = TcpStream::connect(desk.server).is_ok();
        Ok((is_up && get(desk.server, "/v1/chains/31337?user=bob").contains("\"number\":0")).then_some(()))
    };
    poll_until(PATIENCE, is_there).unwrap().expect("the chain is followed");

    let tail = desk.terminal(tail);
    // What the browser's console is told to ask for.
    let path = browser.split('"').find(|text| text.starts_with("/v1/events?")).unwrap();
    let source = desk.terminal(&format!("curl -sSN 'http://127.0.0.1:7700{path}'\n"));
    let mut chain = desk.terminal(send);
    for value in ["500", "70"] {
        let value = format!(r#""value":"{value}""#);
        tail.says(&[&value]);
        source.says(&["data:", &value]);
    }
    chain.type_in(reorg);
    tail.says(&["REVOKED"]);
    source.says(&["event:", "revoke"]);
}

// Table behaviour 7
#[test]
fn the_recipe_for_a_table_copies_it_and_finds_what_was_spoiled() {
    let blocks = recipe("### Rows of a table\n");
    let [serve, replicate, use_it] = &blocks[..] else { panic!("{blocks:#?}") };
    let postgres = Postgres::start().unwrap();
    let desk = Desk { database: SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())), ..Desk::new() };
    let _server = desk.terminal(serve);
    let is_up = || Ok(TcpStream::connect(desk.server).is_ok().then_some(()));
    poll_until(PATIENCE, is_up).unwrap().expect("the server listens");
    let replicator = desk.terminal(replicate);
    replicator.says(&["the target is ready"]);
    let user = desk.terminal(use_it);
    user.says(&["orders", "equal", "10,000 rows"]);
    user.says(&["row 7 is missing"]);
    user.says(&["orders", "equal", "10,000 rows"]);
}

/// The blocks of code of a recipe, in their order.
fn recipe(heading: &str) -> Vec<String> {
    let (_, section) = README.split_once(heading).unwrap();
    let section = section.split("\n###").next().unwrap();
    let fenced = section.split("\n```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').unwrap().1.to_owned() + "\n").collect()
}

/// A folder, and addresses in place of those of the README, which somebody may need.
struct Desk {
    folder: TempDir,
    node: SocketAddr,
    server: SocketAddr,
    database: SocketAddr,
}

impl Desk {
    fn new() -> Self {
        let [node, server, database] = [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let desk = Self { folder: TempDir::new().unwrap(), node, server, database };
        // Does what npm does, without the network.
        let anvil = anvil_command().unwrap();
        let npx =
            format!("[ \"$*\" = '--yes {ANVIL_PACKAGE}' ] && exec {} --port {}", words(&anvil), node.port());
        desk.put("npx", &npx);
        let gapless = tied_command(Path::new(env!("CARGO_BIN_EXE_gapless")));
        desk.put("gapless", &format!("exec {} \"$@\"", words(&gapless)));
        desk
    }

    /// Puts a command where the terminals find it first.
    fn put(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A shell in which this is typed.
    fn terminal(&self, commands: &str) -> Terminal {
        let path = format!("{}:{}", self.folder.path().display(), env::var("PATH").unwrap());
        let mut shell = tied_command(Path::new("bash"));
        let variables = env::vars_os().map(|(name, _)| name);
        for ours in variables.filter(|name| name.to_string_lossy().starts_with("GAPLESS_")) {
            shell.env_remove(ours);
        }
        shell
            .env("PATH", path)
            .env("GAPLESS_LISTEN", self.server.to_string())
            .env("GAPLESS_URL", format!("http://{}", self.server))
            .current_dir(self.folder.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = shell.spawn().unwrap();
        let (input, lines) = (process.stdin.take().unwrap(), lines_of(&mut process));
        let addresses = [
            ("127.0.0.1:8545", self.node.to_string()),
            ("127.0.0.1:7700", self.server.to_string()),
            ("127.0.0.1/", format!("{}/", self.database)),
        ];
        let mut terminal = Terminal { process, input, lines, addresses };
        terminal.type_in("exec 2>&1\n");
        terminal.type_in(commands);
        terminal
    }
}

/// A command as it is typed.
fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// A shell and all that it started; they end with it.
struct Terminal {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What stands in the README, and what is meant here.
    addresses: [(&'static str, String); 3],
}

impl Terminal {
    fn type_in(&mut self, commands: &str) {
        let commands = self
            .addresses
            .iter()
            .fold(commands.to_owned(), |commands, (documented, own)| commands.replace(documented, own));
        self.input.write_all(commands.as_bytes()).unwrap();
    }

    /// Waits for a line with all of these.
    fn says(&self, words: &[&str]) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{words:?} never came"));
            if words.iter().all(|word| line.contains(word)) {
                return;
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGKILL).ok();
        self.process.wait().ok();
    }
}
