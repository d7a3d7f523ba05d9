//! Cardgate's own objects, by name: what all forms of the manifests install. Objects in Cardgate's namespace are deleted with it.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tracing::{debug, info};

use crate::request::{Obstacle, RequestError, in_time};

/// Label and value of objects that came with Cardgate's manifests.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "cardgate");
/// The label selector of the operator's pods.
const OPERATORS: &str = "app.kubernetes.io/name=cardgate,app.kubernetes.io/component=operator";
/// The name of the role that this program uses in a cluster, and of its binding.
const OWN_RIGHTS: &str = "cardgate-uninstall";
/// The policies inside the API server, and their bindings except one.
const POLICIES: [&str; 17] = [
    "cardgate-crossquota",
    "cardgate-job",
    "cardgate-leader",
    "cardgate-namespace",
    "cardgate-node-label",
    "cardgate-operator",
    "cardgate-pod-binding",
    "cardgate-pod-create",
    "cardgate-pod-debug",
    "cardgate-pod-delete",
    "cardgate-pod-group",
    "cardgate-pod-resize",
    "cardgate-pod-update",
    "cardgate-queue",
    "cardgate-resource-claim",
    "cardgate-volcano-job",
    "cardgate-webhook-configuration",
];
/// The second binding of one of the policies.
const OF_STATUS: &str = "cardgate-pod-update-status";

/// A kind: group, version, kind and plural.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind(&'static str, &'static str, &'static str, &'static str);

const ADMISSION: &str = "admissionregistration.k8s.io";
const POLICY: Kind = Kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
);
const POLICY_BINDING: Kind = Kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
);
const MUTATING: Kind = Kind(
    ADMISSION,
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
const VALIDATING: Kind = Kind(
    ADMISSION,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
const DEFINITION: Kind = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
const RBAC: &str = "rbac.authorization.k8s.io";
const ROLE: Kind = Kind(RBAC, "v1", "ClusterRole", "clusterroles");
const BINDING: Kind = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings");
const ROLE_BINDING: Kind = Kind(RBAC, "v1", "RoleBinding", "rolebindings");
const FLOW_SCHEMA: Kind = Kind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas");
const DEPLOYMENT: Kind = Kind("apps", "v1", "Deployment", "deployments");

impl Kind {
    fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.0, self.1, self.2), self.3)
    }
}

/// One of Cardgate's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    kind: Kind,
    /// The object's namespace, if its kind has namespaces.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: &'static str,
}

impl Object {
    /// Returns the object's kind, such as `ClusterRole`.
    pub fn kind(&self) -> &'static str {
        self.kind.2
    }

    /// Returns the object's group, as RBAC names it.
    pub fn group(&self) -> &'static str {
        self.kind.0
    }

    /// Returns the plural of the object's kind, as RBAC names it.
    pub fn plural(&self) -> &'static str {
        self.kind.3
    }
}

fn named(kind: Kind, names: &[&'static str]) -> impl Iterator<Item = Object> {
    names.iter().map(move |name| Object {
        kind,
        namespace: None,
        name,
    })
}

fn within(namespace: &str, kind: Kind, name: &'static str) -> Object {
    Object {
        kind,
        namespace: Some(namespace.to_owned()),
        name,
    }
}

/// Returns the policies that refuse pods that were not held, and changes of pods that are held.
pub(super) fn policies() -> Vec<Object> {
    named(POLICY_BINDING, &POLICIES)
        .chain(named(POLICY_BINDING, &[OF_STATUS]))
        .chain(named(POLICY, &POLICIES))
        .collect()
}

/// Returns the configurations that make API servers call the webhook.
pub(super) fn doors() -> Vec<Object> {
    named(MUTATING, &["cardgate"])
        .chain(named(VALIDATING, &["cardgate"]))
        .collect()
}

/// Returns the operator's rights, then the operator itself. An operator on a lost node runs on, but without rights.
pub(super) fn operator(namespace: &str) -> Vec<Object> {
    named(
        BINDING,
        &[
            "cardgate-operator",
            "cardgate-operator-certificates",
            "cardgate-operator-extender",
            "cardgate-operator-installation",
        ],
    )
    .chain([within(namespace, DEPLOYMENT, "operator")])
    .collect()
}

/// Returns the definitions of Cardgate's kinds; their objects are deleted with them.
pub(super) fn definitions() -> Vec<Object> {
    let names = [
        "cardinventories.card.volcano.sh",
        "cardreviews.card.volcano.sh",
        "cardtypes.card.volcano.sh",
        "cardusages.card.volcano.sh",
    ];
    named(DEFINITION, &names).collect()
}

/// Returns Volcano's definitions that Cardgate may have brought, and the roles for using them.
pub(super) fn queues() -> Vec<Object> {
    let definitions = ["queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"];
    named(DEFINITION, &definitions)
        .chain(named(ROLE, &["cardgate-queues-view", "cardgate-podgroups-edit"]))
        .collect()
}

/// Returns rights outside Cardgate's namespace, and the objects that say with which priority API servers take Cardgate's requests.
pub(super) fn rights() -> Vec<Object> {
    let bindings = [
        "cardgate-webhook",
        "cardgate-scheduler",
        "cardgate-scheduler-volumes",
        "cardgate-everybody",
    ];
    let roles = [
        "cardgate-operator",
        "cardgate-operator-certificates",
        "cardgate-operator-extender",
        "cardgate-operator-installation",
        "cardgate-webhook",
        "cardgate-view",
        "cardgate-ask",
        "cardgate-everybody",
    ];
    named(BINDING, &bindings)
        .chain(named(ROLE, &roles))
        .chain([within("kube-system", ROLE_BINDING, "cardgate-scheduler-authentication")])
        .chain(named(FLOW_SCHEMA, &["cardgate", "cardgate-leader-election"]))
        .collect()
}

/// Returns all objects that are deleted by name, for an installation in this namespace.
pub fn all(namespace: &str) -> Vec<Object> {
    [
        policies(),
        doors(),
        operator(namespace),
        definitions(),
        queues(),
        rights(),
    ]
    .concat()
}

/// Reads and deletes Cardgate's objects.
pub(super) struct Objects<'a> {
    client: &'a Client,
    dry_run: bool,
}

