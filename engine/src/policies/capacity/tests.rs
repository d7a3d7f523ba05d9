//! The capacity documents' formulas, with tests named after the sections.

use proptest::prelude::*;

use super::*;

/// Returns the place of the level without room.
fn check(levels: impl IntoIterator<Item = Level>, asked: i128) -> Result<(), usize> {
    super::check(levels, asked).map_err(|(place, _)| place)
}

/// A queue without children.
fn leaf(allocated: i128, guarantee: i128, limit: Option<i128>) -> Level {
    Level {
        allocated,
        used: allocated,
        guarantee,
        limit,
    }
}

#[test]
fn real_capability_is_less_or_equal_capability() {
    assert_eq!(real_capability(Some(8), Some(10), 0, 0), Some(8));
    assert_eq!(
        real_capability(Some(8), Some(10), 4, 0),
        Some(6),
        "10 less what others are guaranteed"
    );
    assert_eq!(real_capability(None, Some(10), 4, 0), Some(6), "up to the cluster");
    assert_eq!(real_capability(Some(8), None, 4, 0), Some(8));
    assert_eq!(real_capability(None, None, 4, 0), None);
}

#[test]
fn a_lost_node_takes_nobodys_guarantee_to_zero() {
    // Two queues with 4 guaranteed each, and 4 left in the cluster.
    assert_eq!(real_capability(None, Some(4), 4, 4), Some(4));
    assert_eq!(real_capability(None, Some(4), 8, 0), Some(0), "never negative");
}

#[test]
fn dynamic_resource_calculation_deserved() {
    // deserved = min(capability, max(guarantee, request))
    assert_eq!(deserved(Some(10), 2, None, 5), 5);
    assert_eq!(deserved(Some(10), 2, None, 1), 2);
    assert_eq!(deserved(Some(10), 2, None, 50), 10);
    // Where the spec says what is deserved, that replaces the request.
    assert_eq!(deserved(Some(10), 2, Some(4), 50), 4);
    assert_eq!(deserved(Some(10), 6, Some(4), 0), 6);
    assert_eq!(deserved(Some(3), 0, Some(4), 0), 3);
    assert_eq!(deserved(None, 0, Some(0), 9), 0, "0 is said, too");
}

#[test]
fn section_4_guarantee_threshold() {
    assert!(!is_above_threshold(80, 100, 80));
    assert!(is_above_threshold(81, 100, 80));
    assert!(is_above_threshold(1, 100, 0));
    assert!(!is_above_threshold(0, 0, 0));
    assert!(is_above_threshold(1, 0, 80), "what a lost node leaves in use");
}

#[test]
fn resource_check_logic_future_used_within_real_capability() {
    // futureUsed = allocated + candidate <= realCapability
    assert_eq!(check([leaf(6, 0, Some(8))], 2), Ok(()));
    assert_eq!(check([leaf(6, 0, Some(8))], 3), Err(0));
    assert_eq!(check([leaf(600, 0, None)], 3), Ok(()));
    assert_eq!(
        check([leaf(9, 0, Some(8))], 0),
        Ok(()),
        "what is not asked for is not limited"
    );
}

#[test]
fn multi_layer_check_names_the_level_without_room() {
    let levels = |parent, root| [leaf(2, 0, Some(8)), leaf(5, 0, parent), leaf(7, 0, root)];
    assert_eq!(check(levels(Some(7), Some(9)), 2), Ok(()));
    assert_eq!(check(levels(Some(6), Some(9)), 2), Err(1));
    assert_eq!(check(levels(Some(7), Some(8)), 2), Err(2));
    assert_eq!(check(levels(None, None), 6), Ok(()));
    assert_eq!(check(levels(None, None), 7), Err(0));
}

