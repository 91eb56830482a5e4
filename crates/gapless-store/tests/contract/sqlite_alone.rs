//! What only the SQLite store has: a file, which may be somebody else's, in use, or too new.

use std::fs;
use std::path::Path;

use gapless_store::{OpenError, SqliteStore, Store, StoreUrl, migrate, open};

use crate::sqlite_file::SqliteFile;
use crate::world::{Database as _, World};

#[tokio::test]
async fn a_second_store_on_the_same_file_is_refused_until_the_first_is_closed() {
    let file = SqliteFile::fresh();
    let path = file.path();
    let (store, _news) = file.open().await;
    for error in [open_error(&path), SqliteStore::migrate(&path).err()] {
        assert!(matches!(error, Some(OpenError::InUse { .. })), "{error:?}");
    }
    let link = path.with_file_name("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(open_error(&link), Some(OpenError::InUse { .. })));
    store.close().await;
    assert!(open_error(&link).is_none());
}

#[tokio::test]
async fn a_closed_store_leaves_one_file_that_can_be_copied() {
    let file = SqliteFile::fresh();
    let path = file.path();
    let world = World::begin(file).await;
    world.create("chat", &["alice"]).await.say("alice", "k1").await;
    world.store.close().await;

    assert!(!path.with_file_name("gapless.db-wal").exists());
    let copy = path.with_file_name("copy.db");
    fs::copy(&path, &copy).unwrap();
    let (store, _news) = SqliteStore::open(&copy).unwrap();
    assert_eq!(store.heads(&[crate::world::conv("chat")]).await.unwrap()[0].1.head.get(), 2);
    store.close().await;
}

#[test]
fn a_missing_folder_is_named() {
    let error = open_error(Path::new("/nowhere/at/all/gapless.db")).unwrap();
    assert!(error.to_string().contains("/nowhere/at/all;"), "{error}");
}

#[test]
fn a_folder_is_no_database_and_nothing_is_left_beside_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    fs::create_dir(&folder).unwrap();
    let error = open_error(&folder).unwrap();
    let said = error.to_string();
    assert!(said.contains("is a folder") && said.ends_with("data/gapless.db"), "{said}");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_may_not_be_made_is_named_with_the_cause() {
    let error = open_error(Path::new("/proc/gapless.db")).unwrap();
    assert!(matches!(error, OpenError::File { .. }), "{error:?}");
    assert!(error.to_string().starts_with("/proc/gapless.db can't be opened; see that"), "{error}");
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    let letter = "Dear Sir or Madam, ".repeat(500);
    fs::write(&path, &letter).unwrap();
    assert!(matches!(open_error(&path), Some(OpenError::NotADatabase { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), letter);

    let foreign = SqliteFile::fresh();
    foreign.execute("CREATE TABLE feed (url TEXT)");
    let before = fs::read(foreign.path()).unwrap();
    let error = open_error(&foreign.path());
    assert!(matches!(error, Some(OpenError::NotADatabase { .. })), "{error:?}");
    assert_eq!(fs::read(foreign.path()).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let file = SqliteFile::fresh();
    let (store, _news) = file.open().await;
    store.close().await;
    file.execute("INSERT INTO refinery_schema_history VALUES (999, 'later', '2040-01-01T00:00:00Z', '1')");
    let error = open_error(&file.path()).unwrap();
    assert!(matches!(error, OpenError::NewerSchema { found: 999, .. }), "{error:?}");
    assert!(error.to_string().contains("newer gapless"), "{error}");
}

#[tokio::test]
async fn migrating_tells_what_was_applied_and_the_second_time_nothing() {
    let file = SqliteFile::fresh();
    let url: StoreUrl = format!("sqlite:{}", file.path().display()).parse().unwrap();
    let first = migrate(&url).await.unwrap();
    assert_eq!(first.applied, ["V1__feeds_and_entries", "V2__chains", "V3__chains_begun_anew"]);
    let second = migrate(&url).await.unwrap();
    assert!(second.applied.is_empty() && second.version == first.version);
    let (store, _news) = open(&url).await.unwrap();
    store.check().await.unwrap();
    store.close().await;
}

fn open_error(path: &Path) -> Option<OpenError> {
    SqliteStore::open(path).err()
}
