use std::future::{pending, ready};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::time::sleep;

use super::*;
use crate::traffic::SLOW_WRITES;

/// Begins `writes` writes that are never answered.
async fn hang(lanes: &Arc<Lanes>, namespace: &str, writes: usize) {
    for _ in 0..writes {
        let (lanes, namespace) = (Arc::clone(lanes), namespace.to_owned());
        tokio::spawn(async move { lanes.write(&namespace, pending::<()>).await });
    }
    // The paused clock goes on once all of them wait.
    sleep(Duration::from_millis(1)).await;
}

/// Returns how long a write waits that is answered at once.
async fn waits(lanes: &Lanes, namespace: &str) -> Duration {
    let begin = Instant::now();
    assert_eq!(lanes.write(namespace, || ready(())).await, Some(()));
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_writes_hang_keeps_nobody_else_waiting() {
    let lanes = Arc::new(Lanes::default());
    hang(&lanes, "hangs", 600).await;
    assert!(waits(&lanes, "others").await <= LANE_TIME);
    // The writes that waited for a lane have been refused, and the hanging writes go on beside the lanes.
    assert_eq!(lanes.free.available_permits(), LANES);
    assert_eq!(lanes.beside.available_permits(), WITHOUT_LANE - LANES);
    hang(&lanes, "hangs", 600).await;
    assert_eq!(waits(&lanes, "others").await, Duration::ZERO);
    assert_eq!(lanes.write("hangs", || ready(())).now_or_never(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_answered_again_has_all_lanes() {
    let lanes = Lanes::default();
    let late = || lanes.write("late", || sleep(LANE_TIME * 2));
    let begun = async || join_all((0..LANES).map(|_| late())).await.iter().flatten().count();
    assert_eq!(begun().await, LANES);
    assert_eq!(begun().await, SLOW_WRITES);
    assert_eq!(waits(&lanes, "late").await, Duration::ZERO);
    assert_eq!(begun().await, LANES);
}

/// Otherwise an API server that has no time would get more requests at once than ever.
#[tokio::test(start_paused = true)]
async fn where_all_are_slow_not_all_leave_their_lanes() {
    let lanes = Arc::new(Lanes::default());
    for place in 0..200 {
        hang(&lanes, &place.to_string(), 1).await;
    }
    sleep(LANE_TIME * 20).await;
    assert_eq!(
        (lanes.free.available_permits(), lanes.beside.available_permits()),
        (0, 0)
    );
}
