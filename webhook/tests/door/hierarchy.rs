//! Queue admission: what a Queue says of its place among the others (the capacity document, **Hierarchical processing**).

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::sync::Arc;

use crds::configuration::{Capacity, Configuration, Settings};
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use crds::volcano::Queue;
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;
use webhook::knowledge::QueueFacts;
use webhook::view::PodsOf;

use crate::common::{Verdict, World, review};

type Kind = (&'static str, &'static str, &'static str);
const QUEUE: Kind = ("scheduling.volcano.sh", "v1beta1", "Queue");

/// A queue with these cards as quota and guarantee.
fn part(name: &str, parent: &str, quota: i64, guarantee: i64) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": {
            CARD_QUOTA: json!({"NVIDIA-A100": quota}).to_string(),
            CARD_GUARANTEE: json!({"NVIDIA-A100": guarantee}).to_string(),
        }},
        "spec": {"parent": parent},
    })
}

fn facts(queue: &Value) -> Arc<QueueFacts> {
    let queue: Queue = serde_json::from_value(queue.clone()).unwrap();
    Arc::new(QueueFacts::read(&Ok(queue)))
}

/// A cluster with `research` (10 cards, 6 guaranteed) and below it `vision` and `speech` (6 cards, 3 guaranteed each).
struct Hierarchy(World);

impl Hierarchy {
    fn new() -> Self {
        Self::with(Settings::default(), true)
    }

    fn with(settings: Settings, enable_hierarchy: bool) -> Self {
        let capacity = Capacity {
            enable_hierarchy,
            ..Capacity::default()
        };
        let hierarchy = Self(World::with_configuration(Configuration {
            cardgate: settings,
            capacity,
            ..Configuration::default()
        }));
        for queue in [
            part("research", "root", 10, 6),
            part("vision", "research", 6, 3),
            part("speech", "research", 6, 3),
        ] {
            hierarchy.has(&queue);
        }
        hierarchy
    }

    fn has(&self, queue: &Value) {
        let name = queue["metadata"]["name"].as_str().unwrap();
        self.0.knowledge.queues.set(name.into(), facts(queue));
        self.only_api_has(queue);
    }

    /// No watch has shown it yet.
    fn only_api_has(&self, queue: &Value) {
        let name = queue["metadata"]["name"].as_str().unwrap().to_owned();
        self.0.api.queues.lock().unwrap().insert(name, facts(queue));
    }

    fn create(&self, queue: &Value) -> Verdict {
        self.0
            .verdict(Endpoint::Validate, &review(QUEUE, "CREATE", queue, &Value::Null))
    }

    fn update(&self, queue: &Value, old: &Value) -> Verdict {
        self.0.verdict(Endpoint::Validate, &review(QUEUE, "UPDATE", queue, old))
    }

    fn delete(&self, name: &str) -> Verdict {
        let old = json!({"metadata": {"name": name}});
        self.0
            .verdict(Endpoint::Validate, &review(QUEUE, "DELETE", &Value::Null, &old))
    }
}

#[test]
fn a_child_within_its_parent_is_accepted() {
    let hierarchy = Hierarchy::new();
    let verdict = hierarchy.create(&part("robots", "research", 10, 0));
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
    assert!(
        verdict.warnings[0]
            .contains("the queues below \"research\" may have 22 NVIDIA-A100 in all, and \"research\" only 10"),
        "{:?}",
        verdict.warnings
    );
    assert!(
        hierarchy.create(&part("sales", "root", 99, 50)).allowed().is_empty(),
        "the root is the cluster's"
    );
    assert!(
        hierarchy
            .create(&json!({"metadata": {"name": "plain"}}))
            .allowed()
            .is_empty()
    );
}

#[test]
fn strict_hierarchy_forbids_capabilities_above_the_parents_in_sum() {
    let strict = Settings {
        strict_hierarchy: true,
        ..Settings::default()
    };
    let hierarchy = Hierarchy::with(strict, true);
    let refused = hierarchy.create(&part("robots", "research", 1, 0)).refused();
    assert!(refused.starts_with("403 CapabilitiesAboveParent: "), "{refused}");
    assert!(
        refused.contains("may have 13 NVIDIA-A100 in all, and \"research\" only 10"),
        "{refused}"
    );
    // What was so before may be changed in other ways.
    let verdict = hierarchy.update(&part("vision", "research", 6, 2), &part("vision", "research", 6, 3));
    assert!(
        verdict.allowed()[0].contains("not made worse by this update"),
        "{:?}",
        verdict.warnings
    );
}

