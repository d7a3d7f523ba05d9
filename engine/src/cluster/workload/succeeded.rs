//! Pods of a workload that have succeeded. As in Volcano's gangs, they count as if they were still there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

/// When a pod began to run, its unique id, and its task.
pub(in crate::cluster) type SucceededPod = (Timestamp, Arc<str>, Option<Arc<str>>);

/// The pods that have succeeded and still exist, and how many of them count. A pod that ran before the workload was
/// created does not count, since it belonged to an earlier workload of the same name. The number is kept because tens of
/// thousands of such pods may exist, and it is asked for every waiting pod.
#[derive(Debug, Default)]
pub(super) struct Succeeded {
    pods: BTreeSet<SucceededPod>,
    /// When the workload was created; none while it does not exist.
    created: Option<Timestamp>,
    count: usize,
    of_tasks: BTreeMap<Arc<str>, usize>,
}

impl Succeeded {
    /// Returns how many pods count.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns how many pods count toward a task.
    pub(super) fn of_task(&self, task: &str) -> usize {
        self.of_tasks.get(task).copied().unwrap_or(0)
    }

    pub(super) fn insert(&mut self, pod: SucceededPod) {
        if self.pods.contains(&pod) {
            return;
        }
        if self.counts(&pod) {
            self.count += 1;
            if let Some(task) = &pod.2 {
                *self.of_tasks.entry(Arc::clone(task)).or_default() += 1;
            }
        }
        self.pods.insert(pod);
    }

    pub(super) fn remove(&mut self, pod: &SucceededPod) {
        if !self.pods.remove(pod) || !self.counts(pod) {
            return;
        }
        self.count -= 1;
        if let Some(task) = &pod.2
            && let Some(count) = self.of_tasks.get_mut(task)
        {
            *count -= 1;
            if *count == 0 {
                self.of_tasks.remove(task);
            }
        }
    }

    /// Sets when the workload was created; none where it does not exist.
    pub(super) fn begin_anew_for(&mut self, created: Option<Timestamp>) {
        if self.created == created {
            return;
        }
        let pods = std::mem::take(&mut self.pods);
        *self = Self {
            created,
            ..Self::default()
        };
        for pod in pods {
            self.insert(pod);
        }
    }

    fn counts(&self, (began, ..): &SucceededPod) -> bool {
        self.created.is_some_and(|created| *began >= created)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes, goes and is created anew, the counts are those of the pods that exist by then.
        #[test]
        fn the_counts_are_those_of_who_is_there(steps in vec((0..6_u8, 0..4_i64, 0..3_u8), 0..60)) {
            let at = |second| Timestamp::from_second(second).unwrap();
            let (mut succeeded, mut there, mut created) = (Succeeded::default(), BTreeSet::new(), None);
            for (what, second, which) in steps {
                let task = (which > 0).then(|| Arc::from(format!("t{which}")));
                let pod: SucceededPod = (at(second), format!("{what}").into(), task);
                match what {
                    0..=2 => {
                        there.insert(pod.clone());
                        succeeded.insert(pod);
                    }
                    3 | 4 => {
                        let pod = (pod.0, Arc::from(format!("{}", what - 3)), pod.2);
                        there.remove(&pod);
                        succeeded.remove(&pod);
                    }
                    _ => {
                        created = (which > 0).then(|| at(second));
                        succeeded.begin_anew_for(created);
                    }
                }
                let counted: Vec<&SucceededPod> = there.iter().filter(|pod| created.is_some_and(|created| pod.0 >= created)).collect();
                prop_assert_eq!(succeeded.count(), counted.len());
                for task in ["t1", "t2"] {
                    let of_task = counted.iter().filter(|pod| pod.2.as_deref() == Some(task)).count();
                    prop_assert_eq!(succeeded.of_task(task), of_task);
                }
            }
        }
    }
}
