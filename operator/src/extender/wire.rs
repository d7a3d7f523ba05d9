//! Requests and answers of extender API v1 (`k8s.io/kube-scheduler/extender/v1`), as JSON.
//!
//! A scheduler that is configured for an extender that caches nodes sends their names (`nodeCacheCapable: true`). Otherwise it sends whole
//! nodes and wants whole nodes back; these are returned unchanged.

use std::borrow::Cow;

use crds::pod::Pod;
use engine::decide::extender::Refusal;
use engine::refs::PodRef;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Failure;

/// What a scheduler sends. Go writes the fields with the names given here; other clients begin them with a small letter.
#[derive(Debug, Deserialize)]
pub struct Args<'a> {
    #[serde(rename = "Pod", alias = "pod")]
    pod: Pod<Box<str>>,
    #[serde(rename = "Nodes", alias = "nodes", borrow, default)]
    nodes: Option<NodeList<'a>>,
    #[serde(rename = "NodeNames", alias = "nodeNames", alias = "nodenames", borrow, default)]
    node_names: Option<Vec<Name<'a>>>,
}

/// A name, which borrows from the body.
#[derive(Debug, Deserialize, Serialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Deserialize)]
struct NodeList<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: Box<str>,
}

impl<'a> Args<'a> {
    /// Reads the body of a request.
    pub fn read(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Returns an owned copy of the question's pod.
    pub fn pod(&self) -> Pod<Box<str>> {
        self.pod.clone()
    }

    /// Returns the names of the nodes.
    pub fn names(&self) -> Result<Vec<Box<str>>, Failure> {
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => Ok(names.iter().map(|name| (*name.0).into()).collect()),
            (None, Some(nodes)) => {
                let nodes = nodes.items.iter().flatten();
                let names = nodes.map(|node| Ok(serde_json::from_str::<Node>(node.get())?.metadata.name));
                Ok(names.collect::<Result<_, serde_json::Error>>()?)
            }
            (None, None) => Err(Failure::NoNodes),
        }
    }

    /// Returns the `ExtenderFilterResult`: all nodes except those at the refused places, in the form in which they were sent.
    pub fn filtered(&self, refused: &[(usize, Refusal)]) -> Result<Vec<u8>, Failure> {
        let items = self
            .nodes
            .as_ref()
            .and_then(|nodes| nodes.items.as_deref())
            .unwrap_or_default();
        let name = |place: usize| match &self.node_names {
            Some(names) => Ok((*names[place].0).into()),
            None => Ok::<_, serde_json::Error>(serde_json::from_str::<Node>(items[place].get())?.metadata.name),
        };
        let reasons = refused.iter().map(|(place, refusal)| Ok((name(*place)?, refusal)));
        let reasons: Vec<(Box<str>, _)> = reasons.collect::<Result<_, serde_json::Error>>()?;
        let failed = |is_final| Failed {
            reasons: &reasons,
            is_final,
        };
        let result = FilterResult {
            node_names: self.node_names.as_deref().map(|nodes| Kept { nodes, refused }),
            nodes: self.node_names.is_none().then_some(Items {
                items: Kept { nodes: items, refused },
            }),
            failed_nodes: failed(false),
            failed_and_unresolvable_nodes: failed(true),
            error: "",
        };
        // The buffer gets its largest possible size at once, since nodes in full are long.
        let mut body = Vec::with_capacity(items.iter().map(|item| item.get().len() + 1).sum::<usize>() + 1024);
        serde_json::to_writer(&mut body, &result)?;
        Ok(body)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_names: Option<Kept<'a, Name<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Items<'a>>,
    failed_nodes: Failed<'a>,
    failed_and_unresolvable_nodes: Failed<'a>,
    error: &'static str,
}

#[derive(Serialize)]
struct Items<'a> {
    items: Kept<'a, &'a RawValue>,
}

/// All nodes except the refused ones, whose places are in order.
struct Kept<'a, T> {
    nodes: &'a [T],
    refused: &'a [(usize, Refusal)],
}

impl<T: Serialize> Serialize for Kept<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let mut refused = self.refused.iter().map(|(place, _)| *place).peekable();
        for (place, node) in self.nodes.iter().enumerate() {
            if refused.next_if_eq(&place).is_none() {
                seq.serialize_element(node)?;
            }
        }
        seq.end()
    }
}

/// The refused nodes and the reasons: either the nodes where evictions might help, or the others.
struct Failed<'a> {
    reasons: &'a [(Box<str>, &'a Refusal)],
    is_final: bool,
}