#[test]
fn a_child_above_its_parent_is_refused_with_both_numbers_when_either_changes() {
    let hierarchy = Hierarchy::new();
    let of_child = hierarchy.create(&part("robots", "research", 11, 0)).refused();
    assert!(of_child.starts_with("403 ChildAboveParent: "), "{of_child}");
    for part in [
        "\"robots\" may have 11 NVIDIA-A100",
        "the 10 of its parent \"research\"",
    ] {
        assert!(of_child.contains(part), "{of_child}");
    }
    let research = part("research", "root", 10, 6);
    let of_parent = hierarchy.update(&part("research", "root", 5, 5), &research).refused();
    assert!(
        of_parent.contains("may have 6 NVIDIA-A100, more than the 5 of its parent \"research\""),
        "{of_parent}"
    );
    hierarchy.update(&part("research", "root", 6, 6), &research).allowed();
    let cpu = |name: &str, parent: &str, cpu: &str| json!({"metadata": {"name": name}, "spec": {"parent": parent, "capability": {"cpu": cpu}}});
    hierarchy.has(&cpu("small", "root", "1500m"));
    let refused = hierarchy.create(&cpu("smaller", "small", "2")).refused();
    assert!(refused.contains("may have 2 cpu, more than the 1500m"), "{refused}");
}

#[test]
fn a_capability_is_compared_with_the_nearest_queue_above_that_names_it() {
    let hierarchy = Hierarchy::new();
    let silent = |name: &str, parent: &str| json!({"metadata": {"name": name}, "spec": {"parent": parent}});
    hierarchy.has(&part("root", "", 8, 0));
    hierarchy.has(&silent("sales", "root"));
    hierarchy.has(&silent("east", "sales"));
    let refused = hierarchy.create(&part("berlin", "east", 100, 0)).refused();
    assert!(
        refused.contains("\"berlin\" may have 100 NVIDIA-A100, more than the 8 of the queue above it \"root\""),
        "{refused}"
    );
    hierarchy.create(&part("berlin", "east", 8, 0)).allowed();
    // And when one of those above changes: it says less, or nothing any more, or goes elsewhere.
    hierarchy.has(&part("root", "", 100, 0));
    hierarchy.has(&part("berlin", "east", 50, 0));
    let refused = hierarchy
        .update(&part("root", "", 40, 0), &part("root", "", 100, 0))
        .refused();
    assert!(
        refused.contains("more than the 40 of the queue above it \"root\""),
        "{refused}"
    );
    let refused = hierarchy
        .update(&part("sales", "root", 40, 0), &silent("sales", "root"))
        .refused();
    assert!(
        refused.contains("more than the 40 of the queue above it \"sales\""),
        "{refused}"
    );
    let refused = hierarchy
        .update(&silent("east", "research"), &silent("east", "sales"))
        .refused();
    assert!(
        refused.contains("more than the 10 of the queue above it \"research\""),
        "{refused}"
    );
    // What stands between is what counts.
    hierarchy.has(&part("east", "sales", 60, 0));
    hierarchy
        .update(&part("sales", "root", 60, 0), &silent("sales", "root"))
        .allowed();
    let refused = hierarchy
        .update(&part("sales", "root", 59, 0), &silent("sales", "root"))
        .refused();
    assert!(
        refused.contains("\"east\" may have 60 NVIDIA-A100, more than the 59 of its parent"),
        "{refused}"
    );
    assert!(!refused.contains("berlin"), "{refused}");
}

