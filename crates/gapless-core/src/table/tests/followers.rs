//! Followers beside one tail, against the model of a database.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::*;
use super::model::{Action, Change, Database, Held, Row};

type Tail = TableTail<Change, (Mark, TableCursor)>;

#[derive(Debug, Clone)]
enum Step {
    Database(Action),
    /// The shared reader reads a page.
    Poll {
        limit: usize,
    },
    /// A follower takes so many changes, or pages.
    Take {
        follower: usize,
        times: usize,
    },
    /// A follower comes back with the last cursor that it was told.
    Reconnect {
        follower: usize,
    },
    /// The shared reader lost its place, and begins with what is newest.
    Anew,
}

struct Follower {
    machine: TableFollower<(Mark, TableCursor)>,
    cursor: TableCursor,
    told: Vec<(u8, Row)>,
}

struct World {
    database: Database,
    tail: Tail,
    polled: TableCursor,
    followers: Vec<Follower>,
    /// Whether a follower joins wherever the tail is, which is known to be broken.
    joins_anywhere: bool,
}

impl World {
    fn new(joins_anywhere: bool) -> Self {
        let database = Database::new();
        let new =
            || Follower { machine: TableFollower::behind(), cursor: TableCursor::new(), told: Vec::new() };
        let followers = (0..3).map(|_| new()).collect();
        let mut world = Self {
            polled: TableCursor::new(),
            tail: TableTail::new(5, 5),
            database,
            followers,
            joins_anywhere,
        };
        world.act(&Step::Anew);
        world
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Database(action) => self.database.act(action),
            Step::Anew => {
                let mark = self.mark();
                let newest = self.database.rows.values().map(|row| row.at).max().unwrap_or(0);
                self.polled = TableCursor::newest(mark.clone(), newest);
                self.tail.clear();
                self.tail.end_pass((mark, self.polled.clone()));
            }
            Step::Poll { limit } => self.poll(*limit),
            Step::Take { follower, times } => {
                for _ in 0..*times {
                    self.take(follower % self.followers.len());
                }
            }
            Step::Reconnect { follower } => {
                let index = follower % self.followers.len();
                let cursor = &self.followers[index].cursor;
                let position = self.tail.position(|(_, at)| at == cursor, |(_, at)| at == cursor);
                self.followers[index].machine = match (position, self.joins_anywhere, self.tail.newest()) {
                    (Some(position), false, _) => TableFollower::at(position),
                    (_, true, Some(end)) => TableFollower::at(end.index),
                    (None, false, _) | (_, true, None) => TableFollower::behind(),
                };
            }
        }
    }

    fn mark(&self) -> Mark {
        Mark { snapshot: self.database.snapshot(), oldest_start: None }
    }

    fn poll(&mut self, limit: usize) {
        let mark = self.mark();
        for change in self.database.read_up_to(&mut self.polled, limit, &mark).0 {
            self.tail.push(change, 1);
        }
        if !self.polled.has_more()
            && let Some(base) = self.polled.base().cloned()
        {
            self.tail.end_pass((base, self.polled.clone()));
        }
    }

    fn take(&mut self, index: usize) {
        let Follower { machine, cursor, told } = &mut self.followers[index];
        match machine.next(&self.tail, |(mark, _)| cursor.may_begin(mark)) {
            FollowerStep::Tell((change, at)) => {
                told.push(*change);
                *cursor = at.clone();
            }
            FollowerStep::Read((mark, _)) => {
                let (changes, has_begun) = self.database.read_up_to(cursor, 2, &mark.clone());
                told.extend(changes.into_iter().map(|(change, _)| change));
                machine.handle_page(&self.tail, has_begun, cursor.has_more());
            }
            FollowerStep::Wait | FollowerStep::WaitForPass => {}
        }
    }
}

fn run(steps: &[Step], joins_anywhere: bool) -> World {
    let mut world = World::new(joins_anywhere);
    for step in steps {
        world.act(step);
    }
    while !world.database.open.is_empty() {
        world.database.act(&Action::End { transaction: 0, commits: true });
    }
    for _ in 0..60 {
        world.act(&Step::Poll { limit: 3 });
        for follower in 0..world.followers.len() {
            world.act(&Step::Take { follower, times: 3 });
        }
    }
    world
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => super::action().prop_map(Step::Database),
        4 => (1..4_usize).prop_map(|limit| Step::Poll { limit }),
        5 => (any::<usize>(), 1..5_usize).prop_map(|(follower, times)| Step::Take { follower, times }),
        1 => any::<usize>().prop_map(|follower| Step::Reconnect { follower }),
        1 => Just(Step::Anew),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn followers_of_one_tail_hold_the_table_and_got_no_version_twice(steps in prop::collection::vec(step(), 0..160)) {
        let world = run(&steps, false);
        for Follower { told, machine, .. } in &world.followers {
            let mut held: Held = told.iter().copied().collect();
            held.retain(|_, row| !row.is_deleted);
            prop_assert_eq!(held, world.database.live());
            let versions: BTreeSet<(u8, u32)> = told.iter().map(|(key, row)| (*key, row.version)).collect();
            prop_assert_eq!(versions.len(), told.len(), "twice: {:?}", told);
            prop_assert!(machine.is_through(&world.tail));
        }
    }
}

#[test]
fn whoever_joins_the_tail_anywhere_loses_what_they_had_not_read() {
    let write = |key| {
        let transaction = 0;
        [
            Action::Begin,
            Action::Write { transaction, key, deletes: false },
            Action::End { transaction, commits: true },
        ]
    };
    let steps: Vec<Step> = [write(1), write(2)].concat().into_iter().map(Step::Database).collect();
    let steps = [steps, vec![Step::Poll { limit: 9 }, Step::Reconnect { follower: 0 }]].concat();
    let held = |world: &World| world.followers[0].told.iter().copied().collect::<BTreeMap<_, _>>();
    let world = run(&steps, true);
    assert_eq!((held(&world).len(), world.database.rows.len()), (0, 2));
    let world = run(&steps, false);
    assert_eq!(held(&world), world.database.rows);
}
