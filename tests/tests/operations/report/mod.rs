//! The reporter against a real API server, with the operator's own rights.

mod messages;
mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use cardgate_tests::cardgate::{Cardgate, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::queue;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use operator::herald::Herald;
use operator::lease::Leadership;
use operator::metrics::Metrics;
use operator::report::{Reporter, Reports, channel};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

type Outcome = anyhow::Result<()>;

/// A control plane with Cardgate's manifests, and a reporter with the operator's service account.
struct Bench {
    plane: ControlPlane,
    client: Client,
}

impl Bench {
    async fn start() -> anyhow::Result<Self> {
        let options = Options::default().without_kwok().without_scheduler().audit();
        let plane = ControlPlane::start(options).await?;
        Cardgate::install(&plane, &Settings::default()).await?;
        // Nobody runs the webhook here, and queues are to come and go.
        let door = ["delete", "validatingwebhookconfiguration", "cardgate"];
        plane.kubectl().run(door).await?;
        // The API server forgets the configuration some time after it is gone.
        let queue = queue("probe").build().to_string();
        wait::eventually("queues to be taken", wait::PATIENCE, async || {
            let create = ["create", "--dry-run=server", "-f", "-"];
            let output = plane.kubectl().output(create, Some(&queue)).await?;
            let refused = String::from_utf8_lossy(&output.stderr);
            Ok(Seen::when(output.status.success(), refused))
        })
        .await?;
        let client = plane.client().await?;
        Ok(Self { plane, client })
    }

    async fn reporter(&self, leads: bool) -> anyhow::Result<Running> {
        let leader = Arc::new(Herald::new(leads));
        let (reports, inbox) = channel();
        let reporter = Reporter {
            client: self.plane.client_of_account(&Cardgate::operator_account()).await?,
            instance: "operator-0".to_owned(),
            leadership: Leadership::told(Arc::clone(&leader)),
            metrics: Arc::new(Metrics::default()),
        };
        Ok(Running {
            reports,
            leader,
            task: tokio::spawn(reporter.run(inbox)),
        })
    }

    /// Creates nodes, and returns their names and unique ids.
    async fn create_nodes(&self, specs: &[nodes::NodeSpec]) -> anyhow::Result<BTreeMap<String, String>> {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut uids = BTreeMap::new();
        for spec in specs {
            let node = api.create(&PostParams::default(), &spec.to_node()).await?;
            uids.insert(node.name_any(), node.uid().unwrap_or_default());
        }
        Ok(uids)
    }

    /// Waits until the audit log, which follows a moment later, has exactly so many writes of the operator.
    async fn await_writes(&self, count: usize) -> Outcome {
        wait::eventually(format!("{count} writes"), wait::PATIENCE, async || {
            let writes = self.writes()?;
            Ok(Seen::when(writes == count, writes.to_string()))
        })
        .await
    }

    /// How often the operator has written so far.
    fn writes(&self) -> anyhow::Result<usize> {
        let operator = Cardgate::operator_account().user();
        Ok(self
            .plane
            .audit_log()?
            .iter()
            .filter(|write| write.user() == operator)
            .count())
    }
}

/// A running reporter.
struct Running {
    reports: Reports,
    leader: Arc<Herald>,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends it once it has written what it is writing.
    async fn end(self) -> Outcome {
        let Self { reports, leader, task } = self;
        drop(reports);
        task.await?;
        leader.end();
        Ok(())
    }
}

async fn await_objects<K>(client: &Client, what: &str, check: impl FnMut(&[&K]) -> Seen<()>) -> Outcome
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    wait::objects(&Api::<K>::all(client.clone()), watcher::Config::default(), what, check).await
}

fn names<K: Resource<DynamicType = ()>>(objects: &[&K]) -> Vec<String> {
    let mut names: Vec<_> = objects.iter().map(|object| object.name_any()).collect();
    names.sort();
    names
}
