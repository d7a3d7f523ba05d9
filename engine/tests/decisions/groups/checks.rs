//! What must hold of groups, Jobs and their pods, counted from scratch.

use std::collections::BTreeMap;

use engine::alternative::Alternative;
use engine::amounts::Dimension;
use engine::cluster::pod::Stage;
use engine::refs::WorkloadKind;

use super::run::{Run, TIMEOUT, Truth};
use super::steps::{Ask, CARDS, Owner, QUEUES, group_name};

/// What was there before a round of decisions.
pub struct Tally {
    allocated: [i64; 2],
    used: BTreeMap<usize, i64>,
    members: BTreeMap<usize, usize>,
    /// Gangs that are on their way, and that everything they lack was there for.
    to_complete: Vec<usize>,
}

/// How many of each card are left on each node, and to the queue.
#[derive(Clone)]
struct Left {
    nodes: Vec<(usize, i64)>,
    quota: [i64; 2],
}

impl Left {
    fn allows(&self, pods: &[Ask], needed: usize) -> bool {
        let Some((first, others)) = pods.split_first().filter(|_| pods.len() >= needed && needed > 0) else {
            return needed == 0;
        };
        let with_first = first.cards().iter().any(|card| {
            (0..self.nodes.len()).any(|node| {
                let mut left = self.clone();
                left.nodes[node].1 -= first.count;
                left.quota[*card] -= first.count;
                let fits = left.nodes[node].0 == *card && left.nodes[node].1 >= 0 && left.quota[*card] >= 0;
                fits && left.allows(others, needed - 1)
            })
        });
        with_first || self.allows(others, needed)
    }
}

impl Run {
    pub fn holds(&self, uid: &str) -> bool {
        let world = &self.world;
        let known = world.cluster.pod_with_uid(uid).and_then(|id| world.cluster.pod(id));
        let ended = |deleted: Option<i64>| deleted.is_some_and(|deleted| deleted + 300 <= self.seconds);
        let holds = |stage| !matches!(stage, Stage::Waiting | Stage::Blocked);
        known.is_some_and(|known| holds(known.stage)) && !ended(self.pods[uid].deleted)
    }

    pub fn of_group(&self, group: usize) -> impl Iterator<Item = (&String, &Truth)> {
        self.pods
            .iter()
            .filter(move |(_, truth)| truth.owner == Owner::Group(group))
    }

    /// The pods that count toward the minimum of a group.
    pub fn members(&self, group: usize) -> usize {
        let created = self.groups.get(&group).map(|shown| shown.says.created);
        let counts = |uid: &str, truth: &Truth| {
            let of_this_one = created.is_some_and(|created| truth.created >= created);
            (truth.succeeded && of_this_one) || (self.holds(uid) && truth.deleted.is_none())
        };
        self.of_group(group).filter(|(uid, truth)| counts(uid, truth)).count()
    }

    /// The pods of a group that wait in line.
    pub fn waiting(&self, group: usize) -> Vec<Ask> {
        self.of_group(group)
            .filter(|(uid, _)| self.is_in_line(uid))
            .map(|(_, truth)| truth.ask)
            .collect()
    }

    fn is_in_line(&self, uid: &str) -> bool {
        let world = &self.world;
        let known = world.cluster.pod_with_uid(uid).and_then(|id| world.cluster.pod(id));
        known.is_some_and(|known| {
            let in_line = known.waits.as_ref().is_some_and(|waits| waits.aside_until.is_none());
            known.stage == Stage::Waiting && in_line
        })
    }

    /// The card that a pod holds.
    fn card(&self, uid: &str) -> usize {
        let known = self.world.known(uid);
        let card = known.assigned.as_ref().and_then(Alternative::only);
        card.map_or_else(|| self.pods[uid].ask.cards()[0], |card| self.card_index(card))
    }

