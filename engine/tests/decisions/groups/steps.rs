//! What can happen to groups, Jobs and their pods in a small cluster.

use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{Object, group, held_job, pod};

pub const CARDS: [&str; 2] = ["A", "B"];
/// What pods and groups name, and the places of the cards.
pub const NAMES: [(&str, &[usize]); 3] = [("A", &[0]), ("B", &[1]), ("A|B", &[0, 1])];
/// What groups name: where the pods are charged, another team's, and one that is not there.
pub const QUEUES: [&str; 3] = ["team-a", "team-b", "gone"];
pub const GROUPS: usize = 3;
pub const PODS: usize = 9;

/// Cards by name, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    pub names: usize,
    pub count: i64,
}

impl Ask {
    pub fn cards(self) -> &'static [usize] {
        NAMES[self.names].1
    }

    pub fn request(self) -> String {
        format!(r#"{{"{}": {}}}"#, NAMES[self.names].0, self.count)
    }
}

/// Whose pod it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    Group(usize),
    Job,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub queue: usize,
    pub least: usize,
    pub asks: Option<Ask>,
    pub created: i64,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// The node has so many cards: the first two of A, the others of B.
    Node(usize, i64),
    Queue([i64; 2]),
    /// A group is created, or says something else.
    Group(usize, usize, Option<Ask>),
    /// It comes to name another queue.
    Move(usize, usize),
    GroupGone(usize),
    /// The other team's queue, and whether it takes anybody else.
    Other([i64; 2], bool),
    /// The namespace comes to belong to the other team, or does not any more.
    Join(bool),
    /// The groups' phases are written as they should be.
    ShowPhases,
    /// The Job is created, and held.
    Job(Ask),
    JobGone,
    JobFinished,
    /// A pod of this name comes, in place of what had the name.
    Pod(usize, Owner, Ask),
    /// Another one like it.
    Twin(usize, usize),
    /// The API server carries the admission out.
    Write(usize),
    Refuse(usize),
    /// Its node takes it.
    Bind(usize),
    Succeed(usize),
    Fail(usize),
    Delete(usize),
    Gone(usize),
    Wait(i64),
    Restart,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    (0..NAMES.len(), prop_oneof![4 => Just(1), 2 => Just(2), 1 => Just(3)])
        .prop_map(|(names, count)| Ask { names, count })
}

pub fn any_beginning() -> impl Strategy<Value = Vec<Step>> {
    let nodes = prop::collection::vec(2..6_i64, 4);
    (nodes, prop::array::uniform2(2..9_i64)).prop_map(|(nodes, quota)| {
        let nodes = nodes.into_iter().enumerate();
        let nodes = nodes.map(|(index, count)| Step::Node(index, count));
        nodes.chain([Step::Queue(quota)]).collect()
    })
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let pod = 0..PODS;
    let owner = prop_oneof![
        2 => Just(Owner::Nobody),
        9 => (0..GROUPS).prop_map(Owner::Group),
        1 => Just(Owner::Job),
    ];
    let wide = (0..NAMES.len(), 1..6_i64).prop_map(|(names, count)| Ask { names, count });
    let request = prop::option::weighted(0.4, wide.clone());
    prop_oneof![
        2 => (0..4_usize, 0..6_i64).prop_map(|(node, count)| Step::Node(node, count)),
        2 => prop::array::uniform2(0..9_i64).prop_map(Step::Queue),
        10 => (0..GROUPS, 1..5_usize, request).prop_map(|(name, least, asks)| Step::Group(name, least, asks)),
        5 => (0..GROUPS, prop_oneof![3 => Just(0), 3 => Just(1), 1 => Just(2)])
            .prop_map(|(name, queue)| Step::Move(name, queue)),
        2 => (prop::array::uniform2(0..9_i64), any::<bool>()).prop_map(|(quota, open)| Step::Other(quota, open)),
        1 => any::<bool>().prop_map(Step::Join),
        1 => (0..GROUPS).prop_map(Step::GroupGone),
        3 => Just(Step::ShowPhases),
        2 => wide.prop_map(Step::Job),
        1 => Just(Step::JobGone),
        1 => Just(Step::JobFinished),
        18 => (pod.clone(), owner, any_ask()).prop_map(|(name, owner, ask)| Step::Pod(name, owner, ask)),
        14 => (pod.clone(), pod.clone()).prop_map(|(name, other)| Step::Twin(name, other)),
        12 => pod.clone().prop_map(Step::Write),
        2 => pod.clone().prop_map(Step::Refuse),
        6 => pod.clone().prop_map(Step::Bind),
        4 => pod.clone().prop_map(Step::Succeed),
        2 => pod.clone().prop_map(Step::Fail),
        2 => pod.clone().prop_map(Step::Delete),
        3 => pod.prop_map(Step::Gone),
        4 => select(vec![1, 6, 130]).prop_map(Step::Wait),
        3 => Just(Step::Restart),
    ]
}

pub fn group_name(index: usize) -> String {
    format!("g{index}")
}

pub fn group_object(index: usize, says: &Group, uid: &str, phase: Option<&str>) -> Object {
    let least = i64::try_from(says.least).unwrap();
    let object = group(&group_name(index), least).uid(uid).created(says.created);
    let object = object.set(["spec", "queue"], QUEUES[says.queue]);
    let object = says
        .asks
        .iter()
        .fold(object, |object, ask| object.card_request(&ask.request()));
    phase
        .into_iter()
        .fold(object, |object, phase| object.set(["status", "phase"], phase))
}

pub fn job_object(asks: Ask, uid: &str, suspended: bool) -> Object {
    held_job("job", &asks.request())
        .uid(uid)
        .set(["spec", "suspend"], suspended)
}

pub fn pod_object(name: usize, uid: &str, owner: Owner, ask: Ask, created: i64) -> Object {
    let object = pod(&format!("p{name}"))
        .uid(uid)
        .created(created)
        .asks(NAMES[ask.names].0, ask.count);
    match owner {
        Owner::Nobody => object,
        Owner::Group(group) => object.of(&group_name(group)),
        Owner::Job => object.controlled_by("Job", "job"),
    }
}
