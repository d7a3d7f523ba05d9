//! The document's examples with their numbers, every combination of sources, and scores against exact fractions.

use std::cmp::Ordering;

use crds::scoring_strategy::ScoringStrategy::{self, LeastAllocated, MostAllocated};
use num_bigint::BigInt;
use proptest::prelude::*;

use super::score::{FIRST_BITS, ROUGHNESS, roughly};
use super::*;

const GI: i64 = 1 << 30;

fn line(quota: i64, used: i64) -> Line {
    Line {
        quota,
        used: used.into(),
        assumed: 0,
    }
}

#[test]
fn predicate_function_example() {
    let node = [line(32_000, 28_000), line(64 * GI, 50 * GI)];
    // 28000 + 6000 = 34000 > 32000: CPU, and memory would pass.
    assert_eq!(exceeded(&node, &[6_000, 10 * GI]), Some(0));
    assert_eq!(exceeded(&node, &[4_000, 10 * GI]), None);
    assert_eq!(exceeded(&node, &[4_000, 14 * GI + 1]), Some(1));
    assert_eq!(exceeded(&node, &[4_000, 14 * GI]), None, "exactly the quota fits");
}

#[test]
fn predicate_function_counts_what_is_assumed() {
    let node = [Line {
        assumed: 1_000,
        ..line(4_000, 2_000)
    }];
    assert_eq!(exceeded(&node, &[1_000]), None);
    assert_eq!(exceeded(&node, &[1_001]), Some(0));
}

#[test]
fn above_its_quota_a_node_takes_no_pod_at_all() {
    // The algorithm compares every quota resource, also those that the pod does not ask for.
    assert_eq!(exceeded(&[line(4_000, 1_000), line(GI, 2 * GI)], &[1_000, 0]), Some(1));
}

fn score(strategy: ScoringStrategy, node: &[Line], request: &[i64], weights: &[u32], weight: u32, scale: u32) -> i64 {
    let scoring = Scoring {
        strategy,
        weights,
        request,
    };
    scoring.rounded(&scoring.score_of(node), weight, scale)
}

#[test]
fn most_allocated_strategy_example() {
    let node = [line(32_000, 24_000), line(64 * GI, 40 * GI)];
    let request = [4_000, 8 * GI];
    // CPU 8.75, memory 0.75, normalised 0.864, final 8.64.
    assert_eq!(
        score(MostAllocated, &node, &request, &[10, 0], 100, 100),
        8_750,
        "CPU alone"
    );
    assert_eq!(
        score(MostAllocated, &node, &request, &[0, 1], 100, 100),
        7_500,
        "memory alone"
    );
    assert_eq!(score(MostAllocated, &node, &request, &[10, 1], 1, 1000), 864);
    assert_eq!(score(MostAllocated, &node, &request, &[10, 1], 10, 100), 864);
}

#[test]
fn least_allocated_strategy_example() {
    let node = [line(32_000, 8_000), line(64 * GI, 16 * GI)];
    let request = [4_000, 8 * GI];
    // CPU 6.25, memory 0.625, normalised 0.625, final 6.25.
    assert_eq!(score(LeastAllocated, &node, &request, &[10, 1], 1, 1000), 625);
    assert_eq!(score(LeastAllocated, &node, &request, &[10, 1], 10, 100), 625);
}

#[test]
fn halves_are_rounded_up_also_where_no_digit_shows_them() {
    // 1/3 + 1/6 of one: no finite sum of binary digits is a half.
    let node = [line(3, 0), line(6, 0)];
    assert_eq!(
        score(MostAllocated, &node, &[1, 1], &[1, 1], 2, 1),
        1,
        "(1/3 + 1/6) / 2 x 2 = 1/2"
    );
    assert_eq!(
        score(
            MostAllocated,
            &[line(1_000_000_000_000, 0)],
            &[499_999_999_999],
            &[1],
            1,
            1
        ),
        0
    );
    assert_eq!(
        score(
            MostAllocated,
            &[line(1_000_000_000_000, 0)],
            &[500_000_000_000],
            &[1],
            1,
            1
        ),
        1
    );
}

#[test]
fn a_quota_of_zero_scores_nothing_and_keeps_its_weight() {
    let node = [line(1_000, 500), line(0, 0)];
    assert_eq!(score(MostAllocated, &node, &[0, 0], &[1, 1], 100, 1), 25);
    assert_eq!(score(LeastAllocated, &node, &[0, 0], &[1, 1], 100, 1), 25);
}

#[test]
fn resources_that_the_pod_does_not_ask_for_count() {
    let node = [line(1_000, 0), line(1_000, 500)];
    assert_eq!(score(MostAllocated, &node, &[500, 0], &[1, 3], 100, 1), 50);
}

#[test]
fn without_any_weight_every_node_scores_the_same() {
    assert_eq!(score(MostAllocated, &[line(4, 3)], &[1], &[0], 10, 1), 0);
    assert_eq!(score(MostAllocated, &[line(4, 3)], &[1], &[10], 0, 1), 0);
}

