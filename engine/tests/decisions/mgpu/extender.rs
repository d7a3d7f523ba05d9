//! Schedulers that ask about mGPU pods: nothing is pinned, cards are taken when a pod is bound, and never twice.

use engine::decide::extender::{Binding, Wish, bind, filter, prioritize, read};
use engine::refs::PodRef;
use engine::{Answer, Outcome};
use proptest::prelude::*;

use super::*;
use crate::world::bare_pod;

const EXTENDER: &str = "enforceMGPU: extender";
const INDEX: &str = "vke.volcengine.com/gpu-index-container-main";

fn extended(arguments: &[(&str, &str)]) -> World {
    let mut world = World::with(configuration(arguments, EXTENDER));
    world.queue(&queue("team-a"));
    world
}

/// Asks which of these nodes can take a pod: those that can't, and why.
fn refused(world: &mut World, pod: &Object, nodes: &[&str]) -> Vec<String> {
    let candidate = read(&mut world.cluster, pod.read());
    let names: Vec<_> = nodes.iter().map(|node| (*node).into()).collect();
    let filtered = filter(&mut world.cluster, &candidate, &names);
    let refused = filtered.refused.iter();
    refused
        .map(|(place, refusal)| {
            format!(
                "{}{}: {refusal}",
                nodes[*place],
                if refusal.is_final() { "!" } else { "" }
            )
        })
        .collect()
}

fn scores(world: &mut World, pod: &Object, nodes: &[&str]) -> Vec<i64> {
    let candidate = read(&mut world.cluster, pod.read());
    let names: Vec<_> = nodes.iter().map(|node| (*node).into()).collect();
    prioritize(&world.cluster, &candidate, &names)
}

fn pod_ref(name: &str) -> PodRef {
    PodRef {
        namespace: "team".into(),
        name: name.into(),
        uid: name.into(),
    }
}

#[track_caller]
fn granted(wish: Wish) -> Binding {
    match wish {
        Wish::Granted(binding) => binding,
        other => panic!("not granted: {other:?}"),
    }
}

/// The pod as the API server shows it after its binding.
fn bound(pod: &Object, binding: &Binding) -> Object {
    let results = binding.mgpu_results.iter();
    results.fold(pod.clone().on(&binding.node), |pod, (key, value)| {
        pod.annotation(key, value)
    })
}

/// Lets a pod in and shows it without its gate.
fn let_in(world: &mut World, pod: &Object, name: &str) {
    world.pod(pod);
    assert_eq!(places(world), [format!("{name}: nowhere")], "neither pinned nor placed");
    world.confirm(name);
    world.pod(&pod.clone().ungated());
}

