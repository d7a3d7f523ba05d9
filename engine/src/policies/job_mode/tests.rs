//! **Job Enqueueable Check** and **Job Mode** with the document's own numbers, and against a search through every way to
//! hand cards out.

use proptest::prelude::*;

use super::*;
use crate::amounts::Amounts;
use crate::names::{Names, ResourceId};

/// A queue with three cards.
#[derive(Debug, Clone, Default)]
struct Scene {
    arguments: CapacityCard,
    quota: Vec<(Dimension, i64)>,
    allocated: Totals,
    inqueue: Vec<Demand>,
    elastic: Totals,
}

fn cards() -> [CardId; 3] {
    let mut names = Names::default();
    ["A100", "H100", "V100"].map(|name| names.card(name))
}

fn demand(entries: &[(&[usize], i64)]) -> Demand {
    let entries = entries
        .iter()
        .map(|(set, count)| (set.iter().map(|card| cards()[*card]).collect(), *count));
    Demand::new(Amounts::default(), entries)
}

impl Scene {
    fn quota(mut self, card: usize, count: i64) -> Self {
        self.quota.push((Dimension::Card(cards()[card]), count));
        self
    }

    fn allocated(mut self, card: usize, count: i128) -> Self {
        self.allocated.add(Dimension::Card(cards()[card]), count);
        self
    }

    fn reserved(mut self, demand: Demand) -> Self {
        self.inqueue.push(demand);
        self
    }

