//! Whether devices suffice for requests, each of which takes some of those that its selectors leave: an exact search that is bounded.
//!
//! Pure: what devices and requests are is no matter here. They are numbers, and what ties them together is counted: devices that are
//! allocated once, counters that whole devices and their parts share, and attributes that have to be the same or to differ.

use std::collections::{BTreeSet, HashMap};

use crate::steps::Steps;

/// So many devices are given at once at most while it is tried whether they suffice. Each takes room on the stack of whoever asks, and those
/// that several may have could be given without end; no node has as many of its own.
const MOST_GIVEN: usize = 1024;

/// What is asked for, and of what.
#[derive(Debug, Default)]
pub struct Question {
    /// The devices that are there to be given.
    pub devices: Vec<Thing>,
    /// What is left of each counter.
    pub counters: Vec<i64>,
    /// What is asked for, all of it.
    pub requests: Vec<Wanted>,
    /// What ties requests together.
    pub ties: Vec<Tie>,
}

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Thing {
    /// What it takes of counters, by their number.
    pub takes: Vec<(usize, i64)>,
    /// Whether several may have it.
    pub is_shared: bool,
}

/// One request: the first of these forms that can be had, or any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The forms.
    pub forms: Vec<Form>,
}

/// So many of these devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    /// The numbers of the devices, ascending.
    pub of: Vec<usize>,
    /// How many of them.
    pub count: usize,
    /// The ties that hold for it, by their number.
    pub ties: Vec<usize>,
}

/// Devices that have to be alike in something, or to differ in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tie {
    /// What each device has; one that has nothing can't be tied.
    pub values: Vec<Option<usize>>,
    /// Whether no two may have the same; else all have to.
    pub differ: bool,
}

/// What a search comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is a way to give each request what it asks for.
    Fits,
    /// There is none.
    NoRoom,
    /// The steps were spent before one was found, or it is of more devices than can be tried; by number there are enough of them.
    TooComplex,
}

impl Question {
    /// Whether all requests can have what they ask for at once.
    pub fn answer(&self, steps: &Steps) -> Answer {
        let requests = self.ordered();
        if !requests
            .iter()
            .all(|request| request.forms.iter().any(Form::has_enough))
        {
            return Answer::NoRoom;
        }
        let parts = self.apart(requests, steps);
        if !parts.iter().all(|requests| self.are_enough(requests)) {
            return Answer::NoRoom;
        }
        let mut search = Search {
            question: self,
            likes: Vec::new(),
            requests: &[],
            taken: vec![false; self.devices.len()],
            given: 0,
            left: self.counters.clone(),
            tied: vec![Vec::new(); self.ties.len()],
            steps,
        };
        // Each gives back what it has taken.
        for requests in &parts {
            if steps.are_spent() {
                return Answer::TooComplex;
            }
            search.likes = self.likes(requests, steps);
            search.requests = requests;
            match search.request(0) {
                Some(true) => {}
                Some(false) => return Answer::NoRoom,
                None => return Answer::TooComplex,
            }
        }
        Answer::Fits
    }

    /// Whether there are as many devices of their own for these requests as they ask for in all, which takes no steps to say.
    fn are_enough(&self, requests: &[Wanted]) -> bool {
        let is_own = |device: &&usize| !self.devices[**device].is_shared;
        let least_own = |form: &Form| {
            let shared = form.of.len() - form.of.iter().filter(is_own).count();
            form.count.saturating_sub(shared)
        };
        let least = requests.iter().filter_map(|request| {
            let forms = request.forms.iter().filter(|form| form.has_enough());
            forms.map(least_own).min()
        });
        let needed = least.fold(0, usize::saturating_add);
        let mut there = vec![false; self.devices.len()];
        let forms = requests.iter().flat_map(|request| &request.forms);
        for device in forms.flat_map(|form| form.of.iter().filter(is_own)) {
            there[*device] = true;
        }
        needed <= there.into_iter().filter(|is_there| *is_there).count()
    }