#[test]
fn filter_says_what_the_document_requires_of_a_node() {
    let mut world = extended(&[]);
    world.node(&node("fixed").mgpu(2, 10_000, FIXED));
    world.node(&node("native").mgpu(2, 10_000, NATIVE));
    world.node(&node("odd").mgpu(2, 10_000, "no-policy"));
    world.node(&node("whole").cards("NVIDIA-A100", 8));
    let nodes = ["fixed", "native", "odd", "whole", "new"];
    let no_cards = "whole!: no mGPU cards: the node needs the label vke.node.gpu.schedule=mgpu and mGPU resources";
    let unknown = "new: Cardgate has not seen the node yet";
    // 1. For normal MGPU Pods, their compute allocation policy must match that of the node.
    assert_eq!(
        refused(&mut world, &bare_pod("p").share(30, 1000), &nodes),
        [
            "native!: mGPU compute policy is native-burst-share, the pod's is fixed-share",
            "odd!: mGPU compute policy is unknown, the pod's is fixed-share",
            no_cards,
            unknown,
        ]
    );
    // 2. For multiple MGPU Pods, they must be based on the native-burst-share policy.
    let multiple = bare_pod("p").annotation(CONTAINER_CARDS, "2").share(100, 6000);
    assert_eq!(
        refused(&mut world, &multiple.clone().annotation(POLICY, FIXED), &nodes)[0],
        "fixed!: mGPU compute policy is fixed-share, the pod's is fixed-share; containers with several cards need \
         native-burst-share"
    );
    assert_eq!(
        refused(&mut world, &multiple.annotation(POLICY, NATIVE), &nodes).len(),
        4,
        "native takes it"
    );
    // 3. If any container in the Pod requests more cards than the node can allocate, Filter will return false.
    let three = bare_pod("p")
        .annotation(CONTAINER_CARDS, "3")
        .annotation(POLICY, NATIVE)
        .share(99, 6000);
    assert_eq!(
        refused(&mut world, &three, &["native"]),
        ["native!: too few mGPU cards: a container asks for 3, the node has 2"]
    );
    world.pod(&bare_pod("a").share(80, 1000).annotation(INDEX, "0").on("fixed"));
    world.pod(&bare_pod("b").share(80, 1000).annotation(INDEX, "1").on("fixed"));
    assert_eq!(
        refused(&mut world, &bare_pod("p").share(30, 1000), &["fixed"]),
        ["fixed: no room on the mGPU cards for the pod's containers"],
        "40 are free, and no card has 30"
    );
    let unreadable = bare_pod("p").share(120, 0);
    assert!(refused(&mut world, &unreadable, &["fixed"])[0].starts_with("fixed!: mGPU: "));
    assert_eq!(refused(&mut world, &bare_pod("p"), &nodes), [""; 0], "asks for no mGPU");
}

