//! What happens after the first rest, and what must hold in every round: from the objects alone.

use super::*;

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// One of the pods that hold something succeeds.
    Succeed(usize),
    /// So many of them from this one on are lost, and made anew: all at once, or one after the other.
    Lose(usize, usize, bool),
    /// A Job whose pods do not exist yet comes to name this queue.
    Move(usize, usize),
    /// The cards of a queue.
    Quota(usize, [i64; 2]),
}

pub fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..12_usize).prop_map(Event::Succeed),
        3 => (0..12_usize, 1..6_usize, any::<bool>()).prop_map(|(first, count, late)| Event::Lose(first, count, late)),
        2 => (0..3_usize, 0..QUEUES.len()).prop_map(|(job, queue)| Event::Move(job, queue)),
        2 => (0..QUEUES.len(), prop::array::uniform2(0..6_i64)).prop_map(|(queue, cards)| Event::Quota(queue, cards)),
    ]
}

/// Of each Job: how many of its pods hold something or have succeeded, in all and by task.
type Progress = Vec<(usize, Vec<usize>)>;

impl Run {
    pub fn happen(&mut self, event: Event) {
        let holding = |run: &Self| -> Vec<String> {
            let uids = run.pods.keys().filter(|uid| run.holds(uid));
            uids.cloned().collect()
        };
        match event {
            Event::Succeed(which) => {
                let holding = holding(self);
                let Some(uid) = holding.get(which % holding.len().max(1)) else {
                    return;
                };
                let (job, task, object) = self.pods.remove(uid).unwrap();
                *self.succeeded.entry((job, task)).or_default() += 1;
                self.world.pod(&object.on("n0").phase("Succeeded"));
            }
            Event::Lose(first, count, late) => {
                let holding = holding(self);
                for uid in holding.iter().skip(first % holding.len().max(1)).take(count) {
                    let (job, task, object) = self.pods.remove(uid).unwrap();
                    self.world.remove_pod(uid);
                    if late {
                        self.late.push((job, task, object));
                    } else {
                        self.make_again(job, task, object);
                    }
                }
            }
            Event::Move(job, queue) => {
                let is_made = self.pods.values().any(|(of, ..)| *of == job) || self.workload_has_run(job);
                if job < self.jobs.len() && !is_made {
                    self.jobs[job].queue = queue;
                    self.see_group(job);
                }
            }
            Event::Quota(queue, cards) => {
                // What is in use stays: only more is given.
                let had = self.setting.quotas[queue].0;
                self.setting.quotas[queue].0 = std::array::from_fn(|card| had[card].max(cards[card]));
                self.see_queue(queue);
            }
        }
    }

    pub fn make_again(&mut self, job: usize, task: usize, object: Object) {
        self.replaced += 1;
        let name = format!("again-{}", self.replaced);
        let again = object.uid(&name).set(["metadata", "name"], name.as_str());
        self.world.pod(&again);
        self.pods.insert(name, (job, task, again));
    }

    pub fn workload_has_run(&self, job: usize) -> bool {
        self.succeeded.keys().any(|(of, _)| *of == job) || self.late.iter().any(|(of, ..)| *of == job)
    }

