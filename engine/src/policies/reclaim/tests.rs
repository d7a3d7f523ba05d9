//! Victim selection against exhaustive search.

use proptest::prelude::*;

use super::*;

/// Selects with as many steps as one search may have.
fn select(needs: &[i128], slack: &[i128], candidates: &[Candidate]) -> Option<Vec<usize>> {
    select_that(needs, slack, candidates, &|_| true)
}

fn select_that(
    needs: &[i128],
    slack: &[i128],
    candidates: &[Candidate],
    suffices: &dyn Fn(&[usize]) -> bool,
) -> Option<Vec<usize>> {
    super::select(needs, slack, candidates, suffices, &Steps::new(u64::MAX))
}

/// A pod that gives this much of the only need, and takes as much from the only queue.
fn pod(priority: i32, amount: i128) -> Candidate {
    Candidate {
        priority,
        pods: 1,
        gives: vec![(0, amount)],
        takes: vec![(0, amount)],
        apart: None,
    }
}

#[test]
fn one_pod_is_taken_where_one_is_enough() {
    let candidates = [pod(0, 1), pod(0, 1), pod(0, 1), pod(0, 4)];
    assert_eq!(select(&[3], &[10], &candidates), Some(vec![3]));
    assert_eq!(select(&[1], &[10], &candidates), Some(vec![0]), "the youngest");
    assert_eq!(select(&[5], &[10], &candidates), Some(vec![0, 3]));
}

#[test]
fn lower_priorities_go_first_also_where_they_are_more_pods() {
    let candidates = [pod(0, 1), pod(0, 1), pod(5, 4)];
    assert_eq!(select(&[2], &[10], &candidates), Some(vec![0, 1]));
    assert_eq!(
        select(&[3], &[10], &candidates),
        Some(vec![2]),
        "with the one of priority 5 no other is needed"
    );
}

#[test]
fn nobody_falls_below_what_he_must_keep() {
    let candidates = [pod(0, 2), pod(0, 2), pod(0, 2)];
    assert_eq!(select(&[4], &[4], &candidates), Some(vec![0, 1]));
    assert_eq!(select(&[4], &[3], &candidates), None);
    assert_eq!(select(&[7], &[10], &candidates), None, "all together are not enough");
}

#[test]
fn what_gives_nothing_that_is_missing_is_left_alone() {
    let useless = Candidate {
        priority: 0,
        pods: 1,
        gives: vec![],
        takes: vec![],
        apart: None,
    };
    assert_eq!(select(&[1], &[9], &[useless.clone(), pod(9, 1)]), Some(vec![1]));
    assert_eq!(select(&[1], &[9], &[useless]), None);
    assert_eq!(select(&[0], &[9], &[pod(0, 1)]), Some(vec![]), "nothing is missing");
}

#[test]
fn a_gang_goes_as_a_whole_or_down_to_its_minimum() {
    // 3 pods of 2 each, of which 2 must stay, as single pods and as a whole; and an expensive pod of another queue.
    let single = Candidate {
        takes: vec![(0, 2), (1, 1)],
        ..pod(0, 2)
    };
    let whole = Candidate {
        priority: 0,
        pods: 3,
        gives: vec![(0, 6)],
        takes: vec![(0, 6), (1, 1)],
        apart: None,
    };
    let candidates = [single.clone(), single.clone(), single, whole, pod(1, 4)];
    assert_eq!(select(&[2], &[6, 1], &candidates), Some(vec![0]));
    assert_eq!(select(&[4], &[6, 1], &candidates), Some(vec![3]), "not two of three");
    assert_eq!(
        select(&[4], &[5, 1], &candidates),
        Some(vec![4]),
        "the queue must keep one"
    );
}

#[test]
fn many_equal_candidates_are_chosen_from_quickly() {
    let candidates: Vec<_> = (0..5_000).map(|_| pod(0, 1)).collect();
    let needs = [40];
    assert_eq!(select(&needs, &[5_000], &candidates), Some((0..40).collect()));
    let mixed: Vec<_> = (0..200).map(|index| pod(0, 1 + index % 7)).collect();
    let chosen = select(&[101], &[5_000], &mixed).unwrap();
    let given: i128 = chosen.iter().map(|index| mixed[*index].gives[0].1).sum();
    assert!(given >= 101, "{chosen:?}");
    for one in &chosen {
        assert!(given - mixed[*one].gives[0].1 < 101, "{one} is not needed");
    }
}

