//! The simulation: the operator's own engine decides, and each decision is carried out at once.

use std::collections::HashMap;
use std::sync::Arc;

use crds::configuration::Configuration;
use crds::keys::{CARD_REQUEST, GATE, JOB_HELD};
use crds::spelling;
use crds::volcano::{Queue, WatchedGroup};
use engine::cluster::pod::Stage;
use engine::cluster::reclaims::EvictionOutcome;
use engine::cluster::{Cluster as Engine, Kind};
use engine::decide::node_order::score_of_card;
use engine::decide::{Action, Admission, Eviction, decide};
use engine::explain::{Explanation, Subject, explain, reason};
use engine::reason::Outlook;
use engine::refs::PodRef;
use engine::{Answer, Observation, Outcome};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::world::IMAGINED;
use super::{Admitted, Evicted, Waiting};
use crate::manifests::Manifest;

/// How many pods are let in before the engine is told of it: as many as the operator has under way at once.
const AT_ONCE: usize = 256;
/// The most rounds. In each round a pod is let in, evicted or resumed, or a second passes.
const MOST_ROUNDS: usize = 200_000;
/// The simulation ends when nothing has happened for the interval of evictions and this long.
const QUIET: SignedDuration = SignedDuration::from_secs(2);
/// The longest quiet time that is simulated. By then, no pod that the scheduler has not placed is taken back.
const LONGEST_QUIET: SignedDuration = SignedDuration::from_mins(2);

/// The kinds that the engine is told of, each with its API group, in the operator's order. Cardgate does not let in
/// Volcano's Jobs, only their groups and their pods.
const ORDER: [(Kind, &str, &str); 10] = [
    (Kind::Node, "", "Node"),
    (Kind::Queue, "scheduling.volcano.sh", "Queue"),
    (Kind::Namespace, "", "Namespace"),
    (Kind::PodGroup, "scheduling.volcano.sh", "PodGroup"),
    (Kind::Job, "batch", "Job"),
    (Kind::ResourceSlice, "resource.k8s.io", "ResourceSlice"),
    (Kind::DeviceClass, "resource.k8s.io", "DeviceClass"),
    (Kind::DeviceTaintRule, "resource.k8s.io", "DeviceTaintRule"),
    (Kind::ResourceClaim, "resource.k8s.io", "ResourceClaim"),
    (Kind::Pod, "", "Pod"),
];

/// The state of a simulation.
pub struct Run {
    engine: Engine,
    now: Timestamp,
    /// Pods by uid.
    pods: HashMap<Arc<str>, Value>,
    jobs: HashMap<(String, String), Manifest>,
    /// The admitted pods, in order.
    pub admitted: Vec<Admitted>,
    /// The evicted pods, in order.
    pub evicted: Vec<Evicted>,
    /// Jobs that were resumed, whose pods are to be made.
    resumed: Vec<Manifest>,
    /// What can't be read, and is left out.
    pub unread: Vec<String>,
}

impl Run {
    /// A simulation of a cluster with these objects, before any decision.
    pub fn new(configuration: Arc<Configuration>, objects: Vec<Manifest>, now: Timestamp) -> Self {
        let mut run = Self {
            engine: Engine::new(configuration),
            now,
            pods: HashMap::new(),
            jobs: HashMap::new(),
            admitted: Vec::new(),
            evicted: Vec::new(),
            resumed: Vec::new(),
            unread: Vec::new(),
        };
        let mut by_kind = HashMap::<(String, String), Vec<Manifest>>::new();
        for manifest in objects {
            let (group, kind) = manifest.group_and_kind();
            let kind = (group.to_owned(), kind.to_owned());
            by_kind.entry(kind).or_default().push(manifest);
        }
        for (kind, group, name) in ORDER {
            run.engine.apply(Observation::ListBegins(kind), now);
            let of_kind = by_kind.remove(&(group.to_owned(), name.to_owned()));
            for manifest in of_kind.unwrap_or_default() {
                run.see(kind, manifest);
            }
            run.engine.apply(Observation::ListEnds(kind), now);
        }
        run.engine.apply(Observation::ListBegins(Kind::SucceededPod), now);
        run.engine.apply(Observation::ListEnds(Kind::SucceededPod), now);
        run
    }

