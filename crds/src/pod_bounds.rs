//! The most that a pod may contain, apart from what has a parser of its own (see [`crate::bounds`]).

use std::iter;

use thiserror::Error;

use crate::bounds::{self, BoundError, Tally, shown};
use crate::keys::{GROUP_NAME, QUEUE_NAME, is_operator_result};
use crate::pod::{
    Container, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, ResourceRequirements, Toleration,
};

/// A pod that contains more than it may.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum PodBoundError {
    /// An annotation that is too long.
    #[error("annotation {key}: {source}")]
    Annotation { key: &'static str, source: BoundError },
    /// Too much about nodes.
    #[error("{0}")]
    Nodes(BoundError),
    /// Too much about what containers request.
    #[error("{0}")]
    Containers(BoundError),
    /// Too many results of an admission; `key` is one of them.
    #[error("annotation {key}: {source}")]
    Results { key: String, source: BoundError },
}

/// Checks how many results of an admission a new pod carries. Each is removed on its own, and the author is told of each. So
/// many results must not make an answer many times as long as the pod.
pub fn check_results<S: AsRef<str>>(pod: &Pod<S>) -> Result<(), PodBoundError> {
    let keys = pod.metadata.annotations.iter().map(|(key, _)| key);
    let mut results = keys.filter(|key| is_operator_result(key));
    let Some(first) = results.next() else {
        return Ok(());
    };
    BoundError::count(
        || "the pod".to_owned(),
        "results of an admission",
        1 + results.count(),
        bounds::RESULTS,
        "create it without them, only Cardgate writes them",
    )
    .map_err(|source| PodBoundError::Results {
        key: shown(first),
        source,
    })
}

/// Checks the names of other objects in a pod, and what the pod says about nodes.
pub fn check<S: AsRef<str>>(pod: &Pod<S>) -> Result<(), PodBoundError> {
    // Computed at compile time, since the check runs for every pod that says anything.
    const QUEUE_LENGTH: usize = bounds::annotation_length(QUEUE_NAME);
    const GROUP_LENGTH: usize = bounds::annotation_length(GROUP_NAME);
    for (key, most, remedy) in [
        (QUEUE_NAME, QUEUE_LENGTH, "name a queue, see kubectl get queues"),
        (GROUP_NAME, GROUP_LENGTH, "name a PodGroup, see kubectl get podgroups"),
    ] {
        let text = pod.metadata.annotations.get(key).unwrap_or_default();
        BoundError::length(text, most, remedy).map_err(|source| PodBoundError::Annotation { key, source })?;
    }
    for (count, of, most, remedy) in [
        (
            node_terms(&pod.spec),
            "labels, requirements and values in spec.nodeSelector, spec.affinity.nodeAffinity and spec.tolerations",
            bounds::NODE_TERMS,
            "select nodes by a label that all of them have",
        ),
        (
            node_texts(&pod.spec).sum(),
            "bytes in spec.nodeSelector, spec.affinity.nodeAffinity and spec.tolerations",
            bounds::NODE_TEXTS_LENGTH,
            "select nodes by a label that all of them have",
        ),
    ] {
        BoundError::count(|| "the pod".to_owned(), of, count, most, remedy).map_err(PodBoundError::Nodes)?;
    }
    BoundError::count(
        || "the pod".to_owned(),
        "containers, requests and limits of these",
        container_terms(&pod.spec),
        bounds::CONTAINER_TERMS,
        "use fewer containers, or let fewer of them request something",
    )
    .map_err(PodBoundError::Containers)
}

/// Counts what a pod says about nodes: its labels, requirements and values, and its tolerations.
pub fn node_terms<S: AsRef<str>>(spec: &PodSpec<S>) -> usize {
    node_texts(spec).count()
}

/// Returns the lengths of what a pod says about nodes, term by term.
fn node_texts<S: AsRef<str>>(spec: &PodSpec<S>) -> impl Iterator<Item = usize> {
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required
        .into_iter()
        .flat_map(|required| required.node_selector_terms.iter());
    let labels = spec.node_selector.iter().map(of_label);
    labels
        .chain(spec.tolerations.iter().map(of_toleration))
        .chain(terms.flat_map(of_term))
}

fn of_term<S: AsRef<str>>(term: &NodeSelectorTerm<S>) -> impl Iterator<Item = usize> {
    let requirements = term.match_expressions.iter().chain(&term.match_fields);
    let of_requirements = requirements.flat_map(|requirement| {
        let values = requirement.values.iter().map(|value| value.as_ref().len());
        iter::once(of_requirement(requirement)).chain(values)
    });
    iter::once(0).chain(of_requirements)
}

fn of_label((key, value): (&str, &str)) -> usize {
    key.len() + value.len()
}

