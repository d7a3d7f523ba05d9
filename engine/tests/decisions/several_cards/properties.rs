//! Random pods with several cards on random nodes: no queue at any level comes above its quota in any card, and each pod gets the
//! first of its alternatives that there is quota and a node for, as a search by hand finds it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::{each, first_of, mixed, with_class};
use crate::devices::{NVIDIA, allocated as allocated_on, claiming};
use crate::world::{Object, World, bare_pod, node, pod, queue, queue_plugin};

const CARDS: [&str; 3] = ["A", "B", "C"];
const QUEUES: [&str; 2] = ["left", "right"];

/// How many of each card.
type Counts = [i64; 3];

/// What a pod claims: requests, each for the first that can be had of so many of one card.
type Ask = Vec<Vec<(usize, i64)>>;

#[derive(Debug, Clone)]
enum Step {
    Come(usize, Ask),
    /// The scheduler allocates what a pod was let in for.
    Allocate(usize),
    Go(usize),
    /// A queue, or the one above, has another quota.
    Change(usize, Counts),
}

#[derive(Debug)]
struct Held {
    queue: usize,
    counts: Counts,
    written: String,
    node: usize,
    devices: Vec<String>,
}

/// What there is, by hand.
struct Book {
    nodes: Vec<Counts>,
    /// Of each queue, and of the one above.
    quotas: [Counts; 3],
    waiting: BTreeMap<String, (usize, Ask)>,
    held: BTreeMap<String, Held>,
}

impl Book {
    /// All that one could get, leftmost first.
    fn alternatives(ask: &Ask) -> Vec<Counts> {
        let mut all = vec![[0; 3]];
        for request in ask {
            let mut longer = Vec::new();
            for counts in &all {
                for (card, count) in request {
                    let mut counts: Counts = *counts;
                    counts[*card] += count;
                    longer.push(counts);
                }
            }
            all = longer;
        }
        let mut each = Vec::new();
        for counts in all {
            if !each.contains(&counts) {
                each.push(counts);
            }
        }
        each
    }

    fn sum(&self, of: impl Fn(&Held) -> bool) -> Counts {
        let held = self.held.values().filter(|held| of(held));
        held.fold([0; 3], |sum, held| {
            std::array::from_fn(|card| sum[card] + held.counts[card])
        })
    }

    fn within(&self, queue: usize, counts: &Counts) -> bool {
        let levels = [(queue, self.sum(|held| held.queue == queue)), (2, self.sum(|_| true))];
        levels.iter().all(|(level, used)| {
            (0..3).all(|card| counts[card] == 0 || used[card] + counts[card] <= self.quotas[*level][card])
        })
    }

    fn fits(&self, node: usize, counts: &Counts) -> bool {
        let used = self.sum(|held| held.node == node);
        (0..3).all(|card| counts[card] == 0 || used[card] + counts[card] <= self.nodes[node][card])
    }

    /// Whether the scheduler could give no more of any card there, whichever form of each request it takes.
    fn leaves_no_choice(&self, node: usize, ask: &Ask, counts: &Counts) -> bool {
        // Cards that no node has nobody gives.
        let is_there = |(card, _): &&(usize, i64)| self.nodes.iter().any(|node| node[*card] > 0);
        let requests = ask
            .iter()
            .map(|request| request.iter().filter(is_there).copied().collect());
        let (settled, open): (Vec<Vec<_>>, Vec<_>) = requests.partition(|request: &Vec<_>| request.len() == 1);
        (0..3).all(|card| {
            let of_card = |request: &Vec<(usize, i64)>, most: i64| {
                let own = request.iter().filter(|(own, count)| *own == card && *count <= most);
                own.map(|(_, count)| *count).max().unwrap_or(0)
            };
            let sure: i64 = settled.iter().map(|request| of_card(request, i64::MAX)).sum();
            let left = self.nodes[node][card] - sure;
            let most: i64 = open.iter().map(|request| of_card(request, left)).sum();
            open.is_empty() || sure + most <= counts[card]
        })
    }

    /// The first alternative of a pod that there is room for.
    fn first(&self, name: &str) -> Option<Counts> {
        let (queue, ask) = &self.waiting[name];
        let mut alternatives = Self::alternatives(ask).into_iter();
        alternatives.find(|counts| {
            let is_known = (0..3).all(|card| counts[card] == 0 || self.nodes.iter().any(|node| node[card] > 0));
            is_known
                && self.within(*queue, counts)
                && (0..self.nodes.len()).any(|node| self.fits(node, counts) && self.leaves_no_choice(node, ask, counts))
        })
    }

