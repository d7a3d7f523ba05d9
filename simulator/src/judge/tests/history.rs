//! Small histories written by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::keys::{CARD_ASSIGNED, GATE, GROUP_NAME, NAMESPACE, QUEUE_NAME};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::{Broken, Judge};
use crate::objects::{CONFIG_MAPS, Key, LEASES, NODES, Objects, POD_GROUPS, PODS, QUEUES, Resource};

/// A world in which things happen one by one, and its judge.
pub struct History {
    pub objects: Objects,
    judge: Judge,
}

impl History {
    /// A world with one node with 8 A100, led by `operator-0`.
    pub fn new() -> Self {
        let mut history = Self {
            objects: Objects::new(Timestamp::UNIX_EPOCH),
            judge: Judge::new().lag(SignedDuration::from_secs(10)),
        };
        history.lease("operator-0");
        history.node(
            "n1",
            &json!({"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "100"}),
        );
        history
    }

    /// The same, where no gang may be cut in two for longer than this.
    #[must_use]
    pub fn cut_at_most(mut self, seconds: i64) -> Self {
        self.judge = self.judge.cut_at_most(SignedDuration::from_secs(seconds));
        self
    }

    /// The same, where no gang may be cut in two for longer than this after the last fault.
    #[must_use]
    pub fn heal_within(mut self, seconds: i64) -> Self {
        self.judge = self.judge.heal_within(SignedDuration::from_secs(seconds));
        self
    }

    /// Notes a fault.
    pub fn disturb(&mut self) {
        self.judge.disturb(self.objects.now);
    }

    pub fn create(&mut self, resource: &'static Resource, object: Value) {
        self.create_as("user", resource, object);
    }

    pub fn create_as(&mut self, who: &str, resource: &'static Resource, object: Value) {
        self.objects.create(&Arc::from(who), resource, object).unwrap();
    }

    pub fn change(&mut self, who: &str, resource: &'static Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let changed = self
            .objects
            .change(&Arc::from(who), resource, &key(resource, name), |object| {
                change(object);
                Ok(())
            });
        changed.unwrap();
    }

    pub fn delete(&mut self, who: &str, resource: &'static Resource, name: &str) {
        self.objects
            .delete(&Arc::from(who), resource, &key(resource, name))
            .unwrap();
    }

    /// Removes an object, whatever holds it back.
    pub fn finish(&mut self, who: &str, resource: &'static Resource, name: &str) {
        self.objects
            .finish(&Arc::from(who), resource, &key(resource, name))
            .unwrap();
    }

    pub fn later(&mut self, seconds: i64) {
        let then = self.objects.now.checked_add(SignedDuration::from_secs(seconds));
        self.objects.pass_until(then.unwrap());
    }

    /// Makes this operator the leader from now on, for 15 seconds.
    pub fn lease(&mut self, holder: &str) {
        let spec =
            json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": self.objects.now.to_string()});
        if self.objects.get(&LEASES, &key(&LEASES, "operator")).is_some() {
            self.change(holder, &LEASES, "operator", |lease| lease["spec"] = spec);
        } else {
            self.create_as(
                holder,
                &LEASES,
                json!({"metadata": {"namespace": NAMESPACE, "name": "operator"}, "spec": spec}),
            );
        }
    }

    pub fn node(&mut self, name: &str, allocatable: &Value) {
        let labels =
            json!({"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920"});
        self.create(
            &NODES,
            json!({
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
    }

    pub fn queue(&mut self, name: &str, cards: u32, spec: &Value) {
        let quota = json!({"A100": cards}).to_string();
        let mut spec = spec.clone();
        if spec["capability"].is_null() {
            spec["capability"] = json!({"cpu": "100", "memory": "1Ti"});
        }
        let annotations = json!({"volcano.sh/card.quota": quota});
        self.create(
            &QUEUES,
            json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec}),
        );
    }

    pub fn configure(&mut self, scheduler: &str) {
        self.create(
            &CONFIG_MAPS,
            json!({
                "metadata": {"namespace": NAMESPACE, "name": "cardgate-config"},
                "data": {"volcano-scheduler.conf": scheduler},
            }),
        );
    }

    /// A waiting pod that asks for so many A100.
    pub fn pod(&mut self, name: &str, queue: &str, cards: u32) {
        self.create(&PODS, pod(name, queue, cards));
    }

    /// The same for a pod of a group.
    pub fn pod_of_group(&mut self, name: &str, queue: &str, cards: u32, group: &str) {
        let mut pod = pod(name, queue, cards);
        pod["metadata"]["annotations"][GROUP_NAME] = group.into();
        self.create(&PODS, pod);
    }

    /// `operator-0` lets a pod in, with everything that belongs to it.
    pub fn admit(&mut self, name: &str) {
        self.lease("operator-0");
        self.change("operator-0", &PODS, name, admit);
    }

    /// `operator-0` labels the node, and tells a group why it waits.
    pub fn write_of_terms(&mut self, group: &str) {
        self.lease("operator-0");
        let version = self.objects.version().to_string();
        self.change("operator-0", &NODES, "n1", |node| {
            node["metadata"]["labels"]["label"] = version.into();
        });
        self.change("operator-0", &POD_GROUPS, group, |group| {
            let had = group["status"]["conditions"].as_array().map_or(0, Vec::len);
            let told = |count| json!({"type": "Unschedulable", "status": count % 2 == 0, "reason": "QuotaExceeded"});
            group["status"]["conditions"] = (0..=had).map(told).collect();
        });
    }

    #[track_caller]
    pub fn holds(&mut self) {
        self.judge.after_step(&self.objects).unwrap();
    }

    #[track_caller]
    pub fn rests(&mut self) {
        self.judge_at_rest().unwrap();
    }

    #[track_caller]
    pub fn judge_at_rest(&mut self) -> Result<(), Broken> {
        self.holds();
        self.judge.at_rest(self.objects.now, &BTreeSet::new()).map(drop)
    }

    #[track_caller]
    pub fn is_more_known_than_seen(&mut self) -> bool {
        self.holds();
        self.judge.is_more_known_than_seen(self.objects.now)
    }

    #[track_caller]
    pub fn is_account_unseen(&mut self) -> bool {
        self.holds();
        self.judge.is_account_unseen(self.objects.now)
    }

    #[track_caller]
    pub fn judge_gangs(&mut self) -> Result<(), Broken> {
        self.holds();
        self.judge.gangs.at_rest(&self.judge.stored)
    }

    #[track_caller]
    pub fn judge_evictions(&mut self) -> Result<(), Broken> {
        self.holds();
        self.judge.in_vain.at_rest(&self.judge.stored)
    }

    #[track_caller]
    pub fn sent_back(&mut self) -> Result<usize, Broken> {
        self.holds();
        self.judge.sent_back(self.objects.writes_after(0))
    }

    #[track_caller]
    pub fn breaks(&mut self, rule: &str) -> Broken {
        let broken = self.judge.after_step(&self.objects).unwrap_err();
        assert_eq!(broken.rule, rule, "{broken}");
        broken
    }

    /// Checks that the rule is broken if `breaks`, and that all rules hold otherwise.
    #[track_caller]
    pub fn breaks_where(&mut self, breaks: bool, rule: &str) {
        if breaks {
            self.breaks(rule);
        } else {
            self.holds();
        }
    }

    #[track_caller]
    pub fn breaks_at_rest(&mut self, rule: &str) -> Broken {
        let broken = self.judge_at_rest().unwrap_err();
        assert_eq!(broken.rule, rule, "{broken}");
        broken
    }
}

/// The key of an object here: pods are in `team`.
pub fn key(resource: &'static Resource, name: &str) -> Key {
    let namespace = if resource == &LEASES { NAMESPACE } else { "team" };
    Key::new(if resource.is_namespaced { namespace } else { "" }, name)
}

pub fn pod(name: &str, queue: &str, cards: u32) -> Value {
    let amount = json!({"nvidia.com/gpu": cards.to_string(), "cpu": "1", "memory": "1Gi"});
    json!({
        "metadata": {
            "namespace": "team", "name": name,
            "annotations": {QUEUE_NAME: queue, "volcano.sh/card.name": "A100"},
        },
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "resources": {"requests": amount}}],
        },
    })
}

/// The write that lets in a pod that asks for A100.
pub fn admit(pod: &mut Value) {
    pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
    pod["metadata"]["annotations"][CARD_ASSIGNED] = "A100".into();
    pod["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": "A100"});
}