fn of_toleration<S: AsRef<str>>(toleration: &Toleration<S>) -> usize {
    let Toleration {
        key,
        operator,
        value,
        effect,
    } = toleration;
    length([key, operator, value, effect])
}

fn of_requirement<S: AsRef<str>>(requirement: &NodeSelectorRequirement<S>) -> usize {
    length([&requirement.key, &requirement.operator])
}

fn length<S: AsRef<str>, const N: usize>(texts: [&Option<S>; N]) -> usize {
    texts.into_iter().flatten().map(|text| text.as_ref().len()).sum()
}

/// Cuts what a pod says about nodes if it is more than is allowed. What is left is still more than is allowed, but only just.
pub fn cut_node_terms<S>(spec: &mut PodSpec<S>)
where
    S: AsRef<str> + for<'t> From<&'t str>,
{
    let mut tally = Tally::of(bounds::NODE_TERMS, bounds::NODE_TEXTS_LENGTH);
    if node_texts(spec).all(|text| tally.takes(text) && !tally.is_exceeded()) {
        return;
    }
    let mut tally = Tally::of(bounds::NODE_TERMS, bounds::NODE_TEXTS_LENGTH);
    keep(&mut spec.tolerations, |toleration| {
        tally.takes(of_toleration(toleration))
    });
    let labels = spec
        .node_selector
        .iter()
        .take_while(|label| tally.takes(of_label(*label)));
    let labels = labels.count();
    spec.node_selector.truncate(labels);
    let affinity = spec
        .affinity
        .as_mut()
        .and_then(|affinity| affinity.node_affinity.as_mut());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_mut());
    if let Some(required) = required {
        let terms = &mut required.node_selector_terms;
        terms.retain_mut(|term| {
            let is_kept = tally.takes(0);
            for requirements in [&mut term.match_expressions, &mut term.match_fields] {
                keep(requirements, |requirement| {
                    let is_kept = tally.takes(of_requirement(requirement));
                    keep(&mut requirement.values, |value| {
                        let length = value.as_ref().len();
                        shorten(value);
                        tally.takes(length)
                    });
                    is_kept
                });
            }
            is_kept
        });
        terms.shrink_to_fit();
    }
}

/// Cuts a value that is too long. A value may be as long as an object: API servers before 1.32 take any.
fn shorten<S>(value: &mut S)
where
    S: AsRef<str> + for<'t> From<&'t str>,
{
    let text = value.as_ref();
    // One byte too many, or up to three more at the end of a character, is still too long.
    let end = text.ceil_char_boundary(bounds::NODE_TEXTS_LENGTH + 1);
    if end < text.len() {
        *value = S::from(&text[..end]);
    }
}

fn keep<T>(list: &mut Vec<T>, is_kept: impl FnMut(&mut T) -> bool) {
    list.retain_mut(is_kept);
    list.shrink_to_fit();
}

/// Counts the containers, and what they request and are limited to.
pub fn container_terms<S: AsRef<str>>(spec: &PodSpec<S>) -> usize {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    containers.map(of_container).sum()
}

fn of_container<S: AsRef<str>>(container: &Container<S>) -> usize {
    let ResourceRequirements { requests, limits } = &container.resources;
    1 + requests.len() + limits.len()
}