impl<'a> Objects<'a> {
    pub fn new(client: &'a Client, dry_run: bool) -> Self {
        Self { client, dry_run }
    }

    /// Deletes the objects in this order. Returns how many are not gone yet, and the last failure.
    pub async fn delete(&self, objects: &[Object]) -> (usize, Option<Obstacle>) {
        let (mut left, mut failed) = (0, None);
        for object in objects {
            match self.delete_one(object).await {
                Ok(gone) => left += usize::from(!gone),
                Err(error) => {
                    let what = format!("{} {}", object.kind(), object.name);
                    failed = Some(Obstacle::of(what, &error));
                }
            }
        }
        (left, failed)
    }

    /// Deletes one object. Returns whether it is gone.
    async fn delete_one(&self, object: &Object) -> Result<bool, RequestError> {
        let api = self.api(object);
        let (kind, name) = (object.kind(), object.name);
        if self.dry_run {
            let found = in_time(api.get_metadata_opt(name)).await?.is_some();
            if found {
                info!(kind, name, "would be deleted");
            }
            return Ok(!found);
        }
        match in_time(api.delete(name, &DeleteParams::default())).await {
            Ok(answer) => {
                debug!(kind, name, "deleted");
                // The answer contains the object if something has to be done before the object goes.
                Ok(answer.is_right())
            }
            Err(error) if error.code() == Some(404) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns those of the objects that came with Cardgate's manifests.
    pub async fn ours(&self, objects: &[Object]) -> Result<Vec<Object>, RequestError> {
        let mut ours = Vec::new();
        for object in objects {
            let found = in_time(self.api(object).get_metadata_opt(object.name)).await?;
            let is_ours = |found: PartialObjectMeta<DynamicObject>| {
                found.labels().get(PART_OF.0).is_some_and(|value| value == PART_OF.1)
            };
            if found.is_some_and(is_ours) {
                ours.push(object.clone());
            }
        }
        Ok(ours)
    }

    /// Returns how many of the operator's pods have not ended.
    pub async fn operators(&self, namespace: &str) -> Result<usize, RequestError> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let found = in_time(pods.list_metadata(&ListParams::default().labels(OPERATORS))).await?;
        Ok(found.items.len())
    }

    /// Deletes the namespace. Before that, makes it the owner of the rights by which this program may delete it, so that they go when the
    /// namespace has gone.
    pub async fn delete_with_own_rights(&self, namespace: &str) -> Result<(), RequestError> {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let Some(found) = in_time(namespaces.get_metadata_opt(namespace)).await? else {
            return Ok(());
        };
        let types = TypeMeta::resource::<Namespace>();
        let owner = json!([{
            "apiVersion": types.api_version, "kind": types.kind, "name": namespace, "uid": found.meta().uid,
        }]);
        let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": owner } }));
        for object in named(BINDING, &[OWN_RIGHTS]).chain(named(ROLE, &[OWN_RIGHTS])) {
            let api = self.api(&object);
            gone_is_fine(in_time(api.patch_metadata(object.name, &PatchParams::default(), &patch)).await)?;
        }
        gone_is_fine(in_time(namespaces.delete(namespace, &DeleteParams::default())).await)
    }

    fn api(&self, object: &Object) -> Api<DynamicObject> {
        let resource = object.kind.resource();
        match &object.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// Turns codes 404 and 409 into success: the object is gone, or is being deleted already.
fn gone_is_fine<T>(answer: Result<T, RequestError>) -> Result<(), RequestError> {
    match answer {
        Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
        _ => Ok(()),
    }
}
