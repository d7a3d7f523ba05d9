//! `kubectl card simulate` beside what then really happens, in worlds made at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cardgate_tests::controlplane::Options;
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::tally::{is_gated, waiting_reason};
use cardgate_tests::workloads::{APP, pod, queue};
use crds::keys::{CARD_ASSIGNED, CARD_REQUEST, GROUP_NAME, NVIDIA_GPU};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use super::lint::File;
use super::*;

/// The namespace of all pods.
const TEAM: &str = "simulated";
/// How many worlds are tried.
const WORLDS: u64 = 4;
/// The least share of those let in of whom the simulation has to be right: the scheduler may put pods on other nodes than those that
/// room was found on, which leaves other room.
const RIGHT: f64 = 0.8;
const CONFIGURATION: &str = "
    actions: enqueue, allocate
    tiers:
      - plugins:
          - {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}";

/// Numbers that look random and are the same each time (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let place = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all[place].clone()
    }
}

/// What the names of a world's workloads begin with.
fn prefix(seed: u64) -> String {
    format!("w-{seed}-")
}

/// A world: nodes, queues, and what its users create, in this order.
struct Made {
    nodes: Vec<NodeSpec>,
    /// The card of each node.
    cards: BTreeMap<String, String>,
    objects: Vec<Value>,
}

fn make(seed: u64) -> Result<Made> {
    let mut dice = Dice(seed);
    let cards: Vec<String> = ["A100", "H100", "L4"]
        .map(|card| format!("NVIDIA-{card}-{seed}"))
        .to_vec();
    let (mut nodes, mut card_of) = (Vec::new(), BTreeMap::new());
    for index in 0..6 + dice.below(4) {
        let count = u32::try_from(1 + dice.below(8)).unwrap_or(1);
        let (name, card) = (format!("node-{seed}-{index}"), dice.one_of(&cards));
        nodes.push(nodes::nvidia(&name, &card, count, 81_920));
        card_of.insert(name, card);
    }
    let queues: Vec<String> = (0..2 + dice.below(3))
        .map(|index| format!("queue-{seed}-{index}"))
        .collect();
    let mut objects = Vec::new();
    for name in &queues {
        let quotas = cards
            .iter()
            .fold(queue(name), |queue, card| queue.quota(card, 3 * dice.below(5)));
        objects.push(quotas.field("priority", json!(dice.below(3))).build());
    }
    for index in 0..20 + dice.below(15) {
        let (first, second) = (dice.one_of(&cards), dice.one_of(&cards));
        let card = match dice.below(4) {
            0 if first != second => format!("{first}|{second}"),
            _ => first.clone(),
        };
        let name = format!("{}{index:03}", prefix(seed));
        let count = 1 + dice.below(3);
        let mut one = pod(&name).namespace(TEAM).queue(&dice.one_of(&queues)).card(&card);
        one = one.request(NVIDIA_GPU, count);
        if dice.below(4) == 0 {
            one = one.priority_class("simulated-high");
        }
        let mut typed = |kind: &str, version: &str, object: Value| {
            let mut object = object;
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            objects.push(object);
        };
        match dice.below(10) {
            0 => typed("Deployment", "apps/v1", serde_json::to_value(one.deployment(3))?),
            1 => {
                let mut job = serde_json::to_value(one.card(&first).job(2))?;
                let request = json!({ first: 2 * count }).to_string();
                job["metadata"]["annotations"] = json!({ CARD_REQUEST: request });
                typed("Job", "batch/v1", job);
            }
            2 => {
                let group = json!({ "metadata": { "name": name, "namespace": TEAM }, "spec": { "minMember": 3 } });
                typed("PodGroup", "scheduling.volcano.sh/v1beta1", group);
                let member = one.annotation(GROUP_NAME, &name);
                for number in 0..3 {
                    let member = member.clone().name(&format!("{name}-{number}"));
                    typed("Pod", "v1", serde_json::to_value(member.build())?);
                }
            }
            _ => typed("Pod", "v1", serde_json::to_value(one.build())?),
        }
    }
    Ok(Made {
        nodes,
        cards: card_of,
        objects,
    })
}

