//! Brings changes to the local state, many at a time.

use std::error::Error;
use std::future::pending;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::{Change, LocalState, PersistId};

/// Owns the local state. While it is busy, changes gather and are then made together: one flush of the disk for all.
///
/// The session's own bounds limit how many gather.
pub(super) struct Keeper<S: LocalState> {
    activity: Activity<S>,
    gathered: Vec<(PersistId, Change)>,
}

enum Activity<S: LocalState> {
    Idle(S),
    Writing(BoxFuture<'static, Written<S>>),
    Failed,
}

struct Written<S: LocalState> {
    state: S,
    outcome: Result<PersistId, S::Error>,
}

impl<S: LocalState> Keeper<S> {
    pub(super) fn new(state: S) -> Self {
        Self { activity: Activity::Idle(state), gathered: Vec::new() }
    }

    pub(super) fn push(&mut self, id: PersistId, change: Change) {
        self.gathered.push((id, change));
    }

    /// Waits until changes are made, up to the number that it returns. Nothing is lost if it is dropped before.
    pub(super) async fn next(&mut self) -> Result<PersistId, String> {
        self.start();
        let Activity::Writing(writing) = &mut self.activity else {
            return pending().await;
        };
        let Written { state, outcome } = writing.await;
        match outcome {
            Ok(id) => {
                self.activity = Activity::Idle(state);
                Ok(id)
            }
            Err(error) => {
                self.activity = Activity::Failed;
                Err(with_causes(&error))
            }
        }
    }

    fn start(&mut self) {
        let Some((id, _)) = self.gathered.last() else {
            return;
        };
        let id = *id;
        match std::mem::replace(&mut self.activity, Activity::Failed) {
            Activity::Idle(state) => {
                let changes = self.gathered.drain(..).map(|(_, change)| change).collect();
                self.activity = Activity::Writing(write(state, id, changes).boxed());
            }
            other @ (Activity::Writing(_) | Activity::Failed) => self.activity = other,
        }
    }
}

async fn write<S: LocalState>(mut state: S, last: PersistId, changes: Vec<Change>) -> Written<S> {
    let outcome = state.apply(&changes).await.map(|()| last);
    Written { state, outcome }
}

/// An error's text with those of its causes.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
