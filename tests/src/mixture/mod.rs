//! Pods of all kinds at once, under a configuration that has everything on: what upgrades, removals and faults are tried on.
//!
//! Every kind has a queue and cards of its own, and asks for about twice of what its queue may have. So how many of each run
//! in the end is known without asking anybody who decides.

mod claims;
mod creator;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::Result;
use crds::keys::{self, CARD_DESERVED, CARD_REQUEST, CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GROUP_NAME, MGPU_POLICY};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cardgate::Cardgate;
use crate::controlplane::ControlPlane;
use crate::nodes::{self, NodeSpec};
use crate::wait::{self, Seen};
use crate::workloads::{APP, PodBuilder, QueueBuilder, pod, queue};
use creator::{AT_A_TIME, Creator};

/// Where all pods are that name a queue.
pub const NAMESPACE: &str = "mixture";
/// The namespace that opted in to quotas for pods without GPU.
pub const CROSS: &str = "mixture-cross";
/// Everything on.
pub const CONFIGURATION: &str = "
    actions: enqueue, allocate, reclaim
    tiers:
      - plugins:
          - {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true, enableHierarchy: true, reclaimInterval: 1}}
          - {name: predicates, arguments: {predicate.MGPUEnable: true, predicate.MGPUPolicy: binpack}}
          - {name: crossquota, arguments: {gpu-resource-names: 'nvidia.com/.*,vke.volcengine.com/mgpu-core', quota.cpu: 4}}";

const PLAIN: &str = "NVIDIA-A100";
const ONE: &str = "NVIDIA-B200";
const OTHER: &str = "NVIDIA-B300";
const MIG: &str = "NVIDIA-A100-PCIE-40GB/mig-1g.5gb-mixed";
const MPS: &str = "NVIDIA-T4/mps-15g*1/8";
const MGPU: &str = "NVIDIA-H100-80GB-HBM3/mgpu";
const GANG: &str = "NVIDIA-L40S";
const JOB: &str = "NVIDIA-L4";
const SHARED: &str = "NVIDIA-H20";
/// The label of nodes for pods without cards, which no other pods go to.
const CROSS_NODE: (&str, &str) = ("mixture", "cross");
/// Pods of a gang, none of which runs without the others.
const GANG_SIZE: usize = 4;
/// Pods of a Job that is held until its queue has room for all of them.
const JOB_SIZE: usize = 2;
/// Between two of the Jobs that come after all others.
const BETWEEN_JOBS: Duration = Duration::from_secs(1);
/// Compute of an mGPU pod, of 100 a card.
const SHARE: usize = 50;
/// Cores that a GPU node gives to pods without GPU, by [`CONFIGURATION`]; each of these asks for one.
const CROSS_CORES: usize = 4;
/// How many pods there are for each that a queue may have: twice as many of six kinds and of those without cards, and as many of each
/// team's. Pods of Jobs come and go.
const PODS_PER_ROOM: usize = 16;

/// So many pods of all kinds.
#[derive(Debug, Clone, Copy)]
pub struct Mixture {
    /// Pods that each kind's queue may have, a multiple of all sizes.
    room: usize,
    /// Whether there are cards by devices too, and pods that claim them.
    has_claims: bool,
}

impl Mixture {
    /// About so many pods; at least 8 of each kind.
    pub fn of(pods: usize) -> Self {
        Self {
            room: (pods / PODS_PER_ROOM / GANG_SIZE).max(1) * GANG_SIZE,
            has_claims: false,
        }
    }

    /// About so many pods, of which some get their cards by Dynamic Resource Allocation; at least 8 of each kind.
    pub fn with_claims(pods: usize) -> Self {
        let others = pods * PODS_PER_ROOM / (PODS_PER_ROOM + claims::PODS_PER_ROOM);
        Self {
            has_claims: true,
            ..Self::of(others)
        }
    }

