//! Simulates any number of contenders with clocks that disagree, late or lost requests, and processes that stand still, crash and come
//! back. At no moment do two contenders lead, and when all troubles are over, one leads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::super::election::{Election, Record, Step, Version};

/// From this time on, in milliseconds, there are no troubles.
const CALM: u64 = 120_000;
/// The end of the simulation: late enough for a silent holder's duration and everything after it.
const END: u64 = CALM + 40_000;

/// A trouble of a process.
#[derive(Debug, Clone)]
enum Trouble {
    /// It stands still, while its clock runs on.
    Stall { contender: usize, at: u64, lasts: u64 },
    /// It crashes, and comes back under the same name.
    Crash { contender: usize, at: u64, back_after: u64 },
}

/// The journey of a request: how long it and its answer take to arrive, and whether either is lost.
#[derive(Debug, Clone)]
struct Journey {
    there: u64,
    back: u64,
    lost_on_the_way: bool,
    answer_lost: bool,
}

#[derive(Debug, Clone)]
struct Story {
    /// For each contender, the speed of its clock in percent, and the error of its wall clock.
    clocks: Vec<(u64, i64)>,
    troubles: Vec<Trouble>,
    journeys: Vec<Journey>,
}

fn stories() -> impl Strategy<Value = Story> {
    let journey = (
        0u64..1500,
        0u64..1500,
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(there, back, lost_on_the_way, answer_lost)| Journey {
            there,
            back,
            lost_on_the_way,
            answer_lost,
        });
    (2usize..5).prop_flat_map(move |contenders| {
        let trouble = prop_oneof![
            (0..contenders, 0..CALM, 1u64..40_000).prop_map(|(contender, at, lasts)| Trouble::Stall {
                contender,
                at,
                lasts
            }),
            (0..contenders, 0..CALM, 1u64..20_000).prop_map(|(contender, at, back_after)| Trouble::Crash {
                contender,
                at,
                back_after
            }),
        ];
        (
            prop::collection::vec((90u64..110, any::<i32>().prop_map(i64::from)), contenders),
            prop::collection::vec(trouble, 0..8),
            prop::collection::vec(journey.clone(), 1..200),
        )
            .prop_map(|(clocks, troubles, journeys)| Story {
                clocks,
                troubles,
                journeys,
            })
    })
}

/// What happens at a moment. The order of the variants breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A request reaches the register.
    Arrives(usize),
    /// The contender gets an answer, or stops waiting for it.
    Answered(usize),
    /// The contender does its next step.
    Acts(usize),
    Crashes(usize, u64),
    Starts(usize),
}

#[derive(Debug, Clone)]
enum Answer {
    Found(Option<(Record, Version)>),
    Written(Version),
    Refused,
    Nothing,
}

#[derive(Debug)]
struct Request {
    contender: usize,
    /// The life of the contender that the request belongs to: answers to a dead contender reach nobody.
    life: u32,
    step: Step,
    sent: Instant,
    answer: Answer,
    answer_lost: bool,
    back: u64,
    /// Whether the contender has got the answer, or given up.
    over: bool,
}

struct World {
    story: Story,
    base: Instant,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, Happening)>>,
    contenders: Vec<Option<Election>>,
    lives: Vec<u32>,
    requests: Vec<Request>,
    register: Option<(Record, u64)>,
    versions: u64,
    journey: usize,
}

impl World {
    fn new(story: Story) -> Self {
        let count = story.clocks.len();
        let mut world = Self {
            base: Instant::now(),
            now: 0,
            agenda: BinaryHeap::new(),
            contenders: (0..count).map(|_| None).collect(),
            lives: vec![0; count],
            requests: Vec::new(),
            register: None,
            versions: 0,
            journey: 0,
            story,
        };
        for contender in 0..count {
            world.plan(0, Happening::Starts(contender));
        }
        for trouble in world.story.troubles.clone() {
            if let Trouble::Crash {
                contender,
                at,
                back_after,
            } = trouble
            {
                world.plan(at, Happening::Crashes(contender, back_after));
            }
        }
        world
    }

    /// Plans a happening. A contender's own actions wait while it stands still.
    fn plan(&mut self, at: u64, happening: Happening) {
        let mut at = at.max(self.now);
        if let Happening::Acts(contender) | Happening::Starts(contender) = happening {
            at = self.awake(contender, at);
        }
        if let Happening::Answered(request) = happening {
            at = self.awake(self.requests[request].contender, at);
        }
        self.agenda.push(Reverse((at, happening)));
    }

    fn awake(&self, contender: usize, mut at: u64) -> u64 {
        let stalls = self.story.troubles.iter().filter_map(|trouble| match trouble {
            Trouble::Stall {
                contender: who,
                at,
                lasts,
            } if *who == contender => Some((*at, at + lasts)),
            _ => None,
        });
        let mut stalls: Vec<_> = stalls.collect();
        stalls.sort_unstable();
        for (begin, end) in stalls {
            if (begin..end).contains(&at) {
                at = end;
            }
        }
        at
    }