/// What became of the pods of one workload: how many were let in, and with which cards; or how many wait, and why.
type Verdicts = BTreeMap<String, BTreeMap<String, usize>>;

fn app(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(APP)
}

/// What really became of them.
fn real(pods: &[Pod]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for pod in pods.iter().filter(|pod| !is_gated(pod)) {
        let annotations = pod.metadata.annotations.as_ref();
        let card = annotations.and_then(|all| all.get(CARD_ASSIGNED)).cloned();
        let of = verdicts.entry(app(pod).cloned().unwrap_or_default()).or_default();
        *of.entry(card.unwrap_or_default()).or_default() += 1;
    }
    verdicts
}

/// What was foreseen. Pods of Jobs were not there yet: they are called after their Job.
fn foreseen(report: &Value, pods: &[Pod], prefix: &str) -> Verdicts {
    let apps: BTreeMap<_, _> = pods
        .iter()
        .filter_map(|pod| Some((pod.metadata.name.as_deref()?, app(pod)?)))
        .collect();
    let mut verdicts = Verdicts::new();
    for row in report["admitted"].as_array().into_iter().flatten() {
        let name = row["pod"].as_str().unwrap_or_default();
        let of_job = || name.rsplit_once('-').map_or(name, |(job, _)| job);
        let app = apps.get(name).map_or_else(of_job, |app| app.as_str());
        // Others are those of earlier worlds.
        if !app.starts_with(prefix) {
            continue;
        }
        let card = row["card"].as_str().unwrap_or_default();
        *verdicts
            .entry(app.to_owned())
            .or_default()
            .entry(card.to_owned())
            .or_default() += 1;
    }
    verdicts
}

/// How many of the pods that either has let in both have let in, with the same card, and how many there are.
fn agreement(a: &Verdicts, b: &Verdicts) -> (usize, usize) {
    let keys: BTreeSet<_> = [a, b]
        .into_iter()
        .flat_map(|all| {
            all.iter()
                .flat_map(|(app, cards)| cards.keys().map(move |card| (app, card)))
        })
        .collect();
    let count = |of: &Verdicts, (app, card): (&String, &String)| {
        of.get(app).and_then(|cards| cards.get(card)).copied().unwrap_or(0)
    };
    let counts = keys.into_iter().map(|key| (count(a, key), count(b, key)));
    counts.fold((0, 0), |(same, all), (a, b)| (same + a.min(b), all + a.max(b)))
}

/// Who waits, with the reason; of Jobs that are held there are no pods, and they count as one.
fn waits(report: &Value, pods: &[Pod], prefix: &str) -> Verdicts {
    let apps: BTreeMap<_, _> = pods
        .iter()
        .filter_map(|pod| Some((pod.metadata.name.as_deref()?, app(pod)?)))
        .collect();
    let mut verdicts = Verdicts::new();
    for row in report["waiting"].as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let app = match text("kind") {
            "Pod" => apps.get(text("name")).map_or("", |app| app.as_str()),
            "Job" => text("name"),
            // Its pods are told themselves.
            _ => continue,
        };
        if app.starts_with(prefix) {
            let reason = if text("kind") == "Job" { "Job" } else { text("reason") };
            let of = verdicts.entry(app.to_owned()).or_default();
            *of.entry(reason.to_owned()).or_default() += 1;
        }
    }
    verdicts
}

/// Who really waits.
async fn really_waits(world: &World, pods: &[Pod], prefix: &str) -> Result<Verdicts> {
    let mut verdicts = Verdicts::new();
    for pod in pods.iter().filter(|pod| is_gated(pod)) {
        let reason = waiting_reason(pod).unwrap_or_default().to_owned();
        let of = verdicts.entry(app(pod).cloned().unwrap_or_default()).or_default();
        *of.entry(reason).or_default() += 1;
    }
    let jobs: Api<Job> = Api::namespaced(world.plane.client().await?, TEAM);
    for job in jobs.list(&ListParams::default()).await?.items {
        let is_held = job.spec.and_then(|spec| spec.suspend) == Some(true);
        let name = job.metadata.name.unwrap_or_default();
        if is_held && name.starts_with(prefix) {
            verdicts.entry(name).or_default().insert("Job".to_owned(), 1);
        }
    }
    Ok(verdicts)
}