fn exhaustive(
    needs: &[i128],
    slack: &[i128],
    candidates: &[Candidate],
    suffices: &dyn Fn(&[usize]) -> bool,
) -> Option<Vec<usize>> {
    let sets = (0_u32..1 << candidates.len()).map(|bits| {
        let members = (0..candidates.len()).filter(|index| bits & (1 << index) != 0);
        members.collect::<Vec<_>>()
    });
    let fits = |set: &Vec<usize>| {
        let total = |of: fn(&Candidate) -> &Vec<(usize, i128)>, place: usize| -> i128 {
            let all = set.iter().flat_map(|index| of(&candidates[*index]));
            all.filter(|(at, _)| *at == place).map(|(_, amount)| amount).sum()
        };
        (0..needs.len()).all(|place| total(|one| &one.gives, place) >= needs[place])
            && (0..slack.len()).all(|place| {
                let taken = total(|one| &one.takes, place);
                taken == 0 || taken <= slack[place]
            })
            && suffices(set)
    };
    sets.filter(fits).min_by_key(|set| cost(set, candidates))
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let amounts = || prop::collection::vec((0..3_usize, 1..4_i128), 0..3);
    let one = (0..3_i32, 1..3_usize, amounts(), amounts()).prop_map(|(priority, pods, gives, takes)| Candidate {
        priority,
        pods,
        gives,
        takes,
        apart: None,
    });
    prop::collection::vec(one, 0..8).prop_map(|mut candidates| {
        candidates.sort_by_key(|candidate| candidate.priority);
        candidates
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_set_is_the_one_that_exhaustive_search_finds(
        candidates in candidates(),
        needs in prop::collection::vec(0..6_i128, 3),
        slack in prop::collection::vec(0..8_i128, 3),
    ) {
        let expected = exhaustive(&needs, &slack, &candidates, &|_| true);
        prop_assert_eq!(select(&needs, &slack, &candidates), expected);
    }

    /// Sums don't decide whether a set suffices: it has to include one of some given sets, as where cards of a node must come free together.
    #[test]
    fn the_set_suffices_beyond_sums_and_is_the_one_that_exhaustive_search_finds(
        candidates in candidates(),
        needs in prop::collection::vec(0..4_i128, 3),
        slack in prop::collection::vec(0..8_i128, 3),
        wanted in prop::collection::vec(1_u32..256, 1..4),
    ) {
        let mut candidates = candidates;
        for (rank, candidate) in candidates.iter_mut().enumerate() {
            candidate.apart = Some(rank);
        }
        let suffices = |set: &[usize]| {
            let bits = set.iter().fold(0_u32, |bits, index| bits | 1 << index);
            wanted.iter().any(|wanted| bits & wanted == *wanted)
        };
        let expected = exhaustive(&needs, &slack, &candidates, &suffices);
        prop_assert_eq!(select_that(&needs, &slack, &candidates, &suffices), expected.clone());
        // Without steps for a search, a sufficient set is found unless floors are in the way, and none of its candidates is superfluous.
        let free = vec![i128::MAX; 3];
        let put_together = super::select(&needs, &free, &candidates, &suffices, &Steps::new(0));
        prop_assert_eq!(put_together.is_some(), exhaustive(&needs, &free, &candidates, &suffices).is_some());
        for one in put_together.iter().flatten() {
            let rest: Vec<_> = put_together.iter().flatten().copied().filter(|other| other != one).collect();
            let gives = |place| rest.iter().map(|index| given(&candidates[*index], place)).sum::<i128>();
            let is_enough = (0..3).all(|place| gives(place) >= needs[place]) && suffices(&rest);
            prop_assert!(!is_enough, "{} is there in vain", one);
        }
    }
}
