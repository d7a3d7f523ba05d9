//! The fault run: a burst of pods of all kinds, while something breaks. Each fault has a control plane of its own.
//!
//! It is watched all the time, and the simulator's judge, who shares nothing with the engine, judges what was written. In the end as many pods run as can, and an operator that is
//! started again has nothing to write.

mod fault;
mod history;
mod malformed;
mod random;
mod watch;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use crds::card_usage::CardUsage;
use crds::keys::{ADMITTED_CONDITION, GATE, POLICY_PARAMETERS};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use tokio::time::sleep;

pub use self::fault::Fault;

use self::fault::Stage;
use self::random::Random;
use self::watch::Watch;
use crate::cardgate::{Cardgate, Instance, NAMESPACE};
use crate::controlplane::{ControlPlane, Options, Write};
use crate::mixture::Mixture;
use crate::progress::Progress;
use crate::wait::{self, Seen};

/// How long nothing may be written until nothing more is taken to come. Three of these worlds share two cores, and the operator tells pods
/// why they wait after all else: on a slow machine it is silent before that for longer than 3 s.
const QUIET: Duration = Duration::from_secs(6);
/// The same while pods wait that have not been told why: what was refused to a leader in its first moments is written again later.
const QUIET_BEFORE_ALL_IS_TOLD: Duration = Duration::from_secs(15);
/// How long the pods may take to run after the last fault, beside what more pods take.
const HEALED_AT_MOST: Duration = Duration::from_mins(3);

/// What is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// About so many pods of all kinds.
    pub pods: usize,
    /// How often each fault strikes.
    pub strikes: usize,
    /// What the order of strikes comes from.
    pub seed: u64,
    /// Which faults.
    pub faults: Vec<Fault>,
    /// Whether to start even if as many control planes run as tests may have.
    pub at_once: bool,
}

/// What came of one fault.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Which.
    pub fault: Fault,
    /// How long it took, from the first pod until nothing was written any more.
    pub took: Duration,
    /// How many pods were let in, evicted ones each time.
    pub let_in: usize,
    /// What broke, in a word.
    pub strikes: String,
    /// What did not hold; nothing where all is well.
    pub violations: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.violations.is_empty() { "held" } else { "BROKEN" };
        let (fault, took) = (self.fault.to_string(), self.took.as_secs_f32());
        write!(
            f,
            "{verdict:<7} {fault:<16} {took:>6.1} s  {} pods let in; {}",
            self.let_in, self.strikes
        )?;
        self.violations
            .iter()
            .try_for_each(|violation| write!(f, "\n          {violation}"))
    }
}

