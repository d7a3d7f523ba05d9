//! Which pods a group lacks of its minimum: so many in all, and so many of each task that it names (`minTaskMember`).

use std::sync::Arc;

/// The pods that are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Lacking {
    /// Of these tasks, by name, so many each.
    tasks: Box<[(Arc<str>, usize)]>,
    /// So many more, of any task.
    any: usize,
}

impl Lacking {
    /// So many in all, and of these tasks, sorted by name, so many each; of none more than are missing.
    pub fn new(in_all: usize, tasks: Box<[(Arc<str>, usize)]>) -> Self {
        let of_tasks: usize = tasks.iter().map(|(_, missing)| missing).sum();
        Self {
            tasks,
            any: in_all.saturating_sub(of_tasks),
        }
    }

    /// How many in all.
    pub fn count(&self) -> usize {
        self.any + self.tasks.iter().map(|(_, missing)| missing).sum::<usize>()
    }

    /// The places of those that are missing, all free.
    pub fn places(self) -> Places {
        Places {
            taken: vec![0; self.tasks.len()],
            others: 0,
            lacking: self,
        }
    }
}

/// Places that nobody has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    /// Of these tasks, by name, so many each.
    pub tasks: Vec<(Arc<str>, usize)>,
    /// So many that are anybody's.
    pub any: usize,
}

/// The places of missing pods. It is the same in which order they are taken: so many of a task as are missing of it take its own,
/// and all others those that are anybody's.
#[derive(Debug, Clone)]
pub struct Places {
    lacking: Lacking,
    /// How many pods there are of each task.
    taken: Vec<usize>,
    /// How many there are of no task that is missing.
    others: usize,
}

impl Places {
    /// How many are free that a pod of this task could take.
    pub fn free_for(&self, task: Option<&str>) -> usize {
        let own = self
            .find(task)
            .map_or(0, |task| self.lacking.tasks[task].1.saturating_sub(self.taken[task]));
        own + self.lacking.any.saturating_sub(self.in_any())
    }

    /// A pod of this task takes one, where one is free for it; whether it does.
    pub fn take(&mut self, task: Option<&str>) -> bool {
        let is_free = self.free_for(task) > 0;
        if is_free {
            *self.count(task) += 1;
        }
        is_free
    }

    /// So many pods of a task take one each, or as many of them as there are places for.
    pub fn take_up_to(&mut self, task: Option<&str>, pods: usize) {
        let pods = pods.min(self.free_for(task));
        *self.count(task) += pods;
    }

    /// A pod of this task gives its place back.
    pub fn give_back(&mut self, task: Option<&str>) {
        *self.count(task) -= 1;
    }

    /// Whether all are taken.
    pub fn are_taken(&self) -> bool {
        let tasks = self.lacking.tasks.iter().zip(&self.taken);
        self.in_any() >= self.lacking.any && tasks.into_iter().all(|((_, missing), taken)| taken >= missing)
    }

    /// Which are free still.
    pub fn free(&self) -> Free {
        let tasks = self.lacking.tasks.iter().zip(&self.taken);
        let free = tasks.map(|((task, missing), taken)| (Arc::clone(task), missing.saturating_sub(*taken)));
        Free {
            tasks: free.filter(|(_, free)| *free > 0).collect(),
            any: self.lacking.any.saturating_sub(self.in_any()),
        }
    }

    /// How many pods have places that are anybody's.
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
        /// Whoever is taken in turn, until nobody more is: all places are taken exactly where a choice of the pods gives every
        /// task what it lacks, and as many as are missing in all.
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