#[test]
fn configuration_priority_in_all_32_combinations() {
    const ALLOCATABLE: i64 = 100_000;
    let sources = [
        (Source::NodeQuota, 10_000),
        (Source::NodePercentage, 20_000),
        (Source::Quota, 30_000),
        (Source::Percentage, 40_000),
    ];
    // The fifth source is the node's allocatable; without it the node has none of the resource.
    for present in 0..32_u32 {
        let has = |place: usize| present & 1 << place != 0;
        let allocatable = if has(4) { ALLOCATABLE } else { 0 };
        let resource = QuotaResource {
            name: "cpu".into(),
            quota: has(2).then_some(30_000),
            percentage: has(3).then(|| Percentage::parse("40").unwrap()),
            weight: 1,
        };
        let annotation = |key: &str| match key {
            "volcano.sh/crossquota-cpu" if has(0) => Some("10"),
            "volcano.sh/crossquota-percentage-cpu" if has(1) => Some("20"),
            _ => None,
        };
        let mut bad = Vec::new();
        let found = quota(&resource, allocatable, annotation, &mut bad);
        let first = (0..4).find(|place| has(*place)).map(|place| sources[place]);
        let (source, amount) = first.unwrap_or((Source::Allocatable, ALLOCATABLE));
        let amount = amount.min(allocatable);
        assert_eq!(found, Quota { amount, source }, "{present:05b}");
        assert_eq!(bad, []);
    }
}

#[test]
fn a_bad_annotation_falls_through_to_the_next_source_and_is_kept() {
    for bad_quota in ["", "-1", "many", "99999999999999999999"] {
        for bad_percentage in ["0", "-5", "101", "50%", "half"] {
            let annotation = |key: &str| match key {
                "volcano.sh/crossquota-memory" => Some(bad_quota),
                "volcano.sh/crossquota-percentage-memory" => Some(bad_percentage),
                _ => None,
            };
            let resource = QuotaResource {
                name: "memory".into(),
                quota: Some(7),
                percentage: None,
                weight: 1,
            };
            let mut bad = Vec::new();
            let found = quota(&resource, 100, annotation, &mut bad);
            assert_eq!(
                (found.amount, found.source),
                (7, Source::Quota),
                "{bad_quota} {bad_percentage}"
            );
            let keys: Vec<_> = bad.iter().map(|bad| bad.key.as_str()).collect();
            assert_eq!(
                keys,
                [
                    "volcano.sh/crossquota-memory",
                    "volcano.sh/crossquota-percentage-memory"
                ]
            );
        }
    }
}

#[test]
fn quotas_are_capped_at_allocatable() {
    let resource = QuotaResource {
        name: "cpu".into(),
        quota: Some(64_000),
        percentage: None,
        weight: 1,
    };
    let found = quota(&resource, 32_000, |_| None, &mut Vec::new());
    assert_eq!((found.amount, found.source), (32_000, Source::Quota));
    let annotation = |key: &str| (key == "volcano.sh/crossquota-cpu").then_some(" 48 ");
    assert_eq!(quota(&resource, 32_000, annotation, &mut Vec::new()).amount, 32_000);
}

/// A fraction of any size, with a positive denominator.
#[derive(Debug, Clone)]
struct Fraction(BigInt, BigInt);

impl Fraction {
    fn compare(&self, other: &Self) -> Ordering {
        (&self.0 * &other.1).cmp(&(&other.0 * &self.1))
    }
}

/// The document's `calculateScore`, word by word, in fractions.
fn reference(
    strategy: ScoringStrategy,
    node: &[Line],
    request: &[i64],
    weights: &[u32],
    plugin_weight: u32,
) -> Fraction {
    let mut score = Fraction(0.into(), 1.into());
    let mut total_weight = BigInt::from(0);
    for ((line, asked), weight) in node.iter().zip(request).zip(weights) {
        let (quota, used) = (BigInt::from(line.quota), BigInt::from(line.used + line.assumed));
        total_weight += *weight;
        if line.quota == 0 {
            continue;
        }
        let numerator = match strategy {
            MostAllocated => used + *asked,
            LeastAllocated => &quota - used - *asked,
        };
        score = Fraction(
            &score.0 * &quota + numerator * BigInt::from(*weight) * &score.1,
            score.1 * &quota,
        );
    }
    if total_weight == BigInt::from(0) {
        return Fraction(0.into(), 1.into());
    }
    Fraction(score.0 * BigInt::from(plugin_weight), score.1 * total_weight)
}

/// Nodes of `resources` resources whose quota is not exceeded, small and large; often alike, so that scores are equal.
fn node(resources: usize) -> impl Strategy<Value = Vec<Line>> {
    let quota = prop_oneof![
        0..=12_i64,
        Just(0),
        1..=i64::MAX,
        Just(i64::MAX),
        (0..40_u32).prop_map(|bits| 1 << bits)
    ];
    let line = (quota, 0..=12_u32).prop_map(|(quota, twelfths)| {
        let used = i128::from(quota) * i128::from(twelfths) / 12;
        Line {
            quota,
            used: used / 2,
            assumed: used - used / 2,
        }
    });
    proptest::collection::vec(line, resources)
}

