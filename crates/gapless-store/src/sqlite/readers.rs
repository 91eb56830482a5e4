//! The connections that read.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::file::{self, FileLock};
use crate::{OpenError, StoreError};

/// How many reads run at once.
const READERS: u32 = 4;
/// How many reads may run or wait; one more is refused as [`StoreError::Busy`].
const READS_WAITING_MAX: usize = 8_192;

/// A few connections, each lent to one read at a time.
#[derive(Debug)]
pub(super) struct Readers {
    admission: Semaphore,
    turns: Arc<Semaphore>,
    /// `None` once the pool is closed.
    idle: Arc<Mutex<Option<Idle>>>,
}

/// The connections that nobody uses at the moment, and the right to the file.
#[derive(Debug)]
struct Idle {
    connections: Vec<Connection>,
    _lock: FileLock,
}

impl Readers {
    pub(super) fn open(path: &Path, lock: FileLock) -> Result<Self, OpenError> {
        let connections = (0..READERS).map(|_| file::open_for_reading(path)).collect::<Result<_, _>>()?;
        let idle = Idle { connections, _lock: lock };
        Ok(Self {
            admission: Semaphore::new(READS_WAITING_MAX),
            turns: Arc::new(Semaphore::new(READERS as usize)),
            idle: Arc::new(Mutex::new(Some(idle))),
        })
    }

    /// Runs a read on a thread that may block, when a connection is free.
    pub(super) async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let _admitted = self.admission.try_acquire().map_err(|_| StoreError::Busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| StoreError::Closed)?;
        let idle = Arc::clone(&self.idle);
        let work = move || {
            let connection = Lent::take(idle, turn)?;
            read(&connection)
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(StoreError::Broken(Box::new(error))))
    }

    /// Waits for the reads that run, refuses further ones, and closes the connections.
    pub(super) async fn close(&self) {
        if let Ok(all) = self.turns.acquire_many(READERS).await {
            self.turns.close();
            drop(all);
        }
        drop(lock(&self.idle).take());
    }
}

/// A connection and the turn to use it; both go back when this is dropped, whatever became of the read.
struct Lent {
    connection: Option<Connection>,
    idle: Arc<Mutex<Option<Idle>>>,
    _turn: OwnedSemaphorePermit,
}

impl Lent {
    fn take(idle: Arc<Mutex<Option<Idle>>>, turn: OwnedSemaphorePermit) -> Result<Self, StoreError> {
        let connection = lock(&idle).as_mut().and_then(|idle| idle.connections.pop());
        if connection.is_none() {
            return Err(StoreError::Closed);
        }
        Ok(Self { connection, idle, _turn: turn })
    }
}

impl Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("it is lent until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(idle) = lock(&self.idle).as_mut() {
            idle.connections.extend(self.connection.take());
        }
    }
}

fn lock(idle: &Mutex<Option<Idle>>) -> MutexGuard<'_, Option<Idle>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
