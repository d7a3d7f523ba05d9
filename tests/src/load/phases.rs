//! What is measured: pods one by one, all pods at once, freed quota, questions why pods wait, and restarts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crds::card_review::{CardReview, CardReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use tokio::time::Instant;

use super::Plan;
use super::figures::Durations;
use super::observer::Sightings;
use super::pods::NAMESPACE;
use super::scene::Scene;
use super::writes::Log;
use crate::progress::Progress;

/// How many pods a queue holds whose quota is freed pod by pod.
const HELD: usize = 8;

/// Pods one by one on an idle cluster.
#[derive(Debug, Clone)]
pub struct Singles {
    /// From sending the request that creates the pod until its gate is seen to be gone.
    pub let_in: Durations,
    /// The same until it is seen to be bound.
    pub bound: Durations,
}

/// Creates pods one by one; each runs before the next is created.
pub(super) async fn singles(scene: &Scene, plan: &Plan) -> Result<Singles> {
    const QUEUE: &str = "single";
    let mut progress = Progress::new(format!("{}: pods one by one", scene.contender));
    scene.queue(QUEUE, plan.singles).await?;
    let mut times = Vec::new();
    for index in 0..plan.singles {
        let name = format!("{QUEUE}-{index:05}");
        let sent = scene.creator.create(QUEUE, &name).await?;
        let runs = |seen: &Sightings| {
            let pod = seen.pods.get(&name).filter(|pod| pod.runs)?;
            Some((pod.let_in? - sent, pod.bound? - sent))
        };
        let state = |seen: &Sightings| format!("{:?}", seen.pods.get(&name));
        times.push(scene.observer.until("a single pod to run", runs, state).await?);
        progress.show(&format!("{} of {}", index + 1, plan.singles));
    }
    let singles = Singles {
        let_in: Durations::new(times.iter().map(|(let_in, _)| *let_in))?,
        bound: Durations::new(times.iter().map(|(_, bound)| *bound))?,
    };
    progress.finish("done");
    Ok(singles)
}

/// All pods at once.
#[derive(Debug, Clone)]
pub struct Burst {
    /// How many pods there were.
    pub pods: usize,
    /// From the first request until the last pod was created.
    pub created: Duration,
    /// From the first request until the last pod was bound.
    pub bound: Duration,
    /// Of each pod, from sending the request that creates it until its gate is seen to be gone.
    pub let_in: Durations,
    /// Of each pod, from when it is first seen until its gate is seen to be gone.
    pub waited: Durations,
    /// CPU time of each process in this time.
    pub cpu: Vec<(String, Duration)>,
}

impl Burst {
    /// CPU time of all processes together for a pod.
    pub fn cpu_of_a_pod(&self) -> f64 {
        let all: Duration = self.cpu.iter().map(|(_, time)| *time).sum();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 pods")]
        let pods = self.pods as f64;
        all.as_secs_f64() / pods
    }

    /// Pods per second, from the first request until the last pod was bound.
    pub fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 pods")]
        let pods = self.pods as f64;
        pods / self.bound.as_secs_f64()
    }
}

/// Creates all pods as fast as the API server takes them, and waits until all of them are bound.
pub(super) async fn burst(scene: &Scene, plan: &Plan) -> Result<Burst> {
    const QUEUE: &str = "load";
    let mut progress = Progress::new(format!("{}: {} pods", scene.contender, plan.pods));
    scene.queue(QUEUE, plan.pods).await?;
    let state = |seen: &Sightings| {
        let so_far = seen.progress(QUEUE);
        format!(
            "{} created, {} let in, {} bound",
            so_far.created, so_far.let_in, so_far.bound
        )
    };
    let clocks = scene.clocks();
    let before: Vec<_> = clocks.iter().map(super::usage::Clock::read).collect::<Result<_>>()?;
    let begin = Instant::now();
    let creation = async {
        let sent = scene.creator.create_all(QUEUE, plan.pods, plan.creators).await?;
        anyhow::Ok((sent, begin.elapsed()))
    };
    let mut next = 0;
    let all_are_bound = |seen: &Sightings| {
        let bound = seen.progress(QUEUE).bound;
        if bound >= next {
            progress.show(&state(seen));
            next = bound + plan.pods / 100 + 1;
        }
        (bound == plan.pods).then(Instant::now)
    };
    let (created, bound) = tokio::join!(
        creation,
        scene.observer.until("all pods to be bound", all_are_bound, state)
    );
    // Why pods could not be created says more than that they are not there.
    let (sent, created) = created?;
    let bound = bound?;
    let cpu = clocks
        .into_iter()
        .zip(before)
        .map(|(clock, before)| Ok((clock.name.clone(), clock.read()?.saturating_sub(before))))
        .collect::<Result<_>>()?;
    scene.ensure_running()?;
    progress.finish(&scene.observer.look(state));
    scene.observer.look(|seen| {
        let pod = |name: &str| {
            seen.pods
                .get(name)
                .with_context(|| format!("the pod {name} was not seen"))
        };
        let let_in = sent
            .iter()
            .map(|(name, sent)| Ok(pod(name)?.let_in.context("gated")? - *sent));
        let waited = sent
            .iter()
            .map(|(name, _)| Ok(pod(name)?.let_in.context("gated")? - pod(name)?.created));
        Ok(Burst {
            pods: plan.pods,
            created,
            bound: bound - begin,
            let_in: Durations::new(let_in.collect::<Result<Vec<_>>>()?)?,
            waited: Durations::new(waited.collect::<Result<Vec<_>>>()?)?,
            cpu,
        })
    })
}