fn scored() -> impl Strategy<Value = (ScoringStrategy, Vec<u32>, Vec<i64>, Vec<Line>, Vec<Line>)> {
    (1..5_usize).prop_flat_map(|resources| {
        (
            prop_oneof![Just(MostAllocated), Just(LeastAllocated)],
            proptest::collection::vec(prop_oneof![Just(10_u32), Just(1), 0..=1_000_000_u32], resources),
            proptest::collection::vec(prop_oneof![Just(0), 0..=12_i64, 0..=i64::MAX], resources),
            node(resources),
            node(resources),
        )
    })
}

/// Returns how two nodes compare, and how they compare as exact fractions. Without any weight they are equal.
fn compared(scoring: Scoring<'_>, left: &[Line], right: &[Line]) -> (Ordering, Ordering) {
    let Scoring {
        strategy,
        weights,
        request,
    } = scoring;
    let found = scoring.compare(&scoring.score_of(left), &scoring.score_of(right));
    let exact = |lines| reference(strategy, lines, request, weights, 1);
    let is_unweighted = weights.iter().all(|weight| *weight == 0);
    let expected = if is_unweighted {
        Ordering::Equal
    } else {
        exact(left).compare(&exact(right))
    };
    (found, expected)
}

proptest! {
    #[test]
    fn a_fraction_is_known_roughly_and_never_too_much(
        one in prop_oneof![0..=i64::MAX, (0..63_u32).prop_map(|bits| (1 << bits) - 1), (0..63_u32).prop_map(|bits| 1 << bits)],
        other in prop_oneof![1..=i64::MAX, (0..63_u32).prop_map(|bits| 1 << bits)],
    ) {
        let (numerator, denominator) = (one.min(other).unsigned_abs(), one.max(other).unsigned_abs());
        let exact = i128::from(numerator) << FIRST_BITS;
        let found = i128::from(roughly(numerator, denominator));
        prop_assert!(found * i128::from(denominator) <= exact);
        prop_assert!((found + ROUGHNESS) * i128::from(denominator) > exact);
    }

    /// Nodes that differ by the smallest amount of one resource, or that make up for it by another.
    #[test]
    fn scores_that_are_nearly_equal_are_ordered_as_exact_fractions(
        (strategy, weights, _, left, _) in scored(), changes in proptest::collection::vec((-1..=1_i64, -1..=1_i128), 5),
    ) {
        let changed = |(line, (quota, used)): (&Line, &(i64, i128))| Line {
            quota: line.quota.saturating_add(*quota).max(0), used: (line.used + used).max(0), ..*line
        };
        let right: Vec<_> = left.iter().zip(&changes).map(changed).collect();
        let request = vec![0; left.len()];
        let (found, expected) = compared(Scoring { strategy, weights: &weights, request: &request }, &left, &right);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn scores_are_ordered_as_exact_fractions(
        (strategy, weights, request, left, right) in scored(), same in any::<bool>(), shift in 0..8_u32,
    ) {
        // Scaled up, a node has the same score.
        let scaled = |lines: &[Line]| lines.iter().map(|line| Line {
            quota: line.quota >> 10 << shift, used: (line.used >> 10) << shift, assumed: 0,
        }).collect::<Vec<_>>();
        let (left, right, request) = if same {
            let base: Vec<_> = left.iter().map(|line| Line { used: line.used, assumed: 0, ..*line }).collect();
            let unscaled = base.iter().map(|line| Line { quota: line.quota >> 10, used: line.used >> 10, assumed: 0 });
            (scaled(&base), unscaled.collect(), vec![0; request.len()])
        } else {
            (left, right, request)
        };
        let (found, expected) = compared(Scoring { strategy, weights: &weights, request: &request }, &left, &right);
        prop_assert_eq!(found, expected);
        if same {
            prop_assert_eq!(found, Ordering::Equal);
        }
    }

    #[test]
    fn scores_are_rounded_as_exact_fractions(
        (strategy, weights, request, node, _) in scored(), plugin_weight in prop_oneof![Just(10_u32), 0..=1_000_000_u32],
        scale in 1..=100_u32,
    ) {
        // A node that can take the pod: the scheduler scores no other nodes.
        let left = node.iter().map(|line| i64::try_from(i128::from(line.quota) - line.used - line.assumed).unwrap());
        let request: Vec<_> = request.iter().zip(left).map(|(asked, left)| *asked.min(&left)).collect();
        let scoring = Scoring { strategy, weights: &weights, request: &request };
        let found = scoring.rounded(&scoring.score_of(&node), plugin_weight, scale);
        let exact = reference(strategy, &node, &request, &weights, plugin_weight);
        // found - 1/2 <= exact < found + 1/2
        let doubled = Fraction(exact.0 * BigInt::from(2 * scale), exact.1);
        let half = |number: i64| Fraction(BigInt::from(number), BigInt::from(1));
        prop_assert!(half(2 * found - 1).compare(&doubled).is_le(), "{} {:?}", found, doubled);
        prop_assert!(doubled.compare(&half(2 * found + 1)).is_lt(), "{} {:?}", found, doubled);
    }
}
