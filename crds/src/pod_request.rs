//! What a pod requests in all, exactly as Kubernetes' scheduler counts it (docs/rules.md, **Requests**).

use std::collections::BTreeSet;

use thiserror::Error;

use crate::bounds::{self, BoundError, excerpt, shown};
use crate::card_resources::is_extended;
use crate::pod::{Container, PodSpec};
use crate::quantity::QuantityError;
use crate::resources::{self, CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceVector};

/// A pod whose request can't be summed up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum PodRequestError {
    #[error("{place} requests {resource}: {source}")]
    Quantity {
        place: String,
        resource: String,
        source: QuantityError,
    },
    #[error("{place} requests {quantity} of {resource}: write 0 or more")]
    Negative {
        place: String,
        resource: String,
        quantity: String,
    },
    /// More resources than are allowed.
    #[error("{0}")]
    Resources(#[from] BoundError),
    #[error("the containers' requests of {resource} add up to more than 2^63-1: lower them")]
    Overflow { resource: String },
}

/// Returns the pod's request. It is the larger of two amounts: all containers and sidecars together, or the largest init
/// container beside the sidecars started before it. What the pod sets as a whole for CPU, memory and huge pages takes its
/// place; a limit alone counts if `is_limit_requested` says so. The overhead is added last.
pub fn pod_request<S: AsRef<str>>(spec: &PodSpec<S>) -> Result<ResourceVector<'_>, PodRequestError> {
    let mut running = ResourceVector::default();
    for container in &spec.containers {
        running = add(running, container_request(container)?)?;
    }
    let mut sidecars = ResourceVector::default();
    let mut starting = ResourceVector::default();
    for container in &spec.init_containers {
        let request = container_request(container)?;
        if container.is_sidecar() {
            sidecars = add(sidecars, request.clone())?;
            running = add(running, request)?;
            starting = starting.max(&sidecars);
        } else {
            starting = starting.max(&add(request, sidecars.clone())?);
        }
    }
    let mut request = running.max(&starting);
    for (resource, amount) in amounts(|| "the pod as a whole".to_owned(), spec.resources.effective())?.iter() {
        if is_pod_level(resource)
            && (spec.resources.requests.contains_key(resource) || is_limit_requested(spec, resource))
        {
            request.set(resource, amount);
        }
    }
    add(
        request,
        amounts(|| "the pod's overhead".to_owned(), spec.overhead.iter())?,
    )
}

/// Returns what one container requests.
pub fn container_request<S: AsRef<str>>(container: &Container<S>) -> Result<ResourceVector<'_>, PodRequestError> {
    let place = || match &container.name {
        Some(name) => format!("container {:?}", excerpt(name.as_ref())),
        None => "a container".to_owned(),
    };
    amounts(place, container.resources.effective())
}

/// Returns the extended resources that containers request or are limited in, of whatever amount, each once. Refuses more
/// than a pod may request.
pub fn extended_resources<S: AsRef<str>>(spec: &PodSpec<S>) -> Result<BTreeSet<&str>, PodRequestError> {
    let containers = spec.all_containers();
    let named = containers.flat_map(|container| container.resources.effective());
    let mut resources = BTreeSet::new();
    for (resource, _) in named.filter(|(resource, _)| is_extended(resource)) {
        resources.insert(resource);
        check_count(resources.len())?;
    }
    Ok(resources)
}

/// Resources that may be set for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    resource == CPU || resource == MEMORY || resource.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether a pod that sets only a limit of a resource requests as much as the limit. It does if no container says what it
/// requests, and always for huge pages, which are not overcommitted. API servers write this request on every pod that is
/// created.
fn is_limit_requested<S: AsRef<str>>(spec: &PodSpec<S>, resource: &str) -> bool {
    let is_requested = |container: &Container<S>| {
        let resources = &container.resources;
        resources.requests.contains_key(resource) || resources.limits.contains_key(resource)
    };
    resource.starts_with(HUGE_PAGES_PREFIX) || !spec.all_containers().any(is_requested)
}

/// Reads what is requested; `place` says where, for the message.
fn amounts<'a>(
    place: impl Fn() -> String,
    quantities: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<ResourceVector<'a>, PodRequestError> {
    let mut vector = ResourceVector::default();
    for (resource, quantity) in quantities {
        let amount = resources::parse_amount(resource, quantity).map_err(|source| PodRequestError::Quantity {
            place: place(),
            resource: shown(resource),
            source,
        })?;
        if amount < 0 {
            return Err(PodRequestError::Negative {
                place: place(),
                resource: shown(resource),
                quantity: shown(quantity),
            });
        }
        // Zeros are neither kept nor counted, since they ask for nothing.
        vector.set(resource, amount);
        check_count(vector.iter().len())?;
    }
    Ok(vector)
}

