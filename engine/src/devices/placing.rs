//! Whether devices suffice for requests, each of which takes some of the devices that its selectors leave. The search is exact and bounded.
//!
//! This module is pure: devices and requests are only numbers here. It counts what ties them together: devices that are allocated once,
//! counters that whole devices and their parts share, and attributes that have to be the same or to differ.

use std::collections::{BTreeSet, HashMap};

use crate::steps::Steps;

/// The most devices that the search gives at once. Each given device takes room on the caller's stack, and devices that several claims may
/// have could be given without end; no node has as many of its own.
const MOST_GIVEN: usize = 1024;

/// What is asked for, and the devices it is asked of.
#[derive(Debug, Default)]
pub struct Question {
    /// The devices that are there to be given.
    pub devices: Vec<Thing>,
    /// What is left of each counter.
    pub counters: Vec<i64>,
    /// All requests that have to be met.
    pub requests: Vec<Wanted>,
    /// What ties requests together.
    pub ties: Vec<Tie>,
}

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Thing {
    /// What the device takes from counters, by the counters' numbers: once, however many claims get it.
    pub takes: Vec<(usize, i64)>,
    /// Whether several claims may have the device at once.
    pub is_shared: bool,
}

/// One request: the first of its forms that can be had, or any of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The forms.
    pub forms: Vec<Form>,
}

/// A form of a request: a number of devices out of these.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    /// The numbers of the devices, ascending.
    pub of: Vec<usize>,
    /// How many of these devices.
    pub count: usize,
    /// The ties that hold for the form, by their numbers.
    pub ties: Vec<usize>,
}

/// Devices that have to be alike in something, or to differ in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tie {
    /// The value of each device; a device without a value can't be tied.
    pub values: Vec<Option<usize>>,
    /// Whether all values have to differ; else all have to be the same.
    pub differ: bool,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is a way to give each request what it asks for.
    Fits,
    /// There is no way.
    NoRoom,
    /// The steps were spent before a way was found, or the search needs more devices than can be tried. By number there are enough devices.
    TooComplex,
}

impl Question {
    /// Returns whether all requests can have what they ask for at once.
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
            taken: vec![0; self.devices.len()],
            given: 0,
            left: self.counters.clone(),
            tied: vec![Vec::new(); self.ties.len()],
            steps,
        };
        // Each part of the search gives back what it has taken.
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

    /// Whether there are enough devices that only one claim may have, by number, for all that these requests ask for. This spends no steps.
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

    /// Returns the requests, those that leave the least choice first. Requests that mean the same become one, and a request
    /// that can always be met is left out.
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

    /// Returns the requests in parts of which none takes what another could have, so that each part can be searched alone. The parts are in
    /// the order of their first requests. Parts only for devices that several claims may have come last: whatever their number, they can't
    /// hide that another part gets nothing.
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

    /// Returns what a request may take from others, each as a number of its own: devices that only one claim may have, counters, and the
    /// choices left under ties.
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

    /// Returns for each device the first device that is like it, that is, which nothing distinguishes from it for these requests while neither
    /// is given.
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

    /// Returns the same number for all things that were joined, directly or through others.
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
    /// How many times each device is given.
    taken: Vec<usize>,
    /// How many devices are given.
    given: usize,
    left: Vec<i64>,
    /// The values of the devices that were taken under each tie.
    tied: Vec<Vec<usize>>,
    steps: &'q Steps,
}

impl Search<'_> {
    /// Whether this request and all after it can be met; none where the steps are spent. Reaching the most devices that can be tried spends
    /// the steps too.
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

    /// Whether `wanted` more of a form's devices can be had from this place on, and all later requests can be met.
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
            // Once it was given, a device that several claims may have takes nothing of counters any more.
            let is_given = self.taken[device] > 0;
            if !is_given && failed.contains(&like) || !self.can_take(device, form) {
                continue;
            }
            self.take(device, form);
            let found = self.devices(number, form, place + 1, wanted - 1);
            self.give_back(device, form);
            if found? {
                return Some(true);
            }
            // If this device does not lead to a solution, no device that is like it does.
            failed.extend((!is_given).then_some(like));
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
        let suffices = |(counter, amount): &(usize, i64)| self.left[*counter] >= *amount;
        let is_had = if self.taken[device] == 0 {
            thing.takes.iter().all(suffices)
        } else {
            thing.is_shared
        };
        is_had && form.ties.iter().all(allows)
    }

    fn take(&mut self, device: usize, form: &Form) {
        let question = self.question;
        if self.taken[device] == 0 {
            for (counter, amount) in &question.devices[device].takes {
                self.left[*counter] -= amount;
            }
        }
        self.taken[device] += 1;
        self.given += 1;
        for tie in &form.ties {
            self.tied[*tie].extend(question.ties[*tie].values[device]);
        }
    }

    fn give_back(&mut self, device: usize, form: &Form) {
        let question = self.question;
        self.taken[device] -= 1;
        self.given -= 1;
        if self.taken[device] == 0 {
            for (counter, amount) in &question.devices[device].takes {
                self.left[*counter] += amount;
            }
        }
        for tie in &form.ties {
            self.tied[*tie].pop();
        }
    }
}

#[cfg(test)]
mod tests;
