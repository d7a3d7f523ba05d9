//! A control plane with Cardgate installed, of which nothing runs.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::controlplane::{Account, ControlPlane, Kubectl, Options};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::{manifests, workloads};
use crds::keys;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The queue of the managed pods.
pub const QUEUE: &str = "queue-a";
/// A user who may edit what is in the test's namespace, and no more.
const EDITOR: &str = "eddie";
/// Where nobody listens: the port is reserved, and no test binds it.
const NOBODY: &str = "https://127.0.0.1:1";

/// Control planes that the tests that run at the same time share; each test has a namespace of its own. They end with the
/// last of these tests, so that a test that needs one alone gets its turn.
static POLICIES_ONLY: Mutex<Weak<ControlPlane>> = Mutex::const_new(Weak::new());
static WEBHOOK_DOWN: Mutex<Weak<ControlPlane>> = Mutex::const_new(Weak::new());

/// A control plane with Cardgate installed, of which nothing runs, as one test sees it.
pub struct Cluster {
    pub plane: Arc<ControlPlane>,
    /// The test's namespace.
    pub team: &'static str,
    pub administrator: Client,
    /// May edit what is in the test's namespace, and no more.
    pub editor: Client,
    pub operator: Client,
}

impl Cluster {
    /// Without the webhook configurations, as if somebody had deleted them: the policies are on their own.
    pub async fn with_policies_only(team: &'static str) -> Result<Self> {
        Self::enter(shared(&POLICIES_ONLY, policies_only).await?, team).await
    }

    /// With webhook configurations that lead to nobody.
    pub async fn with_webhook_down(team: &'static str) -> Result<Self> {
        Self::enter(shared(&WEBHOOK_DOWN, webhook_down).await?, team).await
    }

    /// A control plane for one test alone, without the webhook configurations at first.
    pub async fn of_its_own(team: &'static str) -> Result<Self> {
        Self::enter(Arc::new(policies_only().await?), team).await
    }

    async fn enter(plane: Arc<ControlPlane>, team: &'static str) -> Result<Self> {
        plane.create_namespace(team, &[], &[]).await?;
        plane.grant(EDITOR, "edit", team).await?;
        let operator = Account::new(keys::NAMESPACE, "operator");
        plane.await_rights(&operator.user(), "cardgate-operator", None).await?;
        Ok(Self {
            team,
            administrator: plane.client().await?,
            editor: plane.client_of_user(EDITOR).await?,
            operator: plane.client_of_account(&operator).await?,
            plane,
        })
    }

    /// The pods of the test's namespace, as this client may see them.
    pub fn pods(&self, client: &Client) -> Api<Pod> {
        Api::namespaced(client.clone(), self.team)
    }

    /// kubectl as the editor.
    pub fn kubectl(&self) -> Kubectl {
        self.plane.kubectl_of_user(EDITOR)
    }

    /// Lets the editor use `kubectl debug` in the test's namespace, which the role `edit` does not.
    pub async fn let_editor_debug(&self) -> Result<()> {
        let name = format!("{}-debug", self.team);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": [{ "apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch", "update"] }],
        });
        self.plane.apply(&role).await?;
        self.plane.grant(EDITOR, &name, self.team).await
    }

    /// Creates a pod in the test's namespace as the editor.
    pub async fn create(&self, pod: PodBuilder) -> Result<Pod> {
        let pod = pod.namespace(self.team).build();
        Ok(self.pods(&self.editor).create(&PostParams::default(), &pod).await?)
    }
}

/// A control plane on which the overlay is installed as a user would.
async fn start() -> Result<ControlPlane> {
    let plane = ControlPlane::start(Options::default().without_scheduler().without_kwok()).await?;
    install(&plane).await?;
    Ok(plane)
}

async fn install(plane: &ControlPlane) -> Result<()> {
    let overlay = manifests::directory().join("overlays/without-volcano");
    let overlay = overlay.to_str().context("the checkout's path is not UTF-8")?;
    plane.kubectl().run(["apply", "-k", overlay]).await?;
    Ok(())
}

/// The plane that another test uses at the moment, or a new one.
async fn shared(
    slot: &'static Mutex<Weak<ControlPlane>>,
    start: impl AsyncFnOnce() -> Result<ControlPlane>,
) -> Result<Arc<ControlPlane>> {
    let mut slot = slot.lock().await;
    if let Some(plane) = slot.upgrade() {
        return Ok(plane);
    }
    let plane = Arc::new(start().await?);
    *slot = Arc::downgrade(&plane);
    Ok(plane)
}

async fn webhook_down() -> Result<ControlPlane> {
    let plane = start().await?;
    take_webhook_down(&plane).await?;
    Ok(plane)
}

async fn policies_only() -> Result<ControlPlane> {
    let plane = start().await?;
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        plane.kubectl().run(["delete", kind, "cardgate"]).await?;
    }
    await_policies(&plane).await?;
    Ok(plane)
}

