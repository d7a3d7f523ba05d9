//! What the operator is shown, in any order: it is taken in, decided on and explained within a bound, and nothing of it stays
//! when it is gone.

#![expect(clippy::unwrap_used, reason = "a panic is how a target fails")]

use std::sync::{Arc, LazyLock};

use bolero::{Driver, ValueGenerator};
use crds::configuration::Configuration;
use engine::cluster::reclaims::EvictionOutcome;
use engine::cluster::{Cluster, Kind};
use engine::decide::{Action, decide};
use engine::explain::{Subject, explain, explain_in_brief, notices, progress};
use engine::{Answer, Observation, Outcome, overview};
use fuzz::corpus::{self, Entry};
use fuzz::draw::{below, once_in, one_of};
use fuzz::objects::Objects;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 150;

/// The most steps of one round: a turn of each of the few queues, and a reclaim.
const STEPS: u64 = 200_000_000;
/// The longest text that anybody is told.
const LONGEST_TEXT: usize = 8000;

/// Objects that are shown, with their corpora.
const KINDS: [(Kind, &str); 9] = [
    (Kind::Node, "nodes"),
    (Kind::ResourceSlice, "resource-slices"),
    (Kind::DeviceClass, "device-classes"),
    (Kind::DeviceTaintRule, "device-taint-rules"),
    (Kind::ResourceClaim, "resource-claims"),
    (Kind::Queue, "queues"),
    (Kind::PodGroup, "groups"),
    (Kind::Job, "jobs"),
    (Kind::Pod, "pods"),
];

const CONFIGURATIONS: [&str; 4] = [
    "",
    "{actions: \"enqueue, allocate, reclaim, preempt\", tiers: [{plugins: [{name: capacity-card, arguments: {cardUnlimitedCpuMemory: \
     true, reclaimInterval: 1}}, {name: predicates}, {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota-resources: \
     \"cpu,memory\"}}]}]}",
    "{actions: \"enqueue, allocate, reclaim\", tiers: [{plugins: [{name: capacity, arguments: {enableHierarchy: true, rootQueue: default}}]}]}",
    "tiers: [{plugins: [{name: predicates, arguments: {predicate.MGPUPolicy: spread, predicate.MGPUScheduleMode: id}}]}]",
];

fn configuration(index: usize) -> Arc<Configuration> {
    let text = CONFIGURATIONS[index % CONFIGURATIONS.len()];
    Arc::new(Configuration::parse(Some(text), None).unwrap().configuration)
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// An object is shown, as it is here.
    Show(Kind, Value),
    /// The object of this place in order is gone.
    Gone(usize),
    /// All objects of a kind are listed: of those that were shown, every second is there.
    List(Kind),
    /// Another configuration is in force.
    Configure(usize),
    /// Time passes, in seconds.
    Wait(u16),
    /// A round, and what becomes of what it decides.
    Decide(usize),
}

struct Steps {
    objects: Vec<(Kind, Objects)>,
}

impl ValueGenerator for Steps {
    type Output = Vec<Step>;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Self::Output> {
        let mut steps = vec![Step::Configure(below(driver, 8)?)];
        for _ in 0..4 + below(driver, 24)? {
            steps.push(match below(driver, 12)? {
                0 => Step::Gone(below(driver, 16)?),
                1 if once_in(driver, 3)? => Step::List(KINDS[below(driver, KINDS.len())?].0),
                2 if once_in(driver, 3)? => Step::Configure(below(driver, 8)?),
                3 => Step::Wait(u16::try_from([0, 1, 2, 61, 700, 4000][below(driver, 6)?]).ok()?),
                4 | 5 => Step::Decide(below(driver, 5)?),
                // Half of all are pods.
                6..=8 => {
                    let (kind, objects) = self.objects.last()?;
                    Step::Show(*kind, objects.generate(driver)?)
                }
                _ => {
                    let (kind, objects) = one_of(driver, &self.objects)?;
                    Step::Show(*kind, objects.generate(driver)?)
                }
            });
        }
        Some(steps)
    }
}

/// The cluster, and what was shown.
struct Story {
    cluster: Cluster,
    now: Timestamp,
    shown: Vec<(Kind, Value)>,
}

/// The object as a watch brings it; none for what it would not.
fn read<T: DeserializeOwned>(object: &Value) -> Option<Box<T>> {
    serde_json::from_str(&object.to_string()).ok().map(Box::new)
}