    pub fn progress_of_gangs(&self) -> Progress {
        let of_task = |job: usize, task: usize| {
            let of = self
                .pods
                .iter()
                .filter(|(_, (of, of_task, _))| (*of, *of_task) == (job, task));
            let succeeded = self.succeeded.get(&(job, task)).copied().unwrap_or(0);
            of.filter(|(uid, _)| self.holds(uid)).count() + succeeded
        };
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(index, job)| {
            let tasks: Vec<_> = (0..job.tasks.len()).map(|task| of_task(index, task)).collect();
            (tasks.iter().sum(), tasks)
        })
        .collect()
    }

    /// A gang that has grown is whole, task by task; those that have succeeded count.
    pub fn check_gangs(&self, before: &Progress) {
        for (index, (job, now)) in self.jobs.iter().zip(self.progress_of_gangs()).enumerate() {
            if now.0 <= before[index].0 {
                continue;
            }
            let was = &before[index];
            assert!(
                now.0 >= job.least(),
                "{index} has {} pods of {}, and had {}",
                now.0,
                job.least(),
                was.0
            );
            for (place, task) in job.tasks.iter().enumerate().filter(|_| job.goes_by_task()) {
                assert!(
                    now.1[place] >= task.least(),
                    "{index} has {} of task {place}, of which it needs {}",
                    now.1[place],
                    task.least()
                );
            }
        }
    }

    /// Whether a Job's group is in its queue, and none of its pods has taken over.
    fn is_kept_for(&self, index: usize) -> bool {
        let has_pods = self.pods.iter().any(|(uid, (of, ..))| *of == index && self.holds(uid));
        self.workload(index).is_enqueued() && !has_pods && !self.workload(index).is_started()
    }

    /// Queues keep something for those that are in them and have no pods, and for nobody else; and nobody stands in the line of
    /// another queue than its own.
    pub fn check_what_is_kept(&self) {
        for (queue, name) in QUEUES.iter().enumerate() {
            let of_queue = || (0..self.jobs.len()).filter(move |job| self.jobs[*job].queue == queue);
            let known = self.world.known_queue(name);
            let is_kept = of_queue().any(|job| self.is_kept_for(job));
            assert!(
                is_kept || known.inqueue.is_empty(),
                "{name} keeps {:?} for nobody",
                known.inqueue
            );
            let cpu: i64 = of_queue()
                .filter(|job| self.is_kept_for(*job) && !self.is_unlimited(*job))
                .map(|job| self.jobs[job].least_cpu())
                .sum();
            let kept = known.inqueue.resource(Dimension::Resource(ResourceId::CPU));
            assert_eq!(kept, i128::from(cpu) * 1000, "CPU that {name} keeps");
            let own: Vec<_> = of_queue().map(VolcanoJob::name).collect();
            for id in known.in_line() {
                let workload = &self.world.cluster.workload(*id).name;
                assert!(
                    own.iter().any(|own| **own == **workload),
                    "{workload} stands in the line of {name}"
                );
            }
        }
    }

    /// Whether what a Job asks for in CPU counts for nothing, since it uses cards.
    fn is_unlimited(&self, job: usize) -> bool {
        let says = &self.jobs[job];
        let of_group = says.card_request.is_some() || says.min_resources().get(GPU).is_some();
        let mut pods = self.pods.values().filter(|(of, ..)| *of == job);
        let of_pods = pods.any(|(_, task, _)| says.tasks[*task].cards.is_some());
        self.setting.plugin == "capacity-card" && self.setting.unlimited && (of_group || of_pods)
    }

    /// All that is let into a queue before there are pods fits in it together.
    pub fn check_first_round(&mut self) {
        if !self.setting.enqueue {
            return;
        }
        assert_eq!(self.world.admit(), []);
        for queue in 0..QUEUES.len() {
            let (cards, cpu) = self.setting.quotas[queue];
            let most = cpu.unwrap_or(if self.setting.plugin == "capacity" { i64::MAX } else { 0 });
            let of_queue = || {
                let of_queue = (0..self.jobs.len()).filter(|job| self.jobs[*job].queue == queue);
                of_queue.filter(|job| self.workload(*job).is_enqueued())
            };
            let asked: i64 = of_queue()
                .filter(|job| !self.is_unlimited(*job))
                .map(|job| self.jobs[job].least_cpu())
                .sum();
            assert!(asked <= most, "CPU {asked} of {most} is promised");
            let requests = || of_queue().filter_map(|job| self.jobs[job].card_request);
            let of_a: i64 = requests()
                .filter(|(cards, _)| *cards == "A")
                .map(|(_, count)| count)
                .sum();
            let of_either: i64 = requests().map(|(_, count)| count).sum();
            assert!(
                of_a <= cards[0] && of_either <= cards[0] + cards[1],
                "{of_a}, {of_either} of {cards:?} are promised"
            );
        }
        self.check_what_is_kept();
    }
}
