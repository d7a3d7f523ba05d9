//! Events that are not written yet. Their number is bounded, in all and for each namespace.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::event::Occurrence;

/// The largest number of events in all. There is one event per object and reason. So this number is only reached if the API server takes no
/// events, or if somebody causes more events than are written.
const MOST: usize = 10_000;
/// The largest number of events of one namespace. So the events of other namespaces never wait behind more.
const MOST_OF_ONE: usize = MOST / 4;

/// The newest occurrence of each event.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    events: HashMap<Arc<str>, Occurrence>,
    /// The keys of the events of each namespace, by time. Objects without namespace count as one namespace.
    namespaces: HashMap<Box<str>, BTreeSet<(Timestamp, Arc<str>)>>,
}

impl Unwritten {
    /// Takes an event in. Returns its key, and the key of an event that is given up for it: the oldest event of a namespace that has too
    /// many.
    pub(super) fn take(&mut self, occurrence: Occurrence) -> (Arc<str>, Option<Arc<str>>) {
        let key = occurrence.key();
        self.remove(&key);
        let namespace = namespace_of(&occurrence);
        let given_up = self.make_room(namespace);
        let of_namespace = self.namespaces.entry(namespace.into()).or_default();
        of_namespace.insert((occurrence.time, Arc::clone(&key)));
        self.events.insert(Arc::clone(&key), occurrence);
        (key, given_up)
    }

    /// Returns the event with this key.
    pub(super) fn get(&self, key: &str) -> Option<&Occurrence> {
        self.events.get(key)
    }

    /// Forgets an event.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(occurrence) = self.events.remove(key) else {
            return;
        };
        let namespace = namespace_of(&occurrence);
        if let Some(of_namespace) = self.namespaces.get_mut(namespace) {
            of_namespace.remove(&(occurrence.time, key.into()));
            if of_namespace.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    fn make_room(&mut self, namespace: &str) -> Option<Arc<str>> {
        let own = self.namespaces.get(namespace);
        let fullest = if own.is_some_and(|own| own.len() >= MOST_OF_ONE) {
            own
        } else if self.events.len() >= MOST {
            self.namespaces.values().max_by_key(|keys| keys.len())
        } else {
            None
        };
        let oldest = Arc::clone(&fullest?.first()?.1);
        self.remove(&oldest);
        Some(oldest)
    }
}

fn namespace_of(occurrence: &Occurrence) -> &str {
    occurrence.regarding.namespace.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use engine::happening::Happening;
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::super::event::EventKind;
    use super::*;

    fn event(namespace: &str, object: usize, nanosecond: usize) -> Occurrence {
        Occurrence {
            regarding: ObjectReference {
                namespace: Some(namespace.to_owned()),
                name: Some(object.to_string()),
                ..ObjectReference::default()
            },
            kind: EventKind::Normal,
            action: "Observe",
            reason: Happening::Enqueued.into(),
            message: nanosecond.to_string(),
            time: Timestamp::from_nanosecond(nanosecond.try_into().unwrap()).unwrap(),
        }
    }

    #[test]
    fn a_namespace_that_has_too_many_loses_its_oldest_and_nobody_else_does() {
        let mut events = Unwritten::default();
        let (other, _) = events.take(event("other", 0, 0));
        let (first, _) = events.take(event("crowd", 0, 1));
        for object in 1..MOST_OF_ONE {
            assert_eq!(events.take(event("crowd", object, object + 1)).1, None);
        }
        // A known event is renewed, and is then no longer the oldest.
        assert_eq!(events.take(event("crowd", 0, MOST)), (Arc::clone(&first), None));
        assert_eq!(events.get(&first).unwrap().message, MOST.to_string());
        let (_, given_up) = events.take(event("crowd", MOST_OF_ONE, MOST + 1));
        assert_eq!(given_up, Some(event("crowd", 1, 0).key()));
        assert!(events.get(&other).is_some());
    }

    #[test]
    fn where_there_are_too_many_in_all_the_namespace_that_has_most_loses_its_oldest() {
        let mut events = Unwritten::default();
        for place in 0..MOST {
            let namespace = (place % 5).to_string();
            // Some of the events have the same time.
            assert_eq!(events.take(event(&namespace, place, place / 10)).1, None);
        }
        events.remove(&event("0", 0, 0).key());
        events.take(event("1", MOST, MOST));
        let (late, given_up) = events.take(event("late", 0, MOST + 1));
        assert_eq!(given_up, Some(event("1", 1, 0).key()));
        assert!(events.get(&late).is_some());
        for place in 0..=MOST {
            events.remove(&event(&(place % 5).to_string(), place, 0).key());
        }
        events.remove(&event("1", MOST, 0).key());
        events.remove(&late);
        assert!(events.events.is_empty() && events.namespaces.is_empty(), "leaked");
    }
}
