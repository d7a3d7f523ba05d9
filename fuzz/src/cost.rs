//! What an input may cost, in time of the processor: a busy machine does not count.

use std::fmt::Display;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread has had of the processor.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}

/// Does something with an input, which may not cost more than `limit`.
///
/// # Panics
/// If it does: that is the finding.
#[track_caller]
pub fn within<T>(limit: Duration, what: impl Display, work: impl FnOnce() -> T) -> T {
    let before = spent();
    let done = work();
    let cost = spent().saturating_sub(before);
    assert!(cost <= limit, "{what} cost {cost:?}, and may cost {limit:?}");
    done
}
