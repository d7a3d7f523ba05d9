//! Takes steps: in the API server's truth, and in what the operator sees of it.

use std::collections::BTreeMap;

use engine::cluster::Kind;
use engine::cluster::pod::Stage;
use engine::decide::{Action, decide};
use engine::explain::progress;

use super::steps::{Ask, CARDS, GROUPS, Group, Owner, QUEUES, Step, group_name, group_object, job_object, pod_object};
use crate::world::{Object, World, configuration, node, queue};

/// How long a queue keeps something for a group whose pods do not take over.
pub const TIMEOUT: i64 = 100;

/// A pod as the API server has it.
#[derive(Debug, Clone)]
pub struct Truth {
    pub name: usize,
    pub owner: Owner,
    pub ask: Ask,
    pub created: i64,
    pub gated: bool,
    pub assigned: Option<usize>,
    pub node: Option<usize>,
    pub deleted: Option<i64>,
    pub succeeded: bool,
}

impl Truth {
    fn object(&self, uid: &str) -> Object {
        let mut object = pod_object(self.name, uid, self.owner, self.ask, self.created);
        if !self.gated {
            object = object.ungated();
        }
        if let Some(card) = self.assigned {
            object = object.assigned(CARDS[card]);
        }
        if let Some(node) = self.node {
            object = object.on(&format!("n{node}"));
        }
        if let Some(deleted) = self.deleted {
            object = object.deleted(deleted);
        }
        if self.succeeded {
            object.phase("Succeeded")
        } else {
            object
        }
    }
}

/// A group or Job as the API server has it, and whether a pod of it was seen without its gate.
#[derive(Debug, Clone)]
pub struct Shown<S> {
    pub says: S,
    pub uid: String,
    pub phase: Option<&'static str>,
    pub ran: bool,
}

pub struct Run {
    pub world: World,
    /// How many actions are decided in one round.
    limit: usize,
    pub seconds: i64,
    pub nodes: BTreeMap<usize, i64>,
    pub quota: [i64; 2],
    /// The other team's queue, and whether it takes anybody.
    pub other: ([i64; 2], bool),
    /// Whether the namespace belongs to the other team.
    pub joined: bool,
    /// Since when something is kept for a group: what, where, and for which group.
    pub kept: BTreeMap<usize, (i64, String, Group)>,
    /// What the pods of each group held when there were as many as it needs last, as the operator has seen: of each card, and how many.
    pub whole: BTreeMap<usize, [i64; 3]>,
    pub groups: BTreeMap<usize, Shown<Group>>,
    pub job: Option<Shown<Ask>>,
    pub pods: BTreeMap<String, Truth>,
    names: BTreeMap<usize, String>,
    incarnations: usize,
}

impl Run {
    pub fn new(limit: usize) -> Self {
        Self {
            world: new_world(),
            limit,
            seconds: 10,
            nodes: BTreeMap::new(),
            quota: [0, 0],
            other: ([0, 0], false),
            joined: false,
            kept: BTreeMap::new(),
            whole: BTreeMap::new(),
            groups: BTreeMap::new(),
            job: None,
            pods: BTreeMap::new(),
            names: BTreeMap::new(),
            incarnations: 0,
        }
    }