/// Cuts the containers of a pod, and what they request, if they are more than is allowed. What is left is still more than is
/// allowed.
pub fn cut_containers<S: AsRef<str>>(spec: &mut PodSpec<S>) {
    let mut left = bounds::CONTAINER_TERMS + 1;
    let mut cut = |container: &mut Container<S>| {
        let is_kept = left > 0;
        left = left.saturating_sub(1);
        let ResourceRequirements { requests, limits } = &mut container.resources;
        for list in [requests, limits] {
            if list.len() > left {
                list.truncate(left);
            }
            left -= list.len();
        }
        is_kept
    };
    spec.containers.retain_mut(&mut cut);
    spec.init_containers.retain_mut(&mut cut);
    spec.containers.shrink_to_fit();
    spec.init_containers.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(pod: &serde_json::Value) -> Result<(), String> {
        let pod: Pod<String> = serde_json::from_value(pod.clone()).unwrap();
        check(&pod).map_err(|error| error.to_string())
    }

    /// Whether a pod is refused, which is said in these words.
    fn is_refused(pod: &serde_json::Value, words: &str) -> bool {
        let refused = checked(pod).err();
        assert!(
            refused.as_ref().is_none_or(|error| error.contains(words)),
            "{refused:?}"
        );
        refused.is_some()
    }

    #[test]
    fn a_pod_says_no_more_about_nodes_than_can_be_compared_with_each() {
        let pod = |values: usize, tolerations: usize| {
            let values: Vec<_> = (0..values).map(|index| format!("node-{index}")).collect();
            json!({"spec": {
                "nodeSelector": {"zone": "a"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": values}]},
                ]}}},
                "tolerations": vec![json!({"operator": "Exists"}); tolerations],
            }})
        };
        assert_eq!(checked(&pod(1000, 21)), Ok(()));
        for beyond in [pod(1001, 21), pod(1000, 22)] {
            let error = checked(&beyond).unwrap_err();
            assert!(
                error.starts_with("the pod has 1025 labels, requirements and values")
                    && error.ends_with("and 1024 are allowed: select nodes by a label that all of them have"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_too_much_is_cut_and_is_still_too_much() {
        let value = |index: usize| json!({"key": "zone", "operator": "In", "values": vec![format!("z{index}"); 50]});
        let terms: Vec<_> = (0..100)
            .map(|index| json!({"matchExpressions": [value(index), value(index)]}))
            .collect();
        let (selector, tolerations) = (json!({"a": "b"}), vec![json!({"operator": "Exists"}); 500]);
        let affinity = |terms: &[serde_json::Value]| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}})
        };
        for (terms, tolerations, cut_to) in [
            (&terms[..], &tolerations[..], 1025),
            (&terms[..], &[], 1025),
            (&[], &vec![json!({}); 1500][..], 1025),
            (&terms[..5], &tolerations[..], 1016),
        ] {
            let spec = json!({"nodeSelector": selector, "affinity": affinity(terms), "tolerations": tolerations});
            let mut spec: PodSpec<String> = serde_json::from_value(spec).unwrap();
            cut_node_terms(&mut spec);
            assert_eq!(node_terms(&spec), cut_to);
        }
    }

    #[test]
    fn what_a_pod_says_about_nodes_is_not_long_either() {
        let most = bounds::NODE_TEXTS_LENGTH;
        let long = |length: usize| "x".repeat(length);
        let values = |values: &[String]| {
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]},
            ]}}}}})
        };
        let tolerations = |count: usize| {
            let toleration = json!({"key": long(300), "operator": "Equal", "value": long(20)});
            json!({"spec": {"tolerations": vec![toleration; count], "nodeSelector": {"zone": long(300)}}})
        };
        for (pod, is_too_long) in [
            (values(&[long(most - 6)]), false),
            (values(&[long(most - 5)]), true),
            (values(&[long(4), long(1_000_000), long(4)]), true),
            (values(&["ü".repeat(most)]), true),
            (tolerations(99), false),
            (tolerations(101), true),
            (tolerations(1000), true),
        ] {
            assert_eq!(
                is_refused(&pod, "select nodes by a label that all of them have"),
                is_too_long
            );
            let pod: Pod<Box<str>> = serde_json::from_value(pod).unwrap();
            let mut spec = pod.spec.clone();
            cut_node_terms(&mut spec);
            let length: usize = node_texts(&spec).sum();
            assert_eq!(length > most, is_too_long);
            assert!(length < 2 * most + 10 && (is_too_long || spec == pod.spec), "{length}");
        }
    }

    #[test]
    fn containers_do_not_request_without_end() {
        let lists = |containers: usize, resources: usize| {
            let resources: serde_json::Map<_, _> =
                (0..resources).map(|index| (format!("r{index}"), json!("1"))).collect();
            let container = json!({"resources": {"requests": resources, "limits": resources}});
            json!({"spec": {"containers": vec![container.clone(); containers], "initContainers": [container]}})
        };
        for (pod, is_too_much) in [
            (lists(6, 64), false),
            (lists(7, 64), true),
            (lists(1023, 0), false),
            (lists(1024, 0), true),
            (lists(300, 60), true),
            (lists(20_000, 0), true),
        ] {
            let words = "containers, requests and limits of these, and 1024 are allowed";
            assert_eq!(is_refused(&pod, words), is_too_much);
            let pod: Pod<String> = serde_json::from_value(pod).unwrap();
            let mut spec = pod.spec.clone();
            cut_containers(&mut spec);
            assert_eq!(container_terms(&spec) > bounds::CONTAINER_TERMS, is_too_much);
            assert!(container_terms(&spec) <= bounds::CONTAINER_TERMS + 1 && (is_too_much || spec == pod.spec));
        }
    }

    #[test]
    fn names_of_objects_are_no_longer_than_names_can_be() {
        for key in [QUEUE_NAME, GROUP_NAME] {
            let pod = |length: usize| json!({"metadata": {"annotations": {key: "x".repeat(length)}}});
            assert_eq!(checked(&pod(253)), Ok(()));
            let error = checked(&pod(254)).unwrap_err();
            assert!(
                error.starts_with(&format!("annotation {key}: \"xxx"))
                    && error.contains("254 bytes, and 253 are allowed"),
                "{error}"
            );
        }
    }
}