/// Runs the plan, with progress on stderr; tells each outcome as soon as it is there.
pub async fn run(plan: &Plan, mut tell: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for fault in &plan.faults {
        let outcome = Box::pin(one(plan, *fault))
            .await
            .with_context(|| format!("fault {fault}"))?;
        tell(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

async fn one(plan: &Plan, fault: Fault) -> Result<Outcome> {
    let mut progress = Progress::new(format!("{fault}"));
    progress.show("starting a control plane");
    let mut options = Options::default().audit_versions();
    if plan.at_once {
        options = options.at_once();
    }
    let mut plane = ControlPlane::start(options).await?;
    let cardgate = Cardgate::start(&plane).await?;
    let client = plane.client().await?;
    let mixture = Mixture::with_claims(plan.pods);
    mixture.prepare(&plane, &cardgate).await?;
    let mut others = Vec::new();
    for number in 2..=fault.operators() {
        others.push(cardgate.another_operator(&plane, number).await?);
    }
    let operators: Vec<_> = others.iter().chain([cardgate.operator()]).collect();
    let mut tokens = BTreeMap::new();
    for operator in &operators {
        let token = plane.credential_of(operator.kubeconfig()).await?;
        tokens.insert(token, operator.name().to_owned());
    }
    let watch = Watch::start(&client).await?;

    let begin = Instant::now();
    let (created, revived) = (Cell::new(false), Cell::new(0));
    let burst = async {
        // So that all strikes fall into the middle of it.
        let arrival = fault.lasts() * u32::try_from(plan.strikes)?;
        let refused = mixture.create(&client, arrival).await?;
        created.set(true);
        anyhow::Ok(refused)
    };
    let limit = HEALED_AT_MOST + Duration::from_millis(50) * u32::try_from(plan.pods)?;
    let played = async {
        let mut stage = Stage {
            plane: &mut plane,
            cardgate: &cardgate,
            watch: &watch,
            random: Random::new(plan.seed),
            progress: &mut progress,
            pods: mixture.pods(),
            created: &created,
            others: &others,
        };
        let (refused, strikes) = tokio::try_join!(burst, stage.strike(fault, plan.strikes))?;
        progress.show("waiting until as many pods run as can");
        anyhow::Ok((refused, strikes, mixture.expect(&client, limit).await.err()))
    };
    let (refused, mut strikes, late) = tokio::select! {
        played = played => played?,
        failed = revive(&operators, &watch, &revived) => return Err(failed),
    };
    if revived.get() > 0 {
        let _ = write!(
            strikes,
            ", {} operators that had lost their Lease started again",
            revived.get()
        );
    }
    let mut violations = Vec::new();
    if fault.refuses_nobody() && refused > 0 {
        violations.push(format!("{refused} requests were refused"));
    }
    if let Some(late) = late {
        violations.push(format!("{late}\n{}", cardgate.operator().log_tail()));
    }

    let mut log = Log::default();
    log.settle(&plane).await?;
    let took = begin.elapsed();
    progress.show("judging what was written");
    violations.extend(watch.violations(&log.all, &tokens));
    violations.extend(needless(&plane, &operators, &mut log).await?);
    progress.finish("done");
    Ok(Outcome {
        fault,
        took,
        let_in: watch.let_in(),
        strikes,
        violations,
    })
}

/// Starts operators again that have ended, as kubelets do, for as long as this is awaited.
async fn revive(operators: &[&Instance], watch: &Watch, revived: &Cell<usize>) -> Error {
    loop {
        for operator in operators {
            match operator.revive() {
                Ok(true) => {
                    watch.started();
                    revived.set(revived.get() + 1);
                }
                Ok(false) => {}
                Err(error) => return error,
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// What an operator writes that starts in a world where nothing has changed.
async fn needless(plane: &ControlPlane, operators: &[&Instance], log: &mut Log) -> Result<Vec<String>> {
    for operator in operators {
        operator.terminate().await?;
    }
    let operator = operators.last().context("no operator")?;
    log.read(plane)?;
    let before = log.all.len();
    let usages: Api<CardUsage> = Api::all(plane.client().await?);
    let shown = usages.list(&ListParams::default()).await?.items;
    operator.start()?;
    operator.await_ready().await?;
    wait::eventually("the operator to lead", wait::PATIENCE, async || {
        let leads = operator.metric("cardgate_leader").await?;
        Ok(Seen::when(leads == Some(1.0), format!("{leads:?}")))
    })
    .await?;
    log.settle(plane).await?;
    let mut texts = Vec::new();
    // Of several, another one may lead by now.
    let is_expected = |write: &&Write| is_leadership(write) || operators.len() > 1 && names_the_leader(write);
    for write in log.all[before..].iter().filter(|write| !is_expected(write)) {
        let Some(target) = &write.object_ref else { continue };
        let mut text = format!(
            "written in an unchanged world: {} {}/{} {}",
            write.verb, target.resource, target.subresource, target.name
        );
        let usage = shown
            .iter()
            .find(|usage| target.resource == "cardusages" && usage.metadata.name.as_ref() == Some(&target.name));
        if let Some(usage) = usage {
            let now = usages.get(&target.name).await?;
            let [before, after] = [usage, &now].map(without_order);
            if before == after {
                continue;
            }
            text = format!("{text}\n          before {before}\n          after  {after}");
        }
        texts.push(text);
    }
    Ok(texts)
}

/// What is shown of a queue, but for the order of those that wait next: of pods that were created in the same second, an operator
/// that starts can't know who came first.
fn without_order(usage: &CardUsage) -> Value {
    let mut shown = serde_json::to_value(&usage.status).unwrap_or_default();
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("firstWaiting");
    }
    shown
}

/// What Cardgate wrote, as far as it was read.
#[derive(Default)]
struct Log {
    place: u64,
    all: Vec<Write>,
}

/// Whether a write may tell the policies who leads.
fn names_the_leader(write: &Write) -> bool {
    let target = write.object_ref.as_ref();
    target.is_some_and(|target| target.resource == "configmaps" && target.name == POLICY_PARAMETERS)
}

/// Whether a write is about who leads: the Lease, and the label on the leader's own pod.
fn is_leadership(write: &Write) -> bool {
    write
        .object_ref
        .as_ref()
        .is_some_and(|target| target.resource == "leases" || target.resource == "pods" && target.namespace == NAMESPACE)
}

impl Log {
    /// Reads on. Returns how much Cardgate has written so far, but for who leads.
    fn read(&mut self, plane: &ControlPlane) -> Result<usize> {
        let (more, end) = plane.audit_log_from(self.place)?;
        self.place = end;
        let own = format!("system:serviceaccount:{NAMESPACE}:");
        self.all
            .extend(more.into_iter().filter(|write| write.user().starts_with(&own)));
        Ok(self.all.iter().filter(|write| !is_leadership(write)).count())
    }

    /// Waits until Cardgate has nothing more to write.
    async fn settle(&mut self, plane: &ControlPlane) -> Result<()> {
        let pods = Api::all(plane.client().await?);
        let mut last = (0, Instant::now());
        wait::eventually("Cardgate to have nothing more to write", HEALED_AT_MOST, async || {
            let written = self.read(plane)?;
            if written != last.0 {
                last = (written, Instant::now());
            }
            let quiet = last.1.elapsed();
            let is_settled = quiet >= QUIET_BEFORE_ALL_IS_TOLD || quiet >= QUIET && all_are_told(&pods).await?;
            Ok(Seen::when(is_settled, format!("{written} writes")))
        })
        .await
    }
}

/// Whether each pod that waits has been told why.
async fn all_are_told(pods: &Api<Pod>) -> Result<bool> {
    let is_told = |pod: &Pod| {
        let mut gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
        let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        !gates.any(|gate| gate.name == GATE) || conditions.any(|condition| condition.type_ == ADMITTED_CONDITION)
    };
    Ok(pods.list(&ListParams::default()).await?.iter().all(is_told))
}
