//! `PodGroup`s as Volcano's controllers make them of Volcano's Jobs, at random: `minResources` with the keys of quotas beside the
//! resources, `minTaskMember`, and pods that exist only once the group's phase is Inqueue. Later pods succeed or are lost, and groups that
//! wait come to name another queue.

mod later;

use std::collections::BTreeMap;

use engine::amounts::Dimension;
use engine::cluster::pod::Stage;
use engine::cluster::workload::Workload;
use engine::explain::progress;
use engine::names::ResourceId;
use engine::reason::Reason;
use engine::refs::WorkloadKind;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::world::{GPU, Object, World, at, bare_queue, group, node, pod};
use std::sync::Arc;

use crds::configuration::Configuration;

const CARDS: [&str; 2] = ["A", "B"];
const QUEUES: [&str; 2] = ["team-a", "team-b"];
/// More rounds than anything here takes to come to rest.
const ROUNDS: usize = 40;

#[derive(Debug, Clone)]
struct Task {
    replicas: usize,
    /// What the task names as its minimum; all of its replicas where it names none.
    least: Option<usize>,
    /// What each of its pods names, and how many; none where it uses no cards.
    cards: Option<(&'static str, i64)>,
    cpu: i64,
}

/// A Job of Volcano's.
#[derive(Debug, Clone)]
struct VolcanoJob {
    queue: usize,
    tasks: Vec<Task>,
    /// The Job's own minimum; that of its tasks in all where it names none.
    least: Option<usize>,
    card_request: Option<(&'static str, i64)>,
    /// Whether its group says the minimum of each task, as newer controllers do.
    names_tasks: bool,
}

impl Task {
    fn least(&self) -> usize {
        self.least.unwrap_or(self.replicas).min(self.replicas)
    }
}

impl VolcanoJob {
    fn name(index: usize) -> String {
        format!("job-{index}")
    }

    fn least(&self) -> usize {
        let of_tasks: usize = self.tasks.iter().map(Task::least).sum();
        let replicas: usize = self.tasks.iter().map(|task| task.replicas).sum();
        self.least.unwrap_or(of_tasks).clamp(1, replicas)
    }

    /// Whether the minimum of each task counts.
    fn goes_by_task(&self) -> bool {
        self.names_tasks && self.tasks.iter().map(Task::least).sum::<usize>() <= self.least()
    }

    fn least_cpu(&self) -> i64 {
        let sum = self.min_resources();
        sum["cpu"].as_str().and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
    }

    /// What Volcano's controller writes: the sum over the first pods, as many as the minimum, of all that they ask for and are
    /// limited in, and how many they are.
    fn min_resources(&self) -> Value {
        let pods = self
            .tasks
            .iter()
            .flat_map(|task| std::iter::repeat_n(task, task.replicas));
        let mut sums = BTreeMap::<&str, i64>::new();
        for task in pods.take(self.least()) {
            for (resource, amount) in [
                ("cpu", task.cpu),
                ("memory", 1),
                (GPU, task.cards.map_or(0, |(_, count)| count)),
            ] {
                *sums.entry(resource).or_default() += amount;
            }
        }
        let mut least = json!({"count/pods": self.least().to_string(), "pods": self.least().to_string()});
        for (resource, sum) in sums.into_iter().filter(|(_, sum)| *sum > 0) {
            for key in [
                resource.to_owned(),
                format!("requests.{resource}"),
                format!("limits.{resource}"),
            ] {
                least[key] = json!(if resource == "memory" {
                    format!("{sum}Gi")
                } else {
                    sum.to_string()
                });
            }
        }
        least
    }

    fn group(&self, index: usize, phase: Option<&str>) -> Object {
        let least = i64::try_from(self.least()).unwrap();
        let tasks: serde_json::Map<_, _> = self
            .tasks
            .iter()
            .enumerate()
            .map(|(task, says)| (format!("t{task}"), json!(says.least())))
            .collect();
        let object = group(&Self::name(index), least)
            .created(i64::try_from(index).unwrap())
            .set(["spec", "queue"], QUEUES[self.queue])
            .set(["spec", "minResources"], self.min_resources());
        let object = if self.names_tasks {
            object.set(["spec", "minTaskMember"], tasks)
        } else {
            object
        };
        let object = self.card_request.iter().fold(object, |object, (cards, count)| {
            object.card_request(&json!({(*cards): count}).to_string())
        });
        phase
            .into_iter()
            .fold(object, |object, phase| object.set(["status", "phase"], phase))
    }