    /// Returns what the contender's monotonic clock shows.
    fn clock(&self, contender: usize) -> Instant {
        self.base + Duration::from_micros(self.now * self.story.clocks[contender].0 * 10)
    }

    /// Returns when the contender's clock will show this time, rounded up.
    fn moment(&self, contender: usize, clock: Instant) -> u64 {
        let micros = u64::try_from((clock - self.base).as_micros()).unwrap();
        micros.div_ceil(self.story.clocks[contender].0 * 10)
    }

    fn wall(&self, contender: usize) -> i64 {
        i64::try_from(self.now).unwrap() * 1000 + self.story.clocks[contender].1 * 1_000_000
    }

    fn leaders(&self) -> Vec<usize> {
        (0..self.contenders.len())
            .filter(|contender| {
                let election = &self.contenders[*contender];
                election
                    .as_ref()
                    .is_some_and(|election| election.leads(self.clock(*contender)))
            })
            .collect()
    }

    fn run(&mut self) -> Result<(), TestCaseError> {
        while let Some(Reverse((at, happening))) = self.agenda.pop() {
            // Leadership ends by itself, and begins only when something happens, so these are all moments that matter.
            self.now = at;
            if at > END {
                break;
            }
            self.happen(happening);
            let leaders = self.leaders();
            prop_assert!(leaders.len() <= 1, "at {at} ms: {leaders:?} lead");
        }
        self.now = END;
        prop_assert_eq!(self.leaders().len(), 1, "when all is well, one leads");
        Ok(())
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Starts(contender) => {
                self.lives[contender] += 1;
                self.contenders[contender] =
                    Some(Election::new(format!("operator-{contender}"), self.clock(contender)));
                self.plan(self.now, Happening::Acts(contender));
            }
            Happening::Crashes(contender, back_after) => {
                if self.contenders[contender].take().is_some() {
                    self.plan(self.now + back_after, Happening::Starts(contender));
                }
            }
            Happening::Acts(contender) => self.act(contender),
            Happening::Arrives(request) => self.arrive(request),
            Happening::Answered(request) => self.answer(request),
        }
    }

    fn act(&mut self, contender: usize) {
        let (clock, wall) = (self.clock(contender), self.wall(contender));
        let Some(election) = &mut self.contenders[contender] else {
            return;
        };
        match election.next(clock, wall) {
            Step::Wait(end) => {
                let at = self.moment(contender, end);
                self.plan(at, Happening::Acts(contender));
            }
            step => {
                if let Step::Write(record, _) = &step {
                    election.failed(record.clone(), clock, clock);
                }
                self.send(contender, step, clock);
            }
        }
    }

    fn send(&mut self, contender: usize, step: Step, sent: Instant) {
        let journey = if self.now < CALM {
            self.story.journeys[self.journey % self.story.journeys.len()].clone()
        } else {
            Journey {
                there: 1,
                back: 1,
                lost_on_the_way: false,
                answer_lost: false,
            }
        };
        self.journey += 1;
        let request = self.requests.len();
        self.requests.push(Request {
            contender,
            life: self.lives[contender],
            step,
            sent,
            answer: Answer::Nothing,
            answer_lost: journey.answer_lost,
            back: journey.back,
            over: false,
        });
        if !journey.lost_on_the_way {
            self.plan(self.now + journey.there, Happening::Arrives(request));
        }
        // The contender stops waiting then.
        self.plan(self.now + 2000, Happening::Answered(request));
    }

    fn arrive(&mut self, number: usize) {
        let version = self.register.as_ref().map(|(_, version)| version.to_string());
        let request = &mut self.requests[number];
        request.answer = match &request.step {
            Step::Write(record, expected) if *expected == version => {
                self.versions += 1;
                self.register = Some((record.clone(), self.versions));
                Answer::Written(Some(self.versions.to_string()))
            }
            Step::Write(..) => Answer::Refused,
            Step::Read | Step::Wait(_) => Answer::Found(
                self.register
                    .clone()
                    .map(|(record, version)| (record, Some(version.to_string()))),
            ),
        };
        if !request.answer_lost {
            let at = self.now + request.back;
            self.plan(at, Happening::Answered(number));
        }
    }

    fn answer(&mut self, number: usize) {
        let request = &mut self.requests[number];
        let contender = request.contender;
        let is_alive = self.lives[contender] == request.life;
        if std::mem::replace(&mut request.over, true) || !is_alive {
            return;
        }
        let answer = if request.answer_lost {
            Answer::Nothing
        } else {
            request.answer.clone()
        };
        let (step, sent) = (request.step.clone(), request.sent);
        let clock = self.clock(contender);
        let Some(election) = &mut self.contenders[contender] else {
            return;
        };
        match (step, answer) {
            (_, Answer::Found(found)) => election.read(found, clock),
            (Step::Write(record, _), Answer::Written(version)) => election.written(record, sent, version),
            (_, Answer::Refused) => election.refused(),
            (Step::Write(record, _), _) => election.failed(record, sent, clock),
            _ => election.unreadable(clock),
        }
        self.plan(self.now, Happening::Acts(contender));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn never_two_leaders_and_one_when_all_is_well(story in stories()) {
        World::new(story).run()?;
    }
}
