//! Candidates with their real loop, against a register in memory, with tokio's clock paused.

use std::sync::atomic::{AtomicBool, Ordering};

use kube::core::Status;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

use super::super::*;

/// A Lease in memory, for all candidates.
#[derive(Default, Clone)]
struct Shared(Arc<Mutex<(Option<Lease>, u64)>>);

/// One candidate's connection to the Lease.
#[derive(Clone, Default)]
struct Connection {
    shared: Shared,
    /// Whether requests get no answer.
    cut: Arc<AtomicBool>,
    /// Whether writes are refused.
    forbidden: Arc<AtomicBool>,
    /// Whether the fence cannot be raised.
    unfenced: Arc<AtomicBool>,
}

impl Fence for Connection {
    type Error = &'static str;

    async fn raise(&self, term: Instant) -> Result<(), &'static str> {
        self.travel().await;
        if self.unfenced.load(Ordering::SeqCst) || Instant::now() >= term {
            return Err("refused");
        }
        Ok(())
    }
}

fn refusal(code: u16) -> kube::Error {
    kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
}

impl Connection {
    fn to(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            ..Self::default()
        }
    }

    async fn travel(&self) {
        if self.cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(5)).await;
    }

    async fn write(&self, lease: &Lease, exists: bool) -> kube::Result<Lease> {
        self.travel().await;
        if self.forbidden.load(Ordering::SeqCst) {
            return Err(refusal(403));
        }
        let mut shared = self.shared.0.lock().unwrap();
        let version = shared
            .0
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        if version.is_some() != exists || lease.metadata.resource_version != version {
            return Err(refusal(409));
        }
        shared.1 += 1;
        let mut written = lease.clone();
        written.metadata.resource_version = Some(shared.1.to_string());
        shared.0 = Some(written.clone());
        Ok(written)
    }
}

impl Register for Connection {
    async fn read(&self) -> kube::Result<Option<Lease>> {
        self.travel().await;
        Ok(self.shared.0.lock().unwrap().0.clone())
    }

    async fn create(&self, lease: &Lease) -> kube::Result<Lease> {
        self.write(lease, false).await
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        self.write(lease, true).await
    }
}

struct Running {
    leadership: Leadership,
    task: JoinHandle<Result<(), LeaseError>>,
    done: oneshot::Sender<()>,
}

fn start(name: &str, connection: &Connection) -> Running {
    let (published, leadership) = Published::new(Arc::default(), Arc::default());
    let (done, end) = oneshot::channel();
    let (name, connection) = (name.to_owned(), connection.clone());
    let task = tokio::spawn(async move {
        run(&connection, &connection, name, published, async {
            let _ = end.await;
            Duration::ZERO
        })
        .await
    });
    Running { leadership, task, done }
}

impl Running {
    async fn until_it_leads(&self) -> Duration {
        let begin = Instant::now();
        self.leadership.changes().wait_for(|leads| *leads).await.unwrap();
        assert!(self.leadership.holds());
        begin.elapsed()
    }
}

