//! What a version of Cardgate leaves in a cluster: its manifests, and every object as a cluster holds it after pods of all kinds
//! came. Recorded once for each release, below `tests/fixtures`, and brought back before a newer version is installed above it.
//!
//! Keys of certificates are left out. So are running Jobs with their pods, which no other cluster could take for its own; and what
//! each cluster says anew: unique ids, versions, owners (controllers adopt what their selectors match), the state of what runs.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use crds::keys::{CONFIG_MAP, JOB_HELD};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cardgate::{Cardgate, NAMESPACE};
use crate::controlplane::{ControlPlane, Options};
use crate::mixture::{self, Mixture};
use crate::wait::{self, Seen};
use crate::workloads::APP;
use crate::workspace;

/// The manifests of Cardgate beside which no Volcano is there, as one file.
const MANIFESTS: &str = "manifests/install-without-volcano.yaml";
/// What is recorded, in the order in which it can be brought back: owners after what they adopt.
const KINDS: [&str; 14] = [
    "namespaces",
    "nodes",
    "queues",
    "podgroups",
    "pods",
    "replicasets",
    "deployments",
    "jobs",
    "cardinventories",
    "cardtypes",
    "cardusages",
    "secrets",
    "configmaps",
    "leases",
];
/// Between two documents of a manifest.
const DOCUMENT: &str = "\n---\n";
/// Labels by which a Job finds its own pods.
const OF_JOBS: [&str; 2] = ["controller-uid", "job-name"];
/// What a cluster says of an object by itself.
const ITS_OWN: [&str; 7] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// For all pods to run that can.
const LIMIT: Duration = Duration::from_mins(3);
/// The time over which bare pods arrive.
const ARRIVE_OVER: Duration = Duration::from_secs(1);
/// How long nothing may change until it is taken for what stays.
const QUIET: Duration = Duration::from_secs(5);
/// How long a Job runs: longer than anybody looks, so that those that find no room are held.
const JOBS_LAST: Duration = Duration::from_hours(1);

/// The pods that come to each version: few, since what they leave is kept in the repository.
pub fn mixture() -> Mixture {
    Mixture::of(64)
}

/// The control plane that they come to.
pub fn options() -> Options {
    Options::default().job_duration(JOBS_LAST)
}

/// What one version left.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// Such as `0.1.0`.
    pub version: String,
    /// As they were installed.
    manifests: String,
    /// In the order of [`KINDS`].
    objects: Vec<Value>,
}

impl Fixture {
    /// All that are in the repository.
    pub fn all() -> Result<Vec<Self>> {
        let directory = directory();
        let mut all = Vec::new();
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
            let entry = entry?;
            let read = |file: &str| fs::read_to_string(entry.path().join(file));
            let objects = read("objects.jsonl")?;
            all.push(Self {
                version: entry.file_name().to_string_lossy().into_owned(),
                manifests: read("install.yaml")?,
                objects: objects.lines().map(serde_json::from_str).collect::<Result<_, _>>()?,
            });
        }
        all.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(all)
    }

    /// Has pods of all kinds come to this version of Cardgate, on a control plane of its own, and reads what is there when
    /// nothing changes any more.
    pub async fn record() -> Result<Self> {
        let plane = ControlPlane::start(options().at_once()).await?;
        let cardgate = Cardgate::start(&plane).await?;
        let (mixture, client) = (mixture(), plane.client().await?);
        mixture.prepare(&plane, &cardgate).await?;
        mixture.create(&client, ARRIVE_OVER).await?;
        mixture.expect(&client, LIMIT).await?;
        let (mut last, mut since) = (Vec::new(), Instant::now());
        wait::eventually("nothing to change any more", LIMIT, async || {
            let now = Self::read(&plane).await?;
            // Leases and nodes say again and again that somebody lives.
            let lasting = |object: &&Value| object["kind"] != "Lease" && object["kind"] != "Node";
            if !now.objects.iter().filter(lasting).eq(last.iter().filter(lasting)) {
                (last, since) = (now.objects.clone(), Instant::now());
            }
            Ok(if since.elapsed() >= QUIET {
                Seen::Done(now)
            } else {
                Seen::NotYet("changes".to_owned())
            })
        })
        .await
    }

    async fn read(plane: &ControlPlane) -> Result<Self> {
        let mut objects = Vec::new();
        for kind in KINDS {
            let listed = plane.kubectl().run(["get", kind, "-A", "-o", "json"]).await?;
            let mut listed: Value = serde_json::from_str(&listed)?;
            let items = listed["items"].as_array_mut().context("a list without items")?;
            let mut of_kind: Vec<_> = items.drain(..).filter(is_kept).map(without_its_own).collect();
            of_kind.sort_by_key(|object| [text(object, "namespace"), text(object, "name")].map(str::to_owned));
            ensure!(!of_kind.is_empty(), "there are no {kind}");
            objects.extend(of_kind);
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            manifests: fs::read_to_string(workspace::root().join(MANIFESTS))?,
            objects,
        })
    }

    /// Writes it into the repository, over what was recorded of the same version. Returns where.
    pub fn write(&self) -> Result<PathBuf> {
        let directory = directory().join(&self.version);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("install.yaml"), &self.manifests)?;
        let lines: Vec<_> = self.objects.iter().map(Value::to_string).collect();
        fs::write(directory.join("objects.jsonl"), lines.join("\n") + "\n")?;
        Ok(directory)
    }

    /// Brings a new cluster to where the old one was: all that the version left is there, and nothing of Cardgate runs.
    pub async fn restore(&self, plane: &ControlPlane) -> Result<()> {
        // First what objects are made of: policies would refuse what only an operator may write.
        let is_first = |text: &&str| {
            ["CustomResourceDefinition", "Namespace"]
                .iter()
                .any(|kind| is_of(text, kind))
        };
        let first: Vec<_> = self.manifests.split(DOCUMENT).filter(is_first).collect();
        apply(plane, &first.join(DOCUMENT)).await?;
        let client = plane.client().await?;
        for object in &self.objects {
            let name = text(object, "name");
            if object["kind"] == "ConfigMap" {
                // The manifests bring it without data.
                continue;
            }
            create(plane, &client, object)
                .await
                .with_context(|| format!("cannot bring back {} {name}", object["kind"]))?;
        }
        apply(plane, &self.manifests).await?;
        for object in self.objects.iter().filter(|object| object["kind"] == "ConfigMap") {
            plane.apply(object).await?;
        }
        Ok(())
    }
}

