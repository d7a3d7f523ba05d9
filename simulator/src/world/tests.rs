//! Checks, with a stand-in for the operator, what these worlds contain: in how many of them each feature occurs, and that
//! everything that happens in them is what an API server allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::keys::{CARD_ASSIGNED, GATE, JOB_HELD};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rand::SeedableRng as _;
use serde_json::{Value, json};

use super::chance::percent;
use super::{Step, World, pods};
use crate::Dice;
use crate::objects::{JOBS, Objects, POD_GROUPS, PODS, QUEUES, RESOURCE_CLAIMS, SLICES, VOLCANO_JOBS, Write};

const SEEDS: u64 = 200;
const STEPS: usize = 150;

struct Run {
    dice: Dice,
    world: World,
    objects: Objects,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::seed_from_u64(seed);
        let mut objects = Objects::new(Timestamp::from_second(1_800_000_000).unwrap()).behind_door();
        objects.has_devices = super::has_devices(seed);
        let world = World::new(&mut dice, &mut objects);
        Self { dice, world, objects }
    }

    fn take(&mut self, step: &Step) {
        self.objects.now += SignedDuration::from_secs(1);
        self.world.take(step, &mut self.objects);
        self.operate();
    }

    /// Lets in pods at random.
    fn operate(&mut self) {
        let who = Arc::from("operator-0");
        for key in pods::which(&self.objects, |pod| pods::gates(pod).eq([GATE])) {
            if !percent(&mut self.dice, 15) {
                continue;
            }
            let admit = |pod: &mut Value| {
                pod["spec"]["schedulingGates"] = json!([]);
                if let Some(card) = pod["metadata"]["annotations"]["volcano.sh/card.name"].as_str() {
                    let card = card.split('|').next().unwrap_or_default().to_owned();
                    pod["metadata"]["annotations"][CARD_ASSIGNED] = card.into();
                }
                Ok(())
            };
            self.objects.change(&who, &PODS, &key, admit).unwrap();
        }
        let keys: Vec<_> = self.objects.list(&POD_GROUPS).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let inqueue = |group: &mut Value| {
                group["status"]["phase"] = "Inqueue".into();
                Ok(())
            };
            self.objects.change(&who, &POD_GROUPS, &key, inqueue).unwrap();
        }
        let jobs = self.objects.list(&JOBS);
        let held = jobs.filter(|(_, job)| job["metadata"]["annotations"][JOB_HELD].is_string());
        for key in held.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let resume = |job: &mut Value| {
                job["spec"]["suspend"] = false.into();
                job["metadata"]["annotations"].as_object_mut().unwrap().remove(JOB_HELD);
                Ok(())
            };
            self.objects.change(&who, &JOBS, &key, resume).unwrap();
        }
    }
}

/// Returns the features that a write shows.
fn features(write: &Write) -> Vec<&'static str> {
    let Some(object) = &write.after else { return Vec::new() };
    let text = object.to_string();
    let mut found = Vec::new();
    let mut note = |name, is: bool| {
        if is {
            found.push(name);
        }
    };
    let annotations = &object["metadata"]["annotations"];
    let status = &object["status"];
    if write.resource == &PODS {
        let card = annotations["volcano.sh/card.name"].as_str().unwrap_or_default();
        let asks = |resource: &str| text.contains(&format!("\"{resource}\""));
        let is_in = pods::gates(object).next().is_none();
        note("pod of a card", !card.is_empty() && is_in);
        note("alternatives", card.contains('|') && is_in);
        note("unnamed cards", card.is_empty() && asks("nvidia.com/gpu") && is_in);
        note("MIG", card.contains("/mig-") && is_in);
        note("MPS", card.contains("/mps-") && is_in);
        note("Ascend", card.starts_with("Ascend") && is_in);
        note("mGPU", asks("vke.volcengine.com/mgpu-core") && is_in);
        note(
            "several mGPU cards",
            annotations["vke.volcengine.com/container-multiple-gpu"].is_string(),
        );
        note(
            "CrossQuota",
            object["metadata"]["labels"]["card.volcano.sh/crossquota"].is_string(),
        );
        note(
            "gang member",
            annotations["scheduling.k8s.io/group-name"].is_string() && is_in,
        );
        note("member of a task", text.contains("volcano.sh/task-spec"));
        note("foreign gate", text.contains("example.com/license"));
        note("init container", text.contains("initContainers"));
        note("affinity", text.contains("nodeAffinity"));
        note("runs", status["phase"] == "Running");
        note("succeeds", status["phase"] == "Succeeded");
        note("fails", status["phase"] == "Failed");
        note("refused by its node", text.contains("OutOf"));
        note("has no place", text.contains("\"Unschedulable\""));
        note("is deleted while it runs", pods::is_deleted(object));
    } else if write.resource == &JOBS {
        note("held Job", annotations[JOB_HELD].is_string());
        note("Job completes", text.contains("\"Complete\""));
    } else if write.resource == &POD_GROUPS {
        note("group", true);
        note("tasks", object["spec"]["minTaskMember"].is_object());
        note("group's cards", annotations["volcano.sh/card.request"].is_string());
        note("group's resources", object["spec"]["minResources"].is_object());
    } else if write.resource == &VOLCANO_JOBS {
        note("Job of Volcano's", true);
    } else if write.resource == &QUEUES {
        note("hierarchy", object["spec"]["parent"].is_string());
        note("guarantee", text.contains("guarantee"));
        note("deserved", text.contains("deserved"));
        note("closed queue", status["state"] == "Closed");
        note(
            "queue for some namespaces",
            annotations["card.volcano.sh/namespaces"].is_string(),
        );
    }
    let conf = object["data"]["volcano-scheduler.conf"].as_str().unwrap_or_default();
    let cardgate = object["data"]["cardgate.yaml"].as_str().unwrap_or_default();
    for (name, is) in [
        ("reclaim", conf.contains("reclaim,") || conf.contains("reclaim\"")),
        ("preempt", conf.contains("preempt")),
        ("plugin capacity", conf.contains("name: capacity\n")),
        ("plugin capacity-card", conf.contains("name: capacity-card\n")),
        ("plugin crossquota", conf.contains("crossquota")),
        ("unlimited CPU", conf.contains("cardUnlimitedCpuMemory: true")),
        ("admitOn: quota", cardgate.contains("admitOn: quota")),
        ("unnamed cards are free", cardgate.contains("unnamedCards: free")),
        ("another configuration", write.before.is_some() && !conf.is_empty()),
    ] {
        note(name, is);
    }
    found
}

