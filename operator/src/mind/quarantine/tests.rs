//! Which objects are kept off, what is left of them, and when they get another chance.

use engine::cluster::Kind;
use serde_json::{Value, json};

use super::*;

fn pod(name: &str, uid: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": uid,
            "annotations": { QUEUE_NAME: "team-a", CARD_NAME: "A100", "other": "x" },
        },
        "spec": { "schedulingGates": [{ "name": GATE }], "nodeSelector": { "disk": "ssd" } },
    })
}

fn read(pod: &Value) -> Observation {
    Observation::Pod(serde_json::from_value(pod.clone()).unwrap())
}

fn object(kind: ObjectKind, namespace: &str, name: &str, uid: &str) -> Object {
    Object {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    }
}

fn add(quarantine: &Quarantine, name: &str, uid: &str) {
    quarantine.add(object(ObjectKind::Pod, "a", name, uid), Stumble::Fell);
}

fn kept_off(heard: Heard) -> (Observation, Option<Said>) {
    match heard {
        Heard::Instead(event, said) => (event, said),
        Heard::AsItIs(event) => panic!("heard as it is: {event:?}"),
    }
}

fn is_heard(heard: &Heard) -> bool {
    matches!(heard, Heard::AsItIs(_))
}

#[test]
fn a_waiting_pod_is_kept_off_until_it_changes_or_is_gone_and_told_once() {
    let quarantine = Quarantine::default();
    assert!(is_heard(&quarantine.hear(read(&pod("p", "1")))));
    add(&quarantine, "p", "1");
    let (event, said) = kept_off(quarantine.hear(read(&pod("p", "1"))));
    assert!(matches!(event, Observation::PodGone(uid) if &*uid == "1"));
    let said = said.unwrap();
    assert!(
        said.waits && said.message.contains("set aside, so that others get in"),
        "{}",
        said.message
    );
    assert_eq!(&*said.object.name, "p");
    // A condition that is written on the pod does not change the hash of its content.
    let mut conditioned = pod("p", "1");
    conditioned["metadata"]["resourceVersion"] = json!("17");
    conditioned["status"] = json!({ "phase": "Pending" });
    assert_eq!(kept_off(quarantine.hear(read(&conditioned))).1, None);
    // A pod with another uid is another pod, even if it has the same name.
    assert!(is_heard(&quarantine.hear(read(&pod("p", "2")))));
    // A new list of all pods makes nothing forgotten.
    assert!(is_heard(&quarantine.hear(Observation::ListBegins(Kind::Pod))));
    kept_off(quarantine.hear(read(&pod("p", "1"))));

    let mut changed = pod("p", "1");
    changed["metadata"]["annotations"]["other"] = json!("y");
    assert!(is_heard(&quarantine.hear(read(&changed))));
    assert_eq!(quarantine.count(ObjectKind::Pod), 0);
    add(&quarantine, "p", "1");
    assert!(is_heard(&quarantine.hear(Observation::PodGone("1".into()))));
    assert_eq!(quarantine.count(ObjectKind::Pod), 0);
}

#[test]
fn a_pod_that_holds_something_counts_with_what_it_requests_until_even_that_is_too_much() {
    let quarantine = Quarantine::default();
    let mut bound = pod("p", "1");
    bound["spec"]["schedulingGates"] = json!([]);
    bound["spec"]["nodeName"] = json!("n-1");
    bound["spec"]["containers"] = json!([{ "resources": { "requests": { "nvidia.com/gpu": "2" } } }]);
    add(&quarantine, "p", "1");
    let (event, said) = kept_off(quarantine.hear(read(&bound)));
    let Observation::Pod(left) = event else {
        panic!("{event:?}")
    };
    assert_eq!(left.spec.node_name.as_deref(), Some("n-1"));
    assert_eq!(
        left.spec.containers[0].resources.requests.get("nvidia.com/gpu"),
        Some("2")
    );
    assert_eq!(left.metadata.annotations.get(QUEUE_NAME), Some("team-a"));
    assert_eq!(left.metadata.annotations.get("other"), None);
    assert!(left.spec.node_selector.is_empty());
    let said = said.unwrap();
    assert!(
        !said.waits && said.message.contains("counts with what it requests"),
        "{}",
        said.message
    );

    add(&quarantine, "p", "1");
    let (event, said) = kept_off(quarantine.hear(read(&bound)));
    assert!(matches!(event, Observation::PodGone(_)));
    assert!(said.unwrap().message.contains("nothing that it holds is counted"));
}