    /// How many pods run in the end, by the label [`APP`]: what fits, of twice as many. Jobs are over by then.
    pub fn expected(self) -> BTreeMap<&'static str, usize> {
        let room = self.room;
        let mut expected = BTreeMap::from([
            ("plain", room),
            ("alternatives", room),
            ("mig", room),
            ("mps", room),
            ("mgpu", room),
            ("gang", room),
            ("cross", self.cross_nodes() * CROSS_CORES),
            ("sharing-a", room / 2),
            ("sharing-b", room / 2),
        ]);
        if self.has_claims {
            expected.extend(claims::KINDS.map(|kind| (kind, room)));
        }
        expected
    }

    /// How many pods there are in the end, of those that run and those that wait.
    pub fn pods(self) -> usize {
        // The two that share ask for as much as their department has, each.
        let claiming = if self.has_claims { claims::PODS_PER_ROOM } else { 0 };
        self.room * (PODS_PER_ROOM - 2 + claiming) + self.cross_pods()
    }

    fn cross_nodes(self) -> usize {
        self.room.div_ceil(CROSS_CORES)
    }

    fn cross_pods(self) -> usize {
        self.cross_nodes() * CROSS_CORES * 2
    }

    /// The nodes, with room for what the queues may have.
    pub fn nodes(self) -> Vec<NodeSpec> {
        let room = self.room;
        let some = |count: usize, of: &dyn Fn(usize) -> NodeSpec| (0..count).map(of).collect::<Vec<_>>();
        let whole = |name: &'static str, card: &'static str, cards: usize| {
            some(cards.div_ceil(8), &move |index| {
                nodes::nvidia(&format!("{name}-{index}"), card, 8, 81_920)
            })
        };
        let cross = |index: usize| {
            let node = nodes::nvidia(&format!("cross-{index}"), "NVIDIA-V100", 1, 16_384);
            node.label(CROSS_NODE.0, CROSS_NODE.1)
        };
        [
            whole("plain", PLAIN, room),
            whole("one", ONE, room / 2),
            whole("other", OTHER, room / 2),
            some(room.div_ceil(4), &|index| {
                nodes::a100_40gb_mig_mixed(&format!("mig-{index}"))
            }),
            some(room.div_ceil(32), &|index| {
                nodes::nvidia_mps(&format!("mps-{index}"), "NVIDIA-T4", 4, 15_360, 8)
            }),
            some(room.div_ceil(16), &|index| nodes::vke_mgpu(&format!("mgpu-{index}"))),
            whole("gang", GANG, room),
            whole("job", JOB, room),
            whole("sharing", SHARED, room),
            some(self.cross_nodes(), &cross),
        ]
        .concat()
    }

    /// The queues: one for each kind, and a department of two teams that borrow from each other.
    pub fn queues(self) -> Vec<Value> {
        let room = self.room as u64;
        let team = |name: &str| {
            let deserved = json!({ SHARED: room / 2 }).to_string();
            let team = queue(name).quota(SHARED, room).annotation(CARD_DESERVED, &deserved);
            team.field("parent", json!("department"))
        };
        [
            queue("plain").quota(PLAIN, room),
            queue("alternatives").quota(ONE, room / 2).quota(OTHER, room / 2),
            queue("mig").quota(MIG, room),
            queue("mps").quota(MPS, room),
            queue("mgpu").quota(MGPU, room * SHARE as u64),
            queue("gang").quota(GANG, room),
            queue("job").quota(JOB, room),
            queue("department").quota(SHARED, room),
            team("sharing-a"),
            team("sharing-b"),
        ]
        .into_iter()
        .chain(self.has_claims.then(|| claims::queues(room)).into_iter().flatten())
        .map(QueueBuilder::build)
        .collect()
    }

    /// Makes namespaces, nodes, configuration and queues.
    pub async fn prepare(self, plane: &ControlPlane, cardgate: &Cardgate) -> Result<()> {
        cardgate.configure(plane, Some(CONFIGURATION), None).await?;
        self.furnish(plane).await?;
        for queue in self.queues() {
            plane.apply(&queue).await?;
        }
        Ok(())
    }

    /// Makes namespaces and nodes, and what publishes their devices and claims them.
    pub async fn furnish(self, plane: &ControlPlane) -> Result<()> {
        plane.create_namespace(NAMESPACE, &[], &[]).await?;
        plane
            .create_namespace(CROSS, &[(CROSS_QUOTA_LABEL, CROSS_QUOTA_ENABLED)], &[])
            .await?;
        plane.create_nodes(&self.nodes()).await?;
        if self.has_claims {
            claims::furnish(plane, self.room).await?;
        }
        Ok(())
    }

    /// Creates all pods, bare ones and by their controllers. What is refused, while whoever has to be asked is down, is tried
    /// again; returns how often that was.
    /// The bare ones come one after the other over the given time.
    pub async fn create(self, client: &Client, over: Duration) -> Result<usize> {
        let double = self.room * 2;
        let replicas = i32::try_from(double)?;
        let refused = AtomicUsize::new(0);
        let creator = Creator {
            client,
            pause: over * u32::try_from(AT_A_TIME)? / u32::try_from(self.room * 7)?,
            refused: &refused,
        };
        let bare = |app: &'static str, of: fn(&str) -> PodBuilder| {
            (0..double).map(move |index| of(app).name(&named(app, index)).build())
        };
        // What others would borrow first.
        creator
            .create(&kind("sharing-a").deployment(i32::try_from(self.room)?))
            .await?;
        for app in ["plain", "mps", "mgpu"] {
            creator.create(&kind(app).deployment(replicas)).await?;
        }
        let cross = kind("cross").deployment(i32::try_from(self.cross_pods())?);
        creator.create(&cross).await?;
        let gangs = (0..double / GANG_SIZE).map(|index| named("gang", index));
        for gang in gangs.clone() {
            creator.group(&gang, "gang").await?;
        }
        let members = gangs.flat_map(|gang| {
            (0..GANG_SIZE).map(move |member| {
                let pod = kind("gang").annotation(GROUP_NAME, &gang);
                pod.name(&format!("{gang}-{member}")).build()
            })
        });
        creator
            .create_all(members.chain(bare("alternatives", kind)).chain(bare("mig", kind)))
            .await?;
        if self.has_claims {
            claims::create(creator, double).await?;
        }
        let jobs = (0..double / JOB_SIZE).map(|index| job(&named("job", index)));
        creator.create_all(jobs.collect::<Result<Vec<_>>>()?).await?;
        creator
            .create(&kind("sharing-b").deployment(i32::try_from(self.room)?))
            .await?;
        Ok(refused.into_inner())
    }

    /// Creates more Jobs, whose pods come and go, one after the other for as long as this says. Returns how often one was refused.
    pub async fn create_jobs_while(self, client: &Client, goes_on: impl Fn() -> bool) -> Result<usize> {
        let refused = AtomicUsize::new(0);
        let creator = Creator {
            client,
            pause: BETWEEN_JOBS,
            refused: &refused,
        };
        let first = self.room * 2 / JOB_SIZE;
        for index in (first..).take_while(|_| goes_on()) {
            creator.create_all([job(&named("job", index))?]).await?;
        }
        Ok(refused.into_inner())
    }

    /// Waits until as many pods of each kind run as can.
    pub async fn expect(self, client: &Client, limit: Duration) -> Result<()> {
        let expected = self.expected();
        wait::eventually(format!("{expected:?} to run"), limit, async || {
            let pods = pods(client).await?;
            let running = running(&pods);
            Ok(Seen::when(running == expected, format!("{running:?}")))
        })
        .await
    }
}

