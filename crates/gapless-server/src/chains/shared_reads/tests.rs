use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{advance, timeout};

use super::*;

/// What a store would answer: how much it had been asked before.
struct Number(u64);

impl Weighed for Number {
    fn bytes(&self) -> Option<usize> {
        Some(100)
    }
}

/// A store that counts, and whoever asks it through shared reads.
struct Bench {
    reads: Arc<SharedReads<&'static str, Number>>,
    asked: Arc<AtomicU64>,
}

impl Bench {
    fn new(turns: usize) -> Self {
        let meters = ReadMeters::new("test");
        let reads = SharedReads::new(Arc::new(Semaphore::new(turns)), meters);
        Self { reads, asked: Arc::default() }
    }

    /// Asks for a number that isn't less than `least`; the store answers when `held` ends.
    fn ask(&self, question: &'static str, least: u64, held: impl Future + Send + 'static) -> Reading<Number> {
        let asked = Arc::clone(&self.asked);
        let read = async move {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            held.await;
            Ok(Some(Number(number)))
        };
        self.reads.ask(question, move |number: &Number| number.0 >= least, read)
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

fn number(answer: Answer<Number>) -> u64 {
    answer.unwrap().unwrap().0
}

/// Lets a future do what it can.
fn poll<F: Future + Unpin>(future: &mut F) {
    assert!(future.now_or_never_ref().is_none(), "it is held");
}

trait NowOrNever: Future + Unpin {
    fn now_or_never_ref(&mut self) -> Option<Self::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(self).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}

impl<F: Future + Unpin> NowOrNever for F {}

#[tokio::test(start_paused = true)]
async fn equal_questions_that_are_asked_at_once_are_one_read() {
    let bench = Bench::new(4);
    let mut questions: Vec<_> = (0..1_000).map(|_| bench.ask("a", 0, tokio::task::yield_now())).collect();
    questions.push(bench.ask("b", 0, std::future::ready(())));
    let answers = join_all(questions).await;
    assert_eq!(bench.asked(), 2);
    assert!(answers.into_iter().take(1_000).all(|answer| number(answer) == 0));
}

#[tokio::test(start_paused = true)]
async fn who_asks_a_little_later_gets_the_same_answer_for_a_while() {
    let bench = Bench::new(4);
    assert_eq!(number(bench.ask("a", 0, std::future::ready(())).await), 0);
    advance(KEPT_FOR - Duration::from_millis(1)).await;
    assert_eq!(number(bench.ask("a", 0, std::future::ready(())).await), 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(number(bench.ask("a", 0, std::future::ready(())).await), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_for_those_who_ask_is_read_anew_once_for_all_of_them() {
    let bench = Bench::new(4);
    let (release, held) = oneshot::channel::<()>();
    let mut first = bench.ask("a", 0, held);
    poll(&mut first);
    let mut later: Vec<_> = (0..100).map(|_| bench.ask("a", 1, tokio::task::yield_now())).collect();
    later.iter_mut().for_each(poll);
    release.send(()).unwrap();
    assert_eq!(number(first.await), 0);
    assert!(join_all(later).await.into_iter().all(|answer| number(answer) == 1));
    assert_eq!(number(bench.ask("a", 2, std::future::ready(())).await), 2, "what is kept is too old as well");
    assert_eq!(bench.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_nobody_waits_for_is_given_up_and_keeps_nobody_waiting() {
    let bench = Bench::new(1);
    let (mut release, held) = oneshot::channel::<()>();
    let mut first = bench.ask("a", 0, held);
    poll(&mut first);
    // It has a task of its own, which begins now.
    tokio::task::yield_now().await;
    let mut second = bench.ask("b", 0, std::future::ready(()));
    poll(&mut second);
    drop(first);
    timeout(Duration::from_secs(1), release.closed()).await.expect("the store goes on for nobody");
    assert_eq!(number(second.await), 1);
    assert_eq!(number(bench.ask("a", 0, std::future::ready(())).await), 2);
}

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_as_long_as_one_waits_for_it() {
    let bench = Bench::new(1);
    let (release, held) = oneshot::channel::<()>();
    let mut first = bench.ask("a", 0, held);
    poll(&mut first);
    let mut second = bench.ask("a", 0, std::future::ready(()));
    poll(&mut second);
    drop(first);
    release.send(()).unwrap();
    assert_eq!(number(second.await), 0);
    assert_eq!(bench.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_who_wait_and_not_kept() {
    let bench = Bench::new(1);
    let fail = || bench.reads.ask("a", |_: &Number| true, async { Err(StoreError::Busy) });
    let answers = join_all([fail(), fail()]).await;
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(number(bench.ask("a", 0, std::future::ready(())).await), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_has_a_bound() {
    let bench = Bench::new(1);
    let names: Vec<&'static str> = (0..KEPT_MAX + 1).map(|number| &*number.to_string().leak()).collect();
    for name in &names {
        bench.ask(name, 0, std::future::ready(())).await.unwrap();
    }
    let shelf = lock(&bench.reads.shelf);
    assert_eq!((shelf.kept.len(), shelf.kept_bytes), (KEPT_MAX, 100 * KEPT_MAX));
    assert!(shelf.kept.iter().all(|kept| kept.question != names[0]), "the oldest goes first");
    assert!(shelf.under_way.is_empty());
}