/// Installs what is missing, leads the webhook configurations to nobody, and waits until that is in force.
pub async fn take_webhook_down(plane: &ControlPlane) -> Result<()> {
    install(plane).await?;
    break_webhook(plane).await?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    let managed = pod("probe").queue(QUEUE).build();
    let queue = workloads::queue("probe").quota("NVIDIA-A100", 1).build().to_string();
    wait::eventually(
        "the webhook configurations to be in force",
        wait::PATIENCE,
        async || {
            let refused = refusal(pods.create(&dry_run(), &managed).await);
            let create = ["create", "--dry-run=server", "-f", "-"];
            let output = plane.kubectl().output(create, Some(&queue)).await?;
            let said = [
                refused.unwrap_or_default(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ];
            let down = said.iter().all(|text| text.contains("failed calling webhook"));
            Ok(Seen::when(down, format!("{said:?}")))
        },
    )
    .await
}

/// Leads both webhook configurations to an address where nobody listens, instead of a Service without endpoints, which
/// takes each call's full time limit where no kube-proxy answers for it.
async fn break_webhook(plane: &ControlPlane) -> Result<()> {
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let text = plane.kubectl().run(["get", kind, "cardgate", "-o", "json"]).await?;
        let mut configuration: Value = serde_json::from_str(&text)?;
        let webhooks = configuration["webhooks"].as_array_mut().context("no webhooks")?;
        for webhook in webhooks {
            // That for reviews gets its path from the operator.
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
            webhook["clientConfig"] = json!({ "url": format!("{NOBODY}{path}") });
        }
        let text = configuration.to_string();
        let output = plane.kubectl().output(["replace", "-f", "-"], Some(&text)).await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Whether the API server lets running pods be resized: those of Kubernetes 1.30 to 1.32 need not know `pods/resize`.
pub async fn serves_resize(client: &Client) -> Result<bool> {
    let served = client.list_core_api_resources("v1").await?;
    Ok(served.resources.iter().any(|resource| resource.name == "pods/resize"))
}

/// The API server takes policies over one by one, some time after they were written.
async fn await_policies(plane: &ControlPlane) -> Result<()> {
    let name = "probe";
    let serves_resize = serves_resize(&plane.client().await?).await?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    pods.create(&PostParams::default(), &held(name).build()).await?;
    let only_try = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let annotation = Patch::Merge(json!({ "metadata": { "annotations": { keys::CARD_NAME: "other" } } }));
    let more = json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "2" } });
    let more = Patch::Strategic(json!({ "spec": { "containers": [{ "name": "main", "resources": more }] } }));
    let annotated = binding(name, &json!({ keys::QUEUE_NAME: "b" }), &json!({}));
    wait::eventually("all policies to be in force", wait::PATIENCE, async || {
        let ungated = pod("other").queue(QUEUE).build();
        let bind: kube::Result<Value> = pods.create_subresource("binding", name, &dry_run(), &annotated).await;
        let open: Vec<String> = [
            ("create", refusal(pods.create(&dry_run(), &ungated).await)),
            ("update", refusal(pods.patch(name, &only_try, &annotation).await)),
            ("resize", refusal(pods.patch_resize(name, &only_try, &more).await)),
            ("binding", refusal(bind)),
        ]
        .into_iter()
        .filter(|(policy, _)| serves_resize || *policy != "resize")
        .filter(|(policy, refused)| {
            let denied = format!("ValidatingAdmissionPolicy 'cardgate-pod-{policy}'");
            !refused.as_ref().is_some_and(|message| message.contains(&denied))
        })
        .map(|(policy, refused)| format!("{policy}: {refused:?}"))
        .collect();
        Ok(Seen::when(open.is_empty(), open.join(", ")))
    })
    .await?;
    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// A managed pod as the mutating webhook leaves it.
pub fn held(name: &str) -> PodBuilder {
    pod(name)
        .queue(QUEUE)
        .label(keys::QUEUE_LABEL, QUEUE)
        .gate(keys::GATE)
        .request("cpu", 1)
}

/// The Binding of a pod to a node.
pub fn binding(pod: &str, annotations: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": pod, "annotations": annotations, "labels": labels },
        "target": { "kind": "Node", "name": "node-1" },
    })
}

/// Parameters that create nothing.
pub fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// What the API server said where it refused.
pub fn refusal<T>(result: kube::Result<T>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message),
        Err(other) => Some(format!("no answer: {other}")),
    }
}

/// Waits until this policy refuses what is tried: API servers put each in force in its own time.
pub async fn await_refusal<T>(policy: &str, attempt: impl AsyncFn() -> kube::Result<T>) -> Result<()> {
    let denied = format!("ValidatingAdmissionPolicy '{policy}'");
    wait::eventually(format!("{policy} to be in force"), wait::PATIENCE, async || {
        let refused = refusal(attempt().await);
        let is_denied = refused.as_ref().is_some_and(|message| message.contains(&denied));
        Ok(Seen::when(is_denied, format!("{refused:?}")))
    })
    .await
}

/// Asserts that a policy denied the request, with a message that says all of this.
#[track_caller]
pub fn assert_denied<T: Debug>(case: &str, policy: &str, result: kube::Result<T>, says: &[&str]) {
    let message = match result {
        Ok(accepted) => panic!("{case}: accepted: {accepted:?}"),
        Err(kube::Error::Api(status)) => {
            assert_eq!(
                (status.code, &*status.reason),
                (403, "Forbidden"),
                "{case}: {}",
                status.message
            );
            status.message
        }
        Err(other) => panic!("{case}: no answer: {other}"),
    };
    // A second binding of a policy is called after it.
    let denied = format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}");
    for text in [denied.as_str()].iter().chain(says) {
        assert!(message.contains(text), "{case}: {text:?} is missing in: {message}");
    }
}

/// A container that runs before the others and asks for a resource.
pub fn init_container(resource: &str) -> Container {
    Container {
        name: "init".to_owned(),
        image: Some("image".to_owned()),
        resources: Some(ResourceRequirements {
            limits: Some([(resource.to_owned(), Quantity("100".to_owned()))].into()),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}
