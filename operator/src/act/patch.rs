//! The one JSON patch that admits a pod: it is applied as a whole or not at all.

use crds::keys::{GATE, GPU_NODE_LABEL, JOB_HELD};
use crds::pod::NodeSelectorTerm;
use engine::cluster::constraints::{self, NAME_FIELD, NodeAffinity};
use engine::decide::Admission;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::{Map, Value, json};

/// The key of the required part of a node affinity.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The key of the terms in required affinity.
const TERMS: &str = "nodeSelectorTerms";
/// The key of a term's requirements on fields.
const FIELDS: &str = "matchFields";
/// The key of a term's requirements on labels.
const EXPRESSIONS: &str = "matchExpressions";

/// Returns the patch that admits a pod. It tests that the pod is the right one and that Cardgate's gate is its only gate. Then it removes
/// the gate, writes the card, and restricts the pod to that card. If the pod has changed in between, the whole patch fails.
pub fn admission_patch(admission: &Admission) -> Patch {
    let mut operations = vec![
        test(["metadata", "uid"], json!(&*admission.pod.uid)),
        test(["spec", "schedulingGates"], json!([{ "name": GATE }])),
        PatchOperation::Remove(RemoveOperation {
            path: pointer(["spec", "schedulingGates"]),
        }),
    ];
    operations.extend(add_to_map(
        ["metadata", "annotations"],
        admission.has_annotations,
        admission.results(),
    ));
    let narrow = admission
        .narrow
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    operations.extend(add_to_map(
        ["spec", "nodeSelector"],
        admission.has_node_selector,
        narrow,
    ));
    operations.extend(require_nodes(admission));
    Patch(operations)
}

/// Adds requirements on nodes to a pod's affinity: the nodes that it may go to.
fn require_nodes(admission: &Admission) -> Vec<PatchOperation> {
    let without = |key: &str| json!({ "key": key, "operator": "DoesNotExist" });
    let (pin, avoid, off_gpu_nodes) = (&admission.pin, &admission.avoid, &admission.off_gpu_nodes);
    let fields = pin
        .iter()
        .map(|pin| json!({ "key": NAME_FIELD, "operator": "In", "values": [&*pin.node] }));
    let gpu_nodes = off_gpu_nodes.iter().map(|_| GPU_NODE_LABEL);
    let avoided = avoid.iter().flat_map(|avoid| &avoid.labels).map(|label| &**label);
    let requirements = [
        (FIELDS, fields.collect::<Vec<_>>()),
        (EXPRESSIONS, gpu_nodes.chain(avoided).map(without).collect()),
    ];
    let of_pin = pin.as_ref().map(|pin| &pin.affinity);
    let of_avoided = avoid.as_ref().map(|avoid| &avoid.affinity);
    let affinity = of_pin.or(of_avoided).or(off_gpu_nodes.as_ref());
    affinity.map_or_else(Vec::new, |affinity| require(affinity, &requirements))
}

/// Adds requirements on nodes to a pod's affinity, as fields or labels of terms. If there is required affinity, every term must have the
/// requirements, since one matching term is enough. Nothing else may change, since the API server lets a gated pod's terms only grow. An
/// empty term matches nothing and stays empty.
fn require(affinity: &NodeAffinity, requirements: &[(&str, Vec<Value>)]) -> Vec<PatchOperation> {
    let requirements = || requirements.iter().filter(|(_, of_member)| !of_member.is_empty());
    let required = || {
        let term = requirements().map(|(member, of_member)| ((*member).to_owned(), json!(of_member)));
        json!({ TERMS: [term.collect::<Map<_, _>>()] })
    };
    match affinity {
        NodeAffinity::Absent => vec![add(
            ["spec", "affinity"],
            json!({"nodeAffinity": {REQUIRED: required()}}),
        )],
        NodeAffinity::OnlyToPods => vec![add(["spec", "affinity", "nodeAffinity"], json!({REQUIRED: required()}))],
        NodeAffinity::Preferred => vec![add(["spec", "affinity", "nodeAffinity", REQUIRED], required())],
        NodeAffinity::Required(terms) => {
            let growing = terms
                .iter()
                .enumerate()
                .filter(|(_, term)| !constraints::is_empty(term));
            let add_to_term = |(index, term): (usize, &NodeSelectorTerm<Box<str>>)| {
                let index = index.to_string();
                let add_to_member = |(member, of_member): &(&str, Vec<Value>)| -> Vec<PatchOperation> {
                    let list = ["spec", "affinity", "nodeAffinity", REQUIRED, TERMS, &index, member];
                    let present = match *member {
                        FIELDS => &term.match_fields,
                        _ => &term.match_expressions,
                    };
                    if present.is_empty() {
                        return vec![add(list, json!(of_member))];
                    }
                    let append = |value: &Value| {
                        PatchOperation::Add(AddOperation {
                            path: PointerBuf::from_tokens(list.into_iter().chain(["-"])),
                            value: value.clone(),
                        })
                    };
                    of_member.iter().map(append).collect()
                };
                requirements().flat_map(add_to_member).collect::<Vec<_>>()
            };
            growing.flat_map(add_to_term).collect()
        }
    }
}

