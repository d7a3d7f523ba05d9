//! The writes of each namespace that are under way, and which namespaces are slow. A component that the API server calls for the writes of
//! one namespace, such as a tenant's admission webhook, may hang; writes that wait for it would keep others waiting.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Number of writes of a slow namespace that may be under way at once.
pub const SLOW_WRITES: usize = 4;
/// How long a namespace stays slow after it has stopped writing.
const SLOW_FOR: Duration = Duration::from_mins(1);

/// The writes of all namespaces.
#[derive(Debug, Default)]
pub struct Traffic {
    namespaces: HashMap<Box<str>, Writes>,
}

/// The writes of one namespace.
#[derive(Debug, Default)]
struct Writes {
    under_way: usize,
    /// How many of these writes were not answered in time.
    late: usize,
    /// When a write was last not answered in time. None again once a write is answered in time while none is late.
    slow_since: Option<Instant>,
}

impl Traffic {
    /// Whether a further write may begin. It may not if its namespace is slow and enough of its writes are under way.
    pub fn has_room(&self, namespace: &str) -> bool {
        let writes = self.namespaces.get(namespace);
        writes.is_none_or(|writes| writes.slow_since.is_none() || writes.under_way < SLOW_WRITES)
    }

    /// Notes that a write begins. The caller must report its end with [`Self::end`].
    pub fn begin(&mut self, namespace: &str) {
        if let Some(writes) = self.namespaces.get_mut(namespace) {
            writes.under_way += 1;
        } else {
            let writes = Writes {
                under_way: 1,
                ..Writes::default()
            };
            self.namespaces.insert(namespace.into(), writes);
        }
    }

    /// Notes that a running write was not answered in time.
    pub fn late(&mut self, namespace: &str, now: Instant) {
        self.namespaces
            .retain(|_, writes| writes.under_way > 0 || writes.slow_since.is_some_and(|since| since + SLOW_FOR > now));
        if let Some(writes) = self.namespaces.get_mut(namespace) {
            writes.slow_since = Some(now);
            writes.late += 1;
        }
    }

    /// Notes that a write has ended, answered in time or late.
    pub fn end(&mut self, namespace: &str, in_time: bool) {
        let Some(writes) = self.namespaces.get_mut(namespace) else {
            return;
        };
        writes.under_way -= 1;
        if !in_time {
            writes.late -= 1;
        } else if writes.late == 0 {
            writes.slow_since = None;
        }
        if writes.under_way == 0 && writes.slow_since.is_none() {
            self.namespaces.remove(namespace);
        }
    }
}