#[test]
fn device_ids_must_be_known_where_they_are_written() {
    let mut world = extended(&[("ScheduleMode", "id")]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.node(
        &node("g2")
            .mgpu(1, 10_000, FIXED)
            .annotation("vke.volcengine.com/gpu-ids", "GPU-x"),
    );
    let pod = bare_pod("p").share(30, 1000);
    assert_eq!(
        refused(&mut world, &pod, &["g1", "g2"]),
        ["g1!: no device id for each card: MGPUScheduleMode id needs annotation vke.volcengine.com/gpu-ids"]
    );
    world.pod(&pod);
    let binding = granted(bind(&mut world.cluster, &pod_ref("p"), "g2"));
    assert_eq!(binding.mgpu_results[1], (INDEX.to_owned(), "GPU-x".to_owned()));
}

#[test]
fn scores_are_those_of_the_best_combination_in_percent() {
    // 0.8 * 30/100 + 0.2 * 1000/10000 = 0.26; with 40 and 1000 beside it, 0.8 * 0.7 + 0.2 * 0.2 = 0.6.
    for (policy, expected) in [("binpack", [26, 60, 0]), ("spread", [74, 40, 0])] {
        let mut world = extended(&[("Policy", policy), ("WeightOfCore", "80")]);
        for name in ["empty", "used", "full"] {
            world.node(&node(name).mgpu(1, 10_000, FIXED));
        }
        let running = |name: &str, core| bare_pod(name).share(core, 1000).annotation(INDEX, "0");
        world.pods([running("a", 40).on("used"), running("b", 90).on("full")]);
        assert_eq!(
            scores(&mut world, &bare_pod("p").share(30, 1000), &["empty", "used", "full"]),
            expected
        );
    }
}

#[test]
fn gating_asks_nothing_of_schedulers() {
    let mut world = world(&[]);
    world.node(&node("whole").cards("NVIDIA-A100", 8));
    let pod = bare_pod("p").share(30, 1000);
    assert_eq!(refused(&mut world, &pod, &["whole"]), [""; 0]);
    assert_eq!(scores(&mut world, &pod, &["whole"]), [0]);
    let mut off = extended(&[("Enable", "false")]);
    off.node(&node("whole").cards("NVIDIA-A100", 8));
    assert_eq!(refused(&mut off, &pod, &["whole"]), [""; 0]);
}

#[test]
fn a_pod_is_let_in_without_a_pin_when_there_is_room_and_its_cards_are_written_when_it_is_bound() {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    let (p, q) = (pod("p").share(60, 1000), pod("q").share(60, 1000));
    let_in(&mut world, &p, "p");
    assert_eq!(
        (cores(&world, "g1"), cores(&world, "g2")),
        (vec![60], vec![0]),
        "expected there"
    );
    let_in(&mut world, &q, "q");
    world.pod(&pod("r").share(60, 1000));
    insta::assert_snapshot!(world.refusal(), @"InsufficientMGPU: no mGPU node can take the pod now: 2 mGPU nodes: 2 without enough room");
    // Not in its own way where it is expected, and in q's way nowhere else.
    assert_eq!(
        refused(&mut world, &p.clone().ungated(), &["g1", "g2"]),
        ["g2: no room on the mGPU cards for the pod's containers"]
    );
    let binding = granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
    assert_eq!((&*binding.pod.name, &*binding.node), ("p", "g1"));
    let assumed = ("vke.volcengine.com/assumed".to_owned(), "true".to_owned());
    assert_eq!(binding.mgpu_results, [assumed, (INDEX.to_owned(), "0".to_owned())]);
    assert_eq!(cores(&world, "g1"), [60]);
    world.pod(&bound(&p, &binding));
    assert_eq!(cores(&world, "g1"), [60], "counted once");
    assert!(!world.known("p").binding);
}

/// docs/rules.md, **mGPU**: were a pod only expected on a node in nobody's way there, others could take its place, and a third would be let in
/// for the place that it has left: more than the cards hold.
#[test]
fn pods_that_are_expected_on_a_node_keep_their_place_and_no_more_are_let_in_than_fit() {
    let mut world = extended(&[]);
    for name in ["g1", "g2"] {
        world.node(&node(name).mgpu(1, 10_000, FIXED));
    }
    let [p, q, r] = ["p", "q", "r"].map(|name| pod(name).share(80, 1000));
    let_in(&mut world, &p, "p");
    let_in(&mut world, &q, "q");
    let no_room = |node: &str| format!("{node}: no room on the mGPU cards for the pod's containers");
    assert_eq!(
        refused(&mut world, &p.clone().ungated(), &["g1", "g2"]),
        [no_room("g2")]
    );
    assert_eq!(
        refused(&mut world, &q.clone().ungated(), &["g1", "g2"]),
        [no_room("g1")]
    );
    world.pod(&r);
    assert_eq!(places(&mut world), [""; 0], "two are on their way to two cards");
    granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
    assert_eq!(places(&mut world), [""; 0]);
}

#[test]
fn admit_on_quota_leaves_the_node_to_the_scheduler() {
    let mut world = World::with(configuration(&[], "enforceMGPU: extender\nadmitOn: quota"));
    world.queue(&queue("team-a"));
    let_in(&mut world, &pod("p").share(60, 1000), "p");
    assert_eq!(
        bind(&mut world.cluster, &pod_ref("p"), "g1"),
        Wish::NotYet("no node g1 is known".to_owned())
    );
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
}

#[test]
fn of_two_schedulers_with_the_same_answer_one_gets_the_last_card() {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    let (p, q) = (bare_pod("p").share(60, 1000), bare_pod("q").share(60, 1000));
    world.pods([p.clone(), q.clone()]);
    assert_eq!(refused(&mut world, &p, &["g1"]), [""; 0]);
    assert_eq!(refused(&mut world, &q, &["g1"]), [""; 0]);
    granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
    let no_room = || Wish::Refused("no room on the mGPU cards for the pod's containers".to_owned());
    assert_eq!(bind(&mut world.cluster, &pod_ref("q"), "g1"), no_room());
    // What is older than the binding changes nothing.
    world.pod(&p.clone().label("seen", "late"));
    assert_eq!(cores(&world, "g1"), [60]);
    assert_eq!(
        bind(&mut world.cluster, &pod_ref("p"), "g1"),
        Wish::Refused("pod team/p is being bound to node g1 already".to_owned())
    );
    // Nobody knows whether it is written: the cards stay taken.
    world.hear(&Outcome::Binding("p".into(), Answer::Unknown), world.now);
    world.wait(3600);
    assert_eq!(cores(&world, "g1"), [60]);
    assert_eq!(bind(&mut world.cluster, &pod_ref("q"), "g1"), no_room());
    // It is found not to be: the cards are free again.
    world.binding_failed("p");
    assert_eq!(cores(&world, "g1"), [0]);
    let binding = granted(bind(&mut world.cluster, &pod_ref("q"), "g1"));
    world.pod(&bound(&q, &binding));
    assert_eq!(
        bind(&mut world.cluster, &pod_ref("q"), "g1"),
        Wish::Done,
        "the answer was lost"
    );
    assert_eq!(
        bind(&mut world.cluster, &pod_ref("q"), "g2"),
        Wish::Refused("pod team/q is bound to node g1".to_owned())
    );
}

#[test]
fn nothing_is_bound_that_is_not_known_or_has_a_gate() {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    let unknown = Wish::NotYet("no pod team/p with uid p is known".to_owned());
    assert_eq!(bind(&mut world.cluster, &pod_ref("p"), "g1"), unknown);
    world.pod(&pod("p").share(60, 1000));
    let gated = Wish::NotYet("pod team/p has a scheduling gate".to_owned());
    assert_eq!(bind(&mut world.cluster, &pod_ref("p"), "g1"), gated);
    assert_eq!(places(&mut world), ["p: nowhere"]);
    assert_eq!(
        bind(&mut world.cluster, &pod_ref("p"), "g1"),
        gated,
        "not seen without it"
    );
}

#[test]
fn only_pods_that_ask_for_mgpu_are_bound() {
    let mut world = extended(&[]);
    world.node(&node("n1"));
    world.pod(&bare_pod("p"));
    let Wish::Refused(reason) = bind(&mut world.cluster, &pod_ref("p"), "n1") else {
        panic!("granted");
    };
    assert!(reason.contains("managedResources"), "{reason}");
}

/// The scheduler's configuration may name the verb before, or after, Cardgate's says that pods are not pinned.
#[test]
fn a_pod_that_is_pinned_keeps_its_cards() {
    let mut world = world(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    let pod = pod("p").share(60, 1000);
    world.pod(&pod);
    let admitted = world.admissions().remove(0);
    world.confirm("p");
    world.pod(&after(&pod, &admitted));
    let binding = granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
    assert_eq!(binding.mgpu_results, []);
    assert_eq!(cores(&world, "g1"), [60, 0]);
}

/// It stands on the pod where it may go, and which cards it has: a binding that the API server refuses changes none of it.
#[test]
fn a_pinned_pod_that_could_not_be_bound_keeps_its_cards() {
    for then in ["enforceMGPU: gating", EXTENDER] {
        let mut world = world(&[]);
        world.node(&node("g1").mgpu(1, 10_000, FIXED));
        let first = pod("p").share(60, 1000);
        world.pod(&first);
        let admitted = world.admissions().remove(0);
        world.confirm("p");
        world.pod(&after(&first, &admitted));
        let now = world.now;
        world.set_configuration(configuration(&[], then), now);
        let binding = granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
        assert_eq!(binding.mgpu_results, [], "{then}: they are written");
        world.binding_failed("p");
        assert_eq!(cores(&world, "g1"), [60], "{then}");
        world.pod(&pod("q").share(60, 1000));
        assert_eq!(world.admit_names(), [""; 0], "{then}");
        // Nor is it bound where it may not go.
        world.node(&node("g2").mgpu(1, 10_000, FIXED));
        assert_eq!(
            bind(&mut world.cluster, &pod_ref("p"), "g2"),
            Wish::Refused("pod team/p may go to node g1 alone".to_owned()),
            "{then}"
        );
        granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
        assert_eq!(cores(&world, "g1"), [60], "{then}");
    }
}

/// Nobody else would write its cards, and it would run beside others on what it takes to be its own.
#[test]
fn who_was_let_in_while_schedulers_were_asked_gets_its_cards_though_they_are_no_longer() {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    let p = pod("p").share(60, 1000);
    let_in(&mut world, &p, "p");
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    world.pod(&bare_pod("full").share(90, 1000).annotation(INDEX, "0").on("g2"));
    let now = world.now;
    world.set_configuration(configuration(&[], "enforceMGPU: gating"), now);
    assert_eq!(
        refused(&mut world, &p.clone().ungated(), &["g1", "g2"]),
        ["g2: no room on the mGPU cards for the pod's containers"]
    );
    let binding = granted(bind(&mut world.cluster, &pod_ref("p"), "g1"));
    let assumed = ("vke.volcengine.com/assumed".to_owned(), "true".to_owned());
    assert_eq!(binding.mgpu_results, [assumed, (INDEX.to_owned(), "0".to_owned())]);
}

#[test]
fn a_gang_is_let_in_without_pins() {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(1, 10_000, FIXED));
    world.group(&group("gang", 2));
    let member = |name: &str| pod(name).of("gang").share(60, 1000);
    world.pods([member("p"), member("q")]);
    assert_eq!(places(&mut world), [""; 0], "one card for two");
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    assert_eq!(places(&mut world), ["p: nowhere", "q: nowhere"]);
}

/// What schedulers, the API server and others do.
#[derive(Debug, Clone)]
enum Step {
    Arrive(usize, i64, bool),
    /// A scheduler asks, and wants to bind to one of the nodes that are left.
    Schedule(usize, usize),
    /// It insists on an answer that is old by now.
    Insist(usize, usize),
    /// The API server takes a Binding that is under way, or refuses it; the outcome is told, or is lost with the operator.
    Write(usize, bool),
    /// The watch shows a pod as it is.
    Show(usize),
    Leave(usize),
    Decide,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (pods, nodes) = (0..8_usize, 0..2_usize);
    prop_oneof![
        4 => (pods.clone(), prop_oneof![Just(30_i64), Just(60), Just(100)], any::<bool>())
            .prop_map(|(pod, core, gated)| Step::Arrive(pod, core, gated)),
        4 => (pods.clone(), nodes.clone()).prop_map(|(pod, node)| Step::Schedule(pod, node)),
        2 => (pods.clone(), nodes).prop_map(|(pod, node)| Step::Insist(pod, node)),
        5 => (pods.clone(), prop::bool::weighted(0.8)).prop_map(|(pod, taken)| Step::Write(pod, taken)),
        3 => pods.clone().prop_map(Step::Show),
        2 => pods.prop_map(Step::Leave),
        3 => Just(Step::Decide),
        1 => Just(Step::Restart),
    ]
}

/// What the API server holds of a pod.
#[derive(Debug, Clone)]
struct Kept {
    uid: String,
    object: Object,
    core: i64,
    under_way: Option<Binding>,
    /// Where it is bound: the node, and its card there.
    bound: Option<(String, usize)>,
}

const NODES: [&str; 2] = ["g1", "g2"];

fn fresh() -> World {
    let mut world = extended(&[]);
    world.node(&node("g1").mgpu(2, 10_000, FIXED));
    world.node(&node("g2").mgpu(1, 10_000, FIXED));
    world
}

fn want(world: &mut World, kept: &mut Kept, node: &str) {
    if let Wish::Granted(binding) = bind(&mut world.cluster, &pod_ref(&kept.uid), node) {
        assert!(kept.under_way.is_none() && kept.bound.is_none(), "bound twice");
        kept.under_way = Some(binding);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    /// Whatever schedulers ask and insist on, the pods on a card never come to more than the card.
    #[test]
    fn no_card_is_sold_twice(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = fresh();
        let mut pods: Vec<Option<Kept>> = vec![None; 8];
        for (generation, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arrive(place, core, gated) if pods[place].is_none() => {
                    let uid = format!("p{place}-{generation}");
                    let object = if gated { pod(&uid) } else { bare_pod(&uid) };
                    let object = object.share(core, if core == 100 { 0 } else { 1000 });
                    world.pod(&object);
                    pods[place] = Some(Kept { uid, object, core, under_way: None, bound: None });
                }
                Step::Schedule(place, node) => if let Some(kept) = &mut pods[place] {
                    let out = refused(&mut world, &kept.object, &NODES);
                    let left: Vec<_> = NODES.iter().filter(|name| !out.iter().any(|out| out.starts_with(**name))).collect();
                    if !left.is_empty() {
                        want(&mut world, kept, left[node % left.len()]);
                    }
                }
                Step::Insist(place, node) => if let Some(kept) = &mut pods[place] {
                    want(&mut world, kept, NODES[node]);
                }
                Step::Write(place, taken) => if let Some(kept) = &mut pods[place] && let Some(binding) = kept.under_way.take() {
                    if taken {
                        kept.object = bound(&kept.object, &binding);
                        let list = binding.mgpu_results.iter().find(|(key, _)| key == INDEX);
                        let card = list.and_then(|(_, card)| card.parse().ok()).expect("a card");
                        kept.bound = Some((binding.node.to_string(), card));
                    } else {
                        world.binding_failed(&kept.uid);
                    }
                }
                Step::Show(place) => if let Some(kept) = &pods[place] {
                    world.pod(&kept.object);
                }
                Step::Leave(place) => if let Some(kept) = pods[place].take() {
                    world.remove_pod(&kept.uid);
                }
                Step::Decide => {
                    for admission in world.admissions() {
                        prop_assert!(admission.pin.is_none() && admission.mgpu_results.is_empty());
                        world.confirm(&admission.pod.uid);
                        let kept = pods.iter_mut().flatten().find(|kept| *kept.uid == *admission.pod.uid);
                        let kept = kept.expect("a pod that is there");
                        kept.object = kept.object.clone().ungated();
                        world.pod(&kept.object);
                    }
                }
                // What was under way is written or not, before the next leader lists.
                Step::Restart => {
                    world = fresh();
                    for (place, kept) in pods.iter_mut().flatten().enumerate() {
                        if let Some(binding) = kept.under_way.take() && place % 2 == 0 {
                            kept.object = bound(&kept.object, &binding);
                            let list = binding.mgpu_results.iter().find(|(key, _)| key == INDEX);
                            let card = list.and_then(|(_, card)| card.parse().ok()).expect("a card");
                            kept.bound = Some((binding.node.to_string(), card));
                        }
                        world.pod(&kept.object);
                    }
                }
                Step::Arrive(..) => {}
            }
            for (node, cards) in [("g1", 2), ("g2", 1)] {
                for card in 0..cards {
                    let there = pods.iter().flatten().filter(|kept| kept.bound == Some((node.to_owned(), card)));
                    let cores: Vec<_> = there.map(|kept| kept.core).collect();
                    prop_assert!(cores.iter().sum::<i64>() <= 100, "card {} of {} has {:?}", card, node, cores);
                }
            }
        }
        // When all is seen, exactly what is bound and expected counts, and the same after a restart.
        for kept in pods.iter_mut().flatten() {
            if kept.under_way.take().is_some() {
                world.binding_failed(&kept.uid);
            }
            world.pod(&kept.object);
        }
        let counted = |world: &World| {
            let bound = pods.iter().flatten().filter(|kept| kept.bound.is_some());
            let of = |node: &str| bound.clone().filter(|kept| kept.bound.as_ref().is_some_and(|(name, _)| name == node))
                .map(|kept| kept.core).sum::<i64>();
            NODES.map(|node| (cores(world, node).iter().sum::<i64>() >= of(node), of(node)))
        };
        for (at_least, _) in counted(&world) {
            prop_assert!(at_least);
        }
        let mut again = fresh();
        again.pods(pods.iter().flatten().map(|kept| kept.object.clone()));
        for (node, (_, expected)) in NODES.into_iter().zip(counted(&again)) {
            prop_assert_eq!(cores(&again, node).iter().sum::<i64>(), expected);
        }
    }
}
