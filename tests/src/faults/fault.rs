//! What breaks, and how it is mended again.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use operator::certificates::{AUTHORITY_SECRET, SERVING_SECRET};
use tokio::time::sleep;

use super::malformed;
use super::random::Random;
use super::watch::Watch;
use crate::cardgate::{Cardgate, Instance, NAMESPACE};
use crate::controlplane::ControlPlane;
use crate::mixture::CONFIGURATION;
use crate::progress::Progress;
use crate::wait::{self, Seen};

/// Longer than a Lease lasts, and than any request waits.
const LONGER_THAN_THE_LEASE: Duration = Duration::from_secs(17);
/// How long a component is away for a moment.
const A_MOMENT: Duration = Duration::from_secs(2);
/// The longest time between two strikes, where nothing happens.
const PAUSE_AT_MOST: Duration = Duration::from_secs(3);
/// How long a standby may take to lead.
const TAKES_OVER: Duration = Duration::from_mins(1);
/// Definitions of Cardgate's own resources, below `manifests/`.
const DEFINITIONS: [&str; 4] = ["cardinventories", "cardreviews", "cardtypes", "cardusages"];

/// Something that breaks while pods arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// Operator and webhook are killed (-9), one or the other or both.
    Killed,
    /// The API server is killed, and started again.
    ApiServer,
    /// etcd stands still for longer than the Lease lasts.
    Etcd,
    /// There are two operators, and the one that leads stands still until the other has led, or is killed.
    TwoOperators,
    /// There are two operators, and whichever leads is killed (-9), and the webhook with it.
    Leaders,
    /// The certificates and their authority are taken away.
    Certificates,
    /// The configuration is broken, and mended.
    Configuration,
    /// The definitions of Cardgate's resources are deleted with all of them, and installed again.
    Definitions,
    /// Malformed objects of every kind, past the door.
    Malformed,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Killed,
        Self::ApiServer,
        Self::Etcd,
        Self::TwoOperators,
        Self::Leaders,
        Self::Certificates,
        Self::Configuration,
        Self::Definitions,
        Self::Malformed,
    ];

    /// How many operators there are.
    pub(super) fn operators(self) -> usize {
        match self {
            Self::TwoOperators | Self::Leaders => 2,
            _ => 1,
        }
    }

    /// About how long a strike lasts, until the next one can follow.
    pub(super) fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Etcd | Self::TwoOperators | Self::Leaders => 18,
            Self::ApiServer | Self::Definitions | Self::Malformed => 6,
            Self::Killed | Self::Certificates | Self::Configuration => 2,
        })
    }

    /// Whether every request is answered well all the time.
    pub(super) fn refuses_nobody(self) -> bool {
        matches!(
            self,
            Self::Certificates | Self::Configuration | Self::TwoOperators | Self::Malformed
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A burst on its way, and what may break.
pub(super) struct Stage<'a> {
    pub plane: &'a mut ControlPlane,
    pub cardgate: &'a Cardgate,
    pub watch: &'a Watch,
    pub random: Random,
    pub progress: &'a mut Progress,
    /// How many pods there will be.
    pub pods: usize,
    /// Whether all of them have been created.
    pub created: &'a Cell<bool>,
    /// Further operators.
    pub others: &'a [Instance],
}

impl Stage<'_> {
    /// Lets it break so many times, and mends it each time. Returns what broke, in a word.
    pub async fn strike(&mut self, fault: Fault, times: usize) -> Result<String> {
        if fault == Fault::Malformed {
            let objects = (self.pods / 2).max(100);
            let (taken, refused) = malformed::create(self.plane, objects, &mut self.random).await?;
            self.cardgate.operator().ensure_running()?;
            return Ok(format!("{taken} malformed objects were taken, {refused} refused"));
        }
        let mut during = 0;
        for strike in 1..=times {
            self.some_more_pods().await;
            during += usize::from(!self.created.get());
            self.progress.show(&format!("strike {strike} of {times}"));
            match fault {
                Fault::Killed => self.kill().await?,
                Fault::ApiServer => self.stop_apiserver().await?,
                Fault::Etcd => self.pause_etcd().await?,
                Fault::TwoOperators => self.unseat(strike % 2 == 1).await?,
                Fault::Leaders => {
                    let webhook = self.cardgate.webhook();
                    self.kill_for_a_moment(&[webhook]).await?;
                    self.unseat(false).await?;
                }
                Fault::Certificates => self.take_a_certificate().await?,
                Fault::Configuration => self.break_configuration().await?,
                Fault::Definitions => self.delete_definitions().await?,
                Fault::Malformed => {}
            }
        }
        Ok(format!("{times} strikes, {during} while pods were created"))
    }

    /// Waits until some more pods are let in, or none will be.
    async fn some_more_pods(&mut self) {
        let (begin, before) = (Instant::now(), self.watch.let_in());
        let more = 1 + self.random.below(self.pods / 20);
        while self.watch.let_in() < before + more && begin.elapsed() < PAUSE_AT_MOST {
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn kill(&mut self) -> Result<()> {
        let cardgate = self.cardgate;
        let which: &[&Instance] = match self.random.below(3) {
            0 => &[cardgate.operator()],
            1 => &[cardgate.webhook()],
            _ => &[cardgate.operator(), cardgate.webhook()],
        };
        self.kill_for_a_moment(which).await
    }

    async fn kill_for_a_moment(&mut self, which: &[&Instance]) -> Result<()> {
        for instance in which {
            instance.kill()?;
        }
        sleep(Duration::from_millis(self.random.below(500) as u64)).await;
        for instance in which {
            instance.start()?;
            self.watch.started();
        }
        for instance in which {
            instance.await_ready().await?;
        }
        Ok(())
    }

    async fn stop_apiserver(&mut self) -> Result<()> {
        let plane = &mut *self.plane;
        plane.kill_apiserver()?;
        sleep(A_MOMENT).await;
        plane.start_apiserver().await
    }

    async fn pause_etcd(&mut self) -> Result<()> {
        let etcd = self.plane.etcd()?;
        etcd.pause()?;
        sleep(LONGER_THAN_THE_LEASE).await;
        etcd.go_on()
    }

    /// The operator that leads stands still until the other leads, then goes on as if nothing had happened; or it is killed.
    async fn unseat(&mut self, stands_still: bool) -> Result<()> {
        let cardgate = self.cardgate;
        let operators = [cardgate.operator(), self.others.first().context("no second operator")?];
        let (leader, other) = if leads(operators[0]).await? {
            (operators[0], operators[1])
        } else {
            (operators[1], operators[0])
        };
        if stands_still {
            leader.pause()?;
        } else {
            leader.kill()?;
        }
        let follows = wait::eventually("the other operator to lead", TAKES_OVER, async || {
            Ok(Seen::when(leads(other).await?, "it does not"))
        })
        .await;
        if stands_still {
            leader.go_on()?;
        } else {
            leader.start()?;
            self.watch.started();
        }
        follows?;
        wait::eventually("the other to see that it does not lead", TAKES_OVER, async || {
            Ok(Seen::when(!leads(leader).await?, "it takes itself for the leader"))
        })
        .await
    }

    async fn take_a_certificate(&mut self) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.plane.client().await?, NAMESPACE);
        let lost = [AUTHORITY_SECRET, SERVING_SECRET][self.random.below(2)];
        let before = secrets.get(lost).await?.metadata.uid;
        secrets.delete(lost, &DeleteParams::default()).await?;
        wait::object(&secrets, lost, "another Secret", |secret| {
            let uid = secret.and_then(|secret| secret.metadata.uid.clone());
            Seen::when(uid.is_some() && uid != before, format!("{uid:?}"))
        })
        .await
    }

    async fn break_configuration(&mut self) -> Result<()> {
        let (cardgate, plane) = (self.cardgate, &*self.plane);
        let valid = async |expected: f64| {
            wait::eventually(
                format!("cardgate_config_valid {expected}"),
                wait::PATIENCE,
                async || {
                    let now = cardgate.operator().metric("cardgate_config_valid").await?;
                    Ok(Seen::when(now == Some(expected), format!("{now:?}")))
                },
            )
            .await
        };
        let broken = [
            "tiers: [",
            "tiers: 5",
            "tiers:\n  - plugins:\n      - {name: crossquota, arguments: {quota.cpu: x}}",
        ];
        let broken = broken[self.random.below(broken.len())];
        Cardgate::write_configuration(plane, Some(broken), Some("enforceMGPU: perhaps")).await?;
        valid(0.0).await?;
        sleep(Duration::from_millis(self.random.below(500) as u64)).await;
        Cardgate::write_configuration(plane, Some(CONFIGURATION), None).await?;
        valid(1.0).await
    }

    async fn delete_definitions(&mut self) -> Result<()> {
        let kubectl = self.plane.kubectl();
        for definition in DEFINITIONS {
            let name = format!("{definition}.card.volcano.sh");
            kubectl.run(["delete", "crd", &name]).await?;
        }
        for definition in DEFINITIONS {
            let file = format!("manifests/base/crds/{definition}.yaml");
            kubectl.run(["apply", "--server-side", "-f", &file]).await?;
        }
        wait::eventually("the nodes to be shown again", TAKES_OVER, async || {
            let shown = kubectl.run(["get", "cardinventories", "-o", "name"]).await?;
            let nodes = kubectl.run(["get", "nodes", "-o", "name"]).await?;
            let (shown, nodes) = (shown.lines().count(), nodes.lines().count());
            Ok(Seen::when(shown >= nodes, format!("{shown} of {nodes}")))
        })
        .await
    }
}

async fn leads(operator: &Instance) -> Result<bool> {
    let shown = operator.metric("cardgate_leader").await?;
    anyhow::ensure!(shown.is_some(), "{} shows no cardgate_leader", operator.name());
    Ok(shown == Some(1.0))
}