fn text(object: &Value, key: &str) -> Box<str> {
    object["metadata"][key].as_str().unwrap_or_default().into()
}

/// What the operator's watches make of an object: of queues and groups also what can't be read.
fn observed(kind: Kind, object: &Value) -> Option<Observation> {
    let (name, uid) = (text(object, "name"), text(object, "uid"));
    let reason: Box<str> = "invalid type".into();
    match kind {
        Kind::Node => read(object).map(Observation::Node),
        Kind::Pod => read(object).map(Observation::Pod),
        Kind::Job => read(object).map(Observation::Job),
        Kind::ResourceSlice => read(object).map(Observation::Slice),
        Kind::DeviceClass => read(object).map(Observation::Class),
        Kind::DeviceTaintRule => read(object).map(Observation::TaintRule),
        Kind::ResourceClaim => read(object).map(Observation::Claim),
        Kind::Queue => {
            Some(read(object).map_or(Observation::QueueUnreadable { name, uid, reason }, Observation::Queue))
        }
        _ => {
            let namespace = text(object, "namespace");
            let unreadable = |()| Observation::GroupUnreadable {
                namespace,
                name,
                uid,
                reason,
            };
            Some(read(object).map_or_else(|| unreadable(()), Observation::Group))
        }
    }
}

fn gone(kind: Kind, object: &Value) -> Observation {
    let (namespace, name) = (text(object, "namespace"), text(object, "name"));
    match kind {
        Kind::Node => Observation::NodeGone(name),
        Kind::Pod => Observation::PodGone(text(object, "uid")),
        Kind::Job => Observation::JobGone { namespace, name },
        Kind::Queue => Observation::QueueGone(name),
        Kind::ResourceSlice => Observation::SliceGone(name),
        Kind::DeviceClass => Observation::ClassGone(name),
        Kind::DeviceTaintRule => Observation::TaintRuleGone(name),
        Kind::ResourceClaim => Observation::ClaimGone { namespace, name },
        _ => Observation::GroupGone { namespace, name },
    }
}

impl Story {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Show(kind, object) => self.show(*kind, object),
            Step::Gone(place) if !self.shown.is_empty() => {
                let (kind, object) = self.shown.remove(place % self.shown.len());
                self.cluster.apply(gone(kind, &object), self.now);
            }
            Step::Gone(_) => {}
            Step::List(kind) => {
                self.cluster.apply(Observation::ListBegins(*kind), self.now);
                let listed: Vec<_> = self
                    .shown
                    .extract_if(.., |(shown, _)| shown == kind)
                    .step_by(2)
                    .collect();
                for (kind, object) in listed {
                    self.show(kind, &object);
                }
                self.cluster.apply(Observation::ListEnds(*kind), self.now);
            }
            Step::Configure(index) => self
                .cluster
                .apply(Observation::Configuration(configuration(*index)), self.now),
            Step::Wait(seconds) => self.now += SignedDuration::from_secs(i64::from(*seconds)),
            Step::Decide(answers) => self.decide(*answers),
        }
    }

    fn show(&mut self, kind: Kind, object: &Value) {
        if let Some(observation) = observed(kind, object) {
            self.cluster.apply(observation, self.now);
            self.shown.push((kind, object.clone()));
        }
    }

    /// A round; what the API server answers to its writes goes by `answers`.
    fn decide(&mut self, answers: usize) {
        let round = decide(&mut self.cluster, self.now, usize::MAX);
        assert!(round.steps <= STEPS, "{} steps", round.steps);
        for (place, action) in (answers..).zip(round.actions) {
            let answer = match place % 4 {
                0 => Answer::NotWritten,
                1 => Answer::Refused("a policy says no".into()),
                2 => Answer::Unknown,
                _ => Answer::Accepted,
            };
            let outcomes: Vec<_> = match action {
                Action::Admit(admission) => vec![Outcome::Admission(admission.pod.uid, answer)],
                Action::Resume(resumption) => vec![Outcome::Resumption(resumption.job, answer)],
                Action::SendBack { pod, message, .. } | Action::Unplaced { pod, message } => {
                    check_text(&message);
                    vec![Outcome::Eviction(pod.uid, EvictionOutcome::Evicted)]
                }
                Action::Evict(eviction) => {
                    let victims = eviction.victims.into_iter();
                    victims
                        .map(|victim| Outcome::Eviction(victim.pod.uid, EvictionOutcome::Evicted))
                        .collect()
                }
            };
            for outcome in outcomes {
                self.cluster.outcome(&outcome, self.now);
            }
        }
        self.look();
    }

    /// All that is told and shown.
    fn look(&mut self) {
        for notice in notices(&mut self.cluster, self.now, usize::MAX) {
            check_text(&notice.message);
        }
        let _ = progress(&mut self.cluster, self.now, usize::MAX);
        for (_, object) in self.shown.iter().filter(|(kind, _)| *kind == Kind::Pod) {
            let pod = self.cluster.pod_with_uid(&text(object, "uid"));
            let subject = pod.map(Subject::Pod);
            if let Some(explanation) = subject.and_then(|subject| explain(&self.cluster, subject)) {
                check_text(&explanation.message());
                check_text(&explanation.remedy());
            }
            if let Some((_, said)) = subject.and_then(|subject| explain_in_brief(&self.cluster, subject)) {
                check_text(&said);
            }
        }
        let changes = self.cluster.take_changes();
        let _ = overview::changed(&self.cluster, changes);
    }

    /// Everything goes, whatever it said last: nothing is held any more, and nobody waits.
    fn end(mut self) {
        self.look();
        // What was shown again is shown twice here, and gone once.
        for (kind, object) in std::mem::take(&mut self.shown) {
            if kind == Kind::Pod {
                self.cluster.apply(gone(kind, &object), self.now);
            }
        }
        for kind in [Kind::Pod, Kind::PodGroup, Kind::Job, Kind::SucceededPod] {
            self.cluster.apply(Observation::ListBegins(kind), self.now);
            self.cluster.apply(Observation::ListEnds(kind), self.now);
        }
        for (_, queue) in self.cluster.queues() {
            assert!(
                queue.allocated.iter().all(|(_, held)| held == 0),
                "{} still holds {:?}",
                queue.name,
                queue.allocated
            );
        }
        let round = decide(&mut self.cluster, self.now, usize::MAX);
        assert!(round.actions.is_empty(), "{:?}", round.actions);
    }
}

