use super::*;
use std::process::Output;

#[test]
fn committed_rows_survive_kill_9_and_the_server_comes_back_on_its_port() {
    let Some(mut postgres) = start() else { return };
    let url = postgres.create_database().unwrap();
    query(&postgres, &url, "create table t (x int); insert into t values (7)");
    let (port, data_folder) = (postgres.port(), postgres.data_folder());

    postgres.kill_9().unwrap();
    assert!(processes_in(&data_folder).is_empty());
    assert!(query_fails(&postgres, &url, "select 1"));

    postgres.restart().unwrap();
    assert_eq!(postgres.port(), port);
    assert_eq!(query(&postgres, &url, "select x from t"), "7");
}

#[test]
fn every_commit_is_flushed_to_disk_and_there_is_room_for_connections() {
    let Some(postgres) = start() else { return };
    for (setting, value) in [("fsync", "on"), ("synchronous_commit", "on"), ("max_connections", "200")] {
        assert_eq!(query(&postgres, &postgres.url(), &format!("show {setting}")), value);
    }
}

#[test]
fn databases_are_empty_and_each_is_another() {
    let Some(postgres) = start() else { return };
    let (first, second) = (postgres.create_database().unwrap(), postgres.create_database().unwrap());
    assert_ne!(first, second);
    query(&postgres, &first, "create table t (x int)");
    assert!(query_fails(&postgres, &second, "select * from t"));
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_folder() {
    let Some(postgres) = start() else { return };
    let (folder, data_folder) = (postgres.folder.path().to_path_buf(), postgres.data_folder());
    assert!(!processes_in(&data_folder).is_empty());
    drop(postgres);
    assert!(processes_in(&data_folder).is_empty());
    assert!(!folder.exists());
}

#[test]
fn two_servers_run_side_by_side() {
    let Some(first) = start() else { return };
    let Some(second) = start() else { return };
    assert_ne!(first.port(), second.port());
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let Some(mut postgres) = start() else { return };
    postgres.stop().unwrap();
    fs::write(postgres.data_folder().join("postgresql.conf"), "nonsense = 1\n").unwrap();
    let error = postgres.restart().unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}

/// None where PostgreSQL is not installed, and says so.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like one that passed")]
fn start() -> Option<Postgres> {
    match PostgresBinaries::find() {
        Ok(_) => Some(Postgres::start().unwrap()),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

fn query(postgres: &Postgres, url: &str, sql: &str) -> String {
    let output = psql(postgres, url, sql);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn query_fails(postgres: &Postgres, url: &str, sql: &str) -> bool {
    !psql(postgres, url, sql).status.success()
}

fn psql(postgres: &Postgres, url: &str, sql: &str) -> Output {
    let mut command = postgres.command("psql");
    command.args([
        "--no-psqlrc",
        "--quiet",
        "--no-align",
        "--tuples-only",
        "--dbname",
        url,
        "--command",
        sql,
    ]);
    command.output().unwrap()
}

/// The processes that work in a folder, as all of PostgreSQL's do in its data folder.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder))
        .collect()
}