    fn left(&self) -> Left {
        let mut left = Left {
            nodes: self.nodes.iter().map(|(index, count)| (index / 2, *count)).collect(),
            quota: self.quota,
        };
        for (uid, truth) in self.pods.iter().filter(|(_, truth)| !truth.succeeded) {
            if self.holds(uid) {
                left.quota[self.card(uid)] -= truth.ask.count;
            }
            if let Some(room) = self.world.known(uid).room {
                left.nodes[self.node_index(room)].1 -= truth.ask.count;
            }
        }
        left
    }

    /// What the pods of a group hold: of each card, and how many they are.
    fn held(&self, group: usize) -> [i64; 3] {
        let mut held = [0; 3];
        let holds = |(uid, truth): &(&String, &Truth)| self.holds(uid) && truth.deleted.is_none();
        for (uid, truth) in self.of_group(group).filter(holds) {
            held[self.card(uid)] += truth.ask.count;
            held[2] += 1;
        }
        held
    }

    /// Takes note of what groups hold that have as many pods as they need.
    pub fn measure(&mut self) {
        for (group, shown) in &self.groups {
            let held = self.held(*group);
            if held[2] > 0 && self.members(*group) >= shown.says.least {
                self.whole.insert(*group, held);
            }
        }
    }

    /// Whether a group would hold no more than when it was whole, whichever of its pods are let in: so it goes before everybody.
    fn goes_first(&self, group: usize, missing: usize, waiting: &[Ask]) -> bool {
        let Some(whole) = self.whole.get(&group) else {
            return true;
        };
        let mut then = self.held(group);
        then[2] += i64::try_from(missing).unwrap();
        for ask in waiting {
            ask.cards().iter().for_each(|card| then[*card] += ask.count);
        }
        then.iter().zip(whole).all(|(then, whole)| then <= whole)
    }

    pub fn tally(&mut self) -> Tally {
        // What time alone ends is not decided, only seen.
        let now = self.world.now;
        self.world.cluster.advance(now);
        self.world.cluster.grow_tree();
        self.measure();
        let left = self.left();
        let members: BTreeMap<_, _> = self.groups.keys().map(|group| (*group, self.members(*group))).collect();
        let live = |group: usize| {
            self.of_group(group)
                .any(|(uid, truth)| self.holds(uid) && truth.deleted.is_none())
        };
        let on_their_way = self.groups.iter().filter(|(group, shown)| {
            let (members, waiting) = (members[*group], self.waiting(**group));
            let missing = shown.says.least.saturating_sub(members);
            let goes_first = self.goes_first(**group, missing, &waiting);
            live(**group) && missing > 0 && waiting.len() >= missing && goes_first && left.allows(&waiting, missing)
        });
        let to_complete: Vec<_> = on_their_way.map(|(group, _)| *group).collect();
        Tally {
            allocated: [0, 1].map(|card| self.quota[card] - left.quota[card]),
            used: left.nodes.iter().map(|(_, free)| -free).enumerate().collect(),
            members,
            // Of several, one may take what another one lacks.
            to_complete: if to_complete.len() == 1 {
                to_complete
            } else {
                Vec::new()
            },
        }
    }