/// The same without the reasons.
fn without_reasons(verdicts: &Verdicts) -> Verdicts {
    let counts = verdicts
        .iter()
        .map(|(app, of)| (app.clone(), [(String::new(), of.values().sum())].into()));
    counts.collect()
}

/// Of pods that were foreseen by name, and have a node: how many there are.
#[derive(Debug, Default)]
struct Places {
    all: usize,
    /// Those whose node is one that the answer leaves to the scheduler: one with the card that it says.
    allowed: usize,
    /// Those that are where the answer found room for them.
    same: usize,
    /// Those that the answer pins to a node, and that are elsewhere.
    strayed: usize,
}

impl Places {
    fn add(&mut self, report: &Value, pods: &[Pod], card_of: &BTreeMap<String, String>) {
        let node_of = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        let nodes: BTreeMap<_, _> = pods
            .iter()
            .filter_map(|pod| Some((pod.metadata.name.as_deref()?, node_of(pod)?)))
            .collect();
        for row in report["admitted"].as_array().into_iter().flatten() {
            let Some(node) = row["pod"].as_str().and_then(|name| nodes.get(name)) else {
                continue;
            };
            let is_there = row["node"] == node.as_str();
            self.all += 1;
            self.allowed += usize::from(card_of.get(node).is_some_and(|card| row["card"] == card.as_str()));
            self.same += usize::from(is_there);
            self.strayed += usize::from(row["pinned"] == true && !is_there);
        }
    }
}

async fn pods_of(world: &World, seed: u64) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(world.plane.client().await?, TEAM);
    let mut pods = api.list(&ListParams::default()).await?.items;
    pods.retain(|pod| app(pod).is_some_and(|app| app.starts_with(&prefix(seed))));
    Ok(pods)
}

