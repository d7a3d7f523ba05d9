//! An API server, controllers and nodes that carry out whatever is decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::extender::{Wish, bind};
use engine::decide::{Action, Admission, Eviction};
use engine::explain::{notices, progress};
use engine::refs::PodRef;
use engine::{Answer, Outcome};

use super::checks::has_whole_cards;
use super::setting::Setting;
use super::steps::{
    Ask, Beginning, CARDS, GROUPS, Group, NODES, Owner, QUEUES, Queue, Spec, Step, group_name, job_object, node_object,
};
use crate::world::{Object, World, at};

/// More rounds than anything here takes to come to rest.
const ROUNDS: usize = 120;
/// So many rounds in which nothing happens are rest: more than a pod stands aside that was refused once.
const REST: usize = 5;
/// In so many rounds whoever others were evicted for gets in, or somebody who goes first: one whose write is refused once stands
/// aside for some of them, and others are evicted for the next meanwhile.
const SERVED_WITHIN: usize = 8;

/// A pod as the API server has it.
#[derive(Debug, Clone)]
pub struct Pod {
    pub spec: Spec,
    pub created: i64,
    pub gated: bool,
    pub card: Option<String>,
    pub results: Vec<(String, String)>,
    pub pin: Option<String>,
    pub node: Option<usize>,
    /// Whether it was let in to go to no GPU node.
    off_gpu_nodes: bool,
}

impl Pod {
    /// Whether `CrossQuota`'s pattern finds nothing in what it asks for.
    pub fn is_without_gpu(&self) -> bool {
        matches!(self.spec.ask, Ask::Cpu | Ask::Share(..))
    }

    pub fn object(&self, uid: &str) -> Object {
        let mut object = self.spec.object(uid, self.created);
        if !self.gated {
            object = object.ungated();
        }
        object = self.card.iter().fold(object, |object, card| object.assigned(card));
        object = self
            .results
            .iter()
            .fold(object, |object, (key, value)| object.annotation(key, value));
        object = self.pin.iter().fold(object, |object, node| object.pinned_to(node));
        self.node
            .iter()
            .fold(object, |object, node| object.on(&format!("n{node}")))
    }
}

/// A group as the API server has it.
#[derive(Debug, Clone)]
pub struct Shown {
    pub says: Group,
    pub uid: String,
    pub phase: Option<&'static str>,
}

/// A Job as the API server has it.
#[derive(Debug, Clone)]
pub struct Job {
    pub says: (usize, usize, i64),
    pub uid: String,
    pub held: bool,
}

pub struct Run {
    pub world: World,
    pub setting: Setting,
    pub queues: Vec<Queue>,
    pub ready: [bool; NODES],
    pub groups: BTreeMap<usize, Shown>,
    pub job: Option<Job>,
    /// By order of creation, which is that of their names.
    pub pods: BTreeMap<String, Pod>,
    /// Groups of which a pod was refused by the API server while others are in.
    pub torn: BTreeSet<usize>,
    refuse: Option<bool>,
    made: usize,
    /// For whom others were evicted, and how many rounds ago.
    claimants: BTreeMap<String, usize>,
}

impl Run {
    pub fn new(beginning: Beginning) -> Self {
        let mut run = Self {
            world: World::with(beginning.setting.parsed()),
            setting: beginning.setting,
            queues: beginning.queues,
            ready: [true; NODES],
            groups: BTreeMap::new(),
            job: None,
            pods: BTreeMap::new(),
            torn: BTreeSet::new(),
            refuse: None,
            made: 0,
            claimants: BTreeMap::new(),
        };
        run.world.now = at(100_000);
        for (index, says) in beginning.groups.into_iter().enumerate() {
            run.made += 1;
            let uid = format!("{}-{}", group_name(index), run.made);
            run.groups.insert(index, Shown { says, uid, phase: None });
        }
        run.world = run.anew();
        run
    }

    /// What somebody sees who starts now.
    pub fn anew(&self) -> World {
        let mut world = World::with(self.setting.parsed());
        world.now = self.world.now;
        (0..NODES).for_each(|index| world.node(&node_object(index, self.ready[index])));
        (0..QUEUES).for_each(|index| world.queue(&self.queues[index].object(index)));
        for (index, shown) in &self.groups {
            world.group(&shown.says.object(*index, &shown.uid, shown.phase));
        }
        if let Some(job) = &self.job {
            world.job(&job_object(job.says, &job.uid, job.held));
        }
        for (uid, pod) in &self.pods {
            world.pod(&pod.object(uid));
        }
        world
    }