#[test]
fn after_several_pods_of_a_namespace_all_of_it_that_wait_are_kept_off_and_nobody_else() {
    let quarantine = Quarantine::default();
    for uid in ["1", "2"] {
        add(&quarantine, "p", uid);
        assert!(is_heard(&quarantine.hear(read(&pod("q", "9")))));
    }
    add(&quarantine, "p", "3");
    assert_eq!(quarantine.namespaces(), 1);
    let (event, said) = kept_off(quarantine.hear(read(&pod("q", "9"))));
    assert!(matches!(event, Observation::PodGone(uid) if &*uid == "9"));
    assert!(said.unwrap().message.contains("several pods of this namespace"));
    // By then the pod's own condition says so.
    let mut told = pod("q", "9");
    told["status"] = json!({ "conditions": [
        { "type": "card.volcano.sh/Admitted", "status": "False", "reason": "SetAside" },
    ] });
    assert_eq!(kept_off(quarantine.hear(read(&told))).1, None);
    let mut running = pod("r", "10");
    running["spec"]["schedulingGates"] = json!([]);
    assert!(is_heard(&quarantine.hear(read(&running))));
    let mut elsewhere = pod("q", "11");
    elsewhere["metadata"]["namespace"] = json!("b");
    assert!(is_heard(&quarantine.hear(read(&elsewhere))));
}

#[test]
fn other_objects_are_as_if_they_could_not_be_read_or_were_not_there() {
    let quarantine = Quarantine::default();
    let of = |kind, namespace, name| quarantine.add(object(kind, namespace, name, "u"), Stumble::StoodStill);
    of(ObjectKind::Queue, "", "team-a");
    of(ObjectKind::PodGroup, "a", "g");
    of(ObjectKind::Job, "a", "j");
    of(ObjectKind::Node, "", "n");
    of(ObjectKind::Namespace, "", "a");
    of(ObjectKind::ResourceSlice, "", "s");
    of(ObjectKind::DeviceClass, "", "c");
    of(ObjectKind::DeviceTaintRule, "", "t");
    of(ObjectKind::ResourceClaim, "a", "r");
    let metadata = |name: &str| json!({ "name": name, "namespace": "a", "uid": "u" });
    let queue = |quota: &str| {
        let queue =
            json!({ "metadata": { "name": "team-a", "uid": "u", "annotations": { "quota": quota } }, "spec": {} });
        Observation::Queue(serde_json::from_value(queue).unwrap())
    };
    let (event, said) = kept_off(quarantine.hear(queue("1")));
    assert!(matches!(event, Observation::QueueUnreadable { reason, .. } if reason.contains("over this queue")));
    assert!(said.unwrap().message.ends_with("(stood_still)"));
    assert!(is_heard(&quarantine.hear(queue("2"))));

    let group = json!({ "metadata": metadata("g"), "spec": {} });
    let (event, _) = kept_off(quarantine.hear(Observation::Group(serde_json::from_value(group).unwrap())));
    assert!(matches!(event, Observation::GroupUnreadable { .. }));
    let job = json!({ "metadata": metadata("j") });
    let (event, _) = kept_off(quarantine.hear(Observation::Job(serde_json::from_value(job).unwrap())));
    assert!(matches!(event, Observation::JobGone { .. }));
    let node = json!({ "metadata": { "name": "n" } });
    let (event, _) = kept_off(quarantine.hear(Observation::Node(serde_json::from_value(node).unwrap())));
    assert!(matches!(event, Observation::NodeGone(name) if &*name == "n"));
    let namespace = json!({ "name": "a" });
    let (event, _) = kept_off(quarantine.hear(Observation::Namespace(serde_json::from_value(namespace).unwrap())));
    assert!(matches!(event, Observation::NamespaceGone(_)));
    let slice = json!({ "metadata": { "name": "s" } });
    let (event, _) = kept_off(quarantine.hear(Observation::Slice(serde_json::from_value(slice).unwrap())));
    assert!(matches!(event, Observation::SliceGone(_)));
    let class = json!({ "metadata": { "name": "c" } });
    let (event, _) = kept_off(quarantine.hear(Observation::Class(serde_json::from_value(class).unwrap())));
    assert!(matches!(event, Observation::ClassGone(_)));
    let rule = json!({ "metadata": { "name": "t" } });
    let (event, _) = kept_off(quarantine.hear(Observation::TaintRule(serde_json::from_value(rule).unwrap())));
    assert!(matches!(event, Observation::TaintRuleGone(_)));
    let claim = |driver: &str| {
        let allocation = json!({ "devices": { "results": [{ "driver": driver }] } });
        let claim = json!({ "metadata": metadata("r"), "status": { "allocation": allocation } });
        Observation::Claim(serde_json::from_value(claim).unwrap())
    };
    let (event, said) = kept_off(quarantine.hear(claim("a")));
    assert!(matches!(event, Observation::ClaimGone { .. }));
    assert!(said.is_some());
    assert!(is_heard(&quarantine.hear(claim("b"))), "it is changed");
    assert!(is_heard(&quarantine.hear(Observation::NodeGone("n".into()))));
    assert_eq!(quarantine.count(ObjectKind::Node), 0);
}

#[test]
fn the_quarantine_is_bounded() {
    let quarantine = Quarantine::default();
    for number in 0..=MOST {
        let name = number.to_string();
        quarantine.add(object(ObjectKind::Node, "", &name, ""), Stumble::Fell);
    }
    assert_eq!(quarantine.count(ObjectKind::Node), MOST);
    let node = |name: &str| {
        let node = json!({ "metadata": { "name": name } });
        quarantine.hear(Observation::Node(serde_json::from_value(node).unwrap()))
    };
    assert!(is_heard(&node("0")));
    kept_off(node("1"));
}
