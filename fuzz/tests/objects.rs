//! Every object that is read: what the API server can hold is read, whatever it says, and what is wrong with it is said in few
//! words.

#![expect(clippy::unwrap_used, reason = "a panic is how a target fails")]

use std::fmt::Display;
use std::time::Duration;

use crds::bounds::{CONTAINER_TERMS, MGPU_CONTAINERS, NODE_TERMS, RESOURCES, TASKS};
use crds::card_counts::CardRequest;
use crds::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crds::job::Job;
use crds::lean::Text;
use crds::made::made_by;
use crds::managed::{is_concerned, is_managed, is_reachable, is_under_cross_quota};
use crds::mgpu::MgpuRequest;
use crds::node::Node;
use crds::observed::Guarded;
use crds::pod::Pod;
use crds::pod_bounds;
use crds::pod_request::pod_request;
use crds::queue_terms::QueueTerms;
use crds::volcano::{self, PodGroup, Queue, WatchedGroup, min_resources};
use fuzz::corpus;
use fuzz::cost::within;
use fuzz::objects::Objects;
use k8s_openapi::api::{batch, core, resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 2_000;

/// What reading an object may cost without optimisation.
const LIMIT: Duration = Duration::from_millis(300);
/// The longest message about a pod: it names the container, the resource and the rule.
const LONGEST_MESSAGE: usize = 1200;

/// A target: takes an object, and says whether it was accepted.
macro_rules! target {
    ($target:ident, $corpus:literal, $judge:expr) => {
        #[test]
        fn $target() {
            let judge: fn(&Value) -> bool = $judge;
            let entries = corpus::read($corpus);
            for entry in &entries {
                let accepted = judge(&serde_json::from_str(&entry.text).unwrap());
                assert!(
                    entry.valid.is_none_or(|valid| valid == accepted),
                    "{} is accepted: {accepted}",
                    entry.name
                );
            }
            let objects = Objects::near(corpus::objects(&entries));
            bolero::check!()
                .with_iterations(CASES)
                .with_generator(objects)
                .for_each(|object| {
                    judge(object);
                });
        }
    };
}

/// The object as a watch would bring it: as the API server writes it. What is no such object for Kubernetes' own types it can't
/// hold; everything else is read, or one object stops the watch of all.
fn as_watched<K: DeserializeOwned + Serialize, T: DeserializeOwned>(object: &Value) -> Option<T> {
    let text = object.to_string();
    let read = |text: &str| {
        within(LIMIT, format_args!("an object of {} bytes", text.len()), || {
            serde_json::from_str::<T>(text)
        })
    };
    // Whatever else comes is refused or read.
    let anything = read(&text);
    let Ok(held) = serde_json::from_str::<K>(&text) else {
        return anything.ok();
    };
    let written = serde_json::to_string(&held).unwrap();
    let read = read(&written).map_err(|error| error.to_string());
    assert!(read.is_ok(), "{:?}: what can't be read is {written}", read.err());
    read.ok()
}

/// The object as the API server writes it: with quantities as text, for one. What is no such object stays as it is.
fn as_written<K: DeserializeOwned + Serialize>(object: &Value) -> String {
    let text = object.to_string();
    let held = serde_json::from_str::<K>(&text);
    held.map_or(text, |held| serde_json::to_string(&held).unwrap())
}

fn said<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result
        .inspect_err(|error| {
            let message = error.to_string();
            assert!(message.len() <= LONGEST_MESSAGE, "{} bytes: {message}", message.len());
            assert!(!message.contains(char::is_control), "{message:?}");
        })
        .ok()
}

target!(pods, "pods", |object| {
    let Some(pod) = as_watched::<core::v1::Pod, Pod<Box<str>>>(object) else {
        return false;
    };
    let text = as_written::<core::v1::Pod>(object);
    let borrowed: Pod<Text<'_>> = serde_json::from_str(&text).unwrap();
    let request = said(within(LIMIT, "a request", || pod_request(&pod.spec)));
    let mgpu = said(within(LIMIT, "shares", || MgpuRequest::read(&pod)));
    let nodes = said(within(LIMIT, "bounds", || pod_bounds::check(&pod)));
    // The door borrows what the operator owns, and both read the same.
    assert_eq!(request, pod_request(&borrowed.spec).ok());
    assert_eq!(mgpu, MgpuRequest::read(&borrowed).ok());
    assert_eq!(nodes.is_some(), pod_bounds::check(&borrowed).is_ok());
    for namespace in ["default", "kube-system"] {
        assert_eq!(is_managed(&pod, namespace), is_managed(&borrowed, namespace));
        assert_eq!(is_reachable(&pod, namespace), is_reachable(&borrowed, namespace));
        assert_eq!(
            is_under_cross_quota(&pod, namespace),
            is_under_cross_quota(&borrowed, namespace)
        );
        assert!(is_concerned(&pod) || !is_managed(&pod, namespace));
    }
    if let Some(request) = &request {
        assert!(request.iter().len() <= RESOURCES && request.iter().all(|(_, amount)| amount > 0));
    }
    let containers = mgpu.iter().flatten().map(|mgpu| mgpu.containers.len());
    assert!(containers.sum::<usize>() <= MGPU_CONTAINERS);
    assert!(nodes.is_none() || pod_bounds::node_terms(&pod.spec) <= NODE_TERMS);
    assert!(nodes.is_none() || pod.spec.containers.len() + pod.spec.init_containers.len() <= CONTAINER_TERMS);
    request.is_some() && mgpu.is_some() && nodes.is_some()
});

