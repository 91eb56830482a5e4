//! Code that is written as one sequence and waits for the world between its steps.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Where the questions of one errand lie until the world answers them.
#[derive(Debug)]
pub(super) struct Desk<Q, A>(Rc<RefCell<Papers<Q, A>>>);

#[derive(Debug)]
struct Papers<Q, A> {
    question: Option<Q>,
    answer: Option<A>,
    now: Instant,
}

/// Code under way. It asks one question at a time, so the world may do anything between any two of its steps; dropping it is a crash.
pub(super) struct Errand<Q, A, T> {
    desk: Desk<Q, A>,
    future: Pin<Box<dyn Future<Output = T>>>,
}

/// How an errand stands.
#[derive(Debug)]
pub(super) enum Stand<Q, T> {
    /// It wants to know this.
    Asks(Q),
    /// It is over.
    Done(T),
}

impl<Q, A> Desk<Q, A> {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, question: Q) -> A {
        self.0.borrow_mut().question = Some(question);
        poll_fn(|_| self.0.borrow_mut().answer.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// The time of the last answer.
    pub(super) fn now(&self) -> Instant {
        self.0.borrow().now
    }
}

impl<Q, A, T> Errand<Q, A, T> {
    /// Begins one.
    pub(super) fn new<F>(now: Instant, code: impl FnOnce(Desk<Q, A>) -> F) -> Self
    where
        F: Future<Output = T> + 'static,
    {
        let desk = Desk(Rc::new(RefCell::new(Papers { question: None, answer: None, now })));
        let future = Box::pin(code(Desk(Rc::clone(&desk.0))));
        Self { desk, future }
    }

    /// Lets it go on to its next question. Call it once at first, and then after each answer.
    ///
    /// # Panics
    ///
    /// When the last question hasn't been answered.
    pub(super) fn advance(&mut self) -> Stand<Q, T> {
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Stand::Done(done),
            Poll::Pending => {
                let question = self.desk.0.borrow_mut().question.take();
                Stand::Asks(question.expect("an errand waits for answers only"))
            }
        }
    }

    /// Answers its question.
    pub(super) fn answer(&mut self, answer: A, now: Instant) {
        let mut papers = self.desk.0.borrow_mut();
        (papers.answer, papers.now) = (Some(answer), now);
    }
}

impl<Q, A, T> fmt::Debug for Errand<Q, A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand").finish_non_exhaustive()
    }
}
