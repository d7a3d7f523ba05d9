//! Takes steps: in the API server's truth, in what the operator sees of it, and in the reference's picture.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::Kind;
use engine::decide::{Action, Admission, decide};
use engine::explain::notices;
use engine::reason::Reason;

use super::reference::{Picture, Pod, Stage};
use super::steps::{
    CARDS, Configuration, Gates, Node, Outcome, Queue, Spec, Step, namespace_name, node_name, queue_name,
};
use crate::world::{Object, World, at};

/// A pod as it is.
struct Truth {
    name: usize,
    spec: Spec,
    gates: Gates,
    assigned: Option<usize>,
    node: Option<usize>,
    deleted: Option<i64>,
}

impl Truth {
    fn object(&self, uid: &str) -> Object {
        let mut pod = self.spec.object(self.name, uid);
        pod = match self.gates {
            Gates::None => pod,
            Gates::Own => pod.gates(&["card.volcano.sh/quota"]),
            Gates::Foreign => pod.gates(&["card.volcano.sh/quota", "example.com/later"]),
        };
        if let Some(card) = self.assigned {
            pod = pod.assigned(CARDS[card]);
        }
        if let Some(node) = self.node {
            pod = pod.on(&node_name(node));
        }
        match self.deleted {
            Some(seconds) => pod.deleted(seconds),
            None => pod,
        }
    }
}

pub struct Run {
    /// The same events; the second decides in rounds of one action.
    pub worlds: [World; 2],
    pub picture: Picture,
    pods: BTreeMap<String, Truth>,
    /// The pods' uids by their names.
    uids: BTreeMap<usize, String>,
    nodes: BTreeMap<usize, Node>,
    queues: BTreeMap<usize, Queue>,
    /// Kinds of which nothing is seen.
    interrupted: BTreeSet<Kind>,
    /// Admissions whose outcome is not known yet, with the card.
    under_way: BTreeMap<String, Option<usize>>,
    arrivals: u64,
    incarnations: usize,
}

const CONFIGURATION: Configuration = Configuration {
    unlimited: false,
    on_quota: false,
    reservation: 300,
    terminating: 300,
};

impl Run {
    pub fn new() -> Self {
        Self {
            worlds: [World::with(CONFIGURATION.parsed()), World::with(CONFIGURATION.parsed())],
            picture: Picture {
                now: 10,
                configuration: CONFIGURATION,
                nodes: BTreeMap::new(),
                queues: BTreeMap::new(),
                namespaces: BTreeMap::new(),
                pods: BTreeMap::new(),
                makers: BTreeMap::new(),
            },
            pods: BTreeMap::new(),
            uids: BTreeMap::new(),
            nodes: BTreeMap::new(),
            queues: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            under_way: BTreeMap::new(),
            arrivals: 0,
            incarnations: 0,
        }
    }