/// Returns the patch that resumes a Job. It tests that the Job is the right one and that Cardgate suspended it; then it resumes the Job and
/// removes the mark.
pub fn resumption_patch(uid: &str) -> Patch {
    Patch(vec![
        test(["metadata", "uid"], json!(uid)),
        test(["spec", "suspend"], json!(true)),
        PatchOperation::Remove(RemoveOperation {
            path: pointer(["metadata", "annotations", JOB_HELD]),
        }),
        PatchOperation::Replace(ReplaceOperation {
            path: pointer(["spec", "suspend"]),
            value: json!(false),
        }),
    ])
}

/// Returns operations that add entries to a map that may not exist yet; no operation if there are no entries.
fn add_to_map<'a>(
    map: [&str; 2],
    exists: bool,
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<PatchOperation> {
    let entries = entries.into_iter().map(|(key, value)| (key, json!(value)));
    if exists {
        return entries.map(|(key, value)| add([map[0], map[1], key], value)).collect();
    }
    let entries: Map<_, _> = entries.map(|(key, value)| (key.to_owned(), value)).collect();
    if entries.is_empty() {
        Vec::new()
    } else {
        vec![add(map, entries.into())]
    }
}

fn test<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: pointer(path),
        value,
    })
}

fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: pointer(path),
        value,
    })
}