#[test]
fn guarantees_must_fit_in_the_parents_when_either_changes() {
    let hierarchy = Hierarchy::new();
    let refused = hierarchy.create(&part("robots", "research", 6, 1)).refused();
    assert!(refused.starts_with("403 GuaranteesAboveParent: "), "{refused}");
    assert!(
        refused.contains("guaranteed 7 NVIDIA-A100 in all, and \"research\" only 6"),
        "{refused}"
    );
    let research = part("research", "root", 10, 6);
    let refused = hierarchy.update(&part("research", "root", 10, 5), &research).refused();
    assert!(
        refused.contains("guaranteed 6 NVIDIA-A100 in all, and \"research\" only 5"),
        "{refused}"
    );
    hierarchy
        .update(&part("vision", "research", 6, 2), &part("vision", "research", 6, 3))
        .allowed();
}

#[test]
fn an_unknown_parent_is_refused_unless_a_watch_is_only_late() {
    let hierarchy = Hierarchy::new();
    let refused = hierarchy.create(&part("child", "nowhere", 1, 0)).refused();
    assert!(
        refused.starts_with("403 ParentMissing: spec.parent: queue \"nowhere\" does not exist"),
        "{refused}"
    );
    hierarchy.only_api_has(&part("new", "root", 5, 0));
    hierarchy.create(&part("child", "new", 1, 0)).allowed();
    hierarchy.create(&part("child", "new", 6, 0)).refused();
}

#[test]
fn a_cycle_is_refused() {
    let hierarchy = Hierarchy::new();
    let research = part("research", "root", 10, 6);
    let refused = hierarchy.update(&part("research", "vision", 6, 3), &research).refused();
    assert!(refused.starts_with("403 ParentCycle: "), "{refused}");
    assert!(refused.contains("research -> vision -> research"), "{refused}");
    let itself = hierarchy.create(&part("own", "own", 1, 0)).refused();
    assert!(itself.contains("own -> own"), "{itself}");
    let root = hierarchy.create(&part("root", "research", 1, 0)).refused();
    assert!(root.starts_with("403 RootParent: "), "{root}");
    hierarchy.update(&part("research", "", 10, 6), &research).allowed();
}

#[test]
fn a_queue_with_pods_does_not_become_a_parent() {
    let hierarchy = Hierarchy::new();
    hierarchy
        .0
        .api
        .pods
        .lock()
        .unwrap()
        .insert("vision".to_owned(), PodsOf::Shown(3));
    let refused = hierarchy.create(&part("lab", "vision", 1, 0)).refused();
    assert!(refused.starts_with("403 ParentHasPods: "), "{refused}");
    assert!(refused.contains("has pods that were let in ("), "{refused}");
    // One that is a parent already stays one, whatever runs in it.
    hierarchy
        .0
        .api
        .pods
        .lock()
        .unwrap()
        .insert("research".to_owned(), PodsOf::Shown(1));
    hierarchy.create(&part("lab", "research", 1, 0)).allowed();
}

#[test]
fn children_pods_the_root_and_the_default_queue_protect_from_removal() {
    let hierarchy = Hierarchy::new();
    let children = hierarchy.delete("research").refused();
    assert!(children.starts_with("403 QueueHasChildren: "), "{children}");
    assert!(children.contains("(2, \"speech\" among them)"), "{children}");
    for (name, reason) in [("root", "RootQueue"), ("default", "DefaultQueue")] {
        assert!(
            hierarchy.delete(name).refused().starts_with(&format!("403 {reason}: ")),
            "{name}"
        );
    }
    hierarchy
        .0
        .api
        .pods
        .lock()
        .unwrap()
        .insert("vision".to_owned(), PodsOf::Shown(3));
    let pods = hierarchy.delete("vision").refused();
    assert!(
        pods.starts_with("403 QueueHasPods: ") && pods.contains("has pods that were let in ("),
        "{pods}"
    );
    hierarchy.delete("speech").allowed();
}

/// Its usage is gone, for example because the definition was installed anew: hundreds of its pods may run.
#[test]
fn a_queue_whose_pods_nobody_shows_is_neither_removed_nor_made_a_parent() {
    let hierarchy = Hierarchy::new();
    hierarchy
        .0
        .api
        .pods
        .lock()
        .unwrap()
        .insert("vision".to_owned(), PodsOf::NotShown);
    for refused in [
        hierarchy.delete("vision"),
        hierarchy.create(&part("lab", "vision", 1, 0)),
    ] {
        let refused = refused.refused();
        assert!(
            refused.starts_with("403 UsageNotShown: ") && refused.contains("queue \"vision\""),
            "{refused}"
        );
        assert!(refused.contains("try again in a moment"), "{refused}");
    }
}