#[test]
fn guarantee_is_kept_free_and_not_lent_to_others() {
    // 8 in all; 4 are guaranteed to a queue that uses 1, another uses 3: 1 is left to borrow.
    let cluster = Level {
        allocated: 4,
        used: 7,
        guarantee: 0,
        limit: Some(8),
    };
    assert_eq!(check([leaf(3, 0, None), cluster], 1), Ok(()));
    assert_eq!(check([leaf(3, 0, None), cluster], 2), Err(1));
    // The queue can get its own guarantee, and 1 more.
    assert_eq!(check([leaf(1, 4, None), cluster], 4), Ok(()));
    assert_eq!(check([leaf(1, 4, None), cluster], 5), Err(1));
}

#[test]
fn a_guarantee_does_not_open_an_ancestors_capability() {
    // The parent's capability was lowered to 5, which another child uses.
    let parent = Level {
        allocated: 5,
        used: 9,
        guarantee: 4,
        limit: Some(5),
    };
    assert_eq!(check([leaf(0, 4, None), parent], 1), Err(1));
}

/// A queue of a random tree: its parent, which comes before it in the list; what its spec says, and what its own pods have.
#[derive(Debug, Clone)]
struct Node {
    parent: Option<usize>,
    guarantee: i128,
    limit: Option<i128>,
    own: i128,
}

fn trees() -> impl Strategy<Value = Vec<Node>> {
    let node = (
        any::<prop::sample::Index>(),
        0..4_i128,
        prop::option::of(0..12_i128),
        0..3_i128,
    );
    prop::collection::vec(node, 1..7).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate();
        let nodes = nodes.map(|(index, (parent, guarantee, limit, own))| Node {
            parent: (index > 0).then(|| parent.index(index)),
            guarantee,
            limit,
            own,
        });
        nodes.collect()
    })
}

/// Returns what the rules say of one level, counted from scratch.
fn level(nodes: &[Node], index: usize) -> Level {
    let children = (0..nodes.len()).filter(|child| nodes[*child].parent == Some(index));
    let (mut allocated, mut used) = (nodes[index].own, nodes[index].own);
    for child in children.map(|child| level(nodes, child)) {
        allocated += child.allocated;
        used += held(child.used, child.guarantee);
    }
    Level {
        allocated,
        used,
        guarantee: nodes[index].guarantee,
        limit: nodes[index].limit,
    }
}

fn path(nodes: &[Node], leaf: usize) -> Vec<usize> {
    std::iter::successors(Some(leaf), |index| nodes[*index].parent).collect()
}

proptest! {
    /// The free amount is the most that the check lets in.
    #[test]
    fn what_is_free_can_be_had_and_no_more(nodes in trees(), leaf in any::<prop::sample::Index>()) {
        let path = path(&nodes, leaf.index(nodes.len()));
        let levels = || path.iter().map(|index| level(&nodes, *index));
        let had = (1..100_i128).take_while(|asked| check(levels(), *asked).is_ok()).last().unwrap_or(0);
        let free = free(levels()).unwrap_or(i128::MAX);
        prop_assert_eq!(had, free.clamp(0, 99));
    }

    /// What is let in leaves every ancestor within its limit. It takes nothing that is kept free for a sibling, unless there was not enough
    /// of that before.
    #[test]
    fn what_is_let_in_exceeds_no_limit_and_no_guarantee_of_others(nodes in trees(), leaf in any::<prop::sample::Index>(), asked in 1..6_i128) {
        let leaf = leaf.index(nodes.len());
        let path = path(&nodes, leaf);
        let verdict = check(path.iter().map(|index| level(&nodes, *index)), asked);
        let mut after = nodes.clone();
        after[leaf].own += asked;
        // Counted from scratch: within every limit as really allocated, and within it including what is kept free for others, unless nothing
        // of that has changed.
        let fits = |index: usize| {
            let (before, after) = (level(&nodes, index), level(&after, index));
            after.limit.is_none_or(|limit| {
                after.allocated <= limit && (after.used <= limit || after.used == before.used)
            })
        };
        prop_assert_eq!(verdict, path.iter().position(|index| !fits(*index)).map_or(Ok(()), Err));
    }
}