    /// What is kept in every queue is kept for groups that may use it, and not for longer than it may be; and where nothing
    /// is in the way, nobody waits because of what names another queue.
    pub fn check_kept(&mut self) {
        let cluster = &self.world.cluster;
        let mut kept = BTreeMap::new();
        let mut sums = [0; QUEUES.len()];
        let mut new_in_other = false;
        for (group, shown) in &self.groups {
            let id = cluster
                .workload_named(WorkloadKind::PodGroup, "team", &group_name(*group))
                .unwrap();
            let workload = cluster.workload(id);
            let started = shown.ran || shown.phase == Some("Running") || self.members(*group) > 0;
            let (Some(asks), false) = (shown.says.asks, started) else {
                assert!(workload.reserved().is_none(), "{} has started", group_name(*group));
                continue;
            };
            assert_eq!(workload.reserved().is_some(), workload.is_enqueued());
            let may_use = match shown.says.queue {
                0 => cluster.queue_named("team-a").is_some(),
                1 => self.other.1 || self.joined,
                _ => false,
            };
            if workload.is_enqueued() {
                assert!(may_use, "{} is kept something that it may not have", group_name(*group));
                sums[shown.says.queue] += asks.count;
                let since = self.kept.get(group).filter(|(_, uid, says)| {
                    (uid, says.queue, says.asks) == (&shown.uid, shown.says.queue, shown.says.asks)
                });
                new_in_other |= since.is_none() && shown.says.queue == 1;
                let since = since.map_or(self.seconds, |(since, _, _)| *since);
                assert!(
                    self.seconds - since < TIMEOUT,
                    "kept for {} too long",
                    group_name(*group)
                );
                kept.insert(*group, (since, shown.uid.clone(), shown.says));
            } else if may_use && shown.says.queue == 1 && workload.aside_until().is_none() {
                // Nothing runs there: what is kept for others is all that can be in the way.
                let queue = cluster.queue(cluster.queue_named("team-b").unwrap());
                let room: i64 = asks.cards().iter().map(|card| self.other.0[*card]).sum();
                let could_run = self.waiting(*group).len() < shown.says.least;
                assert!(
                    !queue.inqueue.is_empty() || !could_run || asks.count > room,
                    "{} waits for nothing",
                    group_name(*group)
                );
            }
        }
        assert!(
            !new_in_other || sums[1] <= self.other.0.iter().sum(),
            "too much is kept"
        );
        for (queue, sum) in QUEUES.iter().zip(sums).skip(1) {
            let known = cluster.queue_named(queue).map(|id| cluster.queue(id));
            let known = known.map_or(0, |queue| queue.inqueue.cards().map(|(_, count)| count).sum());
            assert_eq!(known, i128::from(sum), "kept in {queue}");
        }
        for (id, queue) in cluster.queues() {
            for held in queue.in_line() {
                let terms = cluster.workload(*held).terms.as_ref();
                assert_eq!(
                    terms.map(|terms| terms.queue),
                    Some(id),
                    "in the line of {}",
                    queue.name
                );
            }
        }
        self.kept = kept;
    }

    pub fn check(&self, before: &Tally) {
        if self.world.cluster.queue_named("team-a").is_some() {
            self.check_limits(before);
        }
        self.check_gangs(before);
        self.check_reservations();
        self.check_waiting();
    }

    fn check_limits(&self, before: &Tally) {
        let left = self.left();
        for (card, name) in CARDS.iter().enumerate() {
            let allocated = self.quota[card] - left.quota[card];
            let known = self.world.allocated("team-a", name);
            assert_eq!(known, i128::from(allocated), "{name} in use");
            assert!(
                allocated <= self.quota[card].max(before.allocated[card]),
                "{name} above the quota"
            );
        }
        for (node, (_, free)) in left.nodes.iter().enumerate() {
            assert!(-free <= before.used[&node].max(0), "n{node} is oversold by {}", -free);
        }
    }

    fn check_gangs(&self, before: &Tally) {
        for (group, shown) in &self.groups {
            let (was, is) = (before.members[group], self.members(*group));
            assert!(
                is == was || is >= shown.says.least,
                "{} has {is} of at least {} pods, and had {was}",
                group_name(*group),
                shown.says.least
            );
        }
        for group in &before.to_complete {
            let least = self.groups[group].says.least;
            assert!(self.members(*group) >= least, "{} is not completed", group_name(*group));
        }
    }