target!(nodes, "nodes", |object| {
    as_watched::<core::v1::Node, Node<Box<str>>>(object).is_some_and(|node| node.is_ready())
});

target!(jobs, "jobs", |object| {
    let Some(job) = as_watched::<batch::v1::Job, Job<Box<str>>>(object) else {
        return false;
    };
    let _ = (job.is_suspended(), job.has_ended_pods());
    !job.is_finished()
});

target!(resource_slices, "resource-slices", |object| {
    as_watched::<resource::v1::ResourceSlice, ResourceSlice>(object).is_some()
});

target!(device_classes, "device-classes", |object| {
    as_watched::<resource::v1::DeviceClass, DeviceClass>(object).is_some()
});

target!(device_taint_rules, "device-taint-rules", |object| {
    as_watched::<resource::v1::DeviceClass, DeviceTaintRule>(object).is_some()
});

target!(resource_claims, "resource-claims", |object| {
    as_watched::<resource::v1::ResourceClaim, ResourceClaim>(object).is_some()
});

target!(queues, "queues", |object| {
    let read = || serde_json::from_str::<Queue>(&object.to_string());
    let Ok(queue) = within(LIMIT, "a queue", read) else {
        return false;
    };
    let annotations = queue.metadata.annotations.as_ref();
    let annotation = |key: &str| annotations?.get(key).map(String::as_str);
    let terms = within(LIMIT, "a queue's terms", || QueueTerms::read(&queue.spec, annotation));
    assert_eq!(terms, QueueTerms::read(&queue.spec, annotation));
    for problem in &terms.problems {
        let _: Option<()> = said(Err(problem));
    }
    let _ = queue.closed();
    let limits = [&terms.capability, &terms.deserved, &terms.guarantee];
    for (item, amount) in limits.into_iter().flatten() {
        assert!(*amount >= 0 && !item.format(i128::from(*amount)).is_empty());
    }
    // What was written is read the same by whoever reads it next.
    let again: Queue = serde_json::from_value(serde_json::to_value(&queue).unwrap()).unwrap();
    assert_eq!(again.spec, queue.spec);
    terms.problems.is_empty() && terms.access.is_ok()
});

target!(groups, "groups", |object| {
    let read = || serde_json::from_str::<PodGroup>(&object.to_string());
    let Ok(group) = within(LIMIT, "a group", read) else {
        return false;
    };
    let tasks = said(group.spec.least_of_tasks());
    let named = group.spec.min_resources.as_ref();
    let least = named.is_none_or(|named| said(min_resources(named)).is_some());
    assert!(tasks.as_ref().is_none_or(|tasks| tasks.len() <= TASKS));
    let _ = group
        .status
        .iter()
        .flat_map(volcano::PodGroupStatus::scheduled_by_volcano)
        .count();
    tasks.is_some() && least
});

// Groups are watched as whatever they are: one that can't be read is told apart, and stops nothing.
target!(watched_groups, "groups", |object| {
    let text = object.to_string();
    let read = || serde_json::from_str::<Guarded<PodGroup, WatchedGroup>>(&text);
    let group = within(LIMIT, "a watched group", read).unwrap();
    let Some(group) = said(group.object.map_err(|unreadable| unreadable.error)) else {
        return false;
    };
    let tasks = group.spec.least_of_tasks().is_ok();
    tasks
        && group
            .spec
            .min_resources
            .as_ref()
            .is_none_or(|named| min_resources(named).is_ok())
});

target!(manifests, "manifests", |object| {
    let Some(made) = said(within(LIMIT, "a manifest", || made_by(object.clone()))) else {
        return false;
    };
    assert!((1..=TASKS).contains(&made.pods.len()));
    let request = made.whole.and_then(|whole| whole.card_request);
    request.is_none_or(|request| CardRequest::parse(&request).is_ok())
});
