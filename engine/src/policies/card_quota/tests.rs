//! The Capacity Card document's rules with its own numbers; tests are named after its sections.

use std::sync::Arc;

use super::*;
use crate::amounts::{Amounts, Totals};
use crate::names::Names;
use crate::policies::capacity::{self, Level};
use crate::task::Naming;

const GPU: &str = "nvidia.com/gpu";

/// A queue and a task, given as texts. Every card stands for `nvidia.com/gpu`, unless the cluster does not know it.
struct Case {
    names: Names,
    arguments: CapacityCard,
    limits: Vec<(Dimension, i64)>,
    allocated: Totals,
    cards: Vec<CardId>,
    request: Vec<(Dimension, i64)>,
    unknown: Vec<CardId>,
}

impl Case {
    fn new() -> Self {
        Self {
            names: Names::default(),
            arguments: CapacityCard::default(),
            limits: Vec::new(),
            allocated: Totals::default(),
            cards: Vec::new(),
            request: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn dimension(&mut self, name: &str) -> Dimension {
        match name {
            "cpu" => Dimension::Resource(ResourceId::CPU),
            "memory" => Dimension::Resource(ResourceId::MEMORY),
            card => Dimension::Card(self.names.card(card)),
        }
    }

    fn quota(mut self, name: &str, limit: i64) -> Self {
        let dimension = self.dimension(name);
        self.limits.push((dimension, limit));
        self
    }

    fn used(mut self, name: &str, amount: i128) -> Self {
        let dimension = self.dimension(name);
        self.allocated.add(dimension, amount);
        self
    }

    fn asks(mut self, cards: &str, count: i64) -> Self {
        self.cards = cards.split('|').map(|card| self.names.card(card)).collect();
        let gpu = self.names.resource(GPU);
        self.request.push((Dimension::Resource(gpu), count));
        self
    }

    fn requests(mut self, name: &str, amount: i64) -> Self {
        let dimension = self.dimension(name);
        self.request.push((dimension, amount));
        self
    }

    fn unknown(mut self, card: &str) -> Self {
        self.unknown.push(self.names.card(card));
        self
    }

    fn unlimited_cpu_and_memory(mut self) -> Self {
        self.arguments.card_unlimited_cpu_memory = true;
        self
    }

    /// Returns the card that the task gets, or the reason why it gets none.
    fn outcome(mut self) -> Result<Option<String>, Reason> {
        let gpu = self.names.resource(GPU);
        let (allocated, limits) = (self.allocated, self.limits.iter().copied().collect::<Amounts>());
        let task = Task {
            mgpu: None,
            request: Arc::new(self.request.into_iter().collect::<Amounts>()),
            says_cards: !self.cards.is_empty(),
            naming: Naming::Own,
            claimed: None,
            unqueued: false,
            alternatives: self.cards.into_iter().map(Alternative::Card).collect(),
            unreadable: None,
        };
        let check = Check {
            asks_all: false,
            plugin: QueuePlugin::CapacityCard,
            arguments: &self.arguments,
            queue_is_empty: self.limits.is_empty(),
            task: &task,
            resource_of: |card| (!self.unknown.contains(&card)).then_some(gpu),
            has_room: |dimension, asked: i64| {
                let level = Level {
                    allocated: allocated.get(dimension),
                    used: allocated.get(dimension),
                    guarantee: 0,
                    limit: Some(limits.get(dimension).into()),
                };
                capacity::check([level], asked.into()).is_ok()
            },
        };
        check.before_cards()?;
        if task.alternatives.is_empty() {
            return Ok(None);
        }
        let first = check.alternatives_with_quota().next();
        first
            .map(|first| Some(first.joined(&self.names, "+")))
            .ok_or(Reason::InsufficientScalarQuota)
    }
}

#[track_caller]
fn assert_gets(case: Case, card: &str) {
    assert_eq!(case.outcome(), Ok(Some(card.to_owned())));
}

#[track_caller]
fn assert_refused(case: Case, reason: Reason) {
    assert_eq!(case.outcome(), Err(reason));
}

/// Returns the document's queue-a.
fn queue_a() -> Case {
    Case::new()
        .quota("NVIDIA-A100", 10)
        .quota("NVIDIA-H100", 5)
        .quota("NVIDIA-A100/mps-80g*1/8", 16)
        .quota("cpu", 100_000)
        .quota("memory", 200 << 30)
}

#[test]
fn queue_annotations_for_card_quotas_are_limits_per_card_type() {
    assert_gets(queue_a().asks("NVIDIA-A100", 10), "NVIDIA-A100");
    assert_refused(queue_a().asks("NVIDIA-A100", 11), Reason::InsufficientScalarQuota);
    assert_gets(queue_a().used("NVIDIA-A100", 9).asks("NVIDIA-A100", 1), "NVIDIA-A100");
    assert_refused(
        queue_a().used("NVIDIA-A100", 10).asks("NVIDIA-A100", 1),
        Reason::InsufficientScalarQuota,
    );
    // What other card types hold does not matter for this one.
    assert_gets(queue_a().used("NVIDIA-A100", 10).asks("NVIDIA-H100", 5), "NVIDIA-H100");
}

#[test]
fn queue_annotations_for_card_quotas_card_types_without_quota_default_to_0() {
    assert_refused(queue_a().asks("NVIDIA-V100", 1), Reason::InsufficientScalarQuota);
    // MPS shares have their own quota: the quota of the whole card does not count for them.
    let mps_only = Case::new().quota("NVIDIA-A100/mps-80g*1/8", 16);
    assert_refused(mps_only.asks("NVIDIA-A100", 1), Reason::InsufficientScalarQuota);
}

#[test]
fn cpu_and_memory_quotas_default_to_0_too() {
    let cards_only = || Case::new().quota("NVIDIA-A100", 10).asks("NVIDIA-A100", 1);
    assert_refused(cards_only().requests("cpu", 1), Reason::InsufficientCpuQuota);
    assert_refused(cards_only().requests("memory", 1), Reason::InsufficientMemoryQuota);
    // What is not asked for needs no quota.
    assert_gets(cards_only(), "NVIDIA-A100");
}

#[test]
fn task_mode_any_single_card_type_that_satisfies_the_request_is_enough() {
    let queue = || Case::new().quota("A100", 2).quota("H100", 3).quota("V100", 1);
    assert_gets(queue().asks("A100|H100|V100", 2), "A100");
    assert_gets(queue().used("A100", 1).asks("A100|H100|V100", 2), "H100");
    assert_gets(
        queue().used("A100", 2).used("H100", 3).asks("A100|H100|V100", 1),
        "V100",
    );
    // Each task uses one card type: two cards of one type and one of another don't make three.
    assert_refused(
        queue().used("H100", 1).asks("A100|H100|V100", 3),
        Reason::InsufficientScalarQuota,
    );
    // The order is given by the task, not by the queue.
    assert_gets(queue().asks("V100|H100|A100", 1), "V100");
}

#[test]
fn task_mode_against_the_numbers_of_job_mode() {
    // The document's example for Job mode: quotas 5 and 3, allocated 2 and 1. As one task, 4 cards fit neither.
    let queue = || {
        Case::new()
            .quota("A100", 5)
            .quota("H100", 3)
            .used("A100", 2)
            .used("H100", 1)
    };
    assert_refused(queue().asks("A100|H100", 4), Reason::InsufficientScalarQuota);
    assert_gets(queue().asks("A100|H100", 3), "A100");
    assert_gets(queue().used("A100", 1).asks("A100|H100", 2), "A100");
    assert_gets(queue().used("A100", 2).asks("A100|H100", 2), "H100");
}

#[test]
fn task_mode_an_alternative_that_the_cluster_does_not_know_is_passed_over() {
    let queue = || Case::new().quota("A100", 2).quota("H100", 3);
    assert_gets(queue().unknown("A100").asks("A100|H100", 1), "H100");
    assert_refused(
        queue().unknown("A100").unknown("H100").asks("A100|H100", 1),
        Reason::GetTaskRequestResourceFailed,
    );
    assert_refused(
        queue().unknown("A100").used("H100", 3).asks("A100|H100", 1),
        Reason::InsufficientScalarQuota,
    );
}

#[test]
fn task_allocatable_check_a_card_whose_resource_is_not_requested_is_an_unreadable_request() {
    assert_refused(queue_a().asks("NVIDIA-A100", 0), Reason::GetTaskRequestResourceFailed);
}

#[test]
fn task_allocatable_check_the_first_failing_check_names_the_reason() {
    let all = || {
        queue_a()
            .asks("NVIDIA-V100", 1)
            .requests("cpu", 100_001)
            .requests("memory", (200 << 30) + 1)
    };
    assert_refused(all(), Reason::InsufficientCpuQuota);
    assert_refused(
        queue_a().asks("NVIDIA-V100", 1).requests("memory", (200 << 30) + 1),
        Reason::InsufficientMemoryQuota,
    );
    assert_refused(queue_a().asks("NVIDIA-V100", 1), Reason::InsufficientScalarQuota);
    let empty = Case::new().asks("NVIDIA-V100", 1).requests("cpu", 1);
    assert_refused(empty, Reason::EmptyQueueCapability);
}

#[test]
fn event_recording_a_queue_with_nothing_is_empty_also_for_tasks_that_ask_for_nothing() {
    assert_refused(Case::new(), Reason::EmptyQueueCapability);
    assert_eq!(Case::new().quota("A100", 0).outcome(), Ok(None));
}

#[test]
fn plugin_configuration_card_unlimited_cpu_memory_exempts_tasks_with_cards() {
    let greedy = || {
        queue_a()
            .asks("NVIDIA-A100", 1)
            .requests("cpu", 100_001)
            .requests("memory", 1 << 50)
    };
    assert_refused(greedy(), Reason::InsufficientCpuQuota);
    assert_gets(greedy().unlimited_cpu_and_memory(), "NVIDIA-A100");
    // Cards stay limited, and so do tasks without cards.
    assert_refused(
        queue_a().unlimited_cpu_and_memory().asks("NVIDIA-A100", 11),
        Reason::InsufficientScalarQuota,
    );
    let without_cards = queue_a().unlimited_cpu_and_memory().requests("cpu", 100_001);
    assert_refused(without_cards, Reason::InsufficientCpuQuota);
}

#[test]
fn a_quota_below_what_is_allocated_admits_nothing_of_it_and_leaves_the_rest_alone() {
    let lowered = || queue_a().used("NVIDIA-A100", 12).used("cpu", 100_000);
    assert_refused(lowered().asks("NVIDIA-A100", 1), Reason::InsufficientScalarQuota);
    assert_gets(lowered().asks("NVIDIA-H100", 1), "NVIDIA-H100");
    assert_refused(
        lowered().asks("NVIDIA-H100", 1).requests("cpu", 1),
        Reason::InsufficientCpuQuota,
    );
}

#[test]
fn sums_beyond_64_bits_are_compared_and_not_wrapped() {
    let full = || Case::new().quota("A100", i64::MAX).used("A100", i128::from(i64::MAX));
    assert_refused(full().asks("A100", 1), Reason::InsufficientScalarQuota);
    assert_refused(full().asks("A100", i64::MAX), Reason::InsufficientScalarQuota);
    assert_gets(Case::new().quota("A100", i64::MAX).asks("A100", i64::MAX), "A100");
}

/// The score of a node with one card, for a task with these alternatives.
#[expect(clippy::float_cmp, reason = "halves and small integers are exact")]
fn assert_scores(weight: f64, alternatives: &str, expected: &[(&str, f64)]) {
    let mut names = Names::default();
    let arguments = CapacityCard {
        node_order_weight: weight,
        ..CapacityCard::default()
    };
    let alternatives = alternatives.split('|');
    let alternatives: Vec<_> = alternatives.map(|card| Alternative::Card(names.card(card))).collect();
    for (card, score) in expected {
        let on_node = names.card(card);
        assert_eq!(
            node_order_score(&arguments, &alternatives, |card| card == on_node),
            *score,
            "{card}"
        );
    }
}

#[test]
fn node_ordering_scores_halve_with_every_alternative() {
    assert_scores(
        1.0,
        "A100|H100|V100|T4",
        &[
            ("A100", 100.0),
            ("H100", 50.0),
            ("V100", 25.0),
            ("T4", 12.5),
            ("L40", 0.0),
        ],
    );
}

#[test]
fn node_ordering_a_task_with_a_single_card_has_no_preference() {
    assert_scores(2.0, "A100", &[("A100", 0.0), ("H100", 0.0)]);
}

#[test]
fn example_4_node_ordering_configuration_with_weight_2() {
    assert_scores(
        2.0,
        "NVIDIA-A100|NVIDIA-H100|NVIDIA-T4",
        &[("NVIDIA-A100", 200.0), ("NVIDIA-H100", 100.0), ("NVIDIA-T4", 50.0)],
    );
}

#[test]
#[expect(clippy::float_cmp, reason = "halves and small integers are exact")]
fn node_ordering_returns_immediately_after_the_first_matching_card_type() {
    let mut names = Names::default();
    let alternatives = ["A100", "H100", "V100"].map(|card| Alternative::Card(names.card(card)));
    let score = node_order_score(&CapacityCard::default(), &alternatives, |card| {
        !alternatives[0].has(card)
    });
    assert_eq!(score, 50.0);
}