impl Serialize for Failed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (node, reason) in self.reasons {
            if reason.is_final() == self.is_final {
                map.serialize_entry(node, &format_args!("{reason}"))?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority<'a> {
    host: &'a str,
    score: i64,
}

/// Returns Kubernetes' `HostPriorityList`: each name with its score.
pub fn prioritized(names: &[Box<str>], scores: &[i64]) -> Result<Vec<u8>, serde_json::Error> {
    let list: Vec<_> = names
        .iter()
        .zip(scores)
        .map(|(host, score)| HostPriority { host, score: *score })
        .collect();
    serde_json::to_vec(&list)
}

/// Kubernetes' `ExtenderBindingArgs`: which pod goes to which node.
#[derive(Debug, Deserialize)]
pub struct BindingArgs {
    #[serde(rename = "PodName", alias = "podName")]
    name: Box<str>,
    #[serde(rename = "PodNamespace", alias = "podNamespace")]
    namespace: Box<str>,
    #[serde(rename = "PodUID", alias = "podUID")]
    uid: Box<str>,
    #[serde(rename = "Node", alias = "node")]
    node: Box<str>,
}

impl BindingArgs {
    /// Reads the body of a request.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Returns the pod, and the node that it is to be bound to.
    pub fn into_pod_and_node(self) -> (PodRef, Box<str>) {
        let pod = PodRef {
            namespace: self.namespace.into(),
            name: self.name.into(),
            uid: self.uid.into(),
        };
        (pod, self.node)
    }
}

/// Returns the `ExtenderBindingResult`: why the pod is not bound; empty if it is bound.
pub fn bound(error: &str) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct BindingResult<'a> {
        error: &'a str,
    }
    serde_json::to_vec(&BindingResult { error })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use engine::decide::extender::CardsRefusal;

    fn filtered(args: &Value, refused: &[(usize, Refusal)]) -> Value {
        let body = serde_json::to_vec(args).unwrap();
        let args = Args::read(&body).unwrap();
        serde_json::from_slice(&args.filtered(refused).unwrap()).unwrap()
    }

    const FULL: Refusal = Refusal::Cards(CardsRefusal::CardsInUse);
    const TOO_FEW: Refusal = Refusal::Cards(CardsRefusal::TooFewCards { asked: 3, cards: 2 });

    #[test]
    fn names_come_back_as_names() {
        for key in ["NodeNames", "nodenames", "nodeNames"] {
            let args = json!({"Pod": {"metadata": {"name": "p"}}, "Nodes": null, key: ["a", "b\u{e9}", "c", "d"]});
            assert_eq!(
                filtered(&args, &[(1, FULL), (3, TOO_FEW)]),
                json!({
                    "NodeNames": ["a", "c"],
                    "FailedNodes": {"b\u{e9}": FULL.to_string()},
                    "FailedAndUnresolvableNodes": {"d": TOO_FEW.to_string()},
                    "Error": "",
                })
            );
        }
    }

    #[test]
    fn whole_nodes_come_back_as_they_came() {
        let node = |name: &str| json!({"metadata": {"name": name}, "status": {"images": [{"names": ["x"]}]}});
        let args = json!({"Pod": {}, "Nodes": {"metadata": {}, "items": [node("a"), node("b")]}, "NodeNames": null});
        assert_eq!(
            filtered(&args, &[(0, FULL)]),
            json!({
                "Nodes": {"items": [node("b")]},
                "FailedNodes": {"a": FULL.to_string()},
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            })
        );
    }

    #[test]
    fn a_binding_names_pod_and_node() {
        let body = r#"{"PodName":"p","PodNamespace":"team","PodUID":"u1","Node":"g1"}"#;
        let (pod, node) = BindingArgs::read(body.as_bytes()).unwrap().into_pod_and_node();
        assert_eq!(
            (&*pod.namespace, &*pod.name, &*pod.uid, &*node),
            ("team", "p", "u1", "g1")
        );
        let result: Value = serde_json::from_slice(&bound("no room").unwrap()).unwrap();
        assert_eq!(result, json!({"Error": "no room"}));
    }

    #[test]
    fn scores_are_listed_by_host() {
        let names = ["a".into(), "b".into()];
        let list: Value = serde_json::from_slice(&prioritized(&names, &[9, 0]).unwrap()).unwrap();
        assert_eq!(list, json!([{"Host": "a", "Score": 9}, {"Host": "b", "Score": 0}]));
    }

    #[test]
    fn what_names_no_nodes_or_no_pod_is_refused() {
        let read = |body: &Value| {
            let body = serde_json::to_vec(body).unwrap();
            let args = Args::read(&body).map_err(Failure::from);
            args.and_then(|args| args.names())
                .map_err(|failure| failure.to_string())
        };
        assert_eq!(read(&json!({"Pod": {}, "NodeNames": []})), Ok(Vec::new()));
        assert!(read(&json!({"Pod": {}})).unwrap_err().contains("in NodeNames or Nodes"));
        assert!(read(&json!({"NodeNames": ["a"]})).unwrap_err().contains("Pod"));
        assert!(
            read(&json!({"Pod": {}, "Nodes": {"items": [{"spec": {}}]}}))
                .unwrap_err()
                .contains("metadata")
        );
    }
}
