//! The tables that a server reads for others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gapless_postgres::UrlError;
use tokio::sync::Mutex;
use tracing::{debug, info, warn};

use crate::health::Health;
use crate::source::pool::SourcePool;
use crate::source::{Changes, CursorKeys, Moment, Page, PageRequest, Source, SourceError, TableConfig};
use crate::wire::Consistency;

/// Tables of one database.
#[derive(Debug, Clone)]
pub struct DeclaredTables {
    /// The URL of the database.
    pub url: String,
    /// How many connections read at most.
    pub connections: usize,
    /// The tables.
    pub tables: Vec<TableConfig>,
}

/// The tables that a server reads for others, by their names. The default has none.
#[derive(Debug, Clone, Default)]
pub struct Tables(BTreeMap<String, Arc<Served>>);

/// A table that a server reads for others. It is looked up when it is first asked for, and again now and then, since it may change.
pub struct Served {
    config: TableConfig,
    pool: SourcePool,
    connections: usize,
    keys: CursorKeys,
    looked_up: Mutex<LookedUp>,
    health: std::sync::Mutex<Health>,
}

#[derive(Default)]
enum LookedUp {
    #[default]
    Never,
    Found(Arc<Source>, Instant),
    Failed(String, Instant),
}

/// Why tables can't be served.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// The URL of a database can't be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Two tables go by one name.
    #[error("there are two tables `{0}`; rename one")]
    Twice(String),
}

/// How long what was looked up counts.
const FOUND_FOR: Duration = Duration::from_secs(30);
/// How long nobody tries again after a failure.
const FAILED_FOR: Duration = Duration::from_secs(1);

impl Tables {
    /// Prepares to read tables; nothing is asked yet.
    pub fn new(declared: Vec<DeclaredTables>, keys: &CursorKeys) -> Result<Self, TablesError> {
        let mut tables = BTreeMap::new();
        for DeclaredTables { url, connections, tables: configs } in declared {
            let pool = SourcePool::new(&url, connections)?;
            for config in configs {
                let name = config.name.clone();
                let (pool, keys) = (pool.clone(), keys.clone());
                let (looked_up, health) = (Mutex::default(), std::sync::Mutex::default());
                let served = Served { config, pool, connections, keys, looked_up, health };
                if tables.insert(name.clone(), Arc::new(served)).is_some() {
                    return Err(TablesError::Twice(name));
                }
            }
        }
        Ok(Self(tables))
    }

    /// The table of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Served>> {
        self.0.get(name)
    }

    /// All tables.
    pub fn iter(&self) -> impl Iterator<Item = &Served> {
        self.0.values().map(AsRef::as_ref)
    }
}

impl Served {
    /// The name it goes by.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it promises about late commits.
    pub fn consistency(&self) -> Consistency {
        self.config.consistency
    }

    /// Whether it can be read, as far as is known from the last time that somebody looked.
    pub fn is_readable(&self) -> bool {
        self.health().is_readable
    }

    /// The table as it is.
    pub async fn source(&self) -> Result<Arc<Source>, SourceError> {
        let found = self.look_up().await;
        self.note(&found);
        found
    }

    async fn look_up(&self) -> Result<Arc<Source>, SourceError> {
        let mut looked_up = self.looked_up.lock().await;
        match &*looked_up {
            LookedUp::Found(source, at) if at.elapsed() < FOUND_FOR => return Ok(Arc::clone(source)),
            LookedUp::Failed(reason, at) if at.elapsed() < FAILED_FOR => {
                return Err(SourceError::Unavailable(reason.clone()));
            }
            LookedUp::Never | LookedUp::Found(..) | LookedUp::Failed(..) => {}
        }
        match Source::find(self.pool.clone(), self.config.clone(), self.keys.clone()).await {
            Ok(source) => {
                if !matches!(&*looked_up, LookedUp::Found(..)) {
                    info!(table = self.name(), consistency = %self.config.consistency, "the table can be read");
                }
                let source = Arc::new(source);
                *looked_up = LookedUp::Found(Arc::clone(&source), Instant::now());
                Ok(source)
            }
            Err(error) => {
                *looked_up = LookedUp::Failed(error.to_string(), Instant::now());
                Err(error)
            }
        }
    }

    /// Reads a page.
    pub async fn page(&self, request: &PageRequest) -> Result<Page, SourceError> {
        self.ask(|source| async move { source.page(request).await }).await
    }

    /// The cursor of a reader who wants what is committed from now on, and the moment it is of.
    pub async fn newest(&self) -> Result<(String, Moment), SourceError> {
        self.ask(|source| async move { source.newest().await }).await
    }

    /// Reads the changes behind a cursor, as [`Source::changes`] does.
    pub async fn changes(
        &self,
        cursor: &str,
        limit: u32,
        up_to: Option<Moment>,
    ) -> Result<Changes, SourceError> {
        let up_to = &up_to;
        self.ask(|source| async move { source.changes(cursor, limit, up_to.clone()).await }).await
    }

    /// Asks the table. If it turns out to have changed, it is looked up again first. What goes wrong is logged here.
    pub async fn ask<T, A>(&self, question: impl Fn(Arc<Source>) -> A) -> Result<T, SourceError>
    where
        A: Future<Output = Result<T, SourceError>> + Send,
    {
        // Each connection may have prepared what doesn't fit any more.
        let mut attempts_left = self.connections + 1;
        loop {
            match question(self.source().await?).await {
                Err(SourceError::Changed(_)) if attempts_left > 0 => {
                    attempts_left -= 1;
                    *self.looked_up.lock().await = LookedUp::Never;
                }
                answer => {
                    self.note(&answer);
                    return answer;
                }
            }
        }
    }

    /// Notes how the table is, and tells the log if it can't be read.
    fn note<T>(&self, answer: &Result<T, SourceError>) {
        let is_news = self.health().handle_answer(answer.as_ref().err(), Instant::now());
        let Err(error) = answer else { return };
        if is_news {
            warn!(table = self.name(), %error, "the table can't be read; for a minute, more of this is only logged at level debug");
        } else {
            debug!(table = self.name(), %error, "a question isn't answered");
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("config", &self.config).finish_non_exhaustive()
    }
}