    /// As it is written: one card by its name.
    fn written(counts: &Counts) -> String {
        let cards: Vec<_> = (0..3).filter(|card| counts[*card] > 0).collect();
        match cards[..] {
            [card] if counts[card] == 1 => CARDS[card].to_owned(),
            ref all => {
                let counts: BTreeMap<_, _> = all.iter().map(|card| (CARDS[*card], counts[*card])).collect();
                serde_json::to_string(&counts).unwrap()
            }
        }
    }

    /// Devices of a node that nobody has yet.
    fn free_devices(&self, node: usize, counts: &Counts) -> Vec<String> {
        let taken: Vec<_> = self
            .held
            .values()
            .filter(|held| held.node == node)
            .flat_map(|held| &held.devices)
            .collect();
        let mut devices = Vec::new();
        for card in 0..3 {
            let all = (0..self.nodes[node][card]).map(|index| format!("{}-gpu-{index}", CARDS[card].to_lowercase()));
            let free = all.filter(|device| !taken.contains(&device));
            devices.extend(free.take(usize::try_from(counts[card]).unwrap()));
        }
        devices
    }
}

struct Run {
    world: World,
    book: Book,
    came: usize,
}

fn quota(counts: &Counts) -> String {
    json!({"A": counts[0], "B": counts[1], "C": counts[2]}).to_string()
}

fn requests(ask: &Ask) -> serde_json::Value {
    let requests = ask.iter().enumerate().map(|(index, request)| match request[..] {
        [(card, count)] => {
            let mut exactly = each(&[(CARDS[card], count)])[0].clone();
            exactly["name"] = format!("r{index}").into();
            exactly
        }
        ref several => {
            let several: Vec<_> = several.iter().map(|(card, count)| (CARDS[*card], *count)).collect();
            first_of(&format!("r{index}"), &several)
        }
    });
    requests.collect()
}

