//! Installing `manifests/`, and the two changes that a control plane without containers needs.

use std::fmt::Debug;

use anyhow::{Context, Result};
use crds::keys::CARD_ASSIGNED;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use operator::review::WEBHOOK;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::controlplane::ControlPlane;
use crate::wait::{self, Seen};
use crate::workloads;

/// The name of both webhook configurations.
const CONFIGURATION: &str = "cardgate";
/// The `ConfigMap` that operator and webhook watch.
const CONFIG_MAP: &str = "cardgate-config";

/// The arguments of kubectl that install a kustomization of `manifests/`, from the workspace's root, as `README.md` has it. The last command
/// scales the Deployments to zero.
pub(super) fn commands(kustomization: &str) -> Vec<Vec<String>> {
    let path = format!("manifests/{kustomization}");
    [
        vec!["apply", "--server-side", "--field-manager=cardgate", "-k", &path],
        vec!["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"],
        vec!["-n", NAMESPACE, "scale", "deployment", "--all", "--replicas=0"],
    ]
    .map(|words| words.into_iter().map(str::to_owned).collect())
    .to_vec()
}

/// Makes the API server reach the webhook at `https://<address>` instead of by the Service, or by the address that it was
/// told before. The paths stay.
pub(super) async fn point_at(plane: &ControlPlane, address: &str) -> Result<()> {
    point::<MutatingWebhookConfiguration>(plane, address, Asked::Webhook).await?;
    point::<ValidatingWebhookConfiguration>(plane, address, Asked::Webhook).await
}

/// The same for the operator that answers reviews.
pub(super) async fn point_reviews_at(plane: &ControlPlane, address: &str) -> Result<()> {
    point::<MutatingWebhookConfiguration>(plane, address, Asked::Operator).await
}

/// Which program a webhook of the configurations is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Webhook,
    Operator,
}

async fn point<K>(plane: &ControlPlane, address: &str, asked: Asked) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::all(plane.client().await?);
    let configuration = serde_json::to_value(api.get(CONFIGURATION).await?)?;
    let webhooks = configuration["webhooks"]
        .as_array()
        .context("a configuration without webhooks")?;
    let mut patch = Vec::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let (service, url) = (&webhook["clientConfig"]["service"], &webhook["clientConfig"]["url"]);
        let of_url = |url: &str| Some(url.parse::<http::Uri>().ok()?.path().to_owned());
        let door = service["path"].as_str().map(str::to_owned);
        let door = door.or_else(|| url.as_str().and_then(of_url)).unwrap_or_default();
        if (webhook["name"] == WEBHOOK) != (asked == Asked::Operator) {
            continue;
        }
        let client = format!("/webhooks/{index}/clientConfig");
        if !service.is_null() {
            patch.push(json!({ "op": "remove", "path": format!("{client}/service") }));
        }
        patch
            .push(json!({ "op": "add", "path": format!("{client}/url"), "value": format!("https://{address}{door}") }));
    }
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(patch))?;
    api.patch(CONFIGURATION, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .with_context(|| format!("cannot change {} {CONFIGURATION}", K::kind(&())))?;
    Ok(())
}

/// Waits until the API server applies the policies, which it does some time after they were created.
///
/// The probe is a pod that no webhook is called for and that only a policy refuses.
pub(super) async fn await_policies(plane: &ControlPlane) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    let forged = workloads::pod("cardgate-probe")
        .annotation(CARD_ASSIGNED, "forged")
        .build();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually("the policies to be in force", wait::PATIENCE, async || {
        Ok(match pods.create(&dry_run, &forged).await {
            Err(error) if error.to_string().contains("cardgate-pod-create") => Seen::Done(()),
            other => Seen::NotYet(format!("a forged result is answered by {:?}", other.map(|_| "201"))),
        })
    })
    .await
}

/// Writes the configuration's keys. Returns whether that changed anything.
pub(super) async fn configure(plane: &ControlPlane, scheduler_conf: Option<&str>, own: Option<&str>) -> Result<bool> {
    let api: Api<ConfigMap> = Api::namespaced(plane.client().await?, NAMESPACE);
    let data = json!({ "volcano-scheduler.conf": scheduler_conf, "cardgate.yaml": own });
    let before = api.get(CONFIG_MAP).await?.metadata.resource_version;
    let after = api
        .patch(
            CONFIG_MAP,
            &PatchParams::default(),
            &Patch::Merge(json!({ "data": data })),
        )
        .await
        .with_context(|| format!("cannot write the ConfigMap {CONFIG_MAP}"))?;
    Ok(after.metadata.resource_version != before)
}

/// The arguments and the environment that a Deployment gives its container, but for what only a kubelet knows.
pub(super) async fn deployed(plane: &ControlPlane, deployment: &str) -> Result<(Vec<String>, Vec<(String, String)>)> {
    let api: Api<Deployment> = Api::namespaced(plane.client().await?, NAMESPACE);
    let found = api
        .get(deployment)
        .await
        .with_context(|| format!("no Deployment {deployment}: is Cardgate installed?"))?;
    let pod = found.spec.and_then(|spec| spec.template.spec);
    let container = pod.and_then(|pod| pod.containers.into_iter().next());
    let container = container.with_context(|| format!("the Deployment {deployment} has no container"))?;
    let env = container
        .env
        .into_iter()
        .flatten()
        .filter_map(|variable| Some((variable.name, variable.value?)))
        .collect();
    Ok((container.args.unwrap_or_default(), env))
}
