//! The time of day. It is the system's time, even if that jumps; on a thread that was told another time, it is that time.
//!
//! Durations are measured by tokio's clock, which a simulation stops and sets. The time of day would still be the system's, so code that
//! needs it asks here.

use std::cell::Cell;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

thread_local! {
    /// The time that this thread was told, and when it was told.
    static TOLD: Cell<Option<(Timestamp, Instant)>> = const { Cell::new(None) };
}

/// Returns the time of day.
pub fn now() -> Timestamp {
    match TOLD.get() {
        None => Timestamp::now(),
        Some((time, told)) => time.checked_add(told.elapsed()).unwrap_or(Timestamp::MAX),
    }
}

/// Tells this thread the time of day. From then on, the time advances there with tokio's clock.
pub fn tell(time: Timestamp) {
    TOLD.set(Some((time, Instant::now())));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_told_the_time_goes_by_tokios_clock() {
        let before = Timestamp::now();
        assert!(now() >= before, "nobody has told it anything");
        tell(Timestamp::UNIX_EPOCH);
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(now().as_second(), 3600);
        let elsewhere = std::thread::spawn(now).join().unwrap();
        assert!(elsewhere >= before, "other threads are not told");
    }
}