/// All pods of the mixture.
pub async fn pods(client: &Client) -> Result<Vec<Pod>> {
    let mut pods = Vec::new();
    for namespace in [NAMESPACE, CROSS] {
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        pods.extend(api.list(&ListParams::default()).await?.items);
    }
    Ok(pods)
}

/// How many pods of each kind run.
fn running(pods: &[Pod]) -> BTreeMap<&str, usize> {
    let mut running = BTreeMap::new();
    for pod in pods {
        let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get(APP));
        if let Some(app) = app.filter(|app| runs && *app != "job" && pod.metadata.deletion_timestamp.is_none()) {
            *running.entry(app.as_str()).or_default() += 1;
        }
    }
    running
}

/// The name of one of many.
fn named(app: &str, index: usize) -> String {
    format!("{app}-{index:04}")
}

/// A pod of a kind, named after it.
fn kind(app: &str) -> PodBuilder {
    let managed = pod(app).namespace(NAMESPACE).queue(app);
    match app {
        "alternatives" => managed.card(&format!("{ONE}|{OTHER}")).request(keys::NVIDIA_GPU, 1),
        "mig" => managed.card(MIG).request("nvidia.com/mig-1g.5gb", 1),
        "mps" => managed.card(MPS).request(keys::NVIDIA_MPS, 1),
        "mgpu" => managed
            .annotation(MGPU_POLICY, "native-burst-share")
            .request(keys::MGPU_CORE, SHARE)
            .request(keys::MGPU_MEMORY, 1024),
        "cross" => pod(app)
            .namespace(CROSS)
            .request("cpu", 1)
            .node_selector(CROSS_NODE.0, CROSS_NODE.1),
        _ => {
            let card = match app {
                "gang" => GANG,
                "job" => JOB,
                "plain" => PLAIN,
                _ => SHARED,
            };
            managed.card(card).request(keys::NVIDIA_GPU, 1)
        }
    }
}

/// A Job that is held until its queue has room for all of it.
fn job(name: &str) -> Result<k8s_openapi::api::batch::v1::Job> {
    let mut job = kind("job").job(i32::try_from(JOB_SIZE)?);
    job.metadata.name = Some(name.to_owned());
    let request = json!({ JOB: JOB_SIZE }).to_string();
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.insert(CARD_REQUEST.to_owned(), request);
    Ok(job)
}
