//! Leader election on a real API server, with the rights of the manifests' own service account.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cardgate_tests::cardgate::{Cardgate, NAMESPACE, Settings};
use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::wait::{self, Seen};
use crds::keys::{LEADER, POLICY_PARAMETERS};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use operator::lease::{Candidate, DURATION, Fence as _, LEASE, Leadership, LeaseError, TERM};
use operator::policy_parameters::LeaderName;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Outcome = anyhow::Result<()>;

/// Less than what is left of a Lease whose holder ends just before it would renew it: 5 of 15 s have passed.
const BEFORE_EXPIRY: Duration = Duration::from_secs(9);

struct Running {
    leadership: Leadership,
    task: JoinHandle<Result<(), LeaseError>>,
    done: oneshot::Sender<()>,
}

fn start(client: &Client, name: &str) -> Running {
    let (candidate, leadership) = Candidate::new(
        client.clone(),
        NAMESPACE,
        name.to_owned(),
        Arc::default(),
        Arc::default(),
    );
    let fence = LeaderName::new(client.clone(), NAMESPACE, name.to_owned(), Arc::default());
    let (done, end) = oneshot::channel();
    let task = tokio::spawn(candidate.run(fence, async {
        // A test that fails drops the sender.
        let _ = end.await;
        Duration::ZERO
    }));
    Running { leadership, task, done }
}

impl Running {
    /// Waits until it leads and returns how long that took.
    async fn leads_within(&self, limit: Duration) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut changes = self.leadership.changes();
        tokio::time::timeout(limit, changes.wait_for(|leads| *leads)).await??;
        assert!(self.leadership.holds());
        Ok(begin.elapsed())
    }
}

#[tokio::test]
async fn one_leads_and_another_takes_over_when_it_ends_or_falls_silent() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    Cardgate::install(&plane, &Settings::default()).await?;
    let client = plane.client_of_account(&Account::new(NAMESPACE, "operator")).await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let holder = async || anyhow::Ok(leases.get(LEASE).await?.spec.and_then(|spec| spec.holder_identity));

    let first = start(&client, "operator-1");
    first.leads_within(wait::PATIENCE).await?;
    let second = start(&client, "operator-2");
    // The operator may read its Lease, and not watch it.
    let watched: Api<Lease> = Api::namespaced(plane.client().await?, NAMESPACE);
    wait::object(&watched, LEASE, "a renewal", |lease| {
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        match spec {
            Some(spec) if spec.renew_time > spec.acquire_time => Seen::Done(()),
            _ => Seen::NotYet(format!("{spec:?}")),
        }
    })
    .await?;
    assert!(first.leadership.holds() && !second.leadership.holds());
    let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
    assert_eq!(spec.holder_identity.as_deref(), Some("operator-1"));
    assert_eq!(spec.lease_duration_seconds, Some(15));

    // Shut down: the other one leads before the Lease has run out.
    first.done.send(()).expect("the candidate waits for it");
    first.task.await??;
    assert!(!first.leadership.holds());
    second.leads_within(BEFORE_EXPIRY).await?;
    assert_eq!(holder().await?.as_deref(), Some("operator-2"));

    // A crash: the same pod's next process leads at once.
    second.task.abort();
    assert!(second.task.await.is_err_and(|error| error.is_cancelled()));
    let again = start(&client, "operator-2");
    again.leads_within(BEFORE_EXPIRY).await?;

    // A crash that nobody restarts: another one leads when the Lease has run out, and not before.
    again.task.abort();
    let third = start(&client, "operator-3");
    let waited = third.leads_within(DURATION + Duration::from_secs(5)).await?;
    assert!(waited > TERM, "{waited:?}");
    let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
    assert_eq!(spec.lease_transitions, Some(1));

    // Somebody takes it away: the process is told to end.
    let kubectl = plane.kubectl();
    let robbery = r#"{"spec": {"holderIdentity": "robber"}}"#;
    kubectl
        .run(["-n", NAMESPACE, "patch", "lease", LEASE, "--type=merge", "-p", robbery])
        .await?;
    let ended = tokio::time::timeout(Duration::from_secs(12), third.task).await??;
    assert!(matches!(ended, Err(LeaseError::Taken(by)) if by == "robber"));
    Ok(())
}

/// The name of who leads is taken back by nobody who led before, whatever he had read, and however late he writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_leader_names_itself_no_more() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    Cardgate::install(&plane, &Settings::default()).await?;
    let client = plane.client_of_account(&Account::new(NAMESPACE, "operator")).await?;
    let name = |name: &str| LeaderName::new(client.clone(), NAMESPACE, name.to_owned(), Arc::default());
    let (former, leader) = (name("operator-1"), name("operator-2"));
    let administrator: Api<ConfigMap> = Api::namespaced(plane.client().await?, NAMESPACE);
    let named = async || {
        let data = administrator.get(POLICY_PARAMETERS).await?.data;
        anyhow::Ok(data.and_then(|mut data| data.remove(LEADER)))
    };
    let now = tokio::time::Instant::now();
    former.raise(now + TERM).await?;
    assert_eq!(named().await?.as_deref(), Some("operator-1"));
    // Somebody writes another name, and the former leader stands still after it has read that and asked whether it leads.
    let another = Patch::Merge(json!({ "data": { LEADER: "another" } }));
    administrator
        .patch(POLICY_PARAMETERS, &PatchParams::default(), &another)
        .await?;
    let meanwhile = || {
        let raised = leader.raise(now + 100 * TERM);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(raised))
            .expect("its successor leads");
        true
    };
    let late = former.write(meanwhile).await;
    assert!(late.is_err(), "written over a name that it has not read");
    assert_eq!(named().await?.as_deref(), Some("operator-2"));
    // It reads again, and its term is over.
    assert!(former.raise(now).await.is_err());
    assert_eq!(named().await?.as_deref(), Some("operator-2"));
    // Who leads creates what somebody removed.
    administrator
        .delete(POLICY_PARAMETERS, &DeleteParams::default())
        .await?;
    leader.raise(now + 100 * TERM).await?;
    assert_eq!(named().await?.as_deref(), Some("operator-2"));
    Ok(())
}