/// Quota that is freed pod by pod, in a full queue with pods that wait.
#[derive(Debug, Clone)]
pub struct Freed {
    /// From sending the request that deletes a running pod until another pod's gate is seen to be gone.
    pub reused: Durations,
    /// Writes to pods that waited all the time, for the same reason.
    pub needless_writes: usize,
}

/// Deletes running pods of a full queue one by one.
pub(super) async fn freed(scene: &Scene, plan: &Plan) -> Result<Freed> {
    let mut progress = Progress::new("freed quota");
    let queue = FullQueue::fill(scene, "freed", 2 * plan.releases, plan).await?;
    let mut log = Log::of(&scene.plane);
    log.settle(scene.cardgate()?).await?;
    let mark = log.mark()?;
    let mut times = Vec::new();
    for release in 1..=plan.releases {
        let begin = Instant::now();
        queue.delete_one().await?;
        times.push(queue.let_in_after(begin).await? - begin);
        queue.runs_full().await?;
        progress.show(&format!("{release} of {}", plan.releases));
    }
    log.settle(scene.cardgate()?).await?;
    let freed = Freed {
        reused: Durations::new(times)?,
        needless_writes: queue.writes_to_waiting(&mut log, mark)?,
    };
    progress.finish("done");
    Ok(freed)
}

/// Questions why pods wait, each after the answer to the one before.
#[derive(Debug, Clone)]
pub struct Reviews {
    /// How many pods waited.
    pub waiting: usize,
    /// From sending the question until the answer is there.
    pub answered: Durations,
}

/// Asks about waiting pods, from the first in line to the last.
pub(super) async fn reviews(scene: &Scene, plan: &Plan) -> Result<Reviews> {
    let mut progress = Progress::new(format!("questions with {} pods waiting", plan.waiting));
    let queue = FullQueue::fill(scene, "review", plan.waiting, plan).await?;
    let waiting = queue.waiting();
    ensure!(!waiting.is_empty(), "no pod waits");
    let api: Api<CardReview> = Api::namespaced(scene.plane.client().await?, NAMESPACE);
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut times = Vec::new();
    for index in 0..plan.reviews {
        let spec = CardReviewSpec {
            pod: Some(waiting[index * waiting.len() / plan.reviews].clone()),
            ..CardReviewSpec::default()
        };
        let begin = Instant::now();
        let answer = api.create(&params, &CardReview::new("load", spec)).await?;
        times.push(begin.elapsed());
        let status = answer.status.context("the question was not answered")?;
        ensure!(
            !status.admitted && status.position.is_some() && !status.blocks.is_empty(),
            "a pod that waits has no reason: {status:?}"
        );
        progress.show(&format!("{} of {}", index + 1, plan.reviews));
    }
    progress.finish("done");
    Ok(Reviews {
        waiting: waiting.len(),
        answered: Durations::new(times)?,
    })
}

/// The operator started anew, while pods wait and quota is free.
#[derive(Debug, Clone)]
pub struct Restarts {
    /// How many pods waited.
    pub waiting: usize,
    /// From the start of the process until the first pod's gate is seen to be gone, after SIGTERM.
    pub after_termination: Durations,
    /// The same after SIGKILL, when nobody has given the Lease back.
    pub after_kill: Durations,
    /// Writes to pods that waited all the time, for the same reason.
    pub needless_writes: usize,
}

