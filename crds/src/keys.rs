//! The names that users meet: annotations, labels, gates, conditions and resources, each defined once.

/// Queue and Pod annotation that names the queue (Volcano's own key), also read from a Namespace.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
/// Pod annotation that names the `PodGroup` the pod belongs to.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// Pod label, and annotation, with the pod's task in its group; Volcano's controllers write both.
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
/// Pod annotation with the card the pod asks for, or alternatives as `A|B` (Capacity Card, **Job Annotations**).
pub const CARD_NAME: &str = "volcano.sh/card.name";
/// `PodGroup` and Job annotation with all cards the workload asks for, as JSON (Capacity Card, **Job Annotations**).
pub const CARD_REQUEST: &str = "volcano.sh/card.request";
/// Queue annotation with the card quota, as JSON (Capacity Card, **Queue Annotations**).
pub const CARD_QUOTA: &str = "volcano.sh/card.quota";
/// Queue annotation with the cards that the queue should have while others want them too, as JSON like the quota.
pub const CARD_DESERVED: &str = "volcano.sh/card.deserved";
/// Queue annotation with the cards that are kept free for the queue, as JSON like the quota.
pub const CARD_GUARANTEE: &str = "volcano.sh/card.guarantee";
/// Pod annotation with the card that the pod is charged for, or several cards as JSON. It is `{}` for no cards, if nothing
/// else shows that the pod was held. Only the operator writes it.
pub const CARD_ASSIGNED: &str = "volcano.sh/card.assigned";

/// Queue annotation with a label selector on the namespaces that may use the queue; absent: all.
pub const QUEUE_NAMESPACES: &str = "card.volcano.sh/namespaces";
/// Scheduling gate that holds a managed pod until its quota is granted.
pub const GATE: &str = "card.volcano.sh/quota";
/// Pod label with the queue the pod is charged to.
pub const QUEUE_LABEL: &str = "card.volcano.sh/queue";
/// Job annotation that marks a suspension as Cardgate's. When the Job's queue lets it in, the operator resumes the Job and
/// removes the mark.
pub const JOB_HELD: &str = "card.volcano.sh/held";
/// Pod condition that says why a pod waits, with the numbers.
pub const ADMITTED_CONDITION: &str = "card.volcano.sh/Admitted";

/// Pod annotation with the order of nodes that the pod prefers (CrossQuota, **Scoring Strategies**).
pub const SCORING_STRATEGY: &str = "volcano.sh/crossquota-scoring-strategy";

/// Start of the node annotations with absolute quotas of pods without GPU (CrossQuota, **Configuration Priority**).
pub const NODE_QUOTA_PREFIX: &str = "volcano.sh/crossquota-";
/// Start of the node annotations with such quotas as percentages of what is allocatable.
pub const NODE_QUOTA_PERCENTAGE_PREFIX: &str = "volcano.sh/crossquota-percentage-";
/// Namespace label that puts its pods without GPU under `CrossQuota`, and the label of such pods; the value is `enabled`.
pub const CROSS_QUOTA_LABEL: &str = "card.volcano.sh/crossquota";
/// Value of [`CROSS_QUOTA_LABEL`].
pub const CROSS_QUOTA_ENABLED: &str = "enabled";
/// Label that the operator keeps on nodes with GPUs, for pods that are kept off them.
pub const GPU_NODE_LABEL: &str = "card.volcano.sh/gpu-node";

/// The value of the labels that the operator keeps on nodes.
pub const NODE_LABEL_SET: &str = "true";
/// Start of the labels that the operator keeps on nodes with cards by devices, one for each card. They narrow pods to these
/// nodes.
pub const DEVICE_LABEL_PREFIX: &str = "device.card.volcano.sh/";

/// Pod annotation with one card count per container (mGPU, **A container shares multiple GPU cards**).
pub const MGPU_CONTAINER_CARDS: &str = "vke.volcengine.com/container-multiple-gpu";
/// Pod annotation and node label with the compute policy (mGPU, **Filter**).
pub const MGPU_POLICY: &str = "vke.volcengine.com/mgpu-compute-policy";
/// Pod annotation that marks a finished mGPU placement; only the operator writes it (mGPU, **Schedule Result**).
pub const MGPU_ASSUMED: &str = "vke.volcengine.com/assumed";
/// Prefix of the pod annotations with the card indexes of a container; only the operator writes them.
pub const MGPU_INDEX_PREFIX: &str = "vke.volcengine.com/gpu-index-container-";
/// Resource: compute share of a GPU, 100 a card.
pub const MGPU_CORE: &str = "vke.volcengine.com/mgpu-core";
/// Resource: memory share of a GPU, in MiB.
pub const MGPU_MEMORY: &str = "vke.volcengine.com/mgpu-memory";

/// Node label by which a node shares its cards through mGPU, and its value.
pub const MGPU_SCHEDULE: (&str, &str) = ("vke.node.gpu.schedule", "mgpu");
/// Node annotation with the device ids of its cards, in index order, separated by commas.
pub const MGPU_DEVICE_IDS: &str = "vke.volcengine.com/gpu-ids";

/// Annotation by which the kubelet marks the API copy of a static pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// Namespace of Cardgate itself.
pub const NAMESPACE: &str = "cardgate-system";
/// `ConfigMap` with the configuration, in Cardgate's own namespace.
pub const CONFIG_MAP: &str = "cardgate-config";
/// `ConfigMap` that the policies inside the API server read, in Cardgate's own namespace; only the operator writes it.
pub const POLICY_PARAMETERS: &str = "cardgate-policy";
/// Key of that `ConfigMap` with the name of the operator that decides; decisions of others are refused.
pub const LEADER: &str = "leader";
/// Key of that `ConfigMap` with the resources that are cards, or may be, separated by commas: exact names, and prefixes that
/// end in `*`.
pub const CARD_RESOURCES: &str = "cardResources";
/// Start of the resources by which pods may request devices of a class without a claim; the name of the class follows.
pub const RESOURCE_OF_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// Namespaces in which Cardgate never touches a pod (docs/rules.md, **Which pods are managed**).
pub const EXEMPT_NAMESPACES: [&str; 2] = ["kube-system", NAMESPACE];

/// Resource name of whole NVIDIA cards.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// Resource name of MPS shares (Capacity Card, **MPS Shared Cards**).
pub const NVIDIA_MPS: &str = "nvidia.com/gpu.shared";
/// Prefix of MIG resources (Capacity Card, **MIG Partition Cards**).
pub const NVIDIA_MIG_PREFIX: &str = "nvidia.com/mig-";

/// The operator's user name for the API server.
pub const OPERATOR: &str = "system:serviceaccount:cardgate-system:operator";
/// The users as which the `DaemonSet` controller creates pods: its own service account, and that of a controller manager
/// whose controllers have none of their own.
pub const DAEMON_SET_CONTROLLERS: [&str; 2] = [
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:kube-controller-manager",
];

/// Whether a pod is charged by this annotation: it says what the pod asks for, what it was given, or that its node runs it
/// by itself.
pub fn is_charged_by(annotation: &str) -> bool {
    matches!(
        annotation,
        QUEUE_NAME | GROUP_NAME | CARD_NAME | SCORING_STRATEGY | MGPU_CONTAINER_CARDS | MGPU_POLICY | MIRROR_POD
    ) || is_operator_result(annotation)
}

/// Whether only the operator may write this annotation on a pod.
pub fn is_operator_result(annotation: &str) -> bool {
    annotation == CARD_ASSIGNED || annotation == MGPU_ASSUMED || annotation.starts_with(MGPU_INDEX_PREFIX)
}
