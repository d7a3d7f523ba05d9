//! Gangs against exhaustive search: what is let in is what some assignment of cards and nodes allows, and whatever some
//! assignment allows is let in; never a part of it.

use engine::decide::{Round, decide};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{Object, World, configuration, group, node, pod, queue};

const CARDS: [&str; 2] = ["A", "B"];
const QUEUES: [&str; 2] = ["team-a", "team-b"];
/// The alternatives that pods name, by the places of their cards.
const NAMES: [(&str, &[usize]); 5] = [("", &[]), ("A", &[0]), ("B", &[1]), ("A|B", &[0, 1]), ("B|A", &[1, 0])];

/// A card, how many of it, and cores.
type Node = (usize, i64, i64);

#[derive(Debug, Clone, Copy)]
struct Queue {
    cards: [i64; 2],
    cpu: i64,
}

#[derive(Debug, Clone, Copy)]
struct Ask {
    cards: &'static [usize],
    names: &'static str,
    count: i64,
    cpu: i64,
    queue: usize,
}

#[derive(Debug, Clone)]
struct Gang {
    least: usize,
    /// Shapes, and how many pods of each.
    pods: Vec<(Ask, usize)>,
    /// How many of them run already.
    running: usize,
}

#[derive(Debug, Clone)]
struct Scene {
    nodes: Vec<Node>,
    queues: [Queue; 2],
    gangs: Vec<Gang>,
    on_quota: bool,
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let nodes = prop::collection::vec((0..2_usize, 0..5_i64, 1..9_i64), 1..=4);
    let queues = prop::array::uniform2((prop::array::uniform2(0..7_i64), 2..16_i64));
    let queues = queues.prop_map(|both| both.map(|(cards, cpu)| Queue { cards, cpu }));
    let ask = (select(NAMES.to_vec()), 1..4_i64, 1..4_i64, prop::bool::weighted(0.15));
    let ask = ask.prop_map(|((names, cards), count, cpu, other)| Ask {
        cards,
        names,
        count,
        cpu,
        queue: usize::from(other),
    });
    let pods = prop::collection::vec((ask, 1..=3_usize), 1..=3);
    let gang = (1..=5_usize, pods, prop_oneof![4 => Just(0), 1 => 1..3_usize]);
    let gang = gang.prop_map(|(least, pods, running)| Gang { least, pods, running });
    let gangs = prop::collection::vec(gang, 1..=2);
    (nodes, queues, gangs, prop::bool::weighted(0.15)).prop_map(|(nodes, queues, gangs, on_quota)| Scene {
        nodes,
        queues,
        gangs,
        on_quota,
    })
}

impl Ask {
    fn object(&self, gang: usize, index: usize) -> Object {
        let object = pod(&format!("g{gang}-{index}"))
            .of(&format!("g{gang}"))
            .queue(QUEUES[self.queue]);
        let object = object.created(i64::try_from(10 * gang + index).unwrap());
        let object = object.requests("cpu", &self.cpu.to_string());
        if self.cards.is_empty() {
            object
        } else {
            object.asks(self.names, self.count)
        }
    }
}

/// What is left of everything.
#[derive(Debug, Clone)]
struct Left {
    nodes: Vec<(usize, i64, i64)>,
    queues: [Queue; 2],
    known: [bool; 2],
    on_quota: bool,
}

impl Left {
    /// Takes what a pod gets; whether that was there.
    fn take(&mut self, ask: &Ask, card: Option<usize>, node: Option<usize>) -> bool {
        let cards = if card.is_some() { ask.count } else { 0 };
        let queue = &mut self.queues[ask.queue];
        queue.cpu -= ask.cpu;
        let mut there = queue.cpu >= 0;
        if let Some(card) = card {
            queue.cards[card] -= cards;
            there &= queue.cards[card] >= 0 && self.known[card];
        }
        if let Some(node) = node {
            let (of_node, count, cpu) = &mut self.nodes[node];
            there &= card.is_none_or(|card| card == *of_node);
            *count -= cards;
            *cpu -= ask.cpu;
            there &= *count >= 0 && *cpu >= 0;
        }
        there
    }

    /// Whether some assignment lets `needed` of these pods in.
    fn allows(&self, pods: &[Ask], needed: usize) -> bool {
        let Some((first, others)) = pods.split_first().filter(|_| pods.len() >= needed && needed > 0) else {
            return needed == 0;
        };
        let cards: Vec<_> = match first.cards {
            [] => vec![None],
            cards => cards.iter().copied().map(Some).collect(),
        };
        let places: Vec<_> = if self.on_quota {
            vec![None]
        } else {
            (0..self.nodes.len()).map(Some).collect()
        };
        let with_first = cards.iter().any(|card| {
            places.iter().any(|place| {
                let mut left = self.clone();
                left.take(first, *card, *place) && left.allows(others, needed - 1)
            })
        });
        with_first || self.allows(others, needed)
    }
}

