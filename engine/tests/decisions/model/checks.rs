//! The operator's cluster against the reference's picture.

use std::collections::{BTreeMap, BTreeSet};

use engine::amounts::{Dimension, Totals};
use engine::cluster::Tally;
use engine::names::Names;
use engine::reason::Reason;

use super::reference::{Amounts, Stage};
use super::run::Run;
use super::steps::{node_name, queue_name};

/// Reasons that come and go with what others hold; the last one found stays until something better is possible.
const OF_THE_MOMENT: [&str; 5] = [
    "InsufficientCPUQuota",
    "InsufficientMemoryQuota",
    "InsufficientScalarQuota",
    "NoNodeFits",
    "NodesExcluded",
];

fn named(totals: &Totals, names: &Names) -> Amounts {
    let amounts = totals.iter().map(|(dimension, amount)| match dimension {
        Dimension::Resource(resource) => (names.resource_name(resource).to_owned(), amount),
        Dimension::Card(card) => (format!("card {}", names.card_name(card)), amount),
    });
    amounts.collect()
}

impl Run {
    pub fn check(&self) {
        for world in 0..2 {
            self.check_ledger(world);
            self.check_cards(world);
            self.check_waiting(world);
        }
    }

    /// The ledger equals a recount.
    fn check_ledger(&self, world: usize) {
        let cluster = &self.worlds[world].cluster;
        for index in 0..3 {
            let name = queue_name(index);
            let Some(id) = cluster.queue_named(&name) else {
                assert_eq!(self.picture.pods_of(index).count(), 0, "{name} is forgotten");
                continue;
            };
            let queue = cluster.queue(id);
            assert_eq!(
                named(&queue.allocated, cluster.names()),
                self.picture.allocated(index),
                "{name} has allocated"
            );
            assert_eq!(
                queue.holders.len(),
                self.picture.admitted(index),
                "pods admitted in {name}"
            );
            let requested = named(queue.waiting.requested(), cluster.names());
            assert_eq!(requested, self.picture.requested(index), "requested of {name}");
        }
        for index in 0..5 {
            let name = node_name(index);
            let (used, pods) = cluster.node_named(&name).map_or_else(Default::default, |id| {
                let node = cluster.node(id);
                (named(&node.used, cluster.names()), node.pods.len())
            });
            assert_eq!(used, self.picture.used(index), "used of {name}");
            let expected = self.picture.pods.values().filter(|pod| pod.room == Some(index));
            assert_eq!(pods, expected.count(), "pods on {name}");
        }
        assert_eq!(cluster.pods().count(), self.picture.pods.len());
    }

    /// Cards are tallied as a recount of the nodes says.
    fn check_cards(&self, world: usize) {
        let cluster = &self.worlds[world].cluster;
        let mut recount = BTreeMap::<_, Tally>::new();
        for id in cluster.nodes_by_name() {
            let node = cluster.node(*id);
            let offer = node.offer().expect("a node that is there says something");
            for card in &offer.cards {
                let used = node.used.get(Dimension::Resource(card.resource));
                let tally = recount.entry((card.card, card.resource)).or_default();
                let free = i128::from(card.found.count) - used;
                tally.nodes += 1;
                tally.total += i128::from(card.found.count);
                tally.used += used;
                tally.free += if offer.is_usable() { free.max(0) } else { 0 };
                let there = cluster.pods().filter(|pod| pod.room == Some(*id));
                let charges =
                    there.filter_map(|pod| Some(pod.charge.as_ref()?.amounts.get(Dimension::Card(card.card))));
                let accounted: i128 = charges.map(i128::from).sum();
                tally.unaccounted += (used - accounted).max(0);
            }
        }
        let cards = recount.keys().map(|(card, _)| *card).collect::<BTreeSet<_>>();
        let tallied = cards.into_iter().flat_map(|card| {
            let tallies = &cluster.card(card).expect("a card that nodes have is known").tallies;
            tallies.iter().map(move |(resource, tally)| ((card, *resource), *tally))
        });
        assert_eq!(tallied.collect::<BTreeMap<_, _>>(), recount, "cards on nodes");
    }

    /// No pod is lost: whoever is in line is in one group, with its reason; nobody else is in any.
    fn check_waiting(&self, world: usize) {
        let cluster = &self.worlds[world].cluster;
        let mut places = BTreeMap::<String, Vec<(String, &'static str, bool)>>::new();
        for (_, queue) in cluster.queues() {
            let mut count = 0;
            for (_, peers) in queue.waiting.peers() {
                assert!(!peers.pods.is_empty(), "an empty group");
                assert!(peers.untold.is_subset(&peers.pods));
                count += peers.pods.len();
                let reason = peers.refused.expect("what waits has been refused").reason.as_str();
                for place in &peers.pods {
                    let pod = cluster.pod(place.pod).expect("a pod that is gone waits");
                    let entry = (queue.name.to_string(), reason, peers.untold.contains(place));
                    places.entry(pod.uid.to_string()).or_default().push(entry);
                }
            }
            assert_eq!(queue.waiting.len(), count);
        }
        for (uid, pod) in &self.picture.pods {
            let known = self.worlds[world].known(uid);
            assert_eq!(known.told.map(Reason::as_str), pod.told, "{uid} was told");
            let stage = match known.stage {
                engine::cluster::pod::Stage::Waiting => "waiting",
                engine::cluster::pod::Stage::Blocked => "held",
                engine::cluster::pod::Stage::Admitting { .. } => "admitting",
                engine::cluster::pod::Stage::Unbound { .. } => "unbound",
                engine::cluster::pod::Stage::Bound => "bound",
            };
            let expected = match pod.stage {
                Stage::Waiting => "waiting",
                Stage::Blocked => "held",
                Stage::Admitting { .. } => "admitting",
                Stage::Unbound { .. } => "unbound",
                Stage::Bound => "bound",
            };
            assert_eq!(stage, expected, "stage of {uid}");
            let found = places.remove(uid).unwrap_or_default();
            if !pod.is_in_line() {
                assert_eq!(found, [], "{uid} does not wait in line");
                continue;
            }
            let [(queue, reason, untold)] = &found[..] else {
                panic!("{uid} is in line once: {found:?}")
            };
            assert_eq!(*queue, queue_name(pod.spec.queue));
            assert!(*untold || pod.told == Some(*reason), "{uid} is never told {reason}");
            match self.picture.judge(&pod.spec) {
                Ok(card) => panic!("{uid} could be let in with {card:?}"),
                Err(expected) if OF_THE_MOMENT.contains(&expected) || expected == "no node" => {
                    // What was lacking first may come free and go again while there is no card to be charged for.
                    let no_card = *reason == "NoCardQuota" && self.picture.named(&pod.spec).is_empty();
                    assert!(
                        no_card || OF_THE_MOMENT.contains(reason),
                        "{uid} waits for {reason}, not {expected}"
                    );
                }
                Err(expected) => assert_eq!(*reason, expected, "{uid} waits"),
            }
        }
        assert_eq!(places, BTreeMap::new(), "pods in line that nobody knows");
    }
}
