//! Any sequence of arrivals, admissions, refusals, releases and restarts: no card is oversold, and a restart counts the same.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NODES: [&str; 3] = ["g1", "g2", "g3"];
const CARDS: i64 = 3;
const MEMORY: i64 = 4000;

#[derive(Debug, Clone)]
enum Step {
    /// A pod comes: core and memory of its containers; 0 memory asks for full cards.
    Arrive(Vec<(i64, i64)>),
    /// The API server answers to an admission under way: whether it was written.
    Answer(usize, bool),
    /// An admitted pod is bound.
    Bind(usize),
    /// A pod that was let in is over.
    End(usize),
    /// Another operator takes over.
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let container = prop_oneof![
        4 => (1i64..10, 1i64..5).prop_map(|(core, memory)| (core * 10, memory * 500)),
        1 => (1i64..3).prop_map(|cards| (cards * 100, 0)),
    ];
    prop_oneof![
        4 => prop::collection::vec(container, 1..4).prop_map(Step::Arrive),
        3 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, written)| Step::Answer(which, written)),
        2 => any::<usize>().prop_map(Step::Bind),
        2 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Restart),
    ]
}

/// What the API server has.
struct Api {
    pods: BTreeMap<String, Object>,
    under_way: Vec<Admission>,
    /// Pods that are let in, with their node.
    admitted: Vec<(String, String)>,
}

fn fresh(api: &Api) -> World {
    let mut world = world(&[("MaxContainersPerCard", "3")]);
    world.pods(api.pods.values().cloned());
    for name in NODES {
        world.node(&node(name).mgpu(CARDS, MEMORY, FIXED));
    }
    world
}

fn run(steps: Vec<Step>) {
    let mut api = Api {
        pods: BTreeMap::new(),
        under_way: Vec::new(),
        admitted: Vec::new(),
    };
    let mut world = fresh(&api);
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Arrive(containers) => {
                let name = format!("p{number:03}");
                let pod = containers
                    .iter()
                    .enumerate()
                    .fold(pod(&name), |pod, (index, (core, memory))| match index {
                        0 => pod.share(*core, *memory),
                        _ => pod.container(&format!("c{index}"), *core, *memory),
                    });
                world.pod(&pod);
                api.pods.insert(name, pod);
            }
            Step::Answer(which, written) if !api.under_way.is_empty() => {
                let admission = api.under_way.remove(which % api.under_way.len());
                let name = admission.pod.name.to_string();
                if written {
                    let pod = after(&api.pods[&name], &admission);
                    world.confirm(&name);
                    world.pod(&pod);
                    api.pods.insert(name.clone(), pod);
                    api.admitted.push((name, admission.pin.unwrap().node.to_string()));
                } else {
                    let now = world.now;
                    world.refuse(&name, now);
                }
            }
            Step::Bind(which) if !api.admitted.is_empty() => {
                let (name, node) = api.admitted[which % api.admitted.len()].clone();
                let pod = api.pods[&name].clone().on(&node);
                world.pod(&pod);
                api.pods.insert(name, pod);
            }
            Step::End(which) if !api.admitted.is_empty() => {
                let (name, _) = api.admitted.remove(which % api.admitted.len());
                let over = api.pods.remove(&name).unwrap().phase("Succeeded");
                world.pod(&over);
                world.remove_pod(&name);
            }
            Step::Restart => {
                // What was under way was never written, or is seen so.
                api.under_way.clear();
                world = fresh(&api);
            }
            Step::Answer(..) | Step::Bind(_) | Step::End(_) => {}
        }
        // Shorter than an answer may take before the pod counts as waiting again: by then the write has long been given up.
        world.wait(1);
        api.under_way.extend(world.admissions());
        check(&world, &api);
    }
}

fn check(world: &World, api: &Api) {
    for name in NODES {
        for card in gpus(world, name) {
            assert!(
                card.core <= 100 && card.memory <= MEMORY && card.containers <= 3,
                "{name}: {card:?}"
            );
            assert!(card.core >= 0 && card.memory >= 0, "{name}: {card:?}");
        }
    }
    if api.under_way.is_empty() {
        let again = fresh(api);
        for name in NODES {
            assert_eq!(gpus(world, name), gpus(&again, name), "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_card_is_oversold_and_a_restart_counts_the_same(steps in prop::collection::vec(any_step(), 1..60)) {
        run(steps);
    }
}
