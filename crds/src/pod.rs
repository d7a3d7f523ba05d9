//! A lean pod: the fields of a Pod that Cardgate reads, and no others (see [`crate::lean`]).

use std::collections::HashSet;

use crate::lean::{AtMost, lean};
pub use crate::lean::{Metadata, OwnerReference, Text, TextMap};

lean! {
    Pod {
        metadata: Metadata<S>,
        spec: PodSpec<S>,
        status: PodStatus<S>,
    }
}

lean! {
    /// What Cardgate reads of a pod's specification.
    PodSpec {
        /// The node the pod is bound to.
        node_name: Option<S>,
        /// Labels that the node must have.
        node_selector: TextMap<S>,
        affinity: Option<Affinity<S>>,
        tolerations: Vec<Toleration<S>>,
        /// Gates that hold the pod back from scheduling.
        scheduling_gates: Vec<SchedulingGate<S>>,
        /// Priority, resolved from the priority class by the API server.
        priority: Option<i32>,
        /// Whether other pods may be evicted to make room for it, resolved likewise.
        preemption_policy: Option<S>,
        scheduler_name: Option<S>,
        /// How long the pod may run, counted from when its kubelet took it.
        active_deadline_seconds: Option<i64>,
        /// How long the pod may take to end.
        termination_grace_period_seconds: Option<i64>,
        containers: Vec<Container<S>>,
        /// Init containers and sidecars.
        init_containers: Vec<Container<S>>,
        /// What running the pod costs besides its containers.
        overhead: TextMap<S>,
        /// Resources of the pod as a whole.
        resources: ResourceRequirements<S>,
        volumes: Vec<Volume<S>>,
        /// The claims by which the pod asks for devices.
        resource_claims: Vec<PodResourceClaim<S>>,
    }
}

lean! {
    /// A volume; only whether it is a claim matters here.
    Volume {
        /// A claim by its name.
        persistent_volume_claim: Option<VolumeClaim<S>>,
        /// A claim that will be made for the pod.
        ephemeral: Option<VolumeClaim<S>>,
    }
}

lean! {
    VolumeClaim {
        /// The claim's name, if it is known.
        claim_name: Option<S>,
    }
}

lean! {
    /// A claim of devices: an existing claim, or one that is made from a template.
    PodResourceClaim {
        /// Its name in this pod.
        name: Option<S>,
        /// Name of the existing claim.
        resource_claim_name: Option<S>,
        /// Name of the template from which a claim is made for this pod.
        resource_claim_template_name: Option<S>,
    }
}

lean! {
    SchedulingGate {
        name: Option<S>,
    }
}

lean! {
    Container {
        /// Name, unique in the pod.
        name: Option<S>,
        /// `Always` makes an init container a sidecar.
        restart_policy: Option<S>,
        resources: ResourceRequirements<S>,
    }
}

lean! {
    /// Requests and limits, quantities as text.
    ResourceRequirements {
        /// The amounts that are reserved.
        requests: TextMap<S>,
        /// What must not be exceeded; also the request where none is given.
        limits: TextMap<S>,
    }
}

lean! {
    /// Affinity; only that to nodes matters here.
    Affinity {
        node_affinity: Option<NodeAffinity<S>>,
    }
}

lean! {
    /// Affinity to nodes; only what is required matters here.
    NodeAffinity {
        /// The terms of which one must match.
        required_during_scheduling_ignored_during_execution: Option<NodeSelector<S>>,
    }
}

/// The most terms of a node selector that are read: far more than a pod may have without being refused.
const MOST_TERMS: usize = 8192;

lean! {
    /// A list of terms, one of which must match.
    NodeSelector {
        node_selector_terms: AtMost<NodeSelectorTerm<S>, MOST_TERMS>,
    }
}

lean! {
    /// A term: every expression and field must match; an empty term matches nothing.
    NodeSelectorTerm {
        /// Requirements on labels.
        match_expressions: Vec<NodeSelectorRequirement<S>>,
        /// Requirements on fields; Kubernetes knows `metadata.name` alone.
        match_fields: Vec<NodeSelectorRequirement<S>>,
    }
}

lean! {
    /// A requirement on a label or field.
    NodeSelectorRequirement {
        key: Option<S>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: Option<S>,
        values: Vec<S>,
    }
}

lean! {
    /// A toleration of a taint.
    Toleration {
        /// Taint key; none matches every key.
        key: Option<S>,
        /// `Equal` (also where none is given) or `Exists`.
        operator: Option<S>,
        value: Option<S>,
        /// Taint effect; none matches every effect.
        effect: Option<S>,
    }
}

lean! {
    /// What Cardgate reads of a pod's status.
    PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        phase: Option<S>,
        /// When its kubelet took it, RFC 3339.
        start_time: Option<S>,
        conditions: Vec<PodCondition<S>>,
        /// The claims that were made from templates.
        resource_claim_statuses: Vec<PodResourceClaimStatus<S>>,
        /// The claim that the scheduler made for resources which classes of devices provide.
        extended_resource_claim_status: Option<ExtendedResourceClaimStatus<S>>,
    }
}

lean! {
    ExtendedResourceClaimStatus {
        /// The claim's own name.
        resource_claim_name: Option<S>,
        /// Which of the claim's requests is for what.
        request_mappings: Vec<ExtendedResourceRequest<S>>,
    }
}

lean! {
    /// What a container requests by a resource, and the request of the claim that was made for it.
    ExtendedResourceRequest {
        resource_name: Option<S>,
        request_name: Option<S>,
    }
}

lean! {
    PodResourceClaimStatus {
        /// The claim's name in this pod.
        name: Option<S>,
        /// The claim's own name; none where none is needed.
        resource_claim_name: Option<S>,
    }
}

lean! {
    PodCondition {
        r#type: Option<S>,
        /// `True`, `False` or `Unknown`.
        status: Option<S>,
        /// Reason, in one word.
        reason: Option<S>,
        /// When the status changed last, RFC 3339.
        last_transition_time: Option<S>,
    }
}

impl<S: AsRef<str>> PodSpec<S> {
    /// Whether the gate `name` holds the pod back.
    pub fn has_gate(&self, name: &str) -> bool {
        self.scheduling_gates
            .iter()
            .any(|gate| gate.name.as_ref().is_some_and(|gate| gate.as_ref() == name))
    }

    /// Main containers, then init containers and sidecars.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container<S>> {
        self.containers.iter().chain(&self.init_containers)
    }
}

impl<S: AsRef<str>> Container<S> {
    /// Whether an init container is a sidecar: it stays running beside the main containers.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy
            .as_ref()
            .is_some_and(|policy| policy.as_ref() == "Always")
    }
}

impl<S: AsRef<str>> ResourceRequirements<S> {
    /// Resource names and quantities: the requests, and the limits of resources without a request.
    pub fn effective(&self) -> impl Iterator<Item = (&str, &str)> {
        // A list of a few is searched faster than a set of them is made.
        const FEW: usize = 16;
        let names = || self.requests.iter().map(|(name, _)| name).collect::<HashSet<_>>();
        let requested = (self.requests.len() > FEW).then(names);
        let is_requested = move |name: &str| match &requested {
            Some(requested) => requested.contains(name),
            None => self.requests.contains_key(name),
        };
        let unrequested = self.limits.iter().filter(move |(name, _)| !is_requested(name));
        self.requests.iter().chain(unrequested)
    }
}