    /// Returns a note on each of these cards that no node has. Its quota lets no pod in but looks like any other, so a
    /// misspelling is reported.
    pub fn without_nodes(&self, given: &[String]) -> Vec<String> {
        let cards = self.engine.cards_of_nodes();
        let missing = given.iter().filter(|card| !cards.contains(&card.as_str()));
        let note = |card: &String| {
            let meant = spelling::meant_card(card, cards.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant:?}?)"));
            format!("no node has the card {card:?} of which a quota is set{meant}")
        };
        missing.map(note).collect()
    }

    fn see(&mut self, kind: Kind, manifest: Manifest) {
        let object = &manifest.object;
        let observation = match kind {
            Kind::Node => read(object).map(|node| Observation::Node(Box::new(node))),
            Kind::Queue => read::<Queue>(object).map(|queue| Observation::Queue(Box::new(queue))),
            Kind::Namespace => read(&object["metadata"]).map(|metadata| Observation::Namespace(Box::new(metadata))),
            Kind::PodGroup => read::<WatchedGroup>(object).map(|group| Observation::Group(Box::new(group))),
            Kind::Job => {
                if object["metadata"]["annotations"][CARD_REQUEST].is_null() {
                    return;
                }
                read(object).map(|job| Observation::Job(Box::new(job)))
            }
            Kind::ResourceSlice => read(object).map(|slice| Observation::Slice(Box::new(slice))),
            Kind::DeviceClass => read(object).map(|class| Observation::Class(Box::new(class))),
            Kind::DeviceTaintRule => read(object).map(|rule| Observation::TaintRule(Box::new(rule))),
            Kind::ResourceClaim => read(object).map(|claim| Observation::Claim(Box::new(claim))),
            Kind::Pod | Kind::SucceededPod => {
                if object["status"]["phase"] == json!("Failed") {
                    return;
                }
                read(object).map(|pod| Observation::Pod(Box::new(pod)))
            }
        };
        match observation {
            Ok(observation) => self.engine.apply(observation, self.now),
            Err(error) => {
                let (_, kind) = manifest.group_and_kind();
                self.unread.push(format!(
                    "{kind} {} can't be read, and is left out: {error}",
                    manifest.name()
                ));
                return;
            }
        }
        match kind {
            Kind::Pod => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().into();
                self.pods.insert(uid, manifest.object);
            }
            Kind::Job => {
                let namespace = manifest.namespace().unwrap_or_default().to_owned();
                self.jobs.insert((namespace, manifest.name().to_owned()), manifest);
            }
            _ => {}
        }
    }

    /// Adds pods that were created meanwhile, and the claims that were made for them.
    pub fn come(&mut self, made: Vec<Manifest>) {
        for object in made {
            let kind = match object.group_and_kind() {
                (_, "ResourceClaim") => Kind::ResourceClaim,
                _ => Kind::Pod,
            };
            self.see(kind, object);
        }
    }

    /// Decides until nothing happens any more, or until Jobs are resumed. Returns these Jobs, so that their pods can be
    /// created.
    pub fn go_on(&mut self) -> Vec<Manifest> {
        let settings = self.engine.configuration();
        let patience = if settings.reclaims() || settings.has_action("preempt") {
            let interval = SignedDuration::try_from(settings.capacity.reclaim_interval);
            (interval.unwrap_or(LONGEST_QUIET) + QUIET).min(LONGEST_QUIET)
        } else {
            SignedDuration::ZERO
        };
        let mut quiet = SignedDuration::ZERO;
        for _ in 0..MOST_ROUNDS {
            let round = decide(&mut self.engine, self.now, AT_ONCE);
            let is_quiet = round.actions.is_empty() && !round.more;
            for action in round.actions {
                self.act(action);
            }
            if !self.resumed.is_empty() {
                break;
            }
            if is_quiet {
                if quiet >= patience {
                    break;
                }
                let second = SignedDuration::from_secs(1);
                (self.now, quiet) = (self.now + second, quiet + second);
            } else {
                quiet = SignedDuration::ZERO;
            }
        }
        std::mem::take(&mut self.resumed)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Admit(admission) => self.admit(&admission),
            Action::Resume(resumption) => {
                let key = (resumption.job.namespace.to_string(), resumption.job.name.to_string());
                let Some(mut job) = self.jobs.get(&key).cloned() else {
                    return;
                };
                job.object["spec"]["suspend"] = json!(false);
                if let Some(annotations) = job.object["metadata"]["annotations"].as_object_mut() {
                    annotations.remove(JOB_HELD);
                }
                let outcome = Outcome::Resumption(resumption.job.clone(), Answer::Accepted);
                self.engine.outcome(&outcome, self.now);
                self.see(Kind::Job, job.clone());
                self.resumed.push(job);
            }
            Action::SendBack { pod, reason, message } => self.evict(&pod, reason.as_str(), message, None),
            Action::Evict(Eviction { victims, waiting, .. }) => {
                for victim in victims {
                    let uid = Arc::clone(&victim.pod.uid);
                    let outcome = Outcome::Eviction(uid, EvictionOutcome::Evicted);
                    self.engine.outcome(&outcome, self.now);
                    self.evict(&victim.pod, victim.reason.as_str(), victim.message, Some(&waiting));
                }
            }
            Action::Unplaced { .. } => {}
        }
    }

    fn admit(&mut self, admission: &Admission) {
        let uid = &admission.pod.uid;
        self.engine
            .outcome(&Outcome::Admission(Arc::clone(uid), Answer::Accepted), self.now);
        let id = self.engine.pod_with_uid(uid);
        let score = id.and_then(|id| score_of_card(&self.engine, id));
        let pod = id.and_then(|id| self.engine.pod(id));
        let node = pod
            .and_then(|pod| pod.room)
            .map(|id| self.engine.node(id).name.to_string());
        self.admitted.push(Admitted {
            order: self.admitted.len() + 1,
            namespace: admission.pod.namespace.to_string(),
            pod: admission.pod.name.to_string(),
            queue: admission.queue.to_string(),
            card: admission.card.as_deref().map(str::to_owned),
            score,
            node: node.clone(),
            pinned: admission.pin.is_some(),
        });
        let Some(object) = self.pods.get_mut(uid) else { return };
        let_in(object, admission, node.as_deref());
        if let Ok(pod) = read(object) {
            self.engine.apply(Observation::Pod(Box::new(pod)), self.now);
        }
    }

    fn evict(&mut self, pod: &PodRef, reason: &str, message: String, waiting: Option<&PodRef>) {
        self.evicted.push(Evicted {
            namespace: pod.namespace.to_string(),
            pod: pod.name.to_string(),
            reason: reason.to_owned(),
            message,
            on_behalf_of: waiting.map(|waiting| format!("{}/{}", waiting.namespace, waiting.name)),
        });
        self.pods.remove(&pod.uid);
        self.engine.apply(Observation::PodGone((&*pod.uid).into()), self.now);
    }

    /// Returns what waits in the end, and why. Of each queue, the next to go comes first.
    pub fn waiting(&self) -> Vec<Waiting> {
        let engine = &self.engine;
        let mut waiting: Vec<(_, _, Waiting)> = Vec::new();
        for pod in engine.pods() {
            let (Stage::Waiting | Stage::Blocked, Some(id)) = (pod.stage, engine.pod_with_uid(&pod.uid)) else {
                continue;
            };
            let place = pod.waits.as_ref().map(|waits| waits.place);
            let subject = Subject::Pod(id);
            // Pods that only others hold do not wait for Cardgate.
            if reason(engine, subject).is_none() {
                continue;
            }
            let queue = pod.queue.map(|queue| engine.queue(queue).name.to_string());
            let about = ("Pod", &*pod.namespace, &*pod.name, queue.unwrap_or_default());
            let is_new = pod.uid.starts_with(IMAGINED);
            waiting.push((
                std::cmp::Reverse(pod.priority),
                place,
                self.explained(about, subject, is_new),
            ));
        }
        for (id, workload) in engine.workloads() {
            let Some(terms) = &workload.terms else { continue };
            if reason(engine, Subject::Workload(id)).is_none() {
                continue;
            }
            let queue = engine.queue(terms.queue).name.to_string();
            let about = (workload.kind.as_str(), &*workload.namespace, &*workload.name, queue);
            let is_new = terms.uid.starts_with(IMAGINED);
            let waits = self.explained(about, Subject::Workload(id), is_new);
            waiting.push((std::cmp::Reverse(i32::MAX), None, waits));
        }
        waiting.sort_by(|(a, b, c), (d, e, f)| (&c.queue, a, b).cmp(&(&f.queue, d, e)));
        waiting.into_iter().map(|(_, _, waiting)| waiting).collect()
    }

    fn explained(
        &self,
        (kind, namespace, name, queue): (&str, &str, &str, String),
        subject: Subject,
        is_new: bool,
    ) -> Waiting {
        let explanation = explain(&self.engine, subject);
        let explained = explanation.as_ref();
        let text = |text: Option<String>| text.unwrap_or_default();
        Waiting {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            queue,
            is_new,
            reason: explained.map_or("", |explained| explained.reason.as_str()).to_owned(),
            never: explained.is_some_and(|explained| explained.outlook == Outlook::Never),
            message: text(explained.map(Explanation::message)),
            remedy: text(explained.map(Explanation::remedy)),
        }
    }
}

/// Turns a pod into an admitted one. It also has its node, if room for it was found.
fn let_in(pod: &mut Value, admission: &Admission, node: Option<&str>) {
    if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
        gates.retain(|gate| gate["name"] != GATE);
    }
    for (key, value) in admission.results() {
        pod["metadata"]["annotations"][key] = value.into();
    }
    for (key, value) in &admission.narrow {
        pod["spec"]["nodeSelector"][key] = value.as_str().into();
    }
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
        pod["status"]["phase"] = "Running".into();
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    serde_json::from_str(&object.to_string())
}