/// Somebody who may read what a simulation reads, and nothing else.
async fn engineer(world: &World) -> Result<String> {
    let user = "simulated-engineer";
    let rule = |group: &str, resources: &[&str], verb: &str| json!({ "apiGroups": [group], "resources": resources, "verbs": [verb] });
    let metadata = json!({ "name": user });
    let rbac = "rbac.authorization.k8s.io/v1";
    let granted = json!({
        "apiVersion": rbac, "kind": "ClusterRole", "metadata": metadata,
        "rules": [
            rule("", &["nodes", "namespaces", "pods"], "list"),
            rule("batch", &["jobs"], "list"),
            rule("scheduling.volcano.sh", &["queues", "podgroups"], "list"),
            rule("scheduling.k8s.io", &["priorityclasses"], "list"),
            rule(
                "resource.k8s.io",
                &[
                    "resourceslices",
                    "deviceclasses",
                    "devicetaintrules",
                    "resourceclaims",
                    "resourceclaimtemplates",
                ],
                "list",
            ),
            rule("", &["configmaps"], "get"),
        ],
    });
    let binding = json!({
        "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    world.plane.apply(&granted).await?;
    world.plane.apply(&binding).await?;
    Ok(user.to_owned())
}

/// What the plugin foresees, by the real kubectl.
async fn simulated(world: &World, user: &str) -> Result<Value> {
    wait::eventually("the simulation", wait::PATIENCE, async || {
        let args = ["card", "simulate", "--from-cluster", "-o", "json", "--as", user];
        let kubectl = world.plane.kubectl();
        let output = Command::new(kubectl.program())
            .args(args)
            .env("KUBECONFIG", kubectl.kubeconfig())
            .env("PATH", plugin().await?.parent().context("no directory")?)
            .output()
            .await?;
        // API servers take a moment to know who may what.
        Ok(match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(report) if report["notes"] == json!([]) => Seen::Done(report),
            _ => Seen::NotYet(format!("{output:?}")),
        })
    })
    .await
}

/// Waits until controllers have made all pods that need nobody's leave.
async fn controllers_are_done(world: &World, seed: u64, made: &Made) -> Result<()> {
    let pods = made.objects.iter().map(|object| match object["kind"].as_str() {
        Some("Pod") => 1,
        Some("Deployment") => 3,
        _ => 0,
    });
    let wanted: usize = pods.sum();
    wait::eventually(format!("{wanted} pods"), wait::PATIENCE, async || {
        let found = pods_of(world, seed).await?.len();
        Ok(Seen::when(found == wanted, format!("{found} pods")))
    })
    .await
}

/// Waits until whoever is not let in knows why, and that stays so. Where the scheduler puts the others is its own affair.
async fn settled(world: &World, seed: u64) -> Result<Vec<Pod>> {
    let (mut before, mut times) = (Verdicts::new(), 0);
    wait::eventually(
        "everybody to be let in or told why not",
        Duration::from_mins(2),
        async || {
            let pods = pods_of(world, seed).await?;
            let unsettled = pods.iter().find(|pod| is_gated(pod) && waiting_reason(pod).is_none());
            let now = real(&pods);
            times = if unsettled.is_none() && now == before {
                times + 1
            } else {
                0
            };
            before = now;
            let name = unsettled.and_then(|pod| pod.metadata.name.clone());
            Ok(if times >= 10 {
                Seen::Done(pods)
            } else {
                Seen::NotYet(format!("{name:?} is neither; {} let in", before.len()))
            })
        },
    )
    .await
}

#[tokio::test]
async fn who_would_be_let_in_is_who_is_let_in() -> Outcome {
    let options = Options::default().job_duration(Duration::from_hours(1));
    let world = World::start_with(options).await?;
    let (plane, operator) = (&world.plane, world.cardgate.operator());
    world.cardgate.configure(plane, Some(CONFIGURATION), None).await?;
    plane.create_namespace(TEAM, &[], &[]).await?;
    let high = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "simulated-high" },
        "value": 100,
    });
    plane.apply(&high).await?;
    let engineer = engineer(&world).await?;
    let (mut let_in, mut waiting, mut reasons) = (Share::default(), Share::default(), Share::default());
    let mut places = Places::default();
    for seed in 1..=WORLDS {
        let made = make(seed)?;
        plane.create_nodes(&made.nodes).await?;
        operator.terminate().await?;
        let file = File::new(&format!("simulate-{seed}"), &made.objects)?;
        plane.kubectl().run(["create", "-f", file.path()?]).await?;
        controllers_are_done(&world, seed, &made).await?;

        let simulated = simulated(&world, &engineer).await?;
        operator.start()?;
        operator.await_ready().await?;
        let pods = settled(&world, seed).await?;
        let prefix = prefix(seed);
        let of = agreement(&foreseen(&simulated, &pods, &prefix), &real(&pods));
        let (told, found) = (
            waits(&simulated, &pods, &prefix),
            really_waits(&world, &pods, &prefix).await?,
        );
        let who = agreement(&without_reasons(&told), &without_reasons(&found));
        let why = agreement(&told, &found);
        println!(
            "world {seed}: {} pods; let in by either {}, by both with the same card {}; kept waiting by either {}, by both {}, for the \
             same reason {}",
            pods.len(),
            of.1,
            of.0,
            who.1,
            who.0,
            why.0
        );
        let_in.add(of);
        waiting.add(who);
        reasons.add(why);
        places.add(&simulated, &pods, &made.cards);
    }
    println!(
        "let in, with the same card: {let_in}; kept waiting: {waiting}, for the same reason: {reasons}; {places:?}"
    );
    assert!(let_in.all > 40 && let_in.of_one() >= RIGHT, "{let_in} agree");
    assert!(
        waiting.all > 20 && waiting.of_one() >= RIGHT,
        "{waiting} agree on who waits"
    );
    // With the card that was foreseen, a pod is on a node that has it, and on the one that was said where one was.
    let with_another_card = let_in.all - let_in.same;
    assert!(places.all > 20 && places.strayed == 0, "{places:?}");
    assert!(places.allowed + with_another_card >= places.all, "{places:?}, {let_in}");
    Ok(())
}

/// How many of how many agree.
#[derive(Debug, Default)]
struct Share {
    same: usize,
    all: usize,
}

impl Share {
    fn add(&mut self, (same, all): (usize, usize)) {
        (self.same, self.all) = (self.same + same, self.all + all);
    }

    fn of_one(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "some hundred pods")]
        let share = self.same as f64 / self.all.max(1) as f64;
        share
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} ({:.3})", self.same, self.all, self.of_one())
    }
}