#[test]
fn children_that_only_a_watch_still_has_do_not_count() {
    let hierarchy = Hierarchy::new();
    let gone = |name: &str| hierarchy.0.api.queues.lock().unwrap().remove(name);
    gone("speech");
    assert!(
        hierarchy
            .delete("research")
            .refused()
            .contains("(1, \"vision\" among them)")
    );
    gone("vision");
    hierarchy.delete("research").allowed();
}

#[test]
fn without_hierarchy_parents_mean_nothing_and_pods_still_protect() {
    let hierarchy = Hierarchy::with(Settings::default(), false);
    hierarchy.create(&part("child", "nowhere", 99, 50)).allowed();
    hierarchy.delete("research").allowed();
    hierarchy.delete("root").allowed();
    hierarchy.delete("default").refused();
    hierarchy
        .0
        .api
        .pods
        .lock()
        .unwrap()
        .insert("vision".to_owned(), PodsOf::Shown(3));
    hierarchy.delete("vision").refused();
}

#[test]
fn a_guarantee_or_what_is_deserved_is_no_more_than_the_capability() {
    let hierarchy = Hierarchy::with(Settings::default(), false);
    let spec = |field: &str, value: Value| json!({"metadata": {"name": "x"}, "spec": {"capability": {"cpu": 4, "memory": "8Gi"}, field: value}});
    let refused = hierarchy
        .create(&spec("guarantee", json!({"resource": {"cpu": "4500m"}})))
        .refused();
    assert!(
        refused.starts_with("403 AboveCapability: spec.guarantee: 4500m cpu"),
        "{refused}"
    );
    assert!(refused.contains("more than spec.capability says (4):"), "{refused}");
    let refused = hierarchy.create(&spec("deserved", json!({"memory": "9Gi"}))).refused();
    assert!(
        refused.contains("spec.deserved: 9Gi memory") && refused.contains("8Gi"),
        "{refused}"
    );
    hierarchy
        .create(&spec("deserved", json!({"memory": "8Gi", "nvidia.com/gpu": 9})))
        .allowed();
    let refused = hierarchy.create(&part("x", "", 3, 4)).refused();
    assert!(
        refused.contains(
            "annotation volcano.sh/card.guarantee: 4 NVIDIA-A100 is more than annotation volcano.sh/card.quota says (3)"
        ),
        "{refused}"
    );
    let all = json!({"capability": {"cpu": 3}, "deserved": {"cpu": 2}, "guarantee": {"resource": {"cpu": 3}}});
    let verdict = hierarchy.create(&json!({"metadata": {"name": "x"}, "spec": all}));
    assert!(
        verdict.allowed()[0].contains("3 cpu is more than spec.deserved says (2)"),
        "{:?}",
        verdict.warnings
    );
}

