//! A scenario in a world that it shares with others: a namespace, a queue and cards of its own.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod, PodCondition};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::nodes::NodeSpec;
use crate::tally::Tally;
use crate::wait::{self, Seen};
use crate::workloads::{PodBuilder, QueueBuilder, pod, queue};
use crate::world::World;

/// Long enough for a wrong decision to show: decisions take milliseconds.
const SETTLED: Duration = Duration::from_millis(500);

/// One scenario. Its name is that of its namespace and of its queue.
pub struct Scenario<'a> {
    name: String,
    plane: &'a ControlPlane,
    client: Client,
}

impl<'a> Scenario<'a> {
    /// Begins a scenario of that name, which no other scenario of the world has.
    pub async fn begin(world: &'a World, name: &str) -> Result<Self> {
        let plane = &world.plane;
        plane.create_namespace(name, &[], &[]).await?;
        Self::of(world, name).await
    }

    /// The scenario of a namespace that is there.
    pub async fn of(world: &'a World, name: &str) -> Result<Self> {
        let plane = &world.plane;
        // Of its own, since each test has its own async runtime.
        let client = plane.client().await?;
        Ok(Self {
            name: name.to_owned(),
            plane,
            client,
        })
    }

    /// The name of the namespace and of the queue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The control plane.
    pub fn plane(&self) -> &'a ControlPlane {
        self.plane
    }

    /// The name of a card that only this scenario has: other scenarios' nodes can't take its pods.
    pub fn card(&self, product: &str) -> String {
        format!("{product}.{}", self.name)
    }

    /// Creates nodes. Their names begin with the scenario's by the caller's care.
    pub async fn nodes(&self, specs: &[NodeSpec]) -> Result<()> {
        self.plane.create_nodes(specs).await
    }

    /// The scenario's queue, to be given quotas.
    pub fn queue(&self) -> QueueBuilder {
        queue(&self.name)
    }

    /// Creates the queue, or makes it as it is now.
    pub async fn apply_queue(&self, queue: QueueBuilder) -> Result<()> {
        self.plane.apply(&queue.build()).await?;
        Ok(())
    }

    /// A pod of the scenario's namespace and queue.
    pub fn pod(&self, name: &str) -> PodBuilder {
        pod(name).namespace(&self.name).queue(&self.name)
    }

    /// A pod that asks for whole NVIDIA cards.
    pub fn gpu_pod(&self, name: &str, card: &str, count: u32) -> PodBuilder {
        self.pod(name).card(card).request("nvidia.com/gpu", count)
    }

    /// Objects of one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Creates an object in the namespace.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let created = self.api::<K>().create(&PostParams::default(), object).await;
        created.with_context(|| format!("cannot create {} {:?}", K::kind(&()), object.meta().name))
    }

    /// Changes an object of the namespace by a merge patch.
    pub async fn change<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let changed = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        changed.with_context(|| format!("cannot change {} {name}", K::kind(&())))
    }

    /// Sets the number of replicas of a Deployment.
    pub async fn scale(&self, deployment: &str, replicas: u32) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.change::<k8s_openapi::api::apps::v1::Deployment>(deployment, patch)
            .await?;
        Ok(())
    }

    /// Deletes an object of the namespace, with what it owns.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::background()).await;
        deleted.with_context(|| format!("cannot delete {} {name}", K::kind(&())))?;
        Ok(())
    }

    /// Creates an object as `kubectl create` does and returns what the user reads: stdout with the warnings, or the error.
    pub async fn kubectl_create(&self, object: &impl Serialize) -> Result<Result<String, String>> {
        let text = serde_json::to_string(object)?;
        let args = ["-n", &self.name, "create", "-f", "-"];
        let output = self.plane.kubectl().output(args, Some(&text)).await?;
        let read = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(if output.status.success() { Ok(read) } else { Err(read) })
    }

    /// Creates an object that has to be refused, and returns the message.
    pub async fn refused<K>(&self, object: &K) -> Result<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    {
        match self.api::<K>().create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) => Ok(status.message.clone()),
            Err(error) => Err(error).context("no answer"),
            Ok(created) => bail!("created, though it should be refused: {created:?}"),
        }
    }

    /// Waits until the door knows what the cards stand for: then a pod that names one and requests nothing is refused.
    pub async fn door_knows(&self, cards: &[&str]) -> Result<()> {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        for card in cards {
            let probe = self.pod("probe").card(card).build();
            wait::eventually(format!("the door to know {card}"), wait::PATIENCE, async || {
                let answer = self.api::<Pod>().create(&dry_run, &probe).await;
                Ok(match answer {
                    Err(error) if error.to_string().contains("stands for the resource") => Seen::Done(()),
                    other => Seen::NotYet(format!("{:?}", other.map(|_| "accepted"))),
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the pod's condition says for this reason that it waits, and returns the condition.
    pub async fn waits(&self, pod: &str, reason: &str) -> Result<PodCondition> {
        let what = format!("the condition {reason}");
        wait::object(&self.api::<Pod>(), pod, what, |pod| {
            let Some(pod) = pod else {
                return Seen::NotYet("no pod".to_owned());
            };
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let admitted = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition.type_ == crds::keys::ADMITTED_CONDITION);
            match admitted {
                Some(condition) if condition.status == "False" && condition.reason.as_deref() == Some(reason) => {
                    Seen::Done(condition.clone())
                }
                other => Seen::NotYet(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until there is an event with this reason about an object of the namespace, and returns all of them.
    pub async fn events(&self, object: &str, reason: &str) -> Result<Vec<Event>> {
        let events = self.api::<Event>();
        let about = ListParams::default().fields(&format!("involvedObject.name={object},reason={reason}"));
        wait::eventually(
            format!("an event {reason} about {object}"),
            wait::PATIENCE,
            async || {
                let found = events.list(&about).await?.items;
                Ok(if found.is_empty() {
                    Seen::NotYet("none".to_owned())
                } else {
                    Seen::Done(found)
                })
            },
        )
        .await
    }

    /// Waits until the pods of a workload are where they are expected.
    pub async fn expect(&self, app: &str, expected: &Tally) -> Result<()> {
        self.plane.await_pods(&self.name, app, expected).await
    }

    /// The same, and that they stay there.
    pub async fn expect_for_good(&self, app: &str, expected: &Tally) -> Result<()> {
        self.expect(app, expected).await?;
        self.plane.pods_stay(&self.name, app, expected, SETTLED).await
    }
}
