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
mod tests;