/// The same for features of devices.
fn device_features(write: &Write) -> Vec<&'static str> {
    let Some(object) = &write.after else { return Vec::new() };
    let (text, status) = (object.to_string(), &object["status"]);
    let mut found = Vec::new();
    let mut note = |name, is: bool| {
        if is {
            found.push(name);
        }
    };
    if write.resource == &PODS {
        let claims = |by: &str| text.contains(&format!("\"{by}\""));
        note("claims by template", claims("resourceClaimTemplateName"));
        note("claims by name", text.contains("\"resourceClaimName\":\"shared-"));
        note(
            "devices without claim",
            object["status"]["extendedResourceClaimStatus"].is_object(),
        );
        note(
            "the cluster's own claims",
            object["metadata"]["namespace"] == "kube-system" && pods::node(object).is_some(),
        );
    }
    if write.resource == &RESOURCE_CLAIMS {
        let results = status["allocation"]["devices"]["results"].as_array();
        let of = |part: &str| {
            let mut results = results.into_iter().flatten();
            results.any(|result| result.to_string().contains(part))
        };
        note("allocation", results.is_some());
        note("several devices", results.is_some_and(|results| results.len() > 1));
        note("MIG device", of("mig"));
        note("first of alternatives", of("gpu/large"));
        note("another alternative", of("gpu/small"));
        let users = status["reservedFor"].as_array().map_or(0, Vec::len);
        note("shared claim", users > 1);
        let before = write.before.as_ref();
        let had = before.is_some_and(|before| before["status"]["allocation"].is_object());
        note("deallocation", had && results.is_none());
    }
    if write.resource == &SLICES {
        let pool = &object["spec"]["pool"];
        note("several slices", pool["resourceSliceCount"] == 2);
        note("new generation", pool["generation"].as_i64() > Some(1));
        note("device taint", text.contains("xid"));
        note(
            "slice that is back",
            write.before.is_none() && pool["generation"].as_i64() > Some(1),
        );
    }
    found
}

/// In how many of a hundred worlds each feature must occur at least.
const SHARES: [(&str, usize); 78] = [
    ("step create", 100),
    ("step change", 95),
    ("step delete", 90),
    ("step open", 40),
    ("step control", 100),
    ("step schedule", 95),
    ("step start", 95),
    ("step end", 85),
    ("step stop", 50),
    ("step drain", 25),
    ("step die", 25),
    ("pod of a card", 90),
    ("alternatives", 50),
    ("unnamed cards", 50),
    ("MIG", 25),
    ("MPS", 25),
    ("Ascend", 8),
    ("mGPU", 50),
    ("several mGPU cards", 22),
    ("CrossQuota", 40),
    ("gang member", 60),
    ("member of a task", 60),
    ("foreign gate", 60),
    ("init container", 60),
    ("affinity", 60),
    ("runs", 95),
    ("succeeds", 70),
    ("fails", 70),
    ("refused by its node", 2),
    ("has no place", 50),
    ("is deleted while it runs", 80),
    ("held Job", 50),
    ("Job completes", 15),
    ("group", 90),
    ("tasks", 60),
    ("group's cards", 25),
    ("group's resources", 60),
    ("Job of Volcano's", 30),
    ("hierarchy", 95),
    ("guarantee", 95),
    ("deserved", 95),
    ("closed queue", 25),
    ("queue for some namespaces", 20),
    ("reclaim", 60),
    ("preempt", 30),
    ("plugin capacity", 35),
    ("plugin capacity-card", 40),
    ("plugin crossquota", 50),
    ("unlimited CPU", 12),
    ("admitOn: quota", 8),
    ("unnamed cards are free", 10),
    ("another configuration", 50),
    ("written by deployment-controller", 90),
    ("written by replicaset-controller", 80),
    ("written by job-controller", 80),
    ("written by garbage-collector", 50),
    ("written by node-controller", 50),
    ("written by volcano-controllers", 40),
    ("written by disruption-controller", 20),
    ("written by license-controller", 40),
    ("written by scheduler", 95),
    ("claims by template", 45),
    ("claims by name", 10),
    ("devices without claim", 20),
    ("the cluster's own claims", 5),
    ("allocation", 40),
    ("several devices", 15),
    ("MIG device", 4),
    ("first of alternatives", 4),
    ("another alternative", 3),
    ("shared claim", 2),
    ("deallocation", 20),
    ("several slices", 20),
    ("new generation", 15),
    ("device taint", 5),
    ("slice that is back", 2),
    ("written by driver", 45),
    ("written by resource-claim-controller", 45),
];

