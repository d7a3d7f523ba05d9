use crds::keys::{CARD_ASSIGNED, GATE, NAMESPACE, QUEUE_LABEL, QUEUE_NAME};
use serde_json::json;
use simulator::judge::{Broken, Judge};
use simulator::objects::{NODES, QUEUES};

use super::*;

/// A history by hand, and what the audit log says of it.
struct Scene {
    history: History,
    log: Vec<controlplane::Write>,
    version: u64,
}

impl Scene {
    /// One operator leads, there is a node with 8 A100, and queue `a` may have one.
    fn new() -> Self {
        let mut scene = Self {
            history: History::new(),
            log: Vec::new(),
            version: 0,
        };
        scene.leads("operator");
        scene.apply(
            &NODES,
            json!({
                "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920"}},
                "status": {
                    "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "100"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }),
        );
        let quota = json!({"A100": 1}).to_string();
        scene.apply(
            &QUEUES,
            json!({"metadata": {"name": "a", "annotations": {"volcano.sh/card.quota": quota}}, "status": {"state": "Open"}}),
        );
        scene
    }

    /// Somebody writes an object.
    fn apply(&mut self, resource: &'static Resource, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let _ = self.history.apply(resource, object);
    }

    /// The audit log says that the last write was made with this token, just before it was heard of.
    fn by(&mut self, token: &str, resource: &str) {
        let asked = self.history.writes.last().unwrap().at.to_string();
        let write = json!({
            "verb": "patch",
            "user": {"username": "operator", "extra": {"authentication.kubernetes.io/credential-id": [token]}},
            "objectRef": {"resource": resource},
            "responseStatus": {"code": 200},
            "stageTimestamp": asked,
            "requestReceivedTimestamp": asked,
            "responseObject": {"metadata": {"resourceVersion": self.version.to_string()}},
        });
        self.log.push(serde_json::from_value(write).unwrap());
    }

    fn leads(&mut self, holder: &str) {
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15});
        self.apply(
            &LEASES,
            json!({"metadata": {"namespace": NAMESPACE, "name": "operator"}, "spec": spec}),
        );
    }

    /// A pod that asks for an A100, first held and then let in by whoever has this token.
    fn let_in(&mut self, name: &str, token: &str) {
        let mut pod = json!({
            "metadata": {"namespace": "team", "name": name, "labels": {QUEUE_LABEL: "a"}, "annotations": {QUEUE_NAME: "a", "volcano.sh/card.name": "A100"}},
            "spec": {
                "schedulingGates": [{"name": GATE}],
                "containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
            },
        });
        self.apply(&PODS, pod.clone());
        pod["metadata"]["annotations"][CARD_ASSIGNED] = "A100".into();
        pod["spec"]["schedulingGates"] = json!([]);
        pod["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": "A100"});
        self.apply(&PODS, pod);
        self.by(token, "pods");
    }

    fn writes(&self) -> Vec<Write> {
        let operators = [("one", "operator"), ("two", "operator-2")];
        let operators = operators.map(|(token, name)| (token.to_owned(), name.to_owned()));
        self.history.writes(&self.log, &BTreeMap::from(operators))
    }

    fn judged(&self) -> Option<Broken> {
        let mut judge = Judge::new();
        self.writes().iter().find_map(|write| judge.hear(write).err())
    }
}

#[test]
fn what_the_leader_lets_in_is_judged() {
    let mut scene = Scene::new();
    scene.let_in("p", "one");
    assert_eq!(scene.judged(), None);
    scene.let_in("q", "one");
    let broken = scene.judged().unwrap();
    assert!(
        broken.what.contains("2 of 1") || broken.what.contains("has 2"),
        "{broken}"
    );
    assert_eq!(scene.history.let_in(), 2);
    // What somebody else lets run is not Cardgate's.
    scene.log.clear();
    assert_eq!(scene.judged(), None);
}