fn check_text(text: &str) {
    assert!(
        !text.is_empty() && text.len() <= LONGEST_TEXT,
        "{} bytes: {text}",
        text.len()
    );
    assert!(!text.contains(char::is_control), "{text:?}");
}

fn tell(steps: &[Step]) {
    let now = "2026-11-22T10:01:00Z".parse().unwrap();
    let mut story = Story {
        cluster: Cluster::new(Arc::default()),
        now,
        shown: Vec::new(),
    };
    for (kind, object) in SCENE.iter() {
        story.show(*kind, object);
    }
    for step in steps {
        story.take(step);
    }
    story.end();
}

fn entries_of(target: &str) -> Vec<Entry> {
    corpus::read(target)
}

/// Nodes and queues that there are to begin with.
static SCENE: LazyLock<Vec<(Kind, Value)>> = LazyLock::new(|| {
    let of_kind = |(kind, target): (Kind, &str)| {
        let valid: Vec<_> = entries_of(target)
            .into_iter()
            .filter(|entry| entry.valid == Some(true))
            .collect();
        corpus::objects(&valid).into_iter().map(move |object| (kind, object))
    };
    KINDS
        .into_iter()
        .filter(|(kind, _)| matches!(kind, Kind::Node | Kind::Queue))
        .flat_map(of_kind)
        .collect()
});

#[test]
fn observations() {
    let objects = KINDS.map(|(kind, target)| (kind, corpus::objects(&entries_of(target))));
    // Everything at once, as it stands in the corpora, under each configuration.
    for index in 0..CONFIGURATIONS.len() {
        let all = objects
            .iter()
            .flat_map(|(kind, objects)| objects.iter().map(|object| Step::Show(*kind, object.clone())));
        let rounds = (0..4).flat_map(|answers| [Step::Decide(answers), Step::Wait(2)]);
        let steps: Vec<_> = [Step::Configure(index)].into_iter().chain(all).chain(rounds).collect();
        tell(&steps);
    }
    let objects = objects.map(|(kind, objects)| (kind, Objects::near(objects).with_changes(4)));
    let steps = Steps {
        objects: objects.into(),
    };
    bolero::check!()
        .with_iterations(CASES)
        .with_generator(steps)
        .for_each(|steps| tell(steps));
}