    fn with<T>(&self, judge: impl Fn(JobCheck<'_, &dyn Fn(Dimension) -> Option<i128>>) -> T) -> T {
        let quota: Amounts = self.quota.iter().copied().collect();
        let limit = |dimension| Some(quota.get(dimension).into());
        let inqueue = Inqueue::of(&self.inqueue);
        judge(JobCheck {
            arguments: &self.arguments,
            is_empty: self.quota.is_empty(),
            limit: &limit,
            loads: vec![Load {
                allocated: &self.allocated,
                inqueue: &inqueue,
                elastic: &self.elastic,
            }],
            own: Vec::new(),
        })
    }

    fn check(&self, demand: &Demand) -> Result<(), Reason> {
        self.with(|check| check.check(demand))
    }
}

#[test]
fn job_mode_example() {
    // A100=5, H100=3; allocated 2 and 1; `A100|H100` 4: 2 + 1 + 4 = 7 <= 8.
    let scene = Scene::default().quota(0, 5).quota(1, 3).allocated(0, 2).allocated(1, 1);
    let alternatives = |count| demand(&[(&[0, 1], count)]);
    let sums = scene.with(|check| check.cards(&alternatives(4), &[cards()[0], cards()[1]]));
    assert_eq!((sums.asked, sums.allocated, sums.quota), (4, 3, Some(8)));
    assert_eq!(scene.check(&alternatives(4)), Ok(()));
    assert_eq!(scene.check(&alternatives(5)), Ok(()));
    assert_eq!(scene.check(&alternatives(6)), Err(Reason::InsufficientScalarQuota));
}

#[test]
fn considerations_multi_card_scheduling() {
    // `A100|H100`: 6 of A100: 4, H100: 4 passes (6 <= 4 + 4), though neither has 6.
    let scene = Scene::default().quota(0, 4).quota(1, 4);
    assert_eq!(scene.check(&demand(&[(&[0, 1], 6)])), Ok(()));
    assert_eq!(scene.check(&demand(&[(&[0], 6)])), Err(Reason::InsufficientScalarQuota));
}

#[test]
fn example_1_basic_card_quota() {
    let scene = Scene::default().quota(0, 5);
    assert_eq!(scene.check(&demand(&[(&[0], 4)])), Ok(()));
    let scene = scene.reserved(demand(&[(&[0], 4)]));
    assert_eq!(scene.check(&demand(&[(&[0], 1)])), Ok(()));
    assert_eq!(scene.check(&demand(&[(&[0], 2)])), Err(Reason::InsufficientScalarQuota));
    assert_eq!(
        scene.check(&demand(&[(&[2], 1)])),
        Err(Reason::InsufficientScalarQuota),
        "a card without quota"
    );
}

#[test]
fn elastic_pods_do_not_stand_in_the_way() {
    // allocated + inqueue + minResources - elastic <= capability: 4 + 1 + 3 - 3 <= 5.
    let mut scene = Scene::default()
        .quota(0, 5)
        .allocated(0, 4)
        .reserved(demand(&[(&[0], 1)]));
    assert_eq!(scene.check(&demand(&[(&[0], 3)])), Err(Reason::InsufficientScalarQuota));
    scene.elastic.add(Dimension::Card(cards()[0]), 3);
    assert_eq!(scene.check(&demand(&[(&[0], 3)])), Ok(()));
    assert_eq!(scene.check(&demand(&[(&[0], 4)])), Err(Reason::InsufficientScalarQuota));
}

#[test]
fn reservations_of_requests_that_share_a_card_count() {
    let scene = Scene::default().quota(0, 2).quota(1, 2).quota(2, 2);
    // 3 of A|B leave one of A and B together: not two of B alone, and not three of B|C.
    let scene = scene.reserved(demand(&[(&[0, 1], 3)]));
    assert_eq!(scene.check(&demand(&[(&[1], 1)])), Ok(()));
    assert_eq!(scene.check(&demand(&[(&[1], 2)])), Err(Reason::InsufficientScalarQuota));
    assert_eq!(scene.check(&demand(&[(&[1, 2], 1)])), Ok(()));
    assert_eq!(
        scene.check(&demand(&[(&[1, 2], 2)])),
        Err(Reason::InsufficientScalarQuota)
    );
    assert_eq!(scene.check(&demand(&[(&[2], 2)])), Ok(()), "shares nothing");
    // The same alternatives in another order are the same.
    assert_eq!(scene.check(&demand(&[(&[1, 0], 1)])), Ok(()));
    assert_eq!(
        scene.check(&demand(&[(&[1, 0], 2)])),
        Err(Reason::InsufficientScalarQuota)
    );
}

#[test]
fn cpu_and_memory_unless_cards_stand_for_them() {
    let cpu = Dimension::Resource(ResourceId::CPU);
    let mut asked = demand(&[(&[0], 1)]);
    asked.resources = [(cpu, 4000)].into_iter().collect();
    let mut scene = Scene::default().quota(0, 1);
    scene.quota.push((cpu, 3000));
    assert_eq!(scene.check(&asked), Err(Reason::InsufficientCpuQuota));
    scene.arguments.card_unlimited_cpu_memory = true;
    assert_eq!(scene.check(&asked), Ok(()));
    asked.cards = Box::default();
    assert_eq!(
        scene.check(&asked),
        Err(Reason::InsufficientCpuQuota),
        "it asks for no cards"
    );
}

#[test]
fn a_queue_that_has_nothing_takes_nothing() {
    assert_eq!(Scene::default().check(&demand(&[])), Err(Reason::EmptyQueueCapability));
}

/// Whether cards can be handed out so that every demand is met; tries every way.
fn can_be_served(free: [i128; 3], demands: &[(Vec<usize>, i64)]) -> bool {
    let Some(((set, count), rest)) = demands.split_first() else {
        return true;
    };
    if *count == 0 {
        return can_be_served(free, rest);
    }
    set.iter().any(|card| {
        let mut free = free;
        free[*card] -= 1;
        let mut demands = demands.to_vec();
        demands[0].1 -= 1;
        free[*card] >= 0 && can_be_served(free, &demands)
    })
}

proptest! {
    /// What is let into a queue one after the other can be served all together. Alternatives that share no card with others are let in
    /// whenever they can be served.
    #[test]
    fn what_is_let_in_can_be_served(
        quota in prop::array::uniform3(0..4_i64),
        allocated in prop::array::uniform3(0..3_i128),
        requests in prop::collection::vec((prop::sample::subsequence(vec![0, 1, 2], 1..=3), 0..4_i64), 1..5),
    ) {
        let mut scene = Scene::default();
        let mut free = [0; 3];
        for card in 0..3 {
            let used = allocated[card].min(quota[card].into());
            scene = scene.quota(card, quota[card]).allocated(card, used);
            free[card] = i128::from(quota[card]) - used;
        }
        let mut let_in = Vec::new();
        for (set, count) in requests {
            let asked = demand(&[(&set, count)]);
            let alone = let_in.iter().all(|(other, _): &(Vec<usize>, i64)| set == *other || set.iter().all(|card| !other.contains(card)));
            let mut together = let_in.clone();
            together.push((set.clone(), count));
            let possible = can_be_served(free, &together);
            match scene.check(&asked) {
                Ok(()) => {
                    prop_assert!(possible, "{together:?} of {free:?}");
                    scene = scene.reserved(asked);
                    let_in = together;
                }
                Err(reason) => {
                    prop_assert_eq!(reason, Reason::InsufficientScalarQuota);
                    prop_assert!(!(possible && alone), "{:?} of {:?}", together, free);
                }
            }
        }
    }
}
