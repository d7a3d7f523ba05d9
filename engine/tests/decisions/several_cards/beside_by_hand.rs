//! Random pods that claim cards, request others beside them, or one of both, on random nodes: nothing is passed, and who waits could not run, as
//! counted by hand.

use proptest::prelude::*;

use super::beside::*;
use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// So many are claimed, and so many requested; none of the one or of the other, but not of both.
    Come(i64, i64),
    /// The scheduler gives what a pod was let in for.
    Place(usize),
    /// The last one that was let in, unless it was placed.
    Go,
}

#[derive(Debug)]
struct Held {
    claimed: i64,
    requested: i64,
    written: String,
    node: usize,
    /// What its claim was given, once the scheduler has placed it.
    status: Option<Value>,
}

/// What there is, counted by hand.
struct Book {
    /// Of each node, `A` by a device plugin and `M` by devices.
    nodes: Vec<(i64, i64)>,
    quota: (i64, i64),
    waiting: Vec<(String, i64, i64)>,
    held: Vec<(String, Held)>,
}

impl Book {
    fn sum(&self, of: impl Fn(&Held) -> bool) -> (i64, i64) {
        let held = self.held.iter().filter(|(_, held)| of(held));
        held.fold((0, 0), |sum, (_, held)| (sum.0 + held.requested, sum.1 + held.claimed))
    }

    fn fits(&self, node: usize, claimed: i64, requested: i64) -> bool {
        let (used, there) = (self.sum(|held| held.node == node), self.nodes[node]);
        used.0 + requested <= there.0 && used.1 + claimed <= there.1
    }

    fn could_run(&self, claimed: i64, requested: i64) -> bool {
        let used = self.sum(|_| true);
        let within = (requested == 0 || used.0 + requested <= self.quota.0)
            && (claimed == 0 || used.1 + claimed <= self.quota.1);
        within && (0..self.nodes.len()).any(|node| self.fits(node, claimed, requested))
    }

    fn furnish(&self) -> World {
        let mut world = World::with(configuration("", "unnamedCards: charge"));
        world.class(AMD, &format!("device.driver == '{AMD}'"), None);
        // Cards that nobody has are there once, far away.
        world.node(&node("far").cards("A", 1).cordoned());
        world.node(&node("farther").cordoned());
        world.slice("farther", AMD, &amds("M", 1));
        for (index, (by_plugin, devices)) in self.nodes.iter().enumerate() {
            let name = format!("n{index}");
            let on = if *by_plugin > 0 {
                node(&name).cards("A", *by_plugin)
            } else {
                node(&name)
            };
            world.node(&on);
            if *devices > 0 {
                world.slice(&name, AMD, &amds("M", usize::try_from(*devices).unwrap()));
            }
        }
        let quota = json!({"A": self.quota.0, "M": self.quota.1}).to_string();
        world.queue(&queue("team-a").quota(&quota));
        world
    }

    /// Devices of a node that nobody has, given to a claim.
    fn free(&self, node: usize, count: i64) -> Value {
        let placed = self
            .held
            .iter()
            .filter(|(_, held)| held.status.is_some() && held.node == node);
        let used: i64 = placed.map(|(_, held)| held.claimed).sum();
        let result = |index| json!({"request": "r", "driver": AMD, "pool": format!("n{node}"), "device": format!("gpu-{index}")});
        json!({"allocation": {"devices": {"results": (used..used + count).map(result).collect::<Value>()}}})
    }
}

fn asks(name: &str, claimed: i64, requested: i64, pod: Object) -> Object {
    let pod = if claimed > 0 { claiming(pod, name) } else { pod };
    if requested > 0 {
        pod.requests(GPU, &requested.to_string())
    } else {
        pod
    }
}

fn step() -> impl Strategy<Value = Step> {
    let asked = (0..3_i64, 0..3_i64).prop_filter("of something", |(claimed, requested)| claimed + requested > 0);
    prop_oneof![
        4 => asked.prop_map(|(claimed, requested)| Step::Come(claimed, requested)),
        2 => (0..100_usize).prop_map(Step::Place),
        1 => Just(Step::Go),
    ]
}

proptest! {
    #[test]
    fn who_waits_could_not_run_and_nothing_is_passed(
        nodes in prop::collection::vec((0..4_i64, 0..4_i64), 1..4),
        quota in (0..6_i64, 0..6_i64),
        steps in prop::collection::vec(step(), 1..16),
    ) {
        let mut book = Book { nodes, quota, waiting: Vec::new(), held: Vec::new() };
        let mut world = book.furnish();
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come(claimed, requested) => {
                    let name = format!("p{index:02}");
                    if claimed > 0 {
                        world.claim(&name, &claim_of(claimed, "M"), &json!({}));
                    }
                    world.pod(&asks(&name, claimed, requested, pod(&name)));
                    book.waiting.push((name, claimed, requested));
                }
                Step::Place(which) => {
                    let open: Vec<_> = (0..book.held.len()).filter(|place| book.held[*place].1.status.is_none()).collect();
                    if let Some(place) = open.get(which % open.len().max(1)) {
                        let (name, held) = &book.held[*place];
                        let gated = asks(name, held.claimed, held.requested, pod(name));
                        world.seen_admitted(&gated, name, Some(&held.written));
                        let status = book.free(held.node, held.claimed);
                        if held.claimed > 0 {
                            world.claim(name, &claim_of(held.claimed, "M"), &status);
                        }
                        world.pod(&gated.ungated().assigned(&held.written).on(&format!("n{}", held.node)));
                        book.held[*place].1.status = Some(status);
                    }
                }
                Step::Go => {
                    if let Some((name, _)) = book.held.pop_if(|(_, held)| held.status.is_none()) {
                        world.remove_pod(&name);
                        world.remove_claim(&name);
                    }
                }
            }
            for admission in world.admissions() {
                let name = admission.pod.name.to_string();
                let place = book.waiting.iter().position(|(waiting, ..)| *waiting == name).unwrap();
                let (_, claimed, requested) = book.waiting.remove(place);
                prop_assert!(book.could_run(claimed, requested), "{} is let in", name);
                let node: usize = on(&world, &name).unwrap()[1..].parse().unwrap();
                prop_assert!(book.fits(node, claimed, requested), "{} on n{}", name, node);
                let held = Held { claimed, requested, written: admission.card.unwrap().to_string(), node, status: None };
                book.held.push((name, held));
            }
            for (name, claimed, requested) in &book.waiting {
                prop_assert!(!book.could_run(*claimed, *requested), "{} waits, and could run", name);
            }
            let used = book.sum(|_| true);
            prop_assert_eq!(charged(&world), (used.0.into(), used.1.into()));
        }
        let mut later = book.furnish();
        for (name, held) in &book.held {
            let runs = asks(name, held.claimed, held.requested, bare_pod(name).queue("team-a").assigned(&held.written));
            if held.claimed > 0 {
                later.claim(name, &claim_of(held.claimed, "M"), &held.status.clone().unwrap_or_else(|| json!({})));
            }
            later.pod(&match held.status {
                Some(_) => runs.on(&format!("n{}", held.node)),
                None => runs,
            });
        }
        let used = book.sum(|_| true);
        prop_assert_eq!(charged(&later), (used.0.into(), used.1.into()));
    }
}