impl Run {
    fn new(nodes: Vec<Counts>, quotas: [Counts; 3]) -> Self {
        let book = Book {
            nodes,
            quotas,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        let world = Self::world(&book);
        Self { world, book, came: 0 }
    }

    fn world(book: &Book) -> World {
        let plugin = queue_plugin("capacity-card", "allocate", "enableHierarchy: true");
        let mut world = with_class(World::with(plugin));
        for (index, counts) in book.nodes.iter().enumerate() {
            let name = format!("n{index}");
            world.node(&node(&name));
            let products: Vec<_> = (0..3)
                .map(|card| (CARDS[card], usize::try_from(counts[card]).unwrap()))
                .collect();
            world.slice(&name, NVIDIA, &mixed(&products));
        }
        for level in [2, 0, 1] {
            world.queue(&Self::queue(level, &book.quotas[level]));
        }
        world
    }

    fn queue(level: usize, counts: &Counts) -> Object {
        match QUEUES.get(level) {
            Some(name) => queue(name).parent("above").quota(&quota(counts)),
            None => queue("above").quota(&quota(counts)),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come(queue, ask) => {
                let name = format!("p{:03}", self.came);
                self.came += 1;
                self.world.claim(&name, &requests(&ask), &json!({}));
                self.world.pod(&claiming(pod(&name).queue(QUEUES[queue]), &name));
                self.book.waiting.insert(name, (queue, ask));
            }
            Step::Allocate(index) => {
                let names: Vec<_> = self
                    .book
                    .held
                    .iter()
                    .filter(|(_, held)| held.devices.is_empty())
                    .map(|(name, _)| name.clone())
                    .collect();
                let Some(name) = names.get(index % names.len().max(1)) else {
                    return;
                };
                let held = &self.book.held[name];
                let devices = self.book.free_devices(held.node, &held.counts);
                let on = format!("n{}", held.node);
                let gated = claiming(pod(name).queue(QUEUES[held.queue]), name);
                self.world.seen_admitted(&gated, name, Some(&held.written));
                let status = allocated_on(&on, &devices.iter().map(String::as_str).collect::<Vec<_>>());
                let (_, ask) = &self.book.waiting_of(name);
                self.world.claim(name, &requests(ask), &status);
                self.world.pod(&gated.assigned(&held.written).on(&on));
                self.book.held.get_mut(name).unwrap().devices = devices;
            }
            Step::Go(index) => {
                let names: Vec<_> = self.book.waiting.keys().cloned().collect();
                let Some(name) = names.get(index % names.len().max(1)) else {
                    return;
                };
                self.world.remove_pod(name);
                self.world.remove_claim(name);
                self.book.waiting.remove(name);
                self.book.held.remove(name);
            }
            Step::Change(level, counts) => {
                // Below what is held evicts nobody: here quotas only rise, so that they are never passed.
                let quota = &mut self.book.quotas[level];
                *quota = std::array::from_fn(|card| quota[card].max(counts[card]));
                let queue = Self::queue(level, quota);
                self.world.queue(&queue);
            }
        }
        self.decide();
    }

    fn decide(&mut self) {
        for admission in self.world.admissions() {
            let name = admission.pod.name.to_string();
            let first = self
                .book
                .first(&name)
                .unwrap_or_else(|| panic!("{name} is let in, and there is no room"));
            let (queue, ask) = self.book.waiting_of(&name);
            let written = Book::written(&first);
            assert_eq!(admission.card.as_deref(), Some(written.as_str()), "{name} of {ask:?}");
            let room = self.world.known(&name).room.expect("a node");
            let node: usize = self.world.cluster.node(room).name[1..].parse().unwrap();
            assert!(self.book.fits(node, &first), "{name} on n{node}");
            for other in Book::alternatives(&ask) {
                let could_be = (0..3).all(|card| other[card] <= self.book.nodes[node][card]);
                let is_covered = (0..3).all(|card| other[card] <= first[card]);
                assert!(
                    !could_be || is_covered,
                    "{name} on n{node}: {other:?} in place of {first:?}"
                );
            }
            let held = Held {
                queue,
                counts: first,
                written,
                node,
                devices: Vec::new(),
            };
            self.book.held.insert(name, held);
        }
        let waiting = self
            .book
            .waiting
            .keys()
            .filter(|name| !self.book.held.contains_key(*name));
        for name in waiting {
            assert_eq!(self.book.first(name), None, "{name} waits, and could run");
        }
        self.check(&self.world);
        for level in 0..3 {
            let used = self.book.sum(|held| level == 2 || held.queue == level);
            assert!(
                (0..3).all(|card| used[card] <= self.book.quotas[level][card]),
                "level {level}"
            );
        }
    }

    /// Queues hold what is held.
    fn check(&self, world: &World) {
        for (queue, name) in QUEUES.iter().enumerate() {
            let held = self.book.sum(|held| held.queue == queue);
            let allocated: Vec<_> = CARDS.iter().map(|card| world.allocated(name, card)).collect();
            assert_eq!(allocated, held.map(i128::from), "{name}");
        }
    }

    /// Whoever starts now counts the same.
    fn restart(&self) {
        let mut world = Self::world(&self.book);
        for (name, held) in &self.book.held {
            let (_, ask) = self.book.waiting_of(name);
            let on = format!("n{}", held.node);
            let devices: Vec<_> = held.devices.iter().map(String::as_str).collect();
            let status = if devices.is_empty() {
                json!({})
            } else {
                allocated_on(&on, &devices)
            };
            let let_in = bare_pod(name).queue(QUEUES[held.queue]).assigned(&held.written);
            let let_in = if devices.is_empty() { let_in } else { let_in.on(&on) };
            // In either order.
            if held.node == 0 {
                world.pod(&claiming(let_in, name));
                world.claim(name, &requests(&ask), &status);
            } else {
                world.claim(name, &requests(&ask), &status);
                world.pod(&claiming(let_in, name));
            }
        }
        self.check(&world);
    }
}

impl Book {
    fn waiting_of(&self, name: &str) -> (usize, Ask) {
        self.waiting[name].clone()
    }
}

fn counts(most: i64) -> impl Strategy<Value = Counts> {
    prop::array::uniform3(0..=most)
}

fn ask() -> impl Strategy<Value = Ask> {
    let form = (0..3_usize, 1..4_i64);
    let request = prop::collection::vec(form, 1..4).prop_map(|mut forms| {
        let mut each = Vec::new();
        forms.retain(|form| {
            let is_new = !each.contains(form);
            each.push(*form);
            is_new
        });
        forms
    });
    prop::collection::vec(request, 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..2_usize, ask()).prop_map(|(queue, ask)| Step::Come(queue, ask)),
        3 => (0..100_usize).prop_map(Step::Allocate),
        2 => (0..100_usize).prop_map(Step::Go),
        1 => (0..3_usize, counts(6)).prop_map(|(level, counts)| Step::Change(level, counts)),
    ]
}

proptest! {
    #[test]
    fn no_quota_is_passed_in_any_card_and_the_first_alternative_with_room_is_taken(
        nodes in prop::collection::vec(counts(4), 1..4),
        quotas in prop::array::uniform3(counts(6)),
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let mut run = Run::new(nodes, quotas);
        for step in steps {
            run.step(step);
        }
        run.restart();
    }
}