/// Where all of them are.
fn directory() -> PathBuf {
    workspace::root().join("tests/fixtures")
}

/// Applies manifests as the documents say.
async fn apply(plane: &ControlPlane, manifests: &str) -> Result<()> {
    let words = ["apply", "--server-side", "--field-manager=cardgate", "-f", "-"];
    let output = plane.kubectl().output(words, Some(manifests)).await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
    plane.kubectl().run(established).await.map(drop)
}

/// Whether a document of a manifest is of a kind.
fn is_of(document: &str, kind: &str) -> bool {
    document.lines().any(|line| line.strip_prefix("kind: ") == Some(kind))
}

/// Makes an object with what it says of its state, and waits until others can be made beside it.
async fn create(plane: &ControlPlane, client: &Client, object: &Value) -> Result<()> {
    let made = plane.apply(object).await?;
    let (kind, name) = (object["kind"].as_str().unwrap_or_default(), text(object, "name"));
    if kind == "Namespace" {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
        return wait::object(&accounts, "default", "existence", |account| {
            Seen::when(account.is_some(), "none")
        })
        .await;
    }
    let Some(status) = object.get("status") else {
        return Ok(());
    };
    let types = made.types.as_ref().context("an object without a kind")?;
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), text(object, "namespace"), &resource),
    };
    let patch = Patch::Merge(json!({ "status": status }));
    match api.patch_status(name, &PatchParams::default(), &patch).await {
        // Of a kind without a status of its own it is there already.
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
        patched => Ok(patched.map(drop)?),
    }
}

/// Whether another cluster can take an object for its own, and has a use for it.
fn is_kept(object: &Value) -> bool {
    let (kind, namespace, name) = (object["kind"].as_str(), text(object, "namespace"), text(object, "name"));
    let is_ours = namespace == NAMESPACE;
    let is_users = [mixture::NAMESPACE, mixture::CROSS].contains(&namespace);
    let metadata = &object["metadata"];
    match kind.unwrap_or_default() {
        "Namespace" => [mixture::NAMESPACE, mixture::CROSS].contains(&name),
        "Secret" | "Lease" => is_ours,
        "ConfigMap" => is_ours && name == CONFIG_MAP,
        "Job" => is_users && metadata["annotations"][JOB_HELD].is_string(),
        "Pod" => is_users && metadata["labels"][APP] != "job",
        "Deployment" | "ReplicaSet" => is_users,
        _ => true,
    }
}

/// An object without what its cluster says of it, and without keys.
fn without_its_own(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !ITS_OWN.contains(&&**field));
    }
    let is_bound = object["spec"]["nodeName"].is_string();
    match object["kind"].as_str().unwrap_or_default() {
        "Secret" => {
            let data = object["data"].as_object_mut();
            data.into_iter().flatten().for_each(|(_, value)| *value = json!(""));
        }
        "Pod" => {
            // Tokens are mounted by each cluster.
            remove(&mut object, "/spec", "volumes");
            remove(&mut object, "/spec/containers/0", "volumeMounts");
            if is_bound {
                remove(&mut object, "", "status");
            }
        }
        "Deployment" | "ReplicaSet" => remove(&mut object, "", "status"),
        // Each cluster numbers its Jobs by itself.
        "Job" => {
            remove(&mut object, "/spec", "selector");
            remove(&mut object, "", "status");
            for path in ["/metadata/labels", "/spec/template/metadata/labels"] {
                if let Some(labels) = object.pointer_mut(path).and_then(Value::as_object_mut) {
                    labels.retain(|label, _| !OF_JOBS.iter().any(|own| label.ends_with(own)));
                }
            }
        }
        _ => {}
    }
    object
}

fn remove(object: &mut Value, path: &str, field: &str) {
    if let Some(fields) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