    pub fn take(&mut self, step: Step) {
        self.happen(step);
        // Nobody notices that numbers of names change hands.
        self.world.cluster.forget_unused_names();
        self.decide();
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Node(index, count) => {
                self.nodes.insert(index, count);
                self.see(|world| world.node(&node_object(index, count)));
            }
            Step::Queue(quota) => {
                self.quota = quota;
                self.see(|world| world.queue(&queue_object(quota)));
            }
            Step::Group(name, least, asks) => self.apply_group(name, least, asks),
            Step::Move(name, queue) => {
                if let Some(shown) = self.groups.get_mut(&name) {
                    shown.says.queue = queue;
                }
                self.see_group(name);
            }
            Step::Other(quota, open) => {
                self.other = (quota, open);
                self.see(|world| world.queue(&other_object(quota, open)));
            }
            Step::Join(joined) => {
                self.joined = joined;
                self.see(|world| world.namespace("team", namespace_labels(joined), None));
            }
            Step::GroupGone(name) => {
                self.groups.remove(&name);
                self.see(|world| world.remove_group("team", &group_name(name)));
            }
            Step::ShowPhases => self.show_phases(),
            Step::Job(asks) => {
                if self.job.is_none() {
                    let uid = self.uid("job");
                    self.see(|world| world.job(&job_object(asks, &uid, true)));
                    self.job = Some(Shown {
                        says: asks,
                        uid,
                        phase: None,
                        ran: false,
                    });
                }
            }
            Step::JobGone => {
                self.job = None;
                self.see(|world| world.remove_job("team", "job"));
                // Its pods go with it.
                let of_job = self.pods.iter().filter(|(_, truth)| truth.owner == Owner::Job);
                let of_job: Vec<_> = of_job.map(|(uid, _)| uid.clone()).collect();
                for uid in of_job {
                    self.forget(&uid);
                }
            }
            Step::JobFinished => {
                if let Some(job) = &mut self.job {
                    job.phase = Some("over");
                }
                self.see_job();
            }
            Step::Pod(name, owner, ask) => self.create(name, owner, ask),
            Step::Twin(name, other) => {
                let other = self.names.get(&other).and_then(|uid| self.pods.get(uid));
                if let Some((owner, ask)) = other.map(|other| (other.owner, other.ask)) {
                    self.create(name, owner, ask);
                }
            }
            Step::Wait(seconds) => {
                self.seconds += seconds;
                self.see(|world| world.wait(seconds));
            }
            Step::Restart => self.restart(),
            step => self.happen_to_pod(&step),
        }
    }

    fn happen_to_pod(&mut self, step: &Step) {
        let (Step::Write(name)
        | Step::Refuse(name)
        | Step::Bind(name)
        | Step::Succeed(name)
        | Step::Fail(name)
        | Step::Delete(name)
        | Step::Gone(name)) = step
        else {
            unreachable!("not about a pod: {step:?}")
        };
        let Some(uid) = self.names.get(name).cloned() else {
            return;
        };
        let known = self
            .world
            .cluster
            .pod_with_uid(&uid)
            .and_then(|id| self.world.cluster.pod(id));
        let admitting = known.filter(|known| matches!(known.stage, Stage::Admitting { .. }));
        let card = admitting.and_then(|known| known.assigned.as_ref()?.only());
        let card = card.map(|card| self.card_index(card));
        let room = known.and_then(|known| known.room).map(|room| self.node_index(room));
        let is_under_way = admitting.is_some();
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        match step {
            Step::Write(_) if is_under_way => {
                (pod.gated, pod.assigned) = (false, card);
                self.see(|world| world.confirm(&uid));
            }
            Step::Refuse(_) if is_under_way => self.see(|world| world.refuse(&uid, world.now)),
            Step::Bind(_) if !pod.gated && !pod.succeeded => pod.node = pod.node.or(room),
            Step::Succeed(_) if pod.node.is_some() => pod.succeeded = true,
            Step::Fail(_) if pod.node.is_some() => self.forget(&uid),
            Step::Delete(_) if !pod.succeeded => pod.deleted = pod.deleted.or(Some(self.seconds + 30)),
            Step::Gone(_) => self.forget(&uid),
            _ => {}
        }
        self.see_pod(&uid);
    }

    pub fn card_index(&self, card: engine::names::CardId) -> usize {
        let name = self.world.cluster.names().card_name(card);
        CARDS.iter().position(|known| *known == name).unwrap()
    }

    pub fn node_index(&self, node: engine::ids::NodeId) -> usize {
        self.world.cluster.node(node).name[1..].parse().unwrap()
    }

    fn see(&mut self, show: impl Fn(&mut World)) {
        show(&mut self.world);
    }

    fn uid(&mut self, name: &str) -> String {
        self.incarnations += 1;
        format!("{name}-{}", self.incarnations)
    }

    fn apply_group(&mut self, name: usize, least: usize, asks: Option<Ask>) {
        if let Some(shown) = self.groups.get_mut(&name) {
            (shown.says.least, shown.says.asks) = (least, asks);
        } else {
            let uid = self.uid(&group_name(name));
            let says = Group {
                queue: 0,
                least,
                asks,
                created: self.seconds,
            };
            let ran = self
                .of_group(name)
                .any(|(uid, truth)| self.holds(uid) && truth.deleted.is_none());
            self.groups.insert(
                name,
                Shown {
                    says,
                    uid,
                    phase: None,
                    ran,
                },
            );
        }
        self.see_group(name);
    }

    fn see_group(&mut self, name: usize) {
        let Some(shown) = self.groups.get(&name).cloned() else {
            return;
        };
        self.see(|world| world.group(&group_object(name, &shown.says, &shown.uid, shown.phase)));
    }

    fn see_job(&mut self) {
        let Some(job) = self.job.clone() else { return };
        let held = job_object(job.says, &job.uid, job.phase.is_none());
        let object = if job.phase == Some("over") {
            held.set(
                ["status", "conditions"],
                serde_json::json!([{"type": "Complete", "status": "True"}]),
            )
        } else {
            held
        };
        self.see(|world| world.job(&object));
    }

    /// The reporter writes what groups should show, and the watch brings it.
    fn show_phases(&mut self) {
        let now = self.world.now + jiff::SignedDuration::from_secs(2);
        let shown = progress(&mut self.world.cluster, now, usize::MAX);
        let phases = shown
            .into_iter()
            .filter_map(|one| Some((one.workload.name.to_string(), one.phase?.as_str())));
        let phases: BTreeMap<_, _> = phases.collect();
        for name in 0..GROUPS {
            let phase = phases.get(&group_name(name)).copied();
            if let (Some(phase), Some(shown)) = (phase, self.groups.get_mut(&name)) {
                shown.phase = Some(phase);
                self.see_group(name);
            }
        }
    }

    fn create(&mut self, name: usize, owner: Owner, ask: Ask) {
        let is_resumed = self.job.as_ref().is_some_and(|job| job.phase == Some("resumed"));
        if owner == Owner::Job && !is_resumed {
            return;
        }
        if let Some(uid) = self.names.get(&name).cloned() {
            self.forget(&uid);
        }
        let uid = self.uid(&format!("p{name}"));
        let truth = Truth {
            name,
            owner,
            ask,
            created: self.seconds,
            gated: true,
            assigned: None,
            node: None,
            deleted: None,
            succeeded: false,
        };
        self.pods.insert(uid.clone(), truth);
        self.names.insert(name, uid.clone());
        self.see_pod(&uid);
    }

    fn forget(&mut self, uid: &str) {
        if let Some(truth) = self.pods.remove(uid) {
            self.names.remove(&truth.name);
        }
        self.see(|world| {
            world.remove_pod(uid);
            world.forget_succeeded(uid);
        });
    }

    fn see_pod(&mut self, uid: &str) {
        let Some(truth) = self.pods.get(uid).cloned() else {
            return;
        };
        // One that is seen first on its way out begins nothing.
        let runs = !truth.gated && !truth.succeeded && truth.deleted.is_none();
        match truth.owner {
            Owner::Group(group) if runs => {
                if let Some(shown) = self.groups.get_mut(&group) {
                    shown.ran = true;
                }
            }
            Owner::Job if runs => {
                if let Some(job) = &mut self.job {
                    job.ran = true;
                }
            }
            _ => {}
        }
        self.see(|world| world.pod(&truth.object(uid)));
    }

    /// The operator starts anew: nothing that it remembers counts, only what is there.
    fn restart(&mut self) {
        let now = self.world.now;
        self.world = new_world();
        self.world.now = now;
        self.kept.clear();
        self.whole.clear();
        for (index, count) in self.nodes.clone() {
            self.see(|world| world.node(&node_object(index, count)));
        }
        let quota = self.quota;
        self.see(|world| world.queue(&queue_object(quota)));
        let ((quota, open), joined) = (self.other, self.joined);
        self.see(|world| world.queue(&other_object(quota, open)));
        self.see(|world| world.namespace("team", namespace_labels(joined), None));
        for shown in self.groups.values_mut() {
            shown.ran = false;
        }
        (0..GROUPS).for_each(|name| self.see_group(name));
        if let Some(job) = &mut self.job {
            job.ran = false;
        }
        self.see_job();
        for kind in [Kind::Pod, Kind::SucceededPod] {
            self.see(|world| world.begin_list(kind));
            let of_kind = |truth: &Truth| truth.succeeded == (kind == Kind::SucceededPod);
            let uids: Vec<_> = self.pods.iter().filter(|(_, truth)| of_kind(truth)).collect();
            let uids: Vec<_> = uids.into_iter().map(|(uid, _)| uid.clone()).collect();
            for uid in uids {
                self.see_pod(&uid);
            }
            self.see(|world| world.end_list(kind, world.now));
        }
    }

    fn decide(&mut self) {
        let before = self.tally();
        let mut actions = Vec::new();
        // What is let in may end a reservation, which leaves room for others in the next round.
        loop {
            let round = decide(&mut self.world.cluster, self.world.now, self.limit);
            let is_over = round.actions.is_empty() && !round.more;
            actions.extend(round.actions);
            self.measure();
            if is_over {
                break;
            }
        }
        for action in actions {
            match action {
                Action::Admit(_) | Action::SendBack { .. } | Action::Unplaced { .. } => {}
                Action::Resume(resumption) => {
                    let job = self.job.as_mut().unwrap();
                    assert_eq!((job.phase, &*job.uid), (None, &*resumption.job.uid));
                    job.phase = Some("resumed");
                    self.see_job();
                }
                Action::Evict(eviction) => panic!("nothing is to be reclaimed: {eviction:?}"),
            }
        }
        self.check(&before);
        self.check_kept();
    }

    /// Everything that is under way arrives, the operator is killed, and there is plenty of everything.
    pub fn converge(&mut self) {
        self.happen(Step::Restart);
        self.happen(Step::Wait(400));
        (0..GROUPS).for_each(|name| self.happen(Step::Move(name, 0)));
        for index in 0..4 {
            self.happen(Step::Node(index, 100));
        }
        self.take(Step::Queue([200, 200]));
        for (uid, truth) in &self.pods {
            let Owner::Group(group) = truth.owner else { continue };
            let (Some(shown), true) = (self.groups.get(&group), truth.gated && truth.deleted.is_none()) else {
                continue;
            };
            if self.members(group) + self.waiting(group).len() >= shown.says.least {
                assert!(
                    self.world.known(uid).charge.is_some(),
                    "{uid} of {} still waits",
                    group_name(group)
                );
            }
        }
    }
}

fn node_object(index: usize, count: i64) -> Object {
    node(&format!("n{index}"))
        .cards(CARDS[index / 2], count)
        .offers("cpu", "400")
}

fn new_world() -> World {
    World::with(configuration("", &format!("inqueueTimeout: {TIMEOUT}s")))
}

fn namespace_labels(joined: bool) -> &'static [(&'static str, &'static str)] {
    if joined { &[("team", "b")] } else { &[] }
}

fn other_object(quota: [i64; 2], open: bool) -> Object {
    let other = queue(QUEUES[1]).quota(&format!(r#"{{"A": {}, "B": {}}}"#, quota[0], quota[1]));
    if open {
        other
    } else {
        other.annotation("card.volcano.sh/namespaces", "team=b")
    }
}

fn queue_object(quota: [i64; 2]) -> Object {
    queue("team-a").quota(&format!(r#"{{"A": {}, "B": {}}}"#, quota[0], quota[1]))
}