fn pointer<const N: usize>(tokens: [&str; N]) -> PointerBuf {
    PointerBuf::from_tokens(tokens)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crds::keys::CARD_ASSIGNED;
    use engine::cluster::constraints::NodeConstraints;
    use engine::decide::Pin;
    use engine::refs::PodRef;

    pub(in crate::act) fn admission(has_node_selector: bool, has_annotations: bool) -> Admission {
        Admission {
            pod: PodRef {
                namespace: "team".into(),
                name: "trainer".into(),
                uid: "u1".into(),
            },
            queue: "team-a".into(),
            arrived: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
            card: Some("NVIDIA-A100/mps-80g*1/8".into()),
            is_marked: false,
            narrow: vec![("nvidia.com/gpu.product".into(), "NVIDIA-A100".into())],
            has_node_selector,
            has_annotations,
            pin: None,
            avoid: None,
            off_gpu_nodes: None,
            mgpu_results: Vec::new(),
            was_told: false,
        }
    }

    fn pod() -> Value {
        json!({
            "metadata": {"uid": "u1", "annotations": {"volcano.sh/card.name": "A|B"}},
            "spec": {"schedulingGates": [{"name": GATE}], "nodeSelector": {"zone": "a"}},
        })
    }

    #[test]
    fn an_admission_removes_the_gate_names_the_card_and_narrows_the_pod() {
        let mut pod = pod();
        json_patch::patch(&mut pod, &admission_patch(&admission(true, true))).unwrap();
        assert_eq!(
            pod,
            json!({
                "metadata": {"uid": "u1", "annotations": {
                    "volcano.sh/card.name": "A|B", "volcano.sh/card.assigned": "NVIDIA-A100/mps-80g*1/8",
                }},
                "spec": {"nodeSelector": {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-A100"}},
            })
        );
    }

    #[test]
    fn maps_that_are_not_there_are_made() {
        let mut pod = json!({"metadata": {"uid": "u1"}, "spec": {"schedulingGates": [{"name": GATE}]}});
        json_patch::patch(&mut pod, &admission_patch(&admission(false, false))).unwrap();
        assert_eq!(pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"], "NVIDIA-A100");
        assert_eq!(pod["metadata"]["annotations"][CARD_ASSIGNED], "NVIDIA-A100/mps-80g*1/8");
    }

    /// Otherwise nothing on the pod would show to an operator that starts later that Cardgate admitted it.
    #[test]
    fn who_is_let_in_for_no_card_is_marked_where_nothing_else_shows_that_it_was_held() {
        for (is_marked, expected) in [(true, json!("{}")), (false, Value::Null)] {
            let admission = Admission {
                card: None,
                is_marked,
                ..admission(true, true)
            };
            let mut pod = pod();
            json_patch::patch(&mut pod, &admission_patch(&admission)).unwrap();
            assert_eq!(pod["metadata"]["annotations"][CARD_ASSIGNED], expected);
        }
    }

    #[test]
    fn the_results_of_mgpu_scheduling_are_written_as_the_document_has_them() {
        let results = [
            ("vke.volcengine.com/assumed", "true"),
            ("vke.volcengine.com/gpu-index-container-c1", "1"),
            ("vke.volcengine.com/gpu-index-container-c2", "2,3"),
        ];
        let admission = Admission {
            card: None,
            narrow: Vec::new(),
            mgpu_results: results
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..admission(true, true)
        };
        let mut pod = pod();
        json_patch::patch(&mut pod, &admission_patch(&admission)).unwrap();
        let mut expected = json!({"volcano.sh/card.name": "A|B"});
        for (key, value) in results {
            expected[key] = json!(value);
        }
        assert_eq!(pod["metadata"]["annotations"], expected);
    }

    /// Returns the affinity of a pod that has `affinity` and is pinned.
    fn pinned(affinity: &Value) -> Value {
        let mut pod = pod();
        if !affinity.is_null() {
            pod["spec"]["affinity"] = affinity.clone();
        }
        let mut spec = serde_json::from_value(pod["spec"].clone()).unwrap();
        let pin = Pin {
            node: "gpu-1".into(),
            affinity: NodeConstraints::take(&mut spec).affinity,
        };
        let admission = Admission {
            pin: Some(pin),
            ..admission(true, true)
        };
        json_patch::patch(&mut pod, &admission_patch(&admission)).unwrap();
        pod["spec"]["affinity"].take()
    }

    #[test]
    fn a_pin_is_added_to_whatever_affinity_there_is() {
        let name = json!({"key": "metadata.name", "operator": "In", "values": ["gpu-1"]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
        let pods = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
        let preferred = json!([{"weight": 1, "preference": {}}]);
        for (before, after) in [
            (json!(null), json!({"nodeAffinity": {REQUIRED: required}})),
            (json!({}), json!({"nodeAffinity": {REQUIRED: required}})),
            (
                json!({"podAffinity": pods}),
                json!({"podAffinity": pods, "nodeAffinity": {REQUIRED: required}}),
            ),
            (
                json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
                json!({"nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred, REQUIRED: required,
                }}),
            ),
        ] {
            assert_eq!(pinned(&before), after, "{before}");
        }
    }

    #[test]
    fn a_pin_is_added_to_every_term_since_one_that_matches_is_enough() {
        let name = |node: &str| json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let zone = json!([{"key": "zone", "operator": "Exists"}]);
        let terms = |terms: Value| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
        let before = terms(json!([{"matchExpressions": zone}, {"matchFields": [name("gpu-1")]}, {}]));
        let after = terms(json!([
            {"matchExpressions": zone, "matchFields": [name("gpu-1")]},
            {"matchFields": [name("gpu-1"), name("gpu-1")]},
            {},
        ]));
        assert_eq!(pinned(&before), after);
        let mut spec = serde_json::from_value(json!({"affinity": after})).unwrap();
        assert_eq!(NodeConstraints::take(&mut spec).affinity.pinned_to(), Some("gpu-1"));
    }

    #[test]
    fn a_pod_is_kept_off_gpu_nodes_by_every_term() {
        let no_gpu_node = json!({"key": GPU_NODE_LABEL, "operator": "DoesNotExist"});
        let zone = json!({"key": "zone", "operator": "Exists"});
        let name = json!({"key": "metadata.name", "operator": "NotIn", "values": ["x"]});
        let mut pod = pod();
        pod["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [zone]}, {"matchFields": [name]}, {},
        ]}}});
        let affinity = NodeConstraints::take(&mut serde_json::from_value(pod["spec"].clone()).unwrap()).affinity;
        let admission = Admission {
            off_gpu_nodes: Some(affinity),
            ..admission(true, true)
        };
        json_patch::patch(&mut pod, &admission_patch(&admission)).unwrap();
        assert_eq!(
            pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"],
            json!([
                {"matchExpressions": [zone, no_gpu_node]},
                {"matchFields": [name], "matchExpressions": [no_gpu_node]},
                {},
            ])
        );
    }

    #[test]
    fn another_pod_or_another_gate_refuses_the_patch() {
        let refused = |change: fn(&mut Value)| {
            let mut pod = pod();
            change(&mut pod);
            let before = pod.clone();
            assert!(json_patch::patch(&mut pod, &admission_patch(&admission(true, true))).is_err());
            assert_eq!(pod, before, "nothing of it happens");
        };
        refused(|pod| pod["metadata"]["uid"] = json!("u2"));
        refused(|pod| pod["spec"]["schedulingGates"] = json!([{"name": GATE}, {"name": "other"}]));
        refused(|pod| pod["spec"]["schedulingGates"] = json!([]));
    }
}
