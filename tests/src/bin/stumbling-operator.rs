//! The operator with a mind that stumbles over pods of certain names, for the tests of what happens then. All of the rest is
//! the operator itself.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use engine::cluster::Cluster;
use engine::cluster::pod::{Pod, Stage};
use engine::decide::{Round, decide_watched};
use engine::refs::PodRef;
use engine::trail::{Trail, Work};
use k8s_openapi::jiff::Timestamp;
use operator::program;

/// Judged, it makes the mind panic.
const FALLS: &str = "falls";
/// Judged, it is judged for ever.
const STANDS_STILL: &str = "stands-still";
/// It makes one round take [`LONG`], piece by piece.
const DAWDLES: &str = "dawdles";
/// It makes the mind do nothing for ever, without a word of what it is at.
const SLEEPS: &str = "sleeps";
/// So long that it is called slow, and shorter than that it would be interrupted.
const LONG: Duration = Duration::from_secs(2);
/// How long each piece of a long round takes.
const PIECE: Duration = Duration::from_millis(200);

/// The pods that have made a round take long once.
static DAWDLED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    program::run(programs::flags::read(), stumble).await
}

fn stumble(cluster: &mut Cluster, now: Timestamp, limit: usize, trail: &dyn Trail) -> Round {
    for pod in cluster.pods().filter(|pod| pod.stage == Stage::Waiting) {
        stumble_over(pod, trail);
    }
    decide_watched(cluster, now, limit, trail)
}

fn stumble_over(pod: &Pod, trail: &dyn Trail) {
    let begins = |with| pod.name.starts_with(with);
    let judge = || {
        let pod = PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        };
        trail.at(Work {
            doing: "judging",
            object: pod.into(),
            queue: None,
        });
    };
    if begins(FALLS) {
        judge();
        #[expect(clippy::panic, reason = "this is what the test is about")]
        {
            panic!("over {}", pod.name);
        }
    }
    if begins(STANDS_STILL) {
        judge();
        loop {
            sleep(LONG);
        }
    }
    if begins(SLEEPS) {
        loop {
            sleep(LONG);
        }
    }
    let mut dawdled = DAWDLED.lock().unwrap_or_else(PoisonError::into_inner);
    if begins(DAWDLES) && dawdled.insert(pod.uid.to_string()) {
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            judge();
            sleep(PIECE);
        }
    }
}