    /// Its pods, by task, as Volcano's controller makes them.
    fn pods(&self, index: usize) -> impl Iterator<Item = (usize, Object)> + '_ {
        let all = self.tasks.iter().enumerate();
        all.flat_map(move |(place, task)| {
            (0..task.replicas).map(move |replica| {
                let task_spec = format!("t{place}");
                let object = pod(&format!("{}-{task_spec}-{replica}", Self::name(index)))
                    .of(&Self::name(index))
                    .queue(QUEUES[self.queue])
                    .created(50)
                    .label("volcano.sh/task-spec", &task_spec)
                    .annotation("volcano.sh/task-spec", &task_spec)
                    .requests("cpu", &task.cpu.to_string());
                (
                    place,
                    task.cards
                        .iter()
                        .fold(object, |object, (cards, count)| object.asks(cards, *count)),
                )
            })
        })
    }
}

fn any_job() -> impl Strategy<Value = VolcanoJob> {
    let cards = prop::option::weighted(0.7, (select(vec!["A", "B", "A|B"]), 1..3_i64));
    let task = (1..4_usize, prop::option::of(0..4_usize), cards.clone(), 1..3_i64);
    let task = task.prop_map(|(replicas, least, cards, cpu)| Task {
        replicas,
        least,
        cards,
        cpu,
    });
    let tasks = prop::collection::vec(task, 1..4);
    (
        0..QUEUES.len(),
        tasks,
        prop::option::weighted(0.3, 1..8_usize),
        prop::option::weighted(0.2, (select(vec!["A", "A|B"]), 1..6_i64)),
        prop::bool::weighted(0.7),
    )
        .prop_map(|(queue, tasks, least, card_request, names_tasks)| VolcanoJob {
            queue,
            tasks,
            least,
            card_request,
            names_tasks,
        })
}

#[derive(Debug, Clone)]
struct Setting {
    plugin: &'static str,
    unlimited: bool,
    /// Whether Cardgate writes the phases; beside Volcano's scheduler that does, and lets every group in.
    enqueue: bool,
    /// Of each queue: cards, and CPU where it says that.
    quotas: [([i64; 2], Option<i64>); 2],
}

fn any_setting() -> impl Strategy<Value = Setting> {
    let quota = (prop::array::uniform2(0..6_i64), prop::option::weighted(0.6, 1..14_i64));
    (
        select(vec!["capacity", "capacity-card"]),
        any::<bool>(),
        prop::bool::weighted(0.7),
        prop::array::uniform2(quota),
    )
        .prop_map(|(plugin, unlimited, enqueue, quotas)| Setting {
            plugin,
            unlimited,
            enqueue,
            quotas,
        })
}

/// The world, Volcano's controllers, and the API server between them.
struct Run {
    world: World,
    setting: Setting,
    jobs: Vec<VolcanoJob>,
    phases: Vec<Option<&'static str>>,
    /// By uid: the Job, its task, and the pod as it was made.
    pods: BTreeMap<String, (usize, usize, Object)>,
    /// How many pods of each Job and task have succeeded.
    succeeded: BTreeMap<(usize, usize), usize>,
    /// How many pods were made in place of others.
    replaced: usize,
    /// Pods that are to be made in place of others, one a round: the Job, its task, and the pod.
    late: Vec<(usize, usize, Object)>,
}

impl Run {
    fn new(setting: Setting, jobs: Vec<VolcanoJob>) -> Self {
        let arguments = if setting.plugin == "capacity-card" {
            format!("cardUnlimitedCpuMemory: {}", setting.unlimited)
        } else {
            String::new()
        };
        let conf = format!(
            "actions: \"enqueue, allocate\"\ntiers: [{{plugins: [{{name: {}, arguments: {{{arguments}}}}}]}}]",
            setting.plugin
        );
        let own = format!("reservationTimeout: 1h\nenqueue: {}", setting.enqueue);
        let configuration = Configuration::parse(Some(&conf), Some(&own)).unwrap().configuration;
        let mut world = World::with(Arc::new(configuration));
        for (index, card) in CARDS.iter().enumerate() {
            world.node(&node(&format!("n{index}")).cards(card, 100));
        }
        let phases = vec![None; jobs.len()];
        let mut run = Self {
            world,
            setting,
            jobs,
            phases,
            pods: BTreeMap::new(),
            succeeded: BTreeMap::new(),
            replaced: 0,
            late: Vec::new(),
        };
        (0..QUEUES.len()).for_each(|queue| run.see_queue(queue));
        (0..run.jobs.len()).for_each(|index| run.see_group(index));
        run
    }