#[test]
fn cards_that_are_deserved_or_guaranteed_have_the_form_of_the_quota() {
    let hierarchy = Hierarchy::new();
    for (annotation, reason) in [
        (CARD_DESERVED, "CardDeservedInvalid"),
        (CARD_GUARANTEE, "CardGuaranteeInvalid"),
    ] {
        let with = |text: &str| json!({"metadata": {"name": "x", "annotations": {annotation: text}}});
        for text in [
            "[]",
            r#"{"NVIDIA-A100": "4"}"#,
            r#"{"NVIDIA-A100": -1}"#,
            r#"{"A|B": 1}"#,
        ] {
            let refused = hierarchy.create(&with(text)).refused();
            assert!(
                refused.starts_with(&format!("403 {reason}: annotation {annotation}: ")),
                "{refused}"
            );
        }
        let verdict = hierarchy.create(&with(r#"{"NVIDIA-B200": 4}"#));
        assert!(verdict.allowed()[0].contains(annotation), "{:?}", verdict.warnings);
    }
    for (spec, reason) in [
        (json!({"deserved": {"cpu": "-1"}}), "DeservedInvalid"),
        (json!({"guarantee": {"resource": {"cpu": "x"}}}), "GuaranteeInvalid"),
        (json!({"guarantee": {"resource": []}}), "ObjectInvalid"),
        (json!({"parent": 5}), "ObjectInvalid"),
    ] {
        let refused = hierarchy
            .create(&json!({"metadata": {"name": "x"}, "spec": spec}))
            .refused();
        assert!(refused.starts_with(&format!("403 {reason}: ")), "{refused}");
    }
}

#[test]
fn a_cycle_that_got_past_the_door_does_not_keep_others_from_being_judged() {
    let hierarchy = Hierarchy::new();
    hierarchy.has(&part("b", "c", 5, 0));
    hierarchy.has(&part("c", "b", 5, 0));
    hierarchy.create(&part("a", "b", 5, 0)).allowed();
    hierarchy
        .update(&part("b", "root", 5, 0), &part("b", "c", 5, 0))
        .allowed();
}

/// Whoever mends what got past the door, or was right before a setting was changed, need not mend all of it at once.
#[test]
fn an_update_that_leaves_less_wrong_is_taken_with_a_warning() {
    let hierarchy = Hierarchy::new();
    hierarchy.has(&part("research", "root", 10, 8));
    for name in ["vision", "speech", "robots"] {
        hierarchy.has(&part(name, "research", 12, 5));
    }
    let vision = part("vision", "research", 12, 5);
    let taken = |verdict: Verdict, says: &[&str]| {
        let warnings = verdict.allowed();
        for text in says {
            let told = warnings.iter().any(|warning| {
                warning.contains("not made worse by this update, and wrong: ") && warning.contains(text)
            });
            assert!(told, "{text:?} is missing in {warnings:?}");
        }
    };
    let says = [
        "guaranteed 10 NVIDIA-A100 in all, and \"research\" only 8",
        "\"vision\" may have 12 NVIDIA-A100",
    ];
    taken(hierarchy.update(&part("vision", "research", 12, 0), &vision), &says);
    let research = part("research", "root", 10, 8);
    let says = ["guaranteed 15 NVIDIA-A100 in all, and \"research\" only 10"];
    taken(hierarchy.update(&part("research", "root", 10, 10), &research), &says);
    let says = [
        "guaranteed 15 NVIDIA-A100 in all, and \"research\" only 8",
        "\"vision\" may have 11 NVIDIA-A100, more than the 10",
    ];
    taken(hierarchy.update(&part("vision", "research", 11, 5), &vision), &says);
    // What is wrong in itself, too.
    let alone = |quota, guarantee| part("sales", "root", quota, guarantee);
    let says = ["8 NVIDIA-A100 is more than annotation volcano.sh/card.quota says (6)"];
    taken(hierarchy.update(&alone(6, 8), &alone(5, 9)), &says);

    // And nothing that is more wrong, or wrong of something else.
    for (queue, reason) in [
        (part("vision", "research", 12, 6), "GuaranteesAboveParent"),
        (part("vision", "research", 13, 5), "ChildAboveParent"),
        (part("vision", "speech", 13, 5), "ChildAboveParent"),
    ] {
        let refused = hierarchy.update(&queue, &vision).refused();
        assert!(refused.starts_with(&format!("403 {reason}: ")), "{refused}");
    }
    let refused = hierarchy.update(&part("research", "root", 9, 8), &research).refused();
    assert!(refused.starts_with("403 ChildAboveParent: "), "{refused}");
    let refused = hierarchy.update(&alone(5, 8), &alone(6, 8)).refused();
    assert!(refused.starts_with("403 AboveCapability: "), "{refused}");
}

/// With `strictHierarchy`, sums are refused as well.
#[test]
fn capabilities_above_the_parents_in_sum_can_be_mended_one_by_one() {
    let strict = Settings {
        strict_hierarchy: true,
        ..Settings::default()
    };
    let hierarchy = Hierarchy::with(strict, true);
    let vision = part("vision", "research", 6, 3);
    hierarchy.update(&part("vision", "research", 5, 3), &vision).allowed();
    let refused = hierarchy.update(&part("vision", "research", 7, 3), &vision).refused();
    assert!(refused.starts_with("403 CapabilitiesAboveParent: "), "{refused}");
}