/// Checks that so many resources are no more than a pod may request. So adding up costs no more than the length of the pod.
fn check_count(count: usize) -> Result<(), BoundError> {
    const REMEDY: &str = "request fewer kinds of resources in one pod";
    BoundError::count(
        || "the pod".to_owned(),
        "requested resources",
        count,
        bounds::RESOURCES,
        REMEDY,
    )
}

fn add<'n>(left: ResourceVector<'n>, right: ResourceVector<'n>) -> Result<ResourceVector<'n>, PodRequestError> {
    // Most pods have one container, and no overhead.
    if left.is_empty() {
        return Ok(right);
    }
    let sum = left.checked_add(&right).map_err(|resource| PodRequestError::Overflow {
        resource: shown(resource),
    })?;
    check_count(sum.iter().len())?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec_of(spec: &serde_json::Value) -> PodSpec<String> {
        serde_json::from_value(spec.clone()).unwrap()
    }

    #[test]
    fn sidecars_and_init_containers_count_as_in_the_scheduler() {
        let spec = spec_of(&serde_json::json!({
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}}},
                {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}},
            ],
            "initContainers": [
                {"name": "first", "resources": {"requests": {"cpu": "5"}}},
                {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m", "memory": "1Mi"}}},
                {"name": "second", "resources": {"requests": {"cpu": "5"}}},
            ],
            "overhead": {"cpu": "100m"},
        }));
        let request = pod_request(&spec).unwrap();
        // second (5000) starts beside the sidecar (250); the running containers need 500 + 1000 + 250 only.
        assert_eq!(request.get("cpu"), 5250 + 100);
        assert_eq!(request.get("memory"), (1 << 30) + (1 << 20));
        assert_eq!(request.get("nvidia.com/gpu"), 2);
        assert_eq!(request.get("pods"), 0);
    }

    #[test]
    fn pod_level_resources_replace_the_sum() {
        let spec = spec_of(&serde_json::json!({
            "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "2Gi"}},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}],
            "overhead": {"cpu": "1"},
        }));
        let request = pod_request(&spec).unwrap();
        assert_eq!(request.get("cpu"), 4000);
        assert_eq!(request.get("memory"), 2 << 30);
        assert_eq!(request.get("nvidia.com/gpu"), 1);
    }

    /// API servers write this request on a pod. A manifest does not have it yet.
    #[test]
    fn a_limit_of_the_pod_stands_in_where_no_container_requests_the_resource() {
        let with = |containers: serde_json::Value, starting: serde_json::Value| {
            let spec = spec_of(&serde_json::json!({
                "resources": {"limits": {"cpu": "4", "memory": "2Gi", "hugepages-2Mi": "8Mi"}},
                "containers": containers, "initContainers": starting,
            }));
            let request = pod_request(&spec).unwrap();
            ["cpu", "memory", "hugepages-2Mi"].map(|resource| request.get(resource))
        };
        let container = |resources: serde_json::Value| serde_json::json!([{"name": "a", "resources": resources}]);
        let none = || serde_json::json!([]);
        let cores = |cpu: &str| container(serde_json::json!({"requests": {"cpu": cpu}, "limits": {"cpu": "3"}}));
        assert_eq!(with(cores("1"), none()), [1000, 2 << 30, 8 << 20]);
        assert_eq!(with(cores("0"), none()), [0, 2 << 30, 8 << 20]);
        // A container's limit is its request where it has none; init containers request too; huge pages are never overcommitted.
        let limited = container(serde_json::json!({"limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}));
        assert_eq!(with(limited.clone(), none()), [4000, 1 << 30, 8 << 20]);
        assert_eq!(with(limited, cores("2")), [2000, 1 << 30, 8 << 20]);
        assert_eq!(with(container(serde_json::json!({})), none()), [4000, 2 << 30, 8 << 20]);
    }

    #[test]
    fn requests_that_make_no_sense_are_errors() {
        let with = |quantity: &str| {
            let spec = spec_of(&serde_json::json!({"containers": [
                {"name": "a", "resources": {"requests": {"nvidia.com/gpu": quantity}}},
                {"name": "b", "resources": {"requests": {"nvidia.com/gpu": quantity}}},
            ]}));
            pod_request(&spec).map(|request| request.iter().len())
        };
        assert!(with("1").is_ok());
        assert_eq!(
            with("-1").unwrap_err().to_string(),
            "container \"a\" requests -1 of nvidia.com/gpu: write 0 or more"
        );
        assert!(
            with("x")
                .unwrap_err()
                .to_string()
                .starts_with("container \"a\" requests nvidia.com/gpu: \"x\" is not")
        );
        assert_eq!(
            with("9223372036854775807").unwrap_err().to_string(),
            "the containers' requests of nvidia.com/gpu add up to more than 2^63-1: lower them"
        );
    }
}