    fn see_queue(&mut self, queue: usize) {
        let (cards, cpu) = self.setting.quotas[queue];
        let object = bare_queue(QUEUES[queue])
            .quota(&json!({"A": cards[0], "B": cards[1]}).to_string())
            .capability("memory", "1Ti");
        let cpu = cpu.into_iter();
        let object = cpu.fold(object, |object, cpu| object.capability("cpu", &cpu.to_string()));
        self.world.queue(&object);
    }

    fn see_group(&mut self, index: usize) {
        let object = self.jobs[index].group(index, self.phases[index]);
        self.world.group(&object);
    }

    /// One round of everybody; whether anybody wrote anything.
    fn round(&mut self) -> bool {
        let before = self.progress_of_gangs();
        let admissions = self.world.admissions();
        let mut writes = admissions.len();
        for admission in admissions {
            let uid = admission.pod.uid.to_string();
            let room = self
                .world
                .known(&uid)
                .room
                .map(|room| self.world.cluster.node(room).name.to_string());
            let object = self.pods[&uid].2.clone().on(&room.expect("a place"));
            let object = admission.card.iter().fold(object, |object, card| object.assigned(card));
            self.world.confirm(&uid);
            self.world.pod(&object);
        }
        self.check_gangs(&before);
        self.check_what_is_kept();
        for shown in progress(&mut self.world.cluster, self.world.now, usize::MAX) {
            writes += 1;
            let index = (0..self.jobs.len())
                .find(|index| *shown.workload.name == VolcanoJob::name(*index))
                .unwrap();
            if let Some(phase) = shown.phase {
                assert!(self.setting.enqueue, "the phase is another's business");
                self.phases[index] = Some(phase.as_str());
                self.see_group(index);
            }
        }
        writes += self.world.notices().len();
        // Volcano's scheduler lets every group in; its controller then makes the pods.
        for index in 0..self.jobs.len() {
            if !self.setting.enqueue && self.phases[index].is_none() {
                self.phases[index] = Some("Inqueue");
                self.see_group(index);
            }
            let made = self.pods.values().any(|(job, ..)| *job == index) || self.workload_has_run(index);
            if !made && matches!(self.phases[index], Some("Inqueue" | "Running")) {
                writes += 1;
                let pods: Vec<_> = self.jobs[index].pods(index).collect();
                for (task, object) in pods {
                    let uid: String = object.read::<crds::pod::Pod<Box<str>>>().metadata.uid.unwrap().into();
                    self.world.pod(&object);
                    self.pods.insert(uid, (index, task, object));
                }
            }
        }
        if let Some((job, task, object)) = self.late.pop() {
            writes += 1;
            self.make_again(job, task, object);
        }
        self.world.wait(1);
        writes > 0
    }

    fn holds(&self, uid: &str) -> bool {
        !matches!(self.world.stage(uid), Stage::Waiting | Stage::Blocked)
    }

    fn workload(&self, index: usize) -> &Workload {
        let name = VolcanoJob::name(index);
        let id = self.world.cluster.workload_named(WorkloadKind::PodGroup, "team", &name);
        self.world.cluster.workload(id.unwrap())
    }

    /// Rounds until nothing is written any more.
    fn settle(&mut self) {
        let mut rounds = 0;
        while self.round() {
            rounds += 1;
            self.check_quotas();
            assert!(rounds < ROUNDS, "it never comes to rest");
        }
        self.check_answers();
        self.check_nobody_is_forgotten();
        for _ in 0..3 {
            assert!(!self.round(), "something is written on a quiet world");
        }
    }