/// Restarts the operator with all pods waiting.
pub(super) async fn restarts(scene: &Scene, plan: &Plan) -> Result<Restarts> {
    let mut progress = Progress::new(format!("restarts with {} pods waiting", plan.waiting));
    let queue = FullQueue::fill(scene, "restart", plan.waiting, plan).await?;
    let mut log = Log::of(&scene.plane);
    log.settle(scene.cardgate()?).await?;
    let mark = log.mark()?;
    let operator = scene.cardgate()?.operator();
    let mut times = [Vec::new(), Vec::new()];
    for restart in 0..2 * plan.restarts {
        let kill = restart % 2;
        if kill == 1 {
            operator.kill()?;
        } else {
            operator.terminate().await?;
        }
        queue.delete_one().await?;
        let begin = Instant::now();
        operator.start()?;
        times[kill].push(queue.let_in_after(begin).await? - begin);
        queue.runs_full().await?;
        operator.await_ready().await?;
        progress.show(&format!("{} of {}", restart + 1, 2 * plan.restarts));
    }
    log.settle(scene.cardgate()?).await?;
    let [after_termination, after_kill] = times;
    let restarts = Restarts {
        waiting: plan.waiting,
        after_termination: Durations::new(after_termination)?,
        after_kill: Durations::new(after_kill)?,
        needless_writes: queue.writes_to_waiting(&mut log, mark)?,
    };
    progress.finish("done");
    Ok(restarts)
}

/// A queue whose quota is used up, with pods that wait and have been told why.
struct FullQueue<'a> {
    scene: &'a Scene,
    name: &'static str,
    pods: Api<Pod>,
}

impl<'a> FullQueue<'a> {
    async fn fill(scene: &'a Scene, name: &'static str, waiting: usize, plan: &Plan) -> Result<Self> {
        let queue = Self {
            scene,
            name,
            pods: Api::namespaced(scene.plane.client().await?, NAMESPACE),
        };
        scene.queue(name, HELD).await?;
        scene.creator.create_all(name, HELD + waiting, plan.creators).await?;
        queue.runs_full().await?;
        let all_are_told = |seen: &Sightings| {
            let mut pods = seen.pods.values().filter(|pod| pod.queue == name);
            let count = seen.progress(name).created;
            (count == HELD + waiting && pods.all(|pod| pod.told || pod.let_in.is_some())).then_some(())
        };
        let state = |seen: &Sightings| format!("{:?}", seen.progress(name));
        scene
            .observer
            .until("all waiting pods to be told why", all_are_told, state)
            .await?;
        Ok(queue)
    }

    /// Deletes a running pod and returns when it is gone.
    async fn delete_one(&self) -> Result<()> {
        let running = self.scene.observer.look(|seen| {
            let mut pods = seen.pods.iter();
            pods.find(|(_, pod)| pod.queue == self.name && pod.runs && pod.gone.is_none())
                .map(|(name, _)| name.clone())
        });
        let running = running.context("no pod of the queue runs")?;
        // Gone at once: the time that a kubelet takes is not Cardgate's.
        let now = DeleteParams::default().grace_period(0);
        self.pods.delete(&running, &now).await?;
        Ok(())
    }

    /// When the first pod was let in after that moment.
    async fn let_in_after(&self, moment: Instant) -> Result<Instant> {
        let let_in = |seen: &Sightings| {
            let of_queue = seen.pods.values().filter(|pod| pod.queue == self.name);
            of_queue
                .filter_map(|pod| pod.let_in)
                .filter(|let_in| *let_in > moment)
                .min()
        };
        let state = |seen: &Sightings| format!("{:?}", seen.progress(self.name));
        let what = "a waiting pod to be let in";
        self.scene.observer.until(what, let_in, state).await
    }

    /// Waits until as many pods run as the queue may hold.
    async fn runs_full(&self) -> Result<()> {
        let full = |seen: &Sightings| {
            let pods = seen.pods.values();
            let running = pods.filter(|pod| pod.queue == self.name && pod.runs && pod.gone.is_none());
            (running.count() == HELD).then_some(())
        };
        let state = |seen: &Sightings| format!("{:?}", seen.progress(self.name));
        self.scene.observer.until("the queue to be full", full, state).await?;
        let most = self.scene.observer.look(|seen| seen.progress(self.name).most_let_in);
        ensure!(
            most <= HELD,
            "{most} pods were let in at a time, in a queue with a quota of {HELD}"
        );
        Ok(())
    }

    /// The pods that wait, by name, which is the order in which they were created.
    fn waiting(&self) -> Vec<String> {
        self.scene.observer.look(|seen| {
            let pods = seen.pods.iter();
            let waits = pods.filter(|(_, pod)| pod.queue == self.name && pod.let_in.is_none());
            let mut names: Vec<_> = waits.map(|(name, _)| name.clone()).collect();
            names.sort_unstable();
            names
        })
    }

    fn writes_to_waiting(&self, log: &mut Log<'_>, mark: super::writes::Mark) -> Result<usize> {
        let waits = |name: &str| {
            self.scene.observer.look(|seen| {
                seen.pods
                    .get(name)
                    .is_some_and(|pod| pod.queue == self.name && pod.let_in.is_none())
            })
        };
        log.of_pods_since(mark, waits)
    }
}