fn holder(shared: &Shared) -> Option<String> {
    let lease = shared.0.lock().unwrap().0.clone()?;
    lease.spec?.holder_identity
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_the_second_stands_by() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    assert!(first.until_it_leads().await < Duration::from_secs(1));
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_hours(1)).await;
    assert!(first.leadership.holds() && !second.leadership.holds());
    assert_eq!(holder(&shared).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_within_seconds() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_secs(7)).await;
    first.done.send(()).unwrap();
    first.task.await.unwrap().unwrap();
    assert!(!first.leadership.holds());
    assert!(second.until_it_leads().await <= Duration::from_millis(2100));
    assert_eq!(holder(&shared).as_deref(), Some("b"));
    let lease = shared.0.lock().unwrap().0.clone().unwrap();
    assert_eq!(
        lease.spec.unwrap().lease_transitions,
        Some(0),
        "a free Lease does not change hands"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_ends_before_another_leads() {
    let shared = Shared::default();
    let cut = Connection::to(&shared);
    let first = start("a", &cut);
    first.until_it_leads().await;
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_secs(12)).await;

    cut.cut.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    let mut changes = first.leadership.changes();
    changes.wait_for(|leads| !leads).await.unwrap();
    assert!(begin.elapsed() <= TERM);
    assert!(!second.leadership.holds());
    assert!(matches!(first.task.await.unwrap(), Err(LeaseError::Silence)));
    second.until_it_leads().await;
    assert!(
        begin.elapsed() <= DURATION + Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
    let lease = shared.0.lock().unwrap().0.clone().unwrap();
    assert_eq!(lease.spec.unwrap().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn one_short_interruption_costs_nothing() {
    let shared = Shared::default();
    let connection = Connection::to(&shared);
    let first = start("a", &connection);
    first.until_it_leads().await;
    let second = start("b", &Connection::to(&shared));
    for _ in 0..100 {
        sleep(Duration::from_millis(4321)).await;
        connection.cut.store(true, Ordering::SeqCst);
        sleep(Duration::from_millis(1900)).await;
        connection.cut.store(false, Ordering::SeqCst);
        assert!(first.leadership.holds() && !second.leadership.holds());
        // This leaves time for one renewal between two interruptions.
        sleep(Duration::from_secs(4)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_does_not_lead_when_it_wakes() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    // The clock jumps, before the election has run again.
    advance(TERM + Duration::from_millis(1)).await;
    assert!(!first.leadership.holds());
    assert!(first.task.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn who_is_robbed_of_the_lease_stops() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    {
        let mut shared = shared.0.lock().unwrap();
        shared.1 += 1;
        let version = shared.1.to_string();
        let lease = shared.0.as_mut().unwrap();
        lease.spec.as_mut().unwrap().holder_identity = Some("robber".to_owned());
        lease.metadata.resource_version = Some(version);
    }
    match first.task.await.unwrap() {
        Err(LeaseError::Taken(by)) => assert_eq!(by, "robber"),
        other => panic!("{other:?}"),
    }
    assert!(!first.leadership.holds());
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_same_pod_leads_at_once() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    first.task.abort();
    let _ = first.task.await;
    assert!(!first.leadership.holds());
    let again = start("a", &Connection::to(&shared));
    assert!(again.until_it_leads().await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_removed_lease_does_not_make_a_second_leader_early() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_secs(12)).await;
    shared.0.lock().unwrap().0 = None;
    let removed = Instant::now();
    let mut changes = first.leadership.changes();
    changes.wait_for(|leads| !leads).await.unwrap();
    assert!(!second.leadership.holds());
    second.until_it_leads().await;
    assert!(removed.elapsed() > RENEW, "{:?}", removed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_never_leads_and_does_not_hurry() {
    let shared = Shared::default();
    let connection = Connection::to(&shared);
    connection.forbidden.store(true, Ordering::SeqCst);
    let (published, leadership) = Published::new(Arc::default(), Arc::default());
    let metrics = Arc::clone(&published.metrics);
    let candidate = connection.clone();
    let task = tokio::spawn(async move {
        run(
            &candidate,
            &candidate,
            "a".to_owned(),
            published,
            std::future::pending(),
        )
        .await
    });
    sleep(Duration::from_mins(1)).await;
    assert!(!leadership.holds() && !task.is_finished());
    let text = metrics.encode().unwrap();
    let line = "cardgate_api_errors_total{verb=\"create\",code=\"403\"} ";
    let errors = text.lines().find_map(|shown| shown.strip_prefix(line)).unwrap();
    assert!(
        (30..=61).contains(&errors.parse::<u32>().unwrap()),
        "{errors} tries in a minute"
    );
    connection.forbidden.store(false, Ordering::SeqCst);
    leadership.changes().wait_for(|leads| *leads).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_stops_while_standing_by_leaves_the_lease_alone() {
    let shared = Shared::default();
    let first = start("a", &Connection::to(&shared));
    first.until_it_leads().await;
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_secs(3)).await;
    second.done.send(()).unwrap();
    second.task.await.unwrap().unwrap();
    assert_eq!(holder(&shared).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn nobody_leads_before_the_fence_is_raised_and_the_lease_is_kept_meanwhile() {
    let shared = Shared::default();
    let connection = Connection::to(&shared);
    connection.unfenced.store(true, Ordering::SeqCst);
    let first = start("a", &connection);
    let second = start("b", &Connection::to(&shared));
    sleep(Duration::from_mins(2)).await;
    assert_eq!(holder(&shared).as_deref(), Some("a"));
    assert!(!first.leadership.holds() && !first.leadership.is_elected() && !second.leadership.holds());
    // There is no answer for longer than a term. A candidate that never led loses nothing, and another one may lead.
    connection.cut.store(true, Ordering::SeqCst);
    second.until_it_leads().await;
    assert_eq!(holder(&shared).as_deref(), Some("b"));
    connection.cut.store(false, Ordering::SeqCst);
    connection.unfenced.store(false, Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await;
    assert!(!first.task.is_finished() && !first.leadership.holds() && second.leadership.holds());
    second.done.send(()).unwrap();
    first.until_it_leads().await;
}
