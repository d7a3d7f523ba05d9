//! What the statuses say.

use crds::card_type::CardKind;

use super::*;

fn card(name: &str, resource: &str, count: i64) -> Card {
    Card {
        name: name.to_owned(),
        resource: resource.to_owned(),
        kind: CardKind::Whole,
        is_guess: false,
        count,
        labels: Vec::new(),
    }
}

fn missing(label: &str) -> Problem {
    Problem::MissingLabel {
        label: "a/b.product".to_owned(),
        product: "P".to_owned(),
        missing: label.to_owned(),
    }
}

fn mismatch() -> Problem {
    Problem::CountMismatch {
        labels: "a/b.count=8".to_owned(),
        resource: "a/b".to_owned(),
        allocatable: 7,
    }
}

/// Type, status and reason of each condition.
fn conditions(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
    conditions
        .iter()
        .map(|condition| {
            (
                condition.type_.as_str(),
                condition.status.as_str(),
                condition.reason.as_str(),
            )
        })
        .collect()
}

#[test]
fn an_inventory_of_a_node_in_order() {
    let (a, b) = (card("A", "x/gpu", 8), card("B", "x/mig", 4));
    let status = inventory(&[(&a, (3, 5)), (&b, (0, 4))], Usability::Usable, &[], None);
    assert_eq!((&*status.summary, &*status.resources), ("A x8, B x4", "x/gpu, x/mig"));
    assert_eq!((status.total, status.used, status.free), (12, 3, 9));
    assert_eq!(status.cards[0].free, 5);
    assert_eq!(status.problems, "");
    assert_eq!(
        conditions(&status.conditions),
        [
            ("CardsPublished", "True", "AllPublished"),
            ("LabelsConsistent", "True", "NoDisagreement"),
            ("NodeUsable", "True", "Usable"),
        ]
    );
}

#[test]
fn an_inventory_with_problems() {
    let status = inventory(
        &[],
        Usability::Cordoned,
        &[missing("m1"), mismatch(), missing("m2")],
        None,
    );
    assert_eq!((&*status.summary, &*status.resources), ("<none>", "<none>"));
    assert_eq!(status.problems, "MissingLabel, CountMismatch, Cordoned");
    assert_eq!(
        conditions(&status.conditions),
        [
            ("CardsPublished", "False", "MissingLabel"),
            ("LabelsConsistent", "False", "CountMismatch"),
            ("NodeUsable", "False", "Cordoned"),
        ]
    );
    assert_eq!(
        status.conditions[0].message,
        format!("{}; {}", missing("m1"), missing("m2"))
    );
    assert_eq!(status.conditions[1].message, mismatch().to_string());

    let many: Vec<_> = (0..12).map(|number| missing(&format!("m{number}"))).collect();
    let status = inventory(&[], Usability::Usable, &many, None);
    assert!(status.conditions[0].message.ends_with("; and 2 more"));
}

#[test]
fn cards_of_an_unusable_node_are_not_free() {
    let a = card("A", "x/gpu", 8);
    for usability in [Usability::NotReady, Usability::Cordoned] {
        let status = inventory(&[(&a, (3, 5))], usability, &[], None);
        assert_eq!((status.total, status.used, status.free), (8, 3, 0));
    }
    // More is in use than the node allocates, since a card failed.
    let status = inventory(&[(&a, (i128::MAX, 0))], Usability::Usable, &[], None);
    assert_eq!((status.used, status.free), (i64::MAX, 0));
}

#[test]
fn a_card_type_names_the_nodes_that_mean_something_else() {
    let counts = CardTypeStatus {
        nodes: 2,
        total: 16,
        used: 1,
        free: 15,
        ..CardTypeStatus::default()
    };
    let status = card_type(counts.clone(), "a/gpu", &[]);
    assert_eq!((status.nodes, status.total, status.used, status.free), (2, 16, 1, 15));
    assert_eq!(conditions(&status.conditions), [("Consistent", "True", "OneResource")]);
    let status = card_type(counts, "a/gpu", &[("n7", "b/gpu"), ("n9", "c/gpu")]);
    assert_eq!(status.problems, "ConflictingResource");
    let message = &status.conditions[0].message;
    assert!(
        message.contains("a/gpu") && message.contains("n7 (b/gpu), n9 (c/gpu)"),
        "{message}"
    );
}

#[test]
fn a_column_has_as_many_cards_as_fit() {
    let column = |names: &[&str]| column(names.iter().map(|name| format!("{name} x8")));
    assert_eq!(column(&[]), "<none>");
    assert_eq!(
        column(&["NVIDIA-A100", "NVIDIA-H100"]),
        "NVIDIA-A100 x8, NVIDIA-H100 x8"
    );
    let many = ["NVIDIA-A100", "NVIDIA-H100", "NVIDIA-H200", "NVIDIA-T4"];
    assert_eq!(column(&many), "NVIDIA-A100 x8, NVIDIA-H100 x8, +2 more");
    let long = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-and-longer";
    assert_eq!(column(&[long]), format!("{long} x8"));
    assert_eq!(column(&[long, "T4"]), format!("{long} x8, +1 more"));
    for count in 1..20 {
        let text = column(&["NVIDIA-L4"; 20][..count]);
        assert!(text.chars().count() <= COLUMN, "{text}");
    }
}

#[test]
fn a_usage_lists_its_cards() {
    let queue_card = |name: &str, quota, allocated, requested| QueueCard {
        name: name.to_owned(),
        quota: Some(quota),
        allocated,
        requested,
        waiting: requested - allocated,
        own: None,
    };
    let queue = CardUsageStatus {
        cards: vec![
            queue_card("A", 8, 3, 10),
            queue_card("B", 2, 0, 0),
            queue_card("C", 0, 0, 1),
            QueueCard {
                quota: None,
                ..queue_card("D", 0, 2, 2)
            },
        ],
        cpu: "3 / 8".to_owned(),
        waiting_pods: 8,
        ..CardUsageStatus::default()
    };
    let status = usage(queue.clone(), None, None, None);
    assert_eq!(
        (&*status.quota, &*status.allocated, &*status.requested),
        ("A x8, B x2", "A x3, D x2", "A x10, C x1, D x2")
    );
    assert_eq!(status.summary, "A 3/8, B 0/2, D 2/-");
    assert_eq!((&*status.cpu, status.waiting_pods, &*status.problems), ("3 / 8", 8, ""));
    let possible = ("Satisfiable", "True", "Possible");
    assert_eq!(
        conditions(&status.conditions),
        [("Valid", "True", "Readable"), possible]
    );
    let status = usage(queue.clone(), Some(("QueueInvalid", "mend it")), None, None);
    assert_eq!(status.problems, "QueueInvalid");
    assert_eq!(
        conditions(&status.conditions),
        [("Valid", "False", "QueueInvalid"), possible]
    );
    let status = usage(queue, None, Some(("DeservedAboveCluster", "too much")), None);
    assert_eq!(status.problems, "DeservedAboveCluster");
    assert_eq!(
        conditions(&status.conditions)[1],
        ("Satisfiable", "False", "DeservedAboveCluster")
    );
    assert_eq!(
        usage(CardUsageStatus::default(), None, None, Some("Closed")).quota,
        "<none>"
    );
}