#[test]
fn every_feature_is_in_many_worlds() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut living = Vec::new();
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        let mut of_this: BTreeSet<String> = BTreeSet::new();
        for _ in 0..STEPS {
            let step = run.world.draw(&mut run.dice, &run.objects);
            of_this.insert(format!("step {}", step.kind()));
            run.take(&step);
            living.push(run.objects.list(&PODS).filter(|(_, pod)| pods::is_active(pod)).count());
        }
        for write in run.objects.writes_after(0) {
            of_this.extend(features(write).into_iter().map(ToOwned::to_owned));
            of_this.extend(device_features(write).into_iter().map(ToOwned::to_owned));
            let who = if write.who.starts_with("kubelet-") {
                "kubelet"
            } else {
                &*write.who
            };
            of_this.insert(format!("written by {who}"));
        }
        for feature in of_this {
            *seen.entry(feature).or_default() += 1;
        }
    }
    let worlds = usize::try_from(SEEDS).unwrap();
    let rare: Vec<_> = SHARES
        .iter()
        .filter(|(feature, share)| seen.get(*feature).copied().unwrap_or(0) * 100 < share * worlds)
        .collect();
    let mean = living.iter().sum::<usize>() / living.len();
    println!(
        "{seen:#?}, {mean} pods in the mean, {} at most",
        living.iter().max().unwrap()
    );
    assert!(rare.is_empty(), "rarer than that: {rare:?} in {seen:#?}");
    assert!((12..=60).contains(&mean), "{mean} pods live in the mean");
}

/// Checks a write for what an API server never allows.
fn check(write: &Write) {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return;
    };
    let same = |field: &str| {
        assert_eq!(
            before["metadata"][field], after["metadata"][field],
            "{field} changes: {write:?}"
        );
    };
    ["name", "namespace", "uid", "creationTimestamp"]
        .into_iter()
        .for_each(same);
    if write.resource != &PODS {
        return;
    }
    if let Some(node) = pods::node(before) {
        assert_eq!(pods::node(after), Some(node), "{write:?}");
    }
    let gates: BTreeSet<_> = pods::gates(before).collect();
    assert!(pods::gates(after).all(|gate| gates.contains(gate)), "{write:?}");
    assert!(
        pods::node(after).is_none() || pods::gates(after).next().is_none(),
        "{write:?}"
    );
    assert!(
        !pods::is_over(before) || before["status"]["phase"] == after["status"]["phase"],
        "{write:?}"
    );
    assert!(!pods::is_deleted(before) || pods::is_deleted(after), "{write:?}");
}

#[test]
fn any_step_can_be_taken_whatever_became_of_what_it_names() {
    for seed in 0..20 {
        let mut run = Run::new(seed);
        let mut history = Vec::new();
        for _ in 0..STEPS {
            let step = run.world.draw(&mut run.dice, &run.objects);
            run.take(&step);
            history.push(step);
        }
        run.objects.writes_after(0).iter().for_each(check);
        // Takes all steps again in the final state of this world, backwards, and with steps left out in a new world.
        history.iter().rev().for_each(|step| run.take(step));
        run.objects.writes_after(0).iter().for_each(check);
        let mut shorter = Run::new(seed);
        history.iter().step_by(3).for_each(|step| shorter.take(step));
        shorter.objects.writes_after(0).iter().for_each(check);
    }
}

#[test]
fn a_seed_is_one_history() {
    for seed in 0..5 {
        let history = || {
            let mut run = Run::new(seed);
            let mut steps = Vec::new();
            for _ in 0..STEPS {
                let step = run.world.draw(&mut run.dice, &run.objects);
                run.take(&step);
                steps.push(step);
            }
            let after: Vec<_> = run
                .objects
                .writes_after(0)
                .iter()
                .map(|write| write.after.clone())
                .collect();
            (steps, after)
        };
        assert_eq!(history(), history());
    }
}

#[test]
fn every_world_comes_to_rest() {
    for seed in 0..30 {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            let step = run.world.draw(&mut run.dice, &run.objects);
            run.take(&step);
        }
        run.world.come_to_rest(&mut run.objects);
        assert!(
            !run.world.come_to_rest(&mut run.objects),
            "seed {seed} is never at rest"
        );
    }
}