#[test]
fn who_writes_while_another_leads_is_found() {
    let mut scene = Scene::new();
    scene.let_in("p", "two");
    let broken = scene.judged().unwrap();
    assert_eq!(broken.rule, "nobody writes without leading");
    assert!(broken.what.contains("operator leads"), "{broken}");
}

#[test]
fn leases_that_were_renewed_while_nobody_could_watch_are_known_by_the_log() {
    let mut scene = Scene::new();
    let now = Timestamp::now();
    // Led long ago, and renewed just now; a pod is let in, of which somebody hears who lists anew.
    for write in &mut scene.history.writes {
        write.age = Duration::ZERO;
    }
    scene.history.begin = now - Duration::from_secs(100);
    scene.version += 1;
    let renewed = json!({
        "verb": "patch",
        "user": {"username": "operator", "extra": {"authentication.kubernetes.io/credential-id": ["one"]}},
        "objectRef": {"resource": "leases", "namespace": NAMESPACE, "name": "operator"},
        "responseStatus": {"code": 200},
        "stageTimestamp": now.to_string(),
        "requestReceivedTimestamp": now.to_string(),
        "responseObject": {"metadata": {"resourceVersion": scene.version.to_string()}, "spec": {"holderIdentity": "operator"}},
    });
    scene.let_in("p", "one");
    let broken = scene.judged().unwrap();
    assert!(broken.what.contains("its Lease was over"), "{broken}");
    scene.log.push(serde_json::from_value(renewed).unwrap());
    assert_eq!(scene.judged(), None);
}

#[test]
fn who_lists_anew_hears_nothing_twice_and_misses_what_is_gone() {
    let mut scene = Scene::new();
    scene.let_in("p", "one");
    let before = scene.history.writes.len();
    let pod = scene.history.objects[&PODS].values().next().unwrap();
    let seen = scene.history.apply(&PODS, Value::clone(&Arc::clone(pod)));
    scene.history.keep(&PODS, &BTreeSet::from([seen]));
    assert_eq!(scene.history.writes.len(), before);
    scene.history.keep(&PODS, &BTreeSet::new());
    let last = scene.writes().pop().unwrap();
    assert_eq!((&*last.key.name, last.after), ("p", None));
}

#[test]
fn an_eviction_is_whose_it_was() {
    let mut scene = Scene::new();
    scene.let_in("p", "one");
    let pod = scene.history.objects[&PODS].values().next().unwrap();
    let mut pod = Value::clone(pod);
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    scene.apply(&PODS, pod);
    assert_eq!(&*scene.writes().pop().unwrap().who, SOMEBODY);
    scene.by("one", "pods");
    let eviction = scene.log.last_mut().unwrap();
    let target = json!({"resource": "pods", "subresource": "eviction", "namespace": "team", "name": "p"});
    eviction.object_ref = Some(serde_json::from_value(target).unwrap());
    assert_eq!(&*scene.writes().pop().unwrap().who, "operator");
}

#[test]
fn what_was_written_before_anybody_looked_is_not_judged() {
    let mut scene = Scene::new();
    let mut history = History::new();
    let mut node = Value::clone(scene.history.objects[&NODES].values().next().unwrap());
    node["metadata"]["resourceVersion"] = "8".into();
    scene.version = 8;
    history.was_there(&NODES, node.clone());
    let mut lease = Value::clone(scene.history.objects[&LEASES].values().next().unwrap());
    // It was renewed after the node was written.
    lease["metadata"]["resourceVersion"] = "9".into();
    history.was_there(&LEASES, lease);
    scene.history = history;
    scene.by("one", "nodes");
    assert_eq!(scene.judged(), None);
    // The Lease that was there says who leads.
    scene.version = 9;
    scene.apply(&NODES, node);
    scene.by("two", "nodes");
    let broken = scene.judged().unwrap();
    assert!(broken.what.contains("operator leads"), "{broken}");
}
