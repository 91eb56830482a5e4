//! Those who wait for something to grow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::task::AtomicWaker;

/// Those who wait for something to grow.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: HashMap<u64, Arc<AtomicWaker>>,
}

/// One who is woken; until it is dropped.
pub(crate) struct Wake {
    wakers: Arc<Wakers>,
    number: u64,
    pub(crate) waker: Arc<AtomicWaker>,
}

impl Wakers {
    /// Has a waker woken from now on.
    pub(crate) fn wait(self: &Arc<Self>) -> Wake {
        let waker = Arc::new(AtomicWaker::new());
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = waiting.next;
        waiting.next += 1;
        waiting.wakers.insert(number, Arc::clone(&waker));
        Wake { wakers: Arc::clone(self), number, waker }
    }

    pub(crate) fn wake_all(&self) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for waker in waiting.wakers.values() {
            waker.wake();
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        let mut waiting = self.wakers.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.wakers.remove(&self.number);
    }
}
