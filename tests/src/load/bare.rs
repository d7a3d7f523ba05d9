//! The bare loop: watches, makes no decision, and removes every gate with the patch that the operator writes. No gating
//! can be faster; what it takes is what gates cost.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use engine::decide::Admission;
use engine::refs::PodRef;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use operator::act::{LANES, admission_patch};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::observer::SeenPod;
use super::pods::{CARD, NAMESPACE, PRODUCT_LABEL};
use super::usage::Clock;
use crate::controlplane::ControlPlane;

/// A running bare loop, on a thread of its own so that its CPU time can be told from the creators'.
pub(super) struct BareLoop {
    /// Its CPU time.
    pub clock: Clock,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl BareLoop {
    /// Starts it and waits until it watches.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let (started, is_started) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let kubeconfig = plane.kubectl().kubeconfig().to_owned();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                // A client belongs to the runtime that it is made in.
                let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
                let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
                let client = Client::try_from(config)?;
                // The starter is gone only when everything ends.
                let _ = started.send(Clock::of_this_thread("bare loop"));
                tokio::select! {
                    ended = remove_gates(client) => ended,
                    _ = stopped => Ok(()),
                }
            })
        };
        let thread = std::thread::Builder::new()
            .name("bare-loop".to_owned())
            .spawn(run)
            .context("no thread for the bare loop")?;
        Ok(Self {
            clock: is_started.await.context("the bare loop did not start")?,
            stop,
            thread,
        })
    }

    /// Ends it; an error if it has ended before.
    pub fn stop(self) -> Result<()> {
        let was_running = self.stop.send(()).is_ok();
        let outcome = self.thread.join();
        outcome.map_err(|_| anyhow::anyhow!("the bare loop panicked"))??;
        ensure!(was_running, "the bare loop ended by itself");
        Ok(())
    }
}

/// Removes the gate of every pod, until a write fails.
async fn remove_gates(client: Client) -> Result<()> {
    let pods: Api<SeenPod> = Api::namespaced(client.clone(), NAMESPACE);
    let written: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let lanes = Arc::new(Semaphore::new(LANES));
    let (failed, mut failures) = mpsc::channel(1);
    let watch = watcher(pods, watcher::Config::default()).default_backoff();
    pin_mut!(watch);
    // A pod has its gate in several events when something else changes it; one write is enough.
    let mut handled = HashSet::new();
    loop {
        let event = tokio::select! {
            event = watch.next() => event.context("the bare loop's watch ended")??,
            Some(error) = failures.recv() => return Err(error),
        };
        let (watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else {
            continue;
        };
        let admission = admission(&pod);
        if !pod.is_gated() || !handled.insert(Arc::clone(&admission.pod.uid)) {
            continue;
        }
        let (lanes, api, failed) = (Arc::clone(&lanes), written.clone(), failed.clone());
        tokio::spawn(async move {
            let Ok(_lane) = lanes.acquire().await else { return };
            let patch = Patch::Json::<()>(admission_patch(&admission));
            let params = PatchParams::default();
            let write = api.patch_metadata(&admission.pod.name, &params, &patch);
            if let Err(error) = write.await {
                let error = anyhow::Error::from(error).context(format!("cannot remove the gate of {}", admission.pod));
                // One error is enough to end the loop.
                let _ = failed.try_send(error);
            }
        });
    }
}

/// What the operator would decide.
fn admission(pod: &SeenPod) -> Admission {
    let metadata = &pod.metadata;
    Admission {
        pod: PodRef {
            namespace: NAMESPACE.into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
        },
        queue: "load".into(),
        arrived: Timestamp::UNIX_EPOCH,
        card: Some(CARD.into()),
        is_marked: false,
        narrow: vec![(PRODUCT_LABEL.to_owned(), CARD.to_owned())],
        has_node_selector: false,
        pin: None,
        avoid: None,
        off_gpu_nodes: None,
        mgpu_results: Vec::new(),
        has_annotations: true,
        was_told: false,
    }
}