struct Stage {
    world: World,
    left: Left,
    scene: Scene,
}

impl Stage {
    fn new(scene: Scene) -> Self {
        let on = if scene.on_quota { "admitOn: quota" } else { "" };
        let mut world = World::with(configuration("", on));
        for (index, (card, count, cpu)) in scene.nodes.iter().enumerate() {
            world.node(
                &node(&format!("n{index}"))
                    .cards(CARDS[*card], *count)
                    .offers("cpu", &cpu.to_string()),
            );
        }
        for (name, says) in QUEUES.iter().zip(&scene.queues) {
            let quota = format!(r#"{{"A": {}, "B": {}}}"#, says.cards[0], says.cards[1]);
            world.queue(&queue(name).quota(&quota).capability("cpu", &says.cpu.to_string()));
        }
        let known = [0, 1].map(|card| scene.nodes.iter().any(|(has, count, _)| *has == card && *count > 0));
        let left = Left {
            nodes: scene.nodes.clone(),
            queues: scene.queues,
            known,
            on_quota: scene.on_quota,
        };
        for (index, gang) in scene.gangs.iter().enumerate() {
            let least = i64::try_from(gang.least).unwrap();
            world.group(&group(&format!("g{index}"), least).created(i64::try_from(index).unwrap()));
        }
        Self { world, left, scene }
    }

    fn pods_of(&self, gang: usize) -> Vec<Ask> {
        let kinds = self.scene.gangs[gang].pods.iter();
        kinds
            .flat_map(|(ask, copies)| std::iter::repeat_n(*ask, *copies))
            .collect()
    }

    /// Lets the first pods of each gang run where they can, and the others come.
    fn enter(&mut self) {
        for gang in 0..self.scene.gangs.len() {
            for (index, ask) in self.pods_of(gang).iter().enumerate() {
                let object = ask.object(gang, index);
                if index < self.scene.gangs[gang].running {
                    let cards: Vec<_> = ask.cards.iter().copied().map(Some).collect();
                    let cards = if cards.is_empty() { vec![None] } else { cards };
                    let place = cards.into_iter().find_map(|card| {
                        (0..self.scene.nodes.len())
                            .find(|node| self.left.clone().take(ask, card, Some(*node)))
                            .map(|node| (card, node))
                    });
                    if let Some((card, node)) = place {
                        self.left.take(ask, card, Some(node));
                        let object = object.on(&format!("n{node}"));
                        self.world.pod(
                            &card
                                .into_iter()
                                .fold(object, |object, card| object.assigned(CARDS[card])),
                        );
                        continue;
                    }
                }
                self.world.pod(&object);
            }
        }
    }

    /// Takes what the pods got that are let in now.
    fn account(&mut self, admitted: &[(String, Option<String>)]) {
        for (name, card) in admitted {
            let (gang, index) = name[1..].split_once('-').unwrap();
            let ask = self.pods_of(gang.parse().unwrap())[index.parse::<usize>().unwrap()];
            let card = card
                .as_ref()
                .map(|card| CARDS.iter().position(|known| known == card).unwrap());
            assert_eq!(card.is_none(), ask.cards.is_empty());
            assert!(
                card.is_none_or(|card| ask.cards.contains(&card)),
                "{name} has another card"
            );
            let room = self
                .world
                .known(name)
                .room
                .map(|node| self.world.cluster.node(node).name[1..].parse().unwrap());
            assert_eq!(room.is_none(), self.scene.on_quota);
            assert!(self.left.take(&ask, card, room), "{name} gets what is not there");
        }
    }

    /// The pods of a gang that wait, and how many are in.
    fn split(&self, gang: usize) -> (Vec<Ask>, usize) {
        let pods = self.pods_of(gang);
        let waits = |index: &usize| self.world.known(&format!("g{gang}-{index}")).charge.is_none();
        let waiting: Vec<_> = (0..pods.len()).filter(waits).map(|index| pods[index]).collect();
        let held = pods.len() - waiting.len();
        (waiting, held)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn what_exhaustive_search_allows_is_let_in_and_nothing_else(scene in any_scene()) {
        let mut stage = Stage::new(scene);
        stage.enter();
        let before: Vec<_> = (0..stage.scene.gangs.len()).map(|gang| stage.split(gang).1).collect();
        // Whoever follows a gang that was let in may come a round later.
        loop {
            let admitted = stage.world.admit();
            stage.account(&admitted);
            for (gang, before) in before.iter().enumerate() {
                let least = stage.scene.gangs[gang].least;
                let (_, held) = stage.split(gang);
                prop_assert!(held == *before || held >= least, "{held} of at least {least} of g{gang} are in");
            }
            if admitted.is_empty() {
                break;
            }
        }
        for gang in 0..before.len() {
            let least = stage.scene.gangs[gang].least;
            let (waiting, held) = stage.split(gang);
            let missing = least.saturating_sub(held).max(1);
            prop_assert!(!stage.left.allows(&waiting, missing), "g{gang} could be let in");
        }
    }
}

/// One round in which nothing is let in; how many gangs were judged in it.
fn judged(world: &mut World) -> usize {
    let Round {
        actions, gangs_judged, ..
    } = decide(&mut world.cluster, world.now, usize::MAX);
    assert_eq!(actions, []);
    gangs_judged
}

/// What the first pod of a group is told.
fn told(world: &mut World, uid: &str) -> String {
    assert_eq!(world.admit(), []);
    world.wait(1);
    let notices = world.notices();
    let of_it = notices.into_iter().find(|notice| &*notice.pod.uid == uid);
    of_it.unwrap_or_else(|| panic!("{uid} is told nothing")).message
}

#[test]
fn gangs_that_wait_alike_share_a_verdict() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 4));
    world.node(&node("n2").cards("A", 4));
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world.pods((0..5).map(|index| pod(&format!("single-{index}")).asks("A", 1)));
    assert_eq!(world.admit().len(), 5);
    for gang in 0..1000 {
        let name = format!("g{gang}");
        world.group(&group(&name, 4));
        world.pods((0..4).map(|index| pod(&format!("{name}-{index}")).of(&name).asks("A", 1)));
    }
    assert_eq!(judged(&mut world), 1, "1,000 gangs that wait alike");
    assert_eq!(judged(&mut world), 0, "nothing has changed");
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    assert_eq!(judged(&mut world), 1, "another quota");
    assert_eq!(
        world.reason("g999-3").map(engine::reason::Reason::as_str),
        Some("NoNodeFits")
    );
    world.node(&node("n2").cards("A", 4).label("zone", "z"));
    assert!(judged(&mut world) <= 1, "a node that has changed");
    // One that differs is judged by itself.
    world.group(&group("other", 4));
    world.pods((0..4).map(|index| pod(&format!("other-{index}")).of("other").asks("A", 2)));
    assert_eq!(judged(&mut world), 1);
    // Room for one: it gets in, and the others are judged once more.
    world.remove_pod("single-0");
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert_eq!(round.actions.len(), 4);
    assert!(round.gangs_judged <= 4, "{}", round.gangs_judged);
    assert_eq!(world.allocated("team-a", "A"), 8);
}

