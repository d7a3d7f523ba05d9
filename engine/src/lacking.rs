//! Which pods a group lacks of its minimum: a number in all, and a number of each task that it names (`minTaskMember`).

use std::sync::Arc;

/// The pods that are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Lacking {
    /// For each of these tasks, by name, how many pods are missing.
    tasks: Box<[(Arc<str>, usize)]>,
    /// How many more pods are missing, of any task.
    any: usize,
}

impl Lacking {
    /// Returns `in_all` missing pods, among them this many of each of these tasks, which must be sorted by name. No task lacks
    /// more pods than are missing in all.
    pub fn new(in_all: usize, tasks: Box<[(Arc<str>, usize)]>) -> Self {
        let of_tasks: usize = tasks.iter().map(|(_, missing)| missing).sum();
        Self {
            tasks,
            any: in_all.saturating_sub(of_tasks),
        }
    }

    /// Returns how many pods are missing in all.
    pub fn count(&self) -> usize {
        self.any + self.tasks.iter().map(|(_, missing)| missing).sum::<usize>()
    }

    /// Returns the places of the missing pods, all free.
    pub fn places(self) -> Places {
        Places {
            taken: vec![0; self.tasks.len()],
            others: 0,
            lacking: self,
        }
    }
}

/// Places that no pod has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    /// For each of these tasks, by name, how many places are free.
    pub tasks: Vec<(Arc<str>, usize)>,
    /// How many places are free that pods of any task may take.
    pub any: usize,
}

/// The places of missing pods. The order in which they are taken makes no difference: as many pods of a task as the task lacks
/// take its own places, and all other pods take those that are for any task.
#[derive(Debug, Clone)]
pub struct Places {
    lacking: Lacking,
    /// How many pods of each task have a place.
    taken: Vec<usize>,
    /// How many pods have a place whose task lacks none.
    others: usize,
}

impl Places {
    /// Returns how many places are free that a pod of this task could take.
    pub fn free_for(&self, task: Option<&str>) -> usize {
        let own = self
            .find(task)
            .map_or(0, |task| self.lacking.tasks[task].1.saturating_sub(self.taken[task]));
        own + self.lacking.any.saturating_sub(self.in_any())
    }

    /// Lets a pod of this task take a place, where one is free for it. Returns whether it does.
    pub fn take(&mut self, task: Option<&str>) -> bool {
        let is_free = self.free_for(task) > 0;
        if is_free {
            *self.count(task) += 1;
        }
        is_free
    }

    /// Lets up to `pods` pods of a task take one place each, as many as there are places for.
    pub fn take_up_to(&mut self, task: Option<&str>, pods: usize) {
        let pods = pods.min(self.free_for(task));
        *self.count(task) += pods;
    }

    /// Frees the place of a pod of this task.
    pub fn give_back(&mut self, task: Option<&str>) {
        *self.count(task) -= 1;
    }

    /// Whether all places are taken.
    pub fn are_taken(&self) -> bool {
        let tasks = self.lacking.tasks.iter().zip(&self.taken);
        self.in_any() >= self.lacking.any && tasks.into_iter().all(|((_, missing), taken)| taken >= missing)
    }

    /// Returns which places are still free.
    pub fn free(&self) -> Free {
        let tasks = self.lacking.tasks.iter().zip(&self.taken);
        let free = tasks.map(|((task, missing), taken)| (Arc::clone(task), missing.saturating_sub(*taken)));
        Free {
            tasks: free.filter(|(_, free)| *free > 0).collect(),
            any: self.lacking.any.saturating_sub(self.in_any()),
        }
    }

    /// Returns how many pods have places that are for any task.
    fn in_any(&self) -> usize {
        let tasks = self.lacking.tasks.iter().zip(&self.taken);
        self.others
            + tasks
                .map(|((_, missing), taken)| taken.saturating_sub(*missing))
                .sum::<usize>()
    }

    fn find(&self, task: Option<&str>) -> Option<usize> {
        let task = task?;
        self.lacking
            .tasks
            .binary_search_by(|(known, _)| (**known).cmp(task))
            .ok()
    }

    fn count(&mut self, task: Option<&str>) -> &mut usize {
        match self.find(task) {
            Some(task) => &mut self.taken[task],
            None => &mut self.others,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Takes pods in turn until no more can be taken. All places are taken exactly where some choice of the pods gives every
        /// task what it lacks, and as many pods as are missing in all.
        #[test]
        fn places_are_taken_where_a_choice_exists(
            least in prop::array::uniform2(0..3_usize),
            more in 0..3_usize,
            pods in prop::collection::vec(0..3_usize, 0..8),
        ) {
            let names = ["a", "b"];
            let tasks = names.iter().zip(least).filter(|(_, least)| *least > 0);
            let tasks: Box<[_]> = tasks.map(|(name, least)| (Arc::from(*name), least)).collect();
            let missing = least[0] + least[1] + more;
            let lacking = Lacking::new(missing, tasks);
            prop_assert_eq!(lacking.count(), missing);
            let task = |pod: usize| names.get(pod).copied();
            let mut places = lacking.places();
            let taken: Vec<_> = pods.iter().copied().filter(|pod| places.take(task(*pod))).collect();
            let count = |of: usize| pods.iter().filter(|pod| **pod == of).count();
            let exists = pods.len() >= missing && count(0) >= least[0] && count(1) >= least[1];
            prop_assert_eq!(places.are_taken(), exists);
            prop_assert!(taken.len() <= missing);
            prop_assert_eq!(taken.len() == missing, exists);
            if let Some(last) = taken.last() {
                places.give_back(task(*last));
                prop_assert!(!places.are_taken());
                prop_assert!(places.take(task(*last)));
                prop_assert_eq!(places.are_taken(), exists);
            }
        }
    }
}