    /// The requests, those with the least choice first; such as are the same to everybody become one, and what can always be had is left out.
    fn ordered(&self) -> Vec<Wanted> {
        let mut requests: Vec<Wanted> = Vec::with_capacity(self.requests.len());
        let is_endless = |device: &usize| {
            let device = &self.devices[*device];
            device.is_shared && device.takes.is_empty()
        };
        let can_always_be_had =
            |form: &Form| form.has_enough() && form.ties.is_empty() && form.of.iter().all(is_endless);
        for request in &self.requests {
            if request.forms.iter().any(can_always_be_had) {
                continue;
            }
            let is_plain =
                |form: &Form| form.ties.is_empty() && form.of.iter().all(|device| !self.devices[*device].is_shared);
            if let [form] = &*request.forms
                && is_plain(form)
                && let Some(known) = requests
                    .iter_mut()
                    .find(|known| matches!(&*known.forms, [one] if one.ties.is_empty() && one.of == form.of))
            {
                known.forms[0].count = known.forms[0].count.saturating_add(form.count);
                continue;
            }
            requests.push(request.clone());
        }
        let choice = |form: &Form| form.of.len().saturating_sub(form.count);
        requests.sort_by_key(|request| request.forms.iter().map(choice).sum::<usize>());
        requests
    }

    /// The requests in parts, of which none takes what another could have: each can be searched for alone. In the order of their first requests, but
    /// those for nothing but devices that several may have come last: no number of them hides that another one gets nothing.
    fn apart(&self, requests: Vec<Wanted>, steps: &Steps) -> Vec<Vec<Wanted>> {
        let forms = requests.iter().flat_map(|request| &request.forms);
        steps.spend(forms.map(|form| form.of.len()).sum::<usize>());
        let mut joined = Joined::new(self.devices.len() + self.counters.len() + self.ties.len());
        let first = |request: &Wanted| self.limits(request).next();
        for request in &requests {
            if let Some(first) = first(request) {
                for other in self.limits(request) {
                    joined.join(first, other);
                }
            }
        }
        let mut parts: Vec<Vec<Wanted>> = Vec::new();
        let mut of_limit = HashMap::new();
        for request in requests {
            let part = first(&request).map(|first| joined.representative(first));
            let number = *of_limit.entry(part).or_insert(parts.len());
            if number == parts.len() {
                parts.push(Vec::new());
            }
            parts[number].push(request);
        }
        let is_shared = |form: &Form| form.of.iter().all(|device| self.devices[*device].is_shared);
        parts.sort_by_key(|part| part.iter().flat_map(|request| &request.forms).all(is_shared));
        parts
    }

    /// What a request may take from others, each by a number of its own: devices that only one may have, counters, and what is left to choose under ties.
    fn limits<'r>(&'r self, request: &'r Wanted) -> impl Iterator<Item = usize> + 'r {
        let (devices, counters) = (self.devices.len(), self.counters.len());
        request.forms.iter().flat_map(move |form| {
            let of_devices = form.of.iter().flat_map(move |device| {
                let thing = &self.devices[*device];
                let counters = thing.takes.iter().map(move |(counter, _)| devices + counter);
                (!thing.is_shared).then_some(*device).into_iter().chain(counters)
            });
            let ties = form.ties.iter().map(move |tie| devices + counters + tie);
            of_devices.chain(ties)
        })
    }

    /// Of each device the first that is like it: nothing tells them apart for these requests.
    fn likes(&self, requests: &[Wanted], steps: &Steps) -> Vec<usize> {
        let forms: Vec<_> = requests.iter().flat_map(|request| &request.forms).collect();
        let ties: BTreeSet<_> = forms.iter().flat_map(|form| &form.ties).collect();
        steps.spend(self.devices.len().saturating_mul(forms.len() + ties.len()));
        let mut firsts = HashMap::new();
        let like = |device: usize| {
            let asked: Vec<_> = forms
                .iter()
                .map(|form| form.of.binary_search(&device).is_ok())
                .collect();
            let values: Vec<_> = ties
                .iter()
                .map(|tie| self.ties[**tie].values.get(device).copied().flatten())
                .collect();
            *firsts.entry((asked, values, &self.devices[device])).or_insert(device)
        };
        (0..self.devices.len()).map(like).collect()
    }
}

/// Things by their numbers, some of which were joined.
struct Joined(Vec<usize>);

impl Joined {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.representative(one), self.representative(other));
        self.0[other] = one;
    }

    /// The same of all that were joined, directly or by others.
    fn representative(&mut self, mut of: usize) -> usize {
        while self.0[of] != of {
            self.0[of] = self.0[self.0[of]];
            of = self.0[of];
        }
        of
    }
}