    /// Takes a step, decides, and checks everything.
    pub fn take(&mut self, step: Step) {
        let tell = match step {
            Step::Tell(limit) => Some(limit),
            step => {
                self.happen(step);
                None
            }
        };
        // Nobody notices that numbers of names change hands.
        self.worlds[0].cluster.forget_unused_names();
        self.decide();
        if let Some(limit) = tell {
            self.tell(limit);
        }
        self.check();
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Node(index, says) => {
                self.nodes.insert(index, says);
                self.see_node(index);
            }
            Step::NodeGone(index) => {
                self.nodes.remove(&index);
                self.see_node(index);
            }
            Step::Queue(index, says) => {
                self.queues.insert(index, says);
                self.see_queue(index);
            }
            Step::QueueGone(index) => {
                self.queues.remove(&index);
                self.see_queue(index);
            }
            Step::Namespace(index, open) => {
                self.picture.namespaces.remove(&index);
                self.picture.namespaces.extend(open.map(|open| (index, open)));
                self.see_namespace(index);
            }
            Step::Wait(seconds) => {
                self.picture.now += seconds;
                self.worlds.iter_mut().for_each(|world| world.wait(seconds));
            }
            Step::Interrupt(kind) => {
                self.interrupted.insert(kind);
            }
            Step::List(kind, broken_off) => self.list(kind, broken_off),
            Step::Configure(configuration) => {
                self.picture.configuration = configuration;
                for world in &mut self.worlds {
                    world.set_configuration(configuration.parsed(), world.now);
                }
            }
            Step::Restart => self.restart(),
            Step::Tell(_) => {}
            step => self.happen_to_pod(step),
        }
    }

    fn happen_to_pod(&mut self, step: Step) {
        match step {
            Step::Pod(name, spec, gates) => self.create(name, spec, gates),
            Step::Twin(name, other) => {
                let other = self.uids.get(&other).and_then(|uid| self.pods.get(uid));
                if let Some(spec) = other.map(|other| other.spec.clone()) {
                    self.create(name, spec, Gates::Own);
                }
            }
            Step::Write(name) => self.write(name),
            Step::Outcome(name, outcome) => self.answer(name, outcome),
            Step::Gone(name) => self.end(name, false),
            Step::Finish(name) => self.end(name, true),
            Step::Show(name) => self.change(name, |_| {}),
            Step::Ungate(name) => self.change(name, |pod| {
                if pod.gates == Gates::Foreign {
                    pod.gates = Gates::Own;
                }
            }),
            Step::Bind(name, node) => self.change(name, |pod| {
                if pod.gates == Gates::None {
                    pod.node = pod.node.or(Some(node));
                }
            }),
            Step::Delete(name, grace) => {
                let end = self.picture.now + grace;
                self.change(name, |pod| pod.deleted = pod.deleted.or(Some(end)));
            }
            other => unreachable!("not about a pod: {other:?}"),
        }
    }

    /// A pod changes in the API server, and is seen so.
    fn change(&mut self, name: usize, change: impl FnOnce(&mut Truth)) {
        let Some(uid) = self.uids.get(&name).cloned() else {
            return;
        };
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        change(pod);
        self.see_pod(&uid);
    }

    fn create(&mut self, name: usize, spec: Spec, gates: Gates) {
        self.end(name, false);
        self.incarnations += 1;
        let uid = format!("p{name}-{}", self.incarnations);
        let truth = Truth {
            name,
            spec,
            gates,
            assigned: None,
            node: None,
            deleted: None,
        };
        self.pods.insert(uid.clone(), truth);
        self.uids.insert(name, uid.clone());
        self.see_pod(&uid);
    }

    /// A pod is gone; or over, which the watch may show with its last words.
    fn end(&mut self, name: usize, finished: bool) {
        let Some(uid) = self.uids.remove(&name) else { return };
        let Some(truth) = self.pods.remove(&uid) else { return };
        self.under_way.remove(&uid);
        if self.interrupted.contains(&Kind::Pod) {
            return;
        }
        self.picture.pods.remove(&uid);
        for world in &mut self.worlds {
            if finished {
                world.pod(&truth.object(&uid).phase("Succeeded"));
            } else {
                world.remove_pod(&uid);
            }
        }
    }

    /// The API server carries out an admission; who did it hears of it later.
    fn write(&mut self, name: usize) {
        let Some(uid) = self.uids.get(&name) else { return };
        let (Some(card), Some(pod)) = (self.under_way.get(uid), self.pods.get_mut(uid)) else {
            return;
        };
        if pod.gates == Gates::Own {
            pod.gates = Gates::None;
            pod.assigned = *card;
        }
    }

    fn answer(&mut self, name: usize, outcome: Outcome) {
        let Some(uid) = self.uids.get(&name) else { return };
        let (Some(card), Some(truth)) = (self.under_way.remove(uid), self.pods.get(uid)) else {
            return;
        };
        let is_written = truth.gates == Gates::None && truth.assigned == card;
        let confirmed = is_written && outcome == Outcome::True;
        for world in &mut self.worlds {
            if confirmed {
                world.confirm(uid);
            } else {
                world.refuse(uid, world.now);
            }
        }
        let now = self.picture.now;
        let Some(pod) = self.picture.pods.get_mut(uid) else {
            return;
        };
        if let Stage::Admitting { written, .. } = &mut pod.stage {
            *written = confirmed;
            if !confirmed {
                withdraw(pod, now);
            }
        }
    }

    fn see_node(&mut self, index: usize) {
        if self.interrupted.contains(&Kind::Node) {
            return;
        }
        self.picture.nodes.remove(&index);
        for world in &mut self.worlds {
            match self.nodes.get(&index) {
                Some(node) => world.node(&node.object(index)),
                None => world.remove_node(&node_name(index), world.now),
            }
        }
        self.picture
            .nodes
            .extend(self.nodes.get(&index).map(|node| (index, node.clone())));
        self.picture.learn_cards();
    }

    fn see_queue(&mut self, index: usize) {
        if self.interrupted.contains(&Kind::Queue) {
            return;
        }
        self.picture.queues.remove(&index);
        for world in &mut self.worlds {
            match self.queues.get(&index) {
                Some(queue) => world.queue(&queue.object(index)),
                None => world.remove_queue(&queue_name(index)),
            }
        }
        self.picture
            .queues
            .extend(self.queues.get(&index).map(|queue| (index, queue.clone())));
    }

    fn see_namespace(&mut self, index: usize) {
        let name = namespace_name(index);
        for world in &mut self.worlds {
            match self.picture.namespaces.get(&index) {
                Some(true) => world.namespace(&name, &[("open", "")], None),
                Some(false) => world.namespace(&name, &[], None),
                None => world.remove_namespace(&name, world.now),
            }
        }
    }

    fn see_pod(&mut self, uid: &str) {
        if self.interrupted.contains(&Kind::Pod) {
            return;
        }
        let Some(truth) = self.pods.get(uid) else { return };
        for world in &mut self.worlds {
            world.pod(&truth.object(uid));
        }
        let old = self.picture.pods.get(uid);
        let is_gated = truth.gates != Gates::None;
        let may_wait = truth.gates == Gates::Own && truth.deleted.is_none();
        let stage = match old.map(|old| old.stage) {
            _ if truth.node.is_some() => Stage::Bound,
            Some(stage @ Stage::Admitting { .. }) if is_gated => stage,
            Some(stage @ Stage::Unbound { .. }) if !is_gated => stage,
            _ if may_wait => Stage::Waiting,
            _ if is_gated => Stage::Blocked,
            _ => Stage::Unbound {
                since: self.picture.now,
                looks: 0,
            },
        };
        let waits = |stage: Stage| matches!(stage, Stage::Waiting | Stage::Admitting { .. });
        let under_way = old.filter(|_| matches!(stage, Stage::Admitting { .. }));
        let waited = old.filter(|old| waits(old.stage));
        // How returns are counted has its own tests.
        let known = self.worlds[0].known(uid);
        let aside_until = match (waited, &known.waits) {
            (Some(old), _) => old.aside_until.filter(|until| *until > self.picture.now),
            (None, Some(seen)) if truth.spec.controller.is_some() => {
                seen.aside_until.map(|until| until.as_second() - at(0).as_second())
            }
            (None, _) => None,
        };
        self.arrivals += 1;
        let pod = Pod {
            spec: truth.spec.clone(),
            stage,
            assigned: truth.assigned.or(under_way.and_then(|old| old.assigned)),
            room: truth
                .node
                .or(old.and_then(|old| old.room))
                .filter(|_| truth.node.is_some() || truth.deleted.is_none())
                .filter(|_| !matches!(stage, Stage::Waiting | Stage::Blocked)),
            deleted: truth.deleted,
            arrival: waited.map_or(self.arrivals, |old| old.arrival),
            returns: known.returns,
            aside_until,
            told: old.and_then(|old| old.told),
        };
        self.picture.pods.insert(uid.to_owned(), pod);
    }

    fn list(&mut self, kind: Kind, broken_off: Option<usize>) {
        self.interrupted.remove(&kind);
        for count in broken_off.into_iter().chain([usize::MAX]) {
            for world in &mut self.worlds {
                world.begin_list(kind);
            }
            match kind {
                Kind::Node => first(&self.nodes, count).for_each(|index| self.see_node(index)),
                Kind::Queue => first(&self.queues, count).for_each(|index| self.see_queue(index)),
                Kind::Pod => first(&self.pods, count).for_each(|uid| self.see_pod(&uid)),
                _ => {}
            }
        }
        for world in &mut self.worlds {
            world.end_list(kind, world.now);
        }
        match kind {
            Kind::Node => self.picture.nodes.retain(|index, _| self.nodes.contains_key(index)),
            Kind::Queue => self.picture.queues.retain(|index, _| self.queues.contains_key(index)),
            Kind::Pod => self.picture.pods.retain(|uid, _| self.pods.contains_key(uid)),
            _ => {}
        }
        self.picture.learn_cards();
    }

    /// The operator starts anew: nothing that it remembers counts, only what is there.
    fn restart(&mut self) {
        self.interrupted.clear();
        self.under_way.clear();
        for world in &mut self.worlds {
            let now = world.now;
            *world = World::with(self.picture.configuration.parsed());
            world.now = now;
        }
        self.picture.pods.clear();
        self.picture.nodes.clear();
        self.picture.queues.clear();
        self.picture.makers.clear();
        (0..2).for_each(|index| self.see_namespace(index));
        for kind in [Kind::Node, Kind::Queue, Kind::Pod] {
            self.list(kind, None);
        }
    }

    fn decide(&mut self) {
        let [world, stepwise] = &mut self.worlds;
        let actions = world.decide();
        let mut same = Vec::new();
        loop {
            let round = decide(&mut stepwise.cluster, stepwise.now, 1);
            same.extend(round.actions);
            if !round.more {
                break;
            }
        }
        assert_eq!(actions, same, "the same events, decided in smaller rounds");
        let expected = self.time_passes();
        let mut admissions = Vec::new();
        let mut others = BTreeSet::new();
        for action in actions {
            match action {
                Action::Admit(admission) => admissions.push(admission),
                Action::SendBack { pod, .. } => assert!(others.insert((pod.uid.to_string(), "send back"))),
                Action::Resume(resumption) => panic!("there are no Jobs: {resumption:?}"),
                Action::Evict(eviction) => panic!("nothing is to be reclaimed: {eviction:?}"),
                Action::Unplaced { pod, .. } => assert!(others.insert((pod.uid.to_string(), "unplaced"))),
            }
        }
        assert_eq!(others, expected, "reservations that have run out");
        let before = self.picture.clone();
        for admission in admissions {
            self.admit(&admission);
        }
        assert_eq!(self.picture.next_admission(), None, "could be let in, and waits");
        let waits_for_nothing = |pod: &&Pod| pod.is_held_by_nothing();
        assert_eq!(
            self.picture.pods.values().find(waits_for_nothing).map(|pod| pod.stage),
            None
        );
        for queue in 0..3 {
            let (before, after) = (before.excess(queue), self.picture.excess(queue));
            let grown = after
                .iter()
                .find(|(name, used)| before.get(*name).is_none_or(|before| before < used));
            assert_eq!(grown, None, "{} is above its quota", queue_name(queue));
        }
        for node in 0..5 {
            let (before, after) = (before.oversold(node), self.picture.oversold(node));
            let grown = after
                .iter()
                .find(|(name, used)| before.get(*name).is_none_or(|before| before < used));
            assert!(
                grown.is_none() || self.picture.configuration.on_quota,
                "{} is oversold: {grown:?}",
                node_name(node)
            );
        }
    }

    /// What time alone brings; returns what must be acted on.
    fn time_passes(&mut self) -> BTreeSet<(String, &'static str)> {
        let now = self.picture.now;
        let mut due = BTreeSet::new();
        let reservation = self.picture.configuration.reservation;
        for (uid, pod) in &mut self.picture.pods {
            pod.aside_until = pod.aside_until.filter(|until| *until > now);
            let is_reservation = pod.spec.managed && pod.deleted.is_none();
            match &mut pod.stage {
                Stage::Unbound { since, looks }
                    if is_reservation && *since + (reservation << *looks).min(reservation.max(3600)) <= now =>
                {
                    *since = now;
                    let action = if pod.spec.controller.is_some() {
                        "send back"
                    } else {
                        *looks = (*looks + 1).min(16);
                        "unplaced"
                    };
                    due.insert((uid.clone(), action));
                }
                _ => {}
            }
        }
        due
    }

    /// One admission, which must be the reference's next.
    fn admit(&mut self, admission: &Admission) {
        let card = admission
            .card
            .as_ref()
            .map(|name| CARDS.iter().position(|card| *card == &**name).unwrap());
        let uid = admission.pod.uid.to_string();
        if self.picture.pods[&uid].is_held_by_nothing() {
            assert_eq!((card, &*admission.narrow), (None, &[][..]));
            self.begin_admission(&uid, None, None);
            return;
        }
        assert_eq!(self.picture.next_admission(), Some((uid.clone(), card)));
        let spec = self.picture.pods[&uid].spec.clone();
        let room = self.worlds[0]
            .known(&uid)
            .room
            .map(|node| self.worlds[0].cluster.node(node).name.to_string());
        let room = room.map(|name| (0..5).find(|index| node_name(*index) == name).unwrap());
        if self.picture.configuration.on_quota {
            assert_eq!(room, None);
        } else {
            assert!(
                self.picture.takes(room.unwrap(), &spec, card),
                "{uid} does not fit on {room:?}"
            );
        }
        // It can't land on another card than it is charged for.
        if let Some(card) = card {
            let key = format!("{}.product", self.picture.makers[&card].resource());
            let narrowed = admission.narrow.contains(&(key.clone(), CARDS[card].to_owned()));
            let selected = spec.product == Some(card) && key == crate::world::PRODUCT;
            assert!(narrowed || selected, "{:?}", admission.narrow);
        }
        self.begin_admission(&uid, card, room);
    }

    fn begin_admission(&mut self, uid: &str, card: Option<usize>, room: Option<usize>) {
        self.under_way.insert(uid.to_owned(), card);
        if let Some(pod) = self.picture.pods.get_mut(uid) {
            pod.stage = Stage::Admitting { written: false };
            pod.assigned = card;
            pod.room = room;
        }
    }

    fn tell(&mut self, limit: usize) {
        let told = self
            .worlds
            .each_mut()
            .map(|world| notices(&mut world.cluster, world.now, limit));
        assert_eq!(told[0], told[1]);
        assert!(told[0].len() <= limit);
        for notice in &told[0] {
            let pod = self.picture.pods.get_mut(&*notice.pod.uid).unwrap();
            let held_elsewhere = pod.spec.managed && pod.stage == Stage::Blocked && pod.deleted.is_none();
            assert_eq!(notice.reason == Reason::HeldByAnotherGate, held_elsewhere);
            assert!(pod.is_in_line() || held_elsewhere);
            assert_eq!(notice.told_before, pod.told.is_some());
            let told = pod.told.replace(notice.reason.as_str());
            assert_ne!(told, pod.told, "told again");
        }
    }
}

/// The first so many keys.
fn first<K: Clone, V>(objects: &BTreeMap<K, V>, count: usize) -> impl Iterator<Item = K> + use<K, V> {
    objects.keys().take(count).cloned().collect::<Vec<_>>().into_iter()
}

fn withdraw(pod: &mut Pod, now: i64) {
    pod.stage = if pod.deleted.is_some() {
        Stage::Blocked
    } else {
        Stage::Waiting
    };
    pod.assigned = None;
    pod.room = None;
    pod.aside_until = Some(now + 5);
}