    pub fn take(&mut self, step: Step) {
        self.happen(step);
        self.settle();
        self.check_restart();
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Come(spec, count) => (0..count).for_each(|_| self.come(spec)),
            Step::Go(queue, count) => self.end(count, |pod| pod.spec.queue == queue && !pod.gated),
            Step::GiveUp(queue, count) => self.end(count, |pod| pod.spec.queue == queue && pod.gated),
            Step::Queue(index, says) => {
                self.world.queue(&says.object(index));
                self.queues[index] = says;
            }
            Step::Node(index, ready) => {
                self.ready[index] = ready;
                self.world.node(&node_object(index, ready));
            }
            Step::Group(index, None) => {
                self.groups.remove(&index);
                self.world.remove_group("team", &group_name(index));
            }
            Step::Group(index, Some(says)) => {
                self.made += 1;
                let uid = format!("{}-{}", group_name(index), self.made);
                let shown = self.groups.entry(index).or_insert(Shown { says, uid, phase: None });
                shown.says = says;
                let shown = shown.clone();
                self.world.group(&shown.says.object(index, &shown.uid, shown.phase));
            }
            Step::Job(None) => {
                self.job = None;
                self.world.remove_job("team", "job");
                self.end(usize::MAX, |pod| pod.spec.owner == Owner::Job);
            }
            Step::Job(Some(says)) => {
                self.made += 1;
                let uid = format!("job-{}", self.made);
                let job = self.job.get_or_insert(Job { says, uid, held: true });
                // What its pods say can be changed while it is held.
                if job.held {
                    job.says = says;
                }
                let job = job.clone();
                self.world.job(&job_object(job.says, &job.uid, job.held));
            }
            Step::Configure(setting) => {
                self.setting = setting;
                let now = self.world.now;
                self.world.set_configuration(self.setting.parsed(), now);
            }
            Step::Refuse(for_good) => self.refuse = Some(for_good),
            Step::Wait(seconds) => self.world.wait(seconds),
        }
        // Whoever was to be served may not be entitled any more, or there may be less of everything.
        self.claimants.clear();
    }

    fn come(&mut self, mut spec: Spec) {
        match &self.job {
            _ if spec.owner != Owner::Job => {}
            Some(job) if !job.held => spec.queue = job.says.0,
            _ => return,
        }
        self.made += 1;
        let uid = format!("p{:04}", self.made);
        let pod = Pod {
            spec,
            created: i64::try_from(self.made).unwrap(),
            gated: true,
            card: None,
            results: Vec::new(),
            pin: None,
            node: None,
            off_gpu_nodes: false,
        };
        self.world.pod(&pod.object(&uid));
        self.pods.insert(uid, pod);
    }

    /// The first so many of these pods are deleted.
    fn end(&mut self, count: usize, which: impl Fn(&Pod) -> bool) {
        let these = self.pods.iter().filter(|(_, pod)| which(pod)).take(count);
        for uid in these.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            self.gone(&uid);
        }
    }

    fn gone(&mut self, uid: &str) {
        self.world.remove_pod(uid);
        self.pods.remove(uid);
    }

    /// Rounds until nothing happens any more.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            quiet = if self.round() { 0 } else { quiet + 1 };
            self.world.wait(2);
            if quiet == REST {
                return;
            }
        }
        panic!("no rest: {:#?}", self.pods);
    }

    /// One round, of which everything is carried out; whether anything was decided.
    fn round(&mut self) -> bool {
        let before = self.tally();
        let actions = self.world.decide();
        let happened = !actions.is_empty();
        let mut evictions = Vec::new();
        for action in actions {
            match action {
                Action::Admit(admission) => {
                    // Pods of higher priority in the same queue take over what is set aside for others there.
                    let Spec { queue, priority, .. } = self.pods[&*admission.pod.uid].spec;
                    let pods = &self.pods;
                    self.claimants.retain(|claimant, _| {
                        let behind = &pods[claimant].spec;
                        behind.queue != queue || behind.priority >= priority
                    });
                    self.admit(&admission);
                }
                Action::Evict(eviction) => evictions.push(eviction),
                Action::Resume(resumption) => {
                    let job = self.job.as_mut().expect("a Job that is there is resumed");
                    assert!(job.held, "resumed twice");
                    assert_eq!(*job.uid, *resumption.job.uid);
                    job.held = false;
                    let job = job.clone();
                    self.world.job(&job_object(job.says, &job.uid, job.held));
                }
                other => panic!("{other:?}"),
            }
        }
        self.place();
        self.check(&before);
        for (claimant, rounds) in &mut self.claimants {
            *rounds += 1;
            let is_in = self.pods.get(claimant).is_none_or(|pod| !pod.gated);
            assert!(
                is_in || *rounds <= SERVED_WITHIN,
                "others were evicted in vain for {claimant}, which waits: {:?}",
                self.world.reason(claimant)
            );
        }
        self.claimants
            .retain(|claimant, _| self.pods.get(claimant).is_some_and(|pod| pod.gated));
        for eviction in evictions {
            self.evict(&eviction);
        }
        self.show();
        happened
    }

    fn admit(&mut self, admission: &Admission) {
        let uid = admission.pod.uid.to_string();
        let pod = &self.pods[&uid];
        assert!(pod.gated, "{uid} is let in twice");
        self.check_admission(&uid, admission);
        if let Some(for_good) = self.refuse.take() {
            if let Owner::Group(group) = pod.spec.owner {
                self.torn.insert(group);
            }
            let answer = if for_good {
                Answer::Refused(Arc::from("no"))
            } else {
                Answer::NotWritten
            };
            let now = self.world.now;
            self.world.hear(&Outcome::Admission(uid.as_str().into(), answer), now);
            self.claimants.remove(&uid);
            return;
        }
        let node = self.expected_on(&uid);
        let is_asked_about = matches!(pod.spec.ask, Ask::Share(..)) && self.setting.mgpu_extender;
        let pod = self.pods.get_mut(&uid).unwrap();
        pod.gated = false;
        pod.card = admission.card.as_deref().map(ToOwned::to_owned);
        pod.results.clone_from(&admission.mgpu_results);
        pod.pin = admission.pin.as_ref().map(|pin| pin.node.to_string());
        pod.node = node.filter(|_| !is_asked_about);
        pod.off_gpu_nodes = admission.off_gpu_nodes.is_some();
        self.world.confirm(&uid);
        self.show_pod(&uid);
        if is_asked_about && node.is_some() {
            self.bind(&uid);
            // By quota alone, only CrossQuota has been asked for a node: its cards may be taken.
            assert!(
                self.setting.on_quota || self.pods[&uid].node == node,
                "{uid} does not get the place that it was let in for"
            );
        }
    }

    fn show_pod(&mut self, uid: &str) {
        let object = self.pods[uid].object(uid);
        self.world.pod(&object);
    }

    /// The scheduler has a pod that asks for shares bound.
    fn bind(&mut self, uid: &str) {
        let pod = PodRef {
            namespace: "team".into(),
            name: uid.into(),
            uid: uid.into(),
        };
        if let Wish::Granted(binding) = bind(&mut self.world.cluster, &pod, "n2") {
            let pod = self.pods.get_mut(uid).unwrap();
            pod.node = Some(2);
            pod.results = binding.mgpu_results;
            self.show_pod(uid);
        }
    }

    /// The scheduler places what was let in without a place, where it fits.
    fn place(&mut self) {
        let unplaced = self.pods.iter().filter(|(_, pod)| !pod.gated && pod.node.is_none());
        for uid in unplaced.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            let pod = &self.pods[&uid];
            if matches!(pod.spec.ask, Ask::Share(..)) {
                if self.setting.mgpu_extender && self.ready[2] && self.has_room(pod, 2) {
                    self.bind(&uid);
                }
                continue;
            }
            let node = (0..NODES).find(|node| self.ready[*node] && self.has_room(pod, *node));
            if node.is_some() {
                self.pods.get_mut(&uid).unwrap().node = node;
                self.show_pod(&uid);
            }
        }
    }

    fn has_room(&self, pod: &Pod, node: usize) -> bool {
        let count = |pod: &Pod| match pod.spec.ask {
            Ask::Named(_, count) | Ask::Unnamed(count) => count,
            Ask::Cpu | Ask::Share(..) => 0,
        };
        let there = || self.pods.values().filter(|other| other.node == Some(node));
        let cpu: i64 = there().map(|other| other.spec.cpu).sum();
        let cards: i64 = there().map(count).sum();
        let may_go = match pod.spec.ask {
            Ask::Named(..) | Ask::Unnamed(_) => {
                has_whole_cards(node) && pod.card.as_ref().is_none_or(|card| card == CARDS[node])
            }
            Ask::Cpu | Ask::Share(..) => !(pod.off_gpu_nodes && has_whole_cards(node)),
        };
        may_go && cpu + pod.spec.cpu <= 8 && cards + count(pod) <= 4
    }

    fn evict(&mut self, eviction: &Eviction) {
        self.check_eviction(eviction);
        for victim in &eviction.victims {
            let uid = victim.pod.uid.to_string();
            let now = self.world.now;
            self.world.eviction_ended(&uid, EvictionOutcome::Evicted, now);
            let spec = self.pods[&uid].spec;
            self.gone(&uid);
            if spec.owner != Owner::Nobody {
                self.come(spec);
            }
        }
        self.claimants.insert(eviction.waiting.uid.to_string(), 0);
    }

    /// The reporter writes phases, and the watch brings them.
    fn show(&mut self) {
        notices(&mut self.world.cluster, self.world.now, usize::MAX);
        for progress in progress(&mut self.world.cluster, self.world.now, usize::MAX) {
            let Some(phase) = progress.phase else { continue };
            let index = (0..GROUPS)
                .find(|index| group_name(*index) == *progress.workload.name)
                .unwrap();
            let shown = self.groups.get_mut(&index).expect("a group that is there is shown");
            shown.phase = Some(phase.as_str());
            let shown = shown.clone();
            self.world.group(&shown.says.object(index, &shown.uid, shown.phase));
        }
    }
}