/// A cluster of so many nodes of 8 cards each, on which so many are in use, and a queue that may have them all.
fn cluster(used: impl Fn(usize) -> i64, nodes: usize) -> World {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 10000, "B": 10000}"#));
    world.queue(&queue("others").quota(r#"{"A": 10000}"#));
    for index in 0..nodes {
        let name = format!("n{index:03}");
        world.node(&node(&name).cards("A", 8));
        if used(index) > 0 {
            let other = pod(&format!("other-{index}")).queue("others").asks("A", used(index));
            world.pod(&other.on(&name).assigned("A"));
        }
    }
    world
}

fn gang(world: &mut World, name: &str, kinds: &[(usize, i64)]) {
    let count: usize = kinds.iter().map(|(count, _)| count).sum();
    world.group(&group(name, i64::try_from(count).unwrap()));
    let kinds = kinds
        .iter()
        .flat_map(|(count, asks)| std::iter::repeat_n(*asks, *count));
    let pods = kinds
        .enumerate()
        .map(|(index, asks)| pod(&format!("{name}-{index}")).of(name).asks("A", asks));
    world.pods(pods.collect::<Vec<_>>());
}

#[test]
fn gangs_of_usual_sizes_are_searched_to_the_end() {
    // Frees of 3 to 8, as after weeks of use. 40 nodes: in all 220 cards are free.
    let free = |index: usize| [8, 7, 6, 5, 4, 3][index % 6];
    for kinds in [
        vec![(16, 4), (16, 2), (1, 1)],
        vec![(1, 1), (16, 2), (30, 4)],
        vec![(1, 1), (20, 3), (20, 5)],
        vec![(30, 2), (10, 6), (5, 8)],
        vec![(30, 3), (30, 5)],
        vec![(4, 8), (10, 7), (20, 5)],
    ] {
        let mut world = cluster(|index| 8 - free(index), 40);
        gang(&mut world, "g", &kinds);
        if world.admit().is_empty() {
            let told = told(&mut world, "g-0");
            assert!(!told.contains("given up"), "{kinds:?}: {told}");
        }
    }
}

#[test]
fn a_search_that_is_given_up_says_so() {
    // 20 pods of 20 sizes, for which there are enough cores in all, and no way to divide them among equal nodes.
    let mut world = World::new();
    world.queue(&queue("team-a"));
    let sizes: Vec<i64> = (0..20).map(|index| 3001 + 7 * index * index).collect();
    let all: i64 = sizes.iter().sum();
    for index in 0..5 {
        world.node(&node(&format!("n{index}")).offers("cpu", &format!("{}m", all / 5 + 1)));
    }
    world.group(&group("g", 20));
    let pods = sizes.iter().enumerate();
    let pods = pods.map(|(index, size)| pod(&format!("g-{index}")).of("g").requests("cpu", &format!("{size}m")));
    world.pods(pods.collect::<Vec<_>>());
    assert!(
        world.admit().is_empty(),
        "a search of 5,000 tries has become good enough for this"
    );
    let told = told(&mut world, "g-0");
    assert!(
        told.contains("given up after at most 5000 tries, so there may be some"),
        "{told}"
    );
    // Whether there is a way or not, with a little more room there is one that is easy.
    for index in 0..5 {
        world.node(&node(&format!("n{index}")).offers("cpu", &format!("{}m", all / 5 + 4000)));
    }
    assert_eq!(world.admit().len(), 20);
}

/// A group that needs so many of its pods, each of a kind of its own, for all of which the queue has too little: by their quota alone
/// any of them could be among those.
fn pods_of_many_kinds(needed: i64, pods: i64, quota: &str) -> World {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.queue(&queue("team-a").capability("cpu", quota));
    world.group(&group("g", needed));
    world.pods((0..pods).map(|index| {
        let amount = format!("{}m", 510 + index % 400);
        let pod = pod(&format!("g-{index}")).of("g").requests("cpu", &amount);
        pod.requests("memory", &(1000 + index / 400).to_string())
    }));
    world
}

/// The most that a look at a gang of so many pods may cost: what ends it, and what it costs to compare them.
const MOST_FOR_A_GANG: u64 = 12_000_000;

#[test]
fn a_search_among_thousands_of_kinds_takes_no_stack_for_each() {
    let mut world = pods_of_many_kinds(2, 6_000, "1");
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(round.steps <= MOST_FOR_A_GANG, "{} steps", round.steps);
}

#[test]
fn what_a_search_asks_of_quotas_is_among_what_it_may_cost() {
    // No node is looked at, so nothing else costs anything.
    let mut world = pods_of_many_kinds(400, 1_000, "5");
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(
        (10_000_000..MOST_FOR_A_GANG).contains(&round.steps),
        "{} steps",
        round.steps
    );
}

#[test]
fn alternatives_of_several_kinds_share_two_cards() {
    // 6 on 4+4, parts of it on either card (the document, **Considerations**, 4), beside pods that need one of them.
    let mut world = World::new();
    world.node(&node("n1").cards("A", 4));
    world.node(&node("n2").cards("B", 4));
    world.queue(&queue("team-a").quota(r#"{"A": 4, "B": 4}"#));
    for (name, flexible) in [("first", 6), ("second", 6)] {
        world.group(&group(name, 6));
        world.pods((0..flexible).map(|index| pod(&format!("{name}-{index}")).of(name).asks("A|B", 1)));
    }
    assert_eq!(world.admit().len(), 6, "one of the two groups");
    world.remove_group("team", "second");
    for index in 0..6 {
        world.remove_pod(&format!("first-{index}"));
        world.remove_pod(&format!("second-{index}"));
    }
    world.group(&group("third", 8));
    world.pods((0..4).map(|index| pod(&format!("third-{index}")).of("third").asks("A|B", 1)));
    world.pods((4..8).map(|index| pod(&format!("third-{index}")).of("third").asks("A", 1)));
    let cards: Vec<_> = world.admit().into_iter().filter_map(|(_, card)| card).collect();
    assert_eq!(cards, ["B", "B", "B", "B", "A", "A", "A", "A"]);
}

#[test]
fn who_is_judged_as_a_whole_is_who_would_be_let_in() {
    // The first asks for more than the queue may ever have, and the group needs two of three.
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world.group(&group("g", 2));
    world.pod(&pod("g-0").of("g").asks("A", 5));
    world.pods((1..3).map(|index| pod(&format!("g-{index}")).of("g").asks("A", 1)));
    assert_eq!(world.admit_names(), ["g-1", "g-2"]);
    // What is kept for another group counts against those, too.
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    world.group(&group("kept", 1).card_request(r#"{"A": 2}"#));
    assert_eq!(world.admit(), []);
    world.group(&group("g", 2));
    world.pod(&pod("g-0").of("g").asks("A", 5));
    world.pods((1..3).map(|index| pod(&format!("g-{index}")).of("g").asks("A", 1)));
    assert_eq!(world.refusal_of("g-0"), "InsufficientScalarQuota");
    world.remove_group("team", "kept");
    assert_eq!(world.admit_names(), ["g-1", "g-2"]);
}