    /// What is kept for whom, and what is elastic.
    fn check_reservations(&self) {
        let cluster = &self.world.cluster;
        let mut reserved = BTreeMap::<&[usize], i64>::new();
        let mut elastic = [0, 0];
        for (group, shown) in &self.groups {
            let id = cluster
                .workload_named(WorkloadKind::PodGroup, "team", &group_name(*group))
                .unwrap();
            let started = shown.ran || shown.phase == Some("Running") || self.members(*group) > 0;
            let enqueued = cluster.workload(id).is_enqueued();
            if let Some(asks) = shown
                .says
                .asks
                .filter(|_| enqueued && !started && shown.says.queue == 0)
            {
                *reserved.entry(asks.cards()).or_default() += asks.count;
            }
            let holds = |uid: &str, truth: &Truth| self.holds(uid) && truth.deleted.is_none();
            let holding = self.of_group(*group).filter(|(uid, truth)| holds(uid, truth));
            let mut holding: Vec<_> = holding
                .map(|(uid, truth)| (truth.created, uid, truth.ask.count))
                .collect();
            holding.sort();
            for (_, uid, count) in holding.iter().skip(shown.says.least) {
                elastic[self.card(uid)] += count;
            }
        }
        // Groups that are not there have a minimum of one.
        for group in (0..super::steps::GROUPS).filter(|group| !self.groups.contains_key(group)) {
            let holds = |uid: &str, truth: &Truth| self.holds(uid) && truth.deleted.is_none();
            let holding = self.of_group(group).filter(|(uid, truth)| holds(uid, truth));
            let mut holding: Vec<_> = holding
                .map(|(uid, truth)| (truth.created, uid, truth.ask.count))
                .collect();
            holding.sort();
            for (_, uid, count) in holding.iter().skip(1) {
                elastic[self.card(uid)] += count;
            }
        }
        if let Some(job) = &self.job {
            let of_job = |(uid, truth): &(&String, &Truth)| {
                truth.owner == Owner::Job && self.holds(uid) && truth.deleted.is_none()
            };
            let started = job.ran || self.pods.iter().any(|pod| of_job(&pod));
            let id = cluster.workload_named(WorkloadKind::Job, "team", "job").unwrap();
            let enqueued = cluster.workload(id).is_enqueued();
            if job.phase == Some("resumed") && enqueued && !started {
                *reserved.entry(job.says.cards()).or_default() += job.says.count;
            }
        }
        let Some(queue) = cluster.queue_named("team-a").map(|id| cluster.queue(id)) else {
            return;
        };
        let known: BTreeMap<Vec<usize>, i128> = queue
            .inqueue
            .cards()
            .map(|(set, count)| {
                let mut set: Vec<_> = set.iter().map(|card| self.card_index(*card)).collect();
                set.sort_unstable();
                (set, count)
            })
            .collect();
        let expected: BTreeMap<Vec<usize>, i128> = reserved
            .into_iter()
            .map(|(set, count)| (set.to_vec(), count.into()))
            .collect();
        assert_eq!(known, expected, "kept for groups and the Job");
        for (card, expected) in elastic.into_iter().enumerate() {
            let dimension = cluster.names().known_card(CARDS[card]).map(Dimension::Card);
            let known = dimension.map_or(0, |dimension| queue.elastic.get(dimension));
            assert_eq!(known, i128::from(expected), "elastic {}", CARDS[card]);
        }
    }

    /// Nobody waits who could be let in.
    fn check_waiting(&self) {
        let cluster = &self.world.cluster;
        let left = self.left();
        let nothing_is_kept = cluster
            .queue_named("team-a")
            .is_none_or(|id| cluster.queue(id).inqueue.is_empty());
        // Job mode adds cards up: of one above its quota, others pay for it.
        let nothing_is_above = left.quota.iter().all(|left| *left >= 0);
        for (uid, truth) in self.pods.iter().filter(|(uid, _)| self.is_in_line(uid)) {
            if !matches!(truth.owner, Owner::Group(_)) {
                assert!(!left.allows(&[truth.ask], 1), "{uid} could be let in");
            }
        }
        for (group, shown) in &self.groups {
            let id = cluster
                .workload_named(WorkloadKind::PodGroup, "team", &group_name(*group))
                .unwrap();
            let workload = cluster.workload(id);
            let (members, waiting) = (self.members(*group), self.waiting(*group));
            let is_in = if shown.says.asks.is_some() {
                workload.is_enqueued() || workload.is_started()
            } else {
                workload.is_started() || (nothing_is_kept && nothing_is_above)
            };
            let missing = shown.says.least.saturating_sub(members).max(1);
            if is_in {
                assert!(
                    !left.allows(&waiting, missing),
                    "{} could be let in",
                    group_name(*group)
                );
            }
        }
    }
}
