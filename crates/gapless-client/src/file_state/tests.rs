//! What a folder must survive.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};

use gapless_core::Advance;
use tempfile::TempDir;

use super::*;

#[tokio::test]
async fn what_was_applied_is_there_when_the_folder_is_opened_again() {
    let folder = TempDir::new().unwrap();
    let mut expected = Snapshot::default();
    let mut state = FileState::open(folder.path()).unwrap();
    assert_eq!(state.load().await.unwrap(), expected);

    let changes = [
        Change::Claim(UserId::new("alice").unwrap()),
        enqueue(0),
        advance("demo", 3),
        advance("other", 9),
        enqueue(1),
        Change::Dequeue(OutboxId::new(0)),
        Change::Reset { conv: conv("other") },
        advance("demo", 4),
    ];
    state.apply(&changes[..3]).await.unwrap();
    state.apply(&changes[3..]).await.unwrap();
    changes.iter().for_each(|change| expected.apply(change));
    drop(state);

    let mut again = FileState::open(folder.path()).unwrap();
    assert_eq!(again.load().await.unwrap(), expected);
}

#[tokio::test]
async fn a_folder_whose_process_was_killed_is_opened_with_all_that_was_applied() {
    let folder = TempDir::new().unwrap();
    let mut state = FileState::open(folder.path()).unwrap();
    state.apply(&[advance("demo", 3)]).await.unwrap();

    // The files as they are on the disk at this moment, without an orderly end.
    let copy = TempDir::new().unwrap();
    fs::copy(folder.path().join(FILE), copy.path().join(FILE)).unwrap();
    let mut again = FileState::open(copy.path()).unwrap();
    assert_eq!(again.load().await.unwrap().positions.len(), 1);
}

#[test]
fn a_second_process_is_refused() {
    let folder = TempDir::new().unwrap();
    let _first = FileState::open(folder.path()).unwrap();

    let second = FileState::open(folder.path());
    assert!(matches!(second, Err(FileStateError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn a_damaged_file_is_named_and_never_taken_for_a_new_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(FILE);
    let mut state = FileState::open(folder.path()).unwrap();
    for seq in 1..100 {
        state.apply(&[advance("demo", seq), enqueue(seq)]).await.unwrap();
    }
    drop(state);
    let whole = fs::read(&path).unwrap();

    let damages: [(&str, Damage); 4] = [
        ("emptied", |file| file.set_len(0).unwrap()),
        ("cut", |file| file.set_len(5_000).unwrap()),
        ("overwritten at the start", |file| write_at(file, 0)),
        ("other content", |file| {
            file.set_len(0).unwrap();
            file.write_all(&[b'x'; 20_000]).unwrap();
        }),
    ];
    for (name, damage) in damages {
        fs::write(&path, &whole).unwrap();
        damage(&mut OpenOptions::new().write(true).open(&path).unwrap());
        let opened = FileState::open(folder.path());
        assert!(matches!(opened, Err(FileStateError::Damaged { .. })), "{name}: {opened:?}");
    }
}

/// Whatever bytes change, the file is either refused or gives what was written.
#[tokio::test]
async fn changed_bytes_anywhere_never_give_other_content() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(FILE);
    let mut state = FileState::open(folder.path()).unwrap();
    state.apply(&[advance("demo", 1_234_567), enqueue(7)]).await.unwrap();
    let expected = state.load().await.unwrap();
    drop(state);
    let whole = fs::read(&path).unwrap();

    // Whole runs, since most single bytes of the file are unused.
    for start in (0..whole.len()).step_by(whole.len() / 60) {
        fs::write(&path, &whole).unwrap();
        write_at(&mut OpenOptions::new().write(true).open(&path).unwrap(), start as u64);
        let Ok(mut opened) = FileState::open(folder.path()) else { continue };
        if let Ok(content) = opened.load().await {
            assert_eq!(content, expected, "changed at {start}");
        }
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let state = FileState::open(folder.path()).unwrap();
    let writing = state.database.begin_write().unwrap();
    writing.open_table(NUMBERS).unwrap().insert("version", 2).unwrap();
    writing.commit().unwrap();
    drop(state);

    let opened = FileState::open(folder.path());
    assert!(matches!(opened, Err(FileStateError::Version { found: 2, .. })), "{opened:?}");
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();

    let error = FileState::open(&file.join("state")).unwrap_err();
    assert!(error.to_string().contains("file/state"), "{error}");
}

type Damage = fn(&mut File);

fn write_at(file: &mut File, start: u64) {
    file.seek(SeekFrom::Start(start)).unwrap();
    file.write_all(&[0x5a; 40]).unwrap();
}

fn conv(name: &str) -> ConvId {
    ConvId::new(name).unwrap()
}

fn advance(name: &str, seq: u64) -> Change {
    let position = Position { epoch: Epoch::new(5).unwrap(), seq: Seq::new(seq).unwrap() };
    let advance = Advance { entries: Vec::new(), position, trimmed: None, head: position.seq };
    Change::Advance { conv: conv(name), advance }
}

fn enqueue(id: u64) -> Change {
    Change::Enqueue(OutboxMessage {
        id: OutboxId::new(id),
        conv: conv("demo"),
        key: Key::new(&format!("k-{id}")).unwrap(),
        body: Body::from_value(&id).unwrap(),
    })
}