    /// No queue has more than it may, by the pods that hold something.
    fn check_quotas(&self) {
        for (queue, (cards, cpu)) in self.setting.quotas.iter().enumerate() {
            let mut held = ([0; 2], 0);
            for (uid, (job, task, _)) in self
                .pods
                .iter()
                .filter(|(uid, (job, ..))| self.jobs[*job].queue == queue && self.holds(uid))
            {
                let task = &self.jobs[*job].tasks[*task];
                if let Some((_, count)) = task.cards {
                    let assigned = self.world.known(uid).assigned.as_ref().expect("a card");
                    let name = self.world.cluster.names().card_name(assigned.only().expect("one card"));
                    held.0[CARDS.iter().position(|card| *card == name).unwrap()] += count;
                }
                let is_free = task.cards.is_some() && self.setting.unlimited && self.setting.plugin == "capacity-card";
                held.1 += if is_free { 0 } else { task.cpu };
            }
            assert!(
                held.0.iter().zip(cards).all(|(held, quota)| held <= quota),
                "cards of {queue}: {held:?} of {cards:?}"
            );
            // What is not named is 0 under the one plugin, and not limited under the other.
            let most = cpu.unwrap_or(if self.setting.plugin == "capacity" { i64::MAX } else { 0 });
            assert!(held.1 <= most, "CPU of {queue}: {held:?} of {most}");
        }
    }

    /// Whoever waits knows why: each pod, and each group that has none.
    fn check_answers(&self) {
        for uid in self.pods.keys().filter(|uid| !self.holds(uid)) {
            let told = self.world.known(uid).told;
            assert!(
                told.is_some() && told == self.world.reason(uid),
                "{uid} was told {told:?}"
            );
            // All pods of its Job are there, or have succeeded.
            assert!(
                told != Some(Reason::PodGroupIncomplete),
                "{uid} waits for pods that are there"
            );
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let group = self.workload(index);
            let waits = !group.is_started() && !group.is_enqueued() && self.setting.enqueue;
            assert!(
                !waits || group.refused.is_some(),
                "{index} waits in phase {phase:?} without a reason"
            );
            assert_eq!(
                *phase == Some("Pending") || phase.is_none(),
                waits,
                "{index} shows {phase:?}"
            );
        }
    }

    /// What is left lets no further gang in whose group is in its queue: with cards for everybody on the nodes.
    fn check_nobody_is_forgotten(&self) {
        for (index, job) in self.jobs.iter().enumerate() {
            let group = self.workload(index);
            let (cards, cpu) = self.setting.quotas[job.queue];
            let nothing_is_there = (0..self.jobs.len()).all(|other| {
                self.jobs[other].queue != job.queue
                    || !self.pods.iter().any(|(uid, (of, ..))| *of == other && self.holds(uid))
            });
            let is_alone = (0..self.jobs.len()).all(|other| other == index || self.jobs[other].queue != job.queue);
            if !(nothing_is_there && is_alone && self.setting.enqueue) || group.is_started() {
                continue;
            }
            // Alone in an empty queue, with as much as all of it could want: it is let in.
            let pods = || job.tasks.iter().map(|task| i64::try_from(task.replicas).unwrap());
            let wanted: i64 = job
                .tasks
                .iter()
                .zip(pods())
                .map(|(task, pods)| pods * task.cards.map_or(0, |(_, count)| count))
                .sum();
            let asked = job.card_request.map_or(0, |(_, count)| count);
            let cpu_wanted: i64 = job.tasks.iter().zip(pods()).map(|(task, pods)| pods * task.cpu).sum();
            let has_cpu = cpu.unwrap_or(if self.setting.plugin == "capacity" { i64::MAX } else { 0 }) >= cpu_wanted;
            let has_cards = cards.iter().all(|quota| *quota >= wanted.max(asked));
            assert!(!has_cpu || !has_cards, "{index} waits for nothing: {:?}", group.refused);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Every group ends in a defined answer, no quota is exceeded, no gang is let in in part, and once all is said nothing
    /// more is written.
    #[test]
    fn groups_of_volcanos_controllers_end_in_an_answer(
        setting in any_setting(),
        jobs in prop::collection::vec(any_job(), 1..4),
        events in prop::collection::vec(later::any_event(), 0..8),
    ) {
        let mut run = Run::new(setting, jobs);
        run.world.now = at(100);
        run.check_first_round();
        run.settle();
        for event in events {
            run.happen(event);
            run.settle();
        }
    }
}
