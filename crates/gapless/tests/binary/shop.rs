//! A server that reads tables of one database, and another database for copies.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gapless_testkit::{Gateway, SharedPostgres, poll_until};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::command::{Said, gapless, run, said, serve};

/// Two databases and the server between them.
pub(crate) struct Shop {
    pub(crate) source: Database,
    pub(crate) target: Database,
    pub(crate) server: Gateway,
    pub(crate) folder: TempDir,
}

/// A database of its own.
pub(crate) struct Database {
    pub(crate) url: String,
    runtime: Runtime,
    client: Client,
}

pub(crate) const ORDERS: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, updated_at timestamptz NOT NULL)";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

impl Shop {
    /// A shop with tables, which the server reads strictly.
    pub(crate) fn with(schema: &str, tables: &[&str]) -> Self {
        let (source, target) = (Database::fresh(), Database::fresh());
        source.execute(schema);
        let folder = TempDir::new().unwrap();
        let declared: String = tables.iter().map(|name| format!("[[tables]]\nname = \"{name}\"\n")).collect();
        let file = folder.path().join("tables.toml");
        fs::write(&file, format!("source = \"{}\"\n{declared}", source.url)).unwrap();
        let file = file.to_str().unwrap();
        run(&["table", "install", "--index", file]).printed();
        let server = serve(&folder, &["--auth", "open", "--set", &format!("tables.serve={file}")]);
        Self { source, target, server, folder }
    }

    /// The same, where the server reads one more table.
    pub(crate) fn also_reading(self, table: &str) -> Self {
        let Self { source, target, server, folder } = self;
        drop(server);
        let file = folder.path().join("tables.toml");
        fs::write(&file, format!("source = \"{}\"\n[[tables]]\nname = \"{table}\"\n", source.url)).unwrap();
        run(&["table", "install", "--index", file.to_str().unwrap()]).printed();
        let server =
            serve(&folder, &["--auth", "open", "--set", &format!("tables.serve={}", file.display())]);
        Self { source, target, server, folder }
    }

    /// Restarts the server, so that it looks at its tables anew.
    pub(crate) fn restart(&mut self) {
        self.server.restart().unwrap();
    }

    /// A copy of a table of the same name in the target.
    pub(crate) fn replicate(&self, table: &str, arguments: &[&str]) -> Command {
        self.replicate_from(&self.server.url(), table, arguments)
    }

    pub(crate) fn replicate_from(&self, from: &str, table: &str, arguments: &[&str]) -> Command {
        let mut command = gapless(&["replicate", "--from", from, "--table", table]);
        if !arguments.contains(&"--to") {
            command.args(["--to", &self.target.url]);
        }
        command.args(arguments);
        command
    }

    /// Copies what there is.
    pub(crate) fn copy(&self, table: &str, arguments: &[&str]) -> Said {
        said(self.replicate(table, arguments).arg("--once"))
    }

    /// Follows a table until it is dropped.
    pub(crate) fn follow(&self, table: &str, arguments: &[&str]) -> Following {
        Following::start(self.replicate(table, arguments), self.folder.path().join("replicate.log"))
    }

    /// Fails unless a copy has the rows of its source.
    pub(crate) fn assert_equal(&self, table: &str) {
        let columns = self.target.query(&format!(
            "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        ));
        let rows = format!("SELECT ROW({})::text FROM {table} ORDER BY 1", columns[0]);
        let (source, target) = (self.source.query(&rows), self.target.query(&rows));
        assert!(source == target, "{} and {} rows:\n{source:?}\n{target:?}", source.len(), target.len());
    }
}

impl Database {
    pub(crate) fn fresh() -> Self {
        let url = SharedPostgres::from_environment().fresh_database();
        let runtime = Runtime::new().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, NoTls)).unwrap();
        runtime.spawn(connection);
        Self { url, runtime, client }
    }

    pub(crate) fn execute(&self, statements: &str) {
        self.runtime.block_on(self.client.batch_execute(statements)).unwrap();
    }

    /// The first column of all rows, as texts; NULL is empty.
    pub(crate) fn query(&self, statement: &str) -> Vec<String> {
        let messages = self.runtime.block_on(self.client.simple_query(statement)).unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        rows.collect()
    }

    /// Waits until a query gives one row with a text.
    pub(crate) fn wait_for(&self, statement: &str, text: &str) {
        let found = poll_until(PATIENCE, || Ok((self.query(statement) == [text]).then_some(())));
        found.unwrap().unwrap_or_else(|| panic!("{statement} gives {:?}, not {text}", self.query(statement)));
    }
}

/// A replicator at work.
pub(crate) struct Following {
    child: Child,
    log: PathBuf,
}

impl Following {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let child = command.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, log }
    }

    /// Waits until its log says something.
    pub(crate) fn wait_for(&self, words: &str) {
        let says = || Ok(self.log().contains(words).then_some(()));
        poll_until(PATIENCE, says).unwrap().unwrap_or_else(|| panic!("{words:?} isn't in\n{}", self.log()));
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself, and returns with what, and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = poll_until(PATIENCE, || Ok(self.child.try_wait()?)).unwrap().unwrap();
        (status.code(), fs::read_to_string(&self.log).unwrap())
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