impl Form {
    fn has_enough(&self) -> bool {
        self.count <= self.of.len()
    }
}

struct Search<'q> {
    question: &'q Question,
    likes: Vec<usize>,
    requests: &'q [Wanted],
    taken: Vec<bool>,
    /// How many are given.
    given: usize,
    left: Vec<i64>,
    /// What the devices have that were taken under each tie.
    tied: Vec<Vec<usize>>,
    steps: &'q Steps,
}

impl Search<'_> {
    /// Whether this request and all after it can be had; none where the steps are spent, as they are by more devices than can be tried.
    fn request(&mut self, number: usize) -> Option<bool> {
        let Some(request) = self.requests.get(number) else {
            return Some(true);
        };
        for form in request.forms.iter().filter(|form| form.has_enough()) {
            if self.devices(number, form, 0, form.count)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether so many more of a form's devices can be had from this place on, and all later requests.
    fn devices(&mut self, number: usize, form: &Form, from: usize, wanted: usize) -> Option<bool> {
        if wanted == 0 {
            return self.request(number + 1);
        }
        let mut failed: Vec<usize> = Vec::new();
        for place in from..form.of.len() {
            let is_too_deep = self.given >= MOST_GIVEN;
            self.steps.spend(if is_too_deep {
                usize::MAX
            } else {
                1 + form.ties.len() + failed.len()
            });
            if self.steps.are_spent() {
                return None;
            }
            if form.of.len() - place < wanted {
                break;
            }
            let device = form.of[place];
            let like = self.likes[device];
            if failed.contains(&like) || !self.can_take(device, form) {
                continue;
            }
            self.take(device, form);
            let found = self.devices(number, form, place + 1, wanted - 1);
            self.give_back(device, form);
            if found? {
                return Some(true);
            }
            // Whatever could be had with one that is like it could be had with this one.
            failed.push(like);
        }
        Some(false)
    }

    fn can_take(&self, device: usize, form: &Form) -> bool {
        let thing = &self.question.devices[device];
        let allows = |tie: &usize| {
            let values = &self.question.ties[*tie];
            let tied = &self.tied[*tie];
            values.values[device].is_some_and(|value| {
                if values.differ {
                    !tied.contains(&value)
                } else {
                    tied.first().is_none_or(|first| *first == value)
                }
            })
        };
        (thing.is_shared || !self.taken[device])
            && thing
                .takes
                .iter()
                .all(|(counter, amount)| self.left[*counter] >= *amount)
            && form.ties.iter().all(allows)
    }

    fn take(&mut self, device: usize, form: &Form) {
        let question = self.question;
        self.taken[device] = true;
        self.given += 1;
        for (counter, amount) in &question.devices[device].takes {
            self.left[*counter] -= amount;
        }
        for tie in &form.ties {
            self.tied[*tie].extend(question.ties[*tie].values[device]);
        }
    }

    fn give_back(&mut self, device: usize, form: &Form) {
        let question = self.question;
        self.taken[device] = false;
        self.given -= 1;
        for (counter, amount) in &question.devices[device].takes {
            self.left[*counter] += amount;
        }
        for tie in &form.ties {
            self.tied[*tie].pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every way to give devices to requests, tried one after the other, with nothing left out.
    fn by_force(question: &Question) -> bool {
        fn forms(question: &Question, number: usize, chosen: &mut Vec<(usize, Vec<usize>)>) -> bool {
            let Some(request) = question.requests.get(number) else {
                return is_right(question, chosen);
            };
            request.forms.iter().enumerate().any(|(place, form)| {
                (0_u32..1 << form.of.len())
                    .filter(|bits| bits.count_ones() as usize == form.count)
                    .any(|bits| {
                        let of = form.of.iter().enumerate();
                        let set = of
                            .filter(|(bit, _)| bits >> bit & 1 == 1)
                            .map(|(_, device)| *device)
                            .collect();
                        chosen.push((place, set));
                        let found = forms(question, number + 1, chosen);
                        chosen.pop();
                        found
                    })
            })
        }
        fn is_right(question: &Question, chosen: &[(usize, Vec<usize>)]) -> bool {
            let mut left = question.counters.clone();
            let mut times = vec![0; question.devices.len()];
            let mut tied: Vec<Vec<usize>> = vec![Vec::new(); question.ties.len()];
            for (request, (form, devices)) in question.requests.iter().zip(chosen) {
                for device in devices {
                    times[*device] += 1;
                    if times[*device] > 1 && !question.devices[*device].is_shared {
                        return false;
                    }
                    for (counter, amount) in &question.devices[*device].takes {
                        left[*counter] -= amount;
                    }
                    for tie in &request.forms[*form].ties {
                        match question.ties[*tie].values[*device] {
                            Some(value) => tied[*tie].push(value),
                            None => return false,
                        }
                    }
                }
            }
            let holds = |(tie, values): (&Tie, &Vec<usize>)| {
                let mut each = values.clone();
                each.sort_unstable();
                each.dedup();
                if tie.differ {
                    each.len() == values.len()
                } else {
                    each.len() <= 1
                }
            };
            left.iter().all(|left| *left >= 0) && question.ties.iter().zip(&tied).all(holds)
        }
        forms(question, 0, &mut Vec::new())
    }

    fn questions() -> impl Strategy<Value = Question> {
        let counters = proptest::collection::vec(0_i64..4, 0..3);
        (1_usize..6, counters).prop_flat_map(|(count, counters)| {
            let most = counters.len();
            let takes = proptest::collection::vec((0..most.max(1), 1_i64..3), 0..=most);
            let takes = takes.prop_map(|takes| {
                takes
                    .into_iter()
                    .collect::<std::collections::BTreeMap<_, _>>()
                    .into_iter()
                    .collect()
            });
            let thing =
                (takes, proptest::bool::weighted(0.1)).prop_map(|(takes, is_shared)| Thing { takes, is_shared });
            let tie = (
                proptest::collection::vec(proptest::option::weighted(0.8, 0_usize..3), count),
                any::<bool>(),
            )
                .prop_map(|(values, differ)| Tie { values, differ });
            let form = (
                proptest::sample::subsequence((0..count).collect::<Vec<_>>(), 0..=count),
                1_usize..4,
                0_usize..4,
            )
                .prop_map(|(of, count, ties)| {
                    let ties = (0..2).filter(|tie| ties >> tie & 1 == 1).collect();
                    Form { of, count, ties }
                });
            let wanted = proptest::collection::vec(form, 1..3).prop_map(|forms| Wanted { forms });
            (
                proptest::collection::vec(thing, count),
                Just(counters),
                proptest::collection::vec(wanted, 0..4),
                proptest::collection::vec(tie, 2),
            )
                .prop_map(|(devices, counters, requests, ties)| Question {
                    devices,
                    counters,
                    requests,
                    ties,
                })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn what_is_found_is_what_trying_everything_finds(mut question in questions()) {
            let counters = question.counters.len();
            for thing in &mut question.devices {
                thing.takes.retain(|(counter, _)| *counter < counters);
            }
            let expected = if by_force(&question) { Answer::Fits } else { Answer::NoRoom };
            prop_assert_eq!(question.answer(&Steps::new(1_000_000)), expected);
        }
    }

    #[test]
    fn what_takes_too_many_steps_is_said_to() {
        // Sixteen cards of two halves each, of which no two that are tied have the same: pigeons and their holes.
        let devices = vec![Thing::default(); 24];
        let ties = (0..12)
            .map(|tie| Tie {
                values: (0..24).map(|device| Some((device * (tie + 3)) % 11)).collect(),
                differ: true,
            })
            .collect();
        let form = Form {
            of: (0..24).collect(),
            count: 12,
            ties: (0..12).collect(),
        };
        let question = Question {
            devices,
            counters: Vec::new(),
            requests: vec![Wanted { forms: vec![form] }],
            ties,
        };
        assert_eq!(question.answer(&Steps::new(100)), Answer::TooComplex);
    }

    /// Each takes room on the stack, and a thread has 2 MiB of it.
    #[test]
    fn a_device_that_several_may_have_is_not_given_without_end() {
        let shared = Thing {
            is_shared: true,
            takes: vec![(0, 1)],
        };
        let one = Form {
            of: vec![0],
            count: 1,
            ties: Vec::new(),
        };
        let asked_by = |requests: usize| Question {
            devices: vec![shared.clone()],
            counters: vec![i64::MAX],
            requests: vec![
                Wanted {
                    forms: vec![one.clone()]
                };
                requests
            ],
            ..Question::default()
        };
        let steps = Steps::new(1_000_000);
        assert_eq!(asked_by(MOST_GIVEN).answer(&steps), Answer::Fits);
        assert!(!steps.are_spent());
        let mut too_many = asked_by(50_000);
        assert_eq!(too_many.answer(&steps), Answer::TooComplex);
        assert!(steps.are_spent());
        // Two devices like that one, which only one has each, for three who may have no third.
        too_many.devices.resize(3, Thing::default());
        let either = Form {
            of: vec![1, 2],
            ties: vec![0],
            ..one.clone()
        };
        too_many.ties.push(Tie {
            values: vec![Some(0); 3],
            differ: false,
        });
        too_many.requests.extend(vec![Wanted { forms: vec![either] }; 3]);
        assert_eq!(too_many.answer(&Steps::new(1000)), Answer::NoRoom);
    }

    #[test]
    fn requests_that_have_nothing_in_common_are_searched_for_apart() {
        let shared = Thing {
            is_shared: true,
            ..Thing::default()
        };
        let tie = Tie {
            values: vec![Some(0); 3],
            differ: false,
        };
        // Thousands of claims, each for two of the devices that all may have, alike in something, and one for a device of its own.
        let claims = 5000;
        let mut question = Question {
            devices: vec![shared.clone(), shared, Thing::default()],
            ties: vec![tie; claims],
            ..Question::default()
        };
        let wanted = |of: Vec<usize>, ties| {
            let count = of.len();
            Wanted {
                forms: vec![Form { of, count, ties }],
            }
        };
        question.requests = (0..claims).map(|claim| wanted(vec![0, 1], vec![claim])).collect();
        question.requests.push(wanted(vec![2], Vec::new()));
        assert_eq!(question.answer(&Steps::new(100_000)), Answer::Fits);
        question.requests.push(wanted(vec![2], Vec::new()));
        assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
    }

    #[test]
    fn more_than_there_are_is_seen_without_steps() {
        let tie = Tie {
            values: vec![Some(0); 8],
            differ: false,
        };
        let one = |tie| Wanted {
            forms: vec![Form {
                of: (0..8).collect(),
                count: 1,
                ties: vec![tie],
            }],
        };
        let mut question = Question {
            devices: vec![Thing::default(); 8],
            requests: (0..9).map(one).collect(),
            ties: vec![tie; 9],
            ..Question::default()
        };
        assert_eq!(question.answer(&Steps::new(0)), Answer::NoRoom);
        question.requests.pop();
        assert_eq!(question.answer(&Steps::new(0)), Answer::TooComplex);
        assert_eq!(question.answer(&Steps::new(1000)), Answer::Fits);
    }

    #[test]
    fn to_compare_devices_takes_steps() {
        let tie = Tie {
            values: vec![None; 56],
            differ: false,
        };
        let form = Form {
            of: (0..56).collect(),
            count: 1,
            ties: (0..256).collect(),
        };
        let question = Question {
            devices: vec![Thing::default(); 56],
            requests: vec![Wanted { forms: vec![form] }],
            ties: vec![tie; 256],
            ..Question::default()
        };
        let steps = Steps::new(1_000_000);
        assert_eq!(question.answer(&steps), Answer::NoRoom);
        assert!(1_000_000 - steps.left() > 56 * 256, "{}", steps.left());
    }

    #[test]
    fn what_can_always_be_had_keeps_no_search_from_its_end() {
        let form = |device| Form {
            of: vec![device],
            count: 1,
            ties: Vec::new(),
        };
        let one_of = |device| Wanted {
            forms: vec![form(device)],
        };
        let shared = Thing {
            is_shared: true,
            ..Thing::default()
        };
        let mut requests = vec![one_of(0); 50_000];
        requests.push(one_of(1));
        let mut question = Question {
            devices: vec![shared, Thing::default()],
            requests,
            ..Question::default()
        };
        assert_eq!(question.answer(&Steps::new(100)), Answer::Fits);
        question.requests.push(one_of(1));
        assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
    }

    #[test]
    fn many_equal_requests_are_judged_in_few_steps() {
        let question = Question {
            devices: vec![Thing::default(); 64],
            requests: vec![
                Wanted {
                    forms: vec![Form {
                        of: (0..64).collect(),
                        count: 1,
                        ties: Vec::new()
                    }]
                };
                65
            ],
            ..Question::default()
        };
        assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
    }
}
