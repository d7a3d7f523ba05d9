//! Sums over what is below each queue: kept event by event, they are those counted anew.

use engine::cluster::below::Below;
use proptest::prelude::*;

use super::properties::cases;
use super::{plain, worker};
use crate::world::{Object, World, at, capacity, group, held_job, node};

const QUEUES: usize = 5;
const GROUPS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A queue comes or says something else of its place, or goes.
    Queue(usize, Option<usize>, bool),
    /// A group that asks for so many cards before its pods exist, in a queue, with a minimum; or it goes.
    Group(usize, usize, i64, Option<i64>),
    /// A Job does.
    Job(usize, usize, Option<i64>),
    /// A pod of a group, or of none, comes to a queue.
    Pod(usize, Option<usize>),
    /// The pod with this number goes.
    Gone(usize),
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let asks = || prop::option::weighted(0.7, 1..5_i64);
    prop_oneof![
        2 => (0..QUEUES, prop::option::of(0..QUEUES), prop::bool::weighted(0.9))
            .prop_map(|(queue, parent, there)| Step::Queue(queue, parent, there)),
        3 => (0..GROUPS, 0..QUEUES, 1..4_i64, asks()).prop_map(|(id, queue, least, asks)| Step::Group(id, queue, least, asks)),
        1 => (0..GROUPS, 0..QUEUES, asks()).prop_map(|(id, queue, asks)| Step::Job(id, queue, asks)),
        5 => (0..QUEUES, prop::option::of(0..GROUPS)).prop_map(|(queue, group)| Step::Pod(queue, group)),
        2 => (0..40_usize).prop_map(Step::Gone),
        3 => Just(Step::Decide),
    ]
}

fn name(queue: usize) -> String {
    format!("q{queue}")
}

struct Run {
    world: World,
    came: usize,
}

impl Run {
    fn new() -> Self {
        let mut world = World::with(capacity("enqueue, allocate, backfill", "enableHierarchy: true"));
        world.node(&node("n1").cards("A", 12));
        let mut run = Self { world, came: 0 };
        (0..QUEUES).for_each(|queue| run.queue(queue, None));
        run
    }

    fn queue(&mut self, queue: usize, parent: Option<usize>) {
        let guarantee = format!("{{\"A\": {}}}", queue % 2);
        let object = plain(&name(queue))
            .guaranteed_cards(&guarantee)
            .deserved_cards(r#"{"A": 3}"#);
        let parent = parent.filter(|parent| *parent < queue);
        let object = parent
            .into_iter()
            .fold(object, |object, parent| object.parent(&name(parent)));
        self.world.queue(&object);
    }

    fn take(&mut self, step: &Step) {
        let asked = |object: Object, asks: i64| object.card_request(&format!("{{\"A\": {asks}}}"));
        match step {
            Step::Queue(queue, parent, true) => self.queue(*queue, *parent),
            Step::Queue(queue, _, false) => self.world.remove_queue(&name(*queue)),
            Step::Group(id, queue, least, Some(asks)) => {
                let group = group(&format!("g{id}"), *least).set(["spec", "queue"], name(*queue));
                self.world.group(&asked(group, *asks));
            }
            Step::Group(id, ..) => self.world.remove_group("team", &format!("g{id}")),
            Step::Job(id, queue, Some(asks)) => {
                let key = "scheduling.volcano.sh/queue-name";
                let path = ["spec", "template", "metadata", "annotations", key];
                let job = held_job(&format!("j{id}"), &format!("{{\"A\": {asks}}}"));
                self.world.job(&job.set(path, name(*queue)));
            }
            Step::Job(id, ..) => self.world.remove_job("team", &format!("j{id}")),
            Step::Pod(queue, group) => {
                self.came += 1;
                let uid = format!("p{}", self.came);
                let pod = worker(&name(*queue), 0)
                    .set(["metadata", "name"], uid.clone())
                    .uid(&uid);
                let pod = group.iter().fold(pod, |pod, group| pod.of(&format!("g{group}")));
                self.world.pod(&pod);
            }
            Step::Gone(number) => self.world.remove_pod(&format!("p{number}")),
            Step::Decide => {
                self.world.decide();
                self.world.wait(1);
            }
        }
        self.world.cluster.grow_tree();
    }

    fn sums(&self) -> Vec<(String, Below)> {
        let cluster = &self.world.cluster;
        let of_queues = cluster
            .queues()
            .map(|(_, queue)| (queue.name.to_string(), queue.below.clone()));
        of_queues
            .chain([(String::new(), cluster.top().below.clone())])
            .collect()
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn sums_kept_event_by_event_are_those_counted_anew(steps in prop::collection::vec(step(), 1..40)) {
        let mut run = Run::new();
        for step in &steps {
            run.take(step);
        }
        let kept = run.sums();
        // The same configuration again: everything is counted anew.
        let configuration = capacity("enqueue, allocate, backfill", "enableHierarchy: true");
        run.world.set_configuration(configuration, at(100));
        run.world.cluster.grow_tree();
        prop_assert_eq!(kept, run.sums());
    }
}
