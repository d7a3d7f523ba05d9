//! The door for pods: one test for each rule, through whole reviews.

use crds::configuration::{Configuration, QueuePlugin, Settings, UnnamedCards, UnqueuedCards};
use crds::keys::{
    CARD_ASSIGNED, CARD_NAME, GATE, GROUP_NAME, MGPU_ASSUMED, MGPU_CORE, MIRROR_POD, QUEUE_LABEL, QUEUE_NAME,
    SCORING_STRATEGY,
};
use serde_json::{Value, json};
use webhook::Options;
use webhook::endpoint::Endpoint;
use webhook::knowledge::CardFacts;

use crate::common::{self, NAMESPACE, World, by_kubelet, group, pod, pod_review};

const GPU: &str = "nvidia.com/gpu";
const SHARED: &str = "nvidia.com/gpu.shared";

fn unnamed_cards(unnamed_cards: UnnamedCards) -> World {
    World::with_settings(Settings {
        unnamed_cards,
        ..Settings::default()
    })
}

/// A cluster where nobody's cards are free.
fn charging() -> World {
    World::with_settings(Settings {
        unqueued_cards: UnqueuedCards::Charge,
        ..Settings::default()
    })
}

fn queue_of(pod: &Value) -> (&str, &str) {
    (
        pod["metadata"]["annotations"][QUEUE_NAME].as_str().unwrap_or("none"),
        pod["metadata"]["labels"][QUEUE_LABEL].as_str().unwrap_or("none"),
    )
}

#[test]
fn a_managed_pod_is_gated_and_told_its_queue() {
    let verdict = World::new().create_pod(&pod(
        &[(CARD_NAME, "NVIDIA-A100"), (QUEUE_NAME, "team-a")],
        &[(GPU, "1")],
    ));
    assert!(verdict.allowed().is_empty(), "{:?}", verdict.warnings);
    let pod = verdict.object();
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": GATE}]));
    assert_eq!(queue_of(pod), ("team-a", "team-a"));
    assert_eq!(pod["metadata"]["labels"]["app"], "training", "what was there stays");
}

#[test]
fn a_pod_that_is_none_of_cardgates_business_is_left_alone() {
    for untouched in [pod(&[], &[("cpu", "1")]), pod(&[(SCORING_STRATEGY, "nonsense")], &[])] {
        let verdict = World::new().create_pod(&untouched);
        assert_eq!((verdict.allowed().len(), verdict.operations), (0, 0), "{untouched}");
    }
    let mirror = pod(&[(MIRROR_POD, "abc"), (QUEUE_NAME, "team-a")], &[]);
    let verdict = World::new().verdict(Endpoint::Mutate, &by_kubelet(&mirror));
    assert_eq!((verdict.allowed().len(), verdict.operations), (0, 0));
    for exempt in ["kube-system", "cardgate-system"] {
        let mut review = pod_review(&pod(&[(QUEUE_NAME, "team-a")], &[(GPU, "1")]));
        review["request"]["namespace"] = json!(exempt);
        let verdict = World::new().verdict(Endpoint::Mutate, &review);
        assert_eq!((verdict.allowed().len(), verdict.operations), (0, 0), "{exempt}");
    }
}

#[test]
fn every_mark_makes_a_pod_managed() {
    for (annotations, requests) in [
        (vec![(QUEUE_NAME, "team-a")], vec![]),
        (vec![(GROUP_NAME, "training")], vec![]),
        (vec![(CARD_NAME, "NVIDIA-A100")], vec![(GPU, "1")]),
        (vec![], vec![(MGPU_CORE, "100")]),
    ] {
        let verdict = World::new().create_pod(&pod(&annotations, &requests));
        assert_eq!(
            verdict.object()["spec"]["schedulingGates"],
            json!([{"name": GATE}]),
            "{annotations:?}"
        );
    }
}

#[test]
fn only_creation_is_judged() {
    let mut review = pod_review(&pod(&[(QUEUE_NAME, "team-a"), (CARD_NAME, "|")], &[]));
    for (operation, sub_resource) in [
        ("UPDATE", Value::Null),
        ("DELETE", Value::Null),
        ("CREATE", json!("binding")),
    ] {
        review["request"]["operation"] = json!(operation);
        review["request"]["subResource"] = sub_resource;
        let verdict = World::new().verdict(Endpoint::Mutate, &review);
        assert_eq!((verdict.allowed().len(), verdict.operations), (0, 0), "{operation}");
    }
}

#[test]
fn the_patch_fits_whatever_is_there_already_and_changes_nothing_twice() {
    let metadata = [
        json!({"name": "worker"}),
        json!({"name": "worker", "labels": null, "annotations": null}),
        json!({"name": "worker", "labels": {}, "annotations": {}}),
        json!({"name": "worker", "labels": {"a": "b"}, "annotations": {"a": "b"}}),
        json!({"name": "worker", "labels": {QUEUE_LABEL: "stolen"}, "annotations": {QUEUE_NAME: ""}}),
        json!({"generateName": "worker-", "annotations": {CARD_ASSIGNED: "x", QUEUE_NAME: "default", MGPU_ASSUMED: "1"}}),
        json!({"annotations": {CARD_ASSIGNED: "x", "vke.volcengine.com/gpu-index-container-a~b": "0"}}),
    ];
    let gates = [
        None,
        Some(Value::Null),
        Some(json!([])),
        Some(json!([{"name": "example.com/other"}])),
        Some(json!([{"name": GATE}, {"name": "example.com/other"}])),
    ];
    let world = charging();
    for metadata in &metadata {
        for gates in &gates {
            let mut created = pod(&[], &[(MGPU_CORE, "100")]);
            created["metadata"] = metadata.clone();
            if let Some(gates) = gates {
                created["spec"]["schedulingGates"] = gates.clone();
            }
            let verdict = world.create_pod(&created);
            let held = verdict.object();
            assert_eq!(queue_of(held), ("default", "default"), "{created}");
            let names = held["spec"]["schedulingGates"].as_array().unwrap();
            assert_eq!(names.iter().filter(|gate| gate["name"] == GATE).count(), 1, "{created}");
            let foreign = gates.as_ref().is_some_and(|gates| gates.to_string().contains("other"));
            assert_eq!(names.len(), 1 + usize::from(foreign), "other gates stay: {created}");
            let left = held["metadata"]["annotations"].to_string();
            assert!(
                !left.contains("assigned") && !left.contains("assumed") && !left.contains("index"),
                "{left}"
            );

            let again = world.create_pod(held);
            assert_eq!((again.operations, again.allowed().len()), (0, 0), "{held}");
        }
    }
}

#[test]
fn the_queue_is_the_annotations_else_the_groups_else_the_namespaces_else_the_default() {
    for (annotations, namespace, queue) in [
        (
            vec![(QUEUE_NAME, "team-a"), (GROUP_NAME, "training")],
            "production",
            "team-a",
        ),
        (vec![(GROUP_NAME, "training")], NAMESPACE, "team-a"),
        (vec![(GROUP_NAME, "aimless")], NAMESPACE, "default"),
        (vec![(GROUP_NAME, "training"), (QUEUE_NAME, "")], NAMESPACE, "team-a"),
        (vec![], "production", "team-b"),
        (vec![], NAMESPACE, "default"),
    ] {
        let mut review = pod_review(&pod(&annotations, &[(MGPU_CORE, "100")]));
        review["request"]["namespace"] = json!(namespace);
        let verdict = charging().verdict(Endpoint::Mutate, &review);
        assert_eq!(
            queue_of(verdict.object()),
            (queue, queue),
            "{annotations:?} in {namespace}"
        );
    }
    let settings = Settings {
        default_queue: "team-a".to_owned(),
        unqueued_cards: UnqueuedCards::Charge,
        ..Settings::default()
    };
    let verdict = World::with_settings(settings).create_pod(&pod(&[], &[(MGPU_CORE, "100")]));
    assert_eq!(
        queue_of(verdict.object()),
        ("team-a", "team-a"),
        "the configured default"
    );
    // Shares of cards are held also where nobody is charged for them: Cardgate places them.
    let verdict = World::new().create_pod(&pod(&[], &[(MGPU_CORE, "100")]));
    assert!(verdict.allowed()[0].contains("nobody is charged for the pod's vke.volcengine.com/mgpu-core"));
    assert_eq!(queue_of(verdict.object()), ("none", "none"));
    assert_eq!(verdict.object()["spec"]["schedulingGates"], json!([{"name": GATE}]));
}

#[test]
fn a_queue_name_that_is_no_label_value_leaves_the_label_out() {
    let long = "q".repeat(64);
    let world = World::new();
    world.knowledge.queues.set(long.as_str().into(), common::queue(None));
    let mut created = pod(&[(QUEUE_NAME, &long)], &[]);
    created["metadata"]["labels"][QUEUE_LABEL] = json!("forged");
    let verdict = world.create_pod(&created);
    assert_eq!(queue_of(verdict.object()), (long.as_str(), "none"));
    assert_eq!(verdict.warnings.len(), 1, "{:?}", verdict.warnings);
    assert_eq!(world.create_pod(verdict.object()).operations, 0);
}

#[test]
fn cards_of_one_resource_are_alternatives_and_others_contradict_each_other() {
    let world = World::new();
    for (card, resource) in [
        ("NVIDIA-A100|NVIDIA-H100", GPU),
        (" NVIDIA-H100 | NVIDIA-A100 ", GPU),
        ("NVIDIA-A100/mps-80g*1/8", SHARED),
        ("NVIDIA-A100/mig-1g.5gb-mixed", "nvidia.com/mig-1g.5gb"),
    ] {
        let verdict = world.create_pod(&pod(&[(CARD_NAME, card)], &[(resource, "1")]));
        assert!(verdict.allowed().is_empty(), "{card}: {:?}", verdict.warnings);
    }
    for card in [
        "NVIDIA-A100|NVIDIA-A100/mps-80g*1/8",
        "NVIDIA-B200|NVIDIA-A100/mps-80g*1/8|NVIDIA-H100",
    ] {
        let verdict = world.create_pod(&pod(&[(CARD_NAME, card)], &[(GPU, "1")]));
        assert!(verdict.refused().contains("403 CardResourcesDiffer"), "{card}");
    }
}

#[test]
fn single_instance_multi_card_request_example_combinations_that_are_not_supported() {
    const ASCEND: &str = "huawei.com/ascend-910";
    let world = World::new();
    let mig = ["nvidia.com/mig-1g.18gb", "nvidia.com/mig-2g.36gb"];
    for (card, resource) in [
        ("NVIDIA-H800/mps-80g*1/2", SHARED),
        ("NVIDIA-H200/mig-1g.18gb-mixed", mig[0]),
        ("NVIDIA-H200/mig-2g.36gb-mixed", mig[1]),
        ("Ascend-910B", ASCEND),
    ] {
        world.knowledge.card_types.set(card.into(), resource.into());
    }
    for (cards, resources) in [
        ("NVIDIA-A100|NVIDIA-H800/mps-80g*1/2", [GPU, SHARED]),
        ("NVIDIA-H200/mig-1g.18gb-mixed|NVIDIA-H200/mig-2g.36gb-mixed", mig),
        ("NVIDIA-A100|Ascend-910B", [GPU, ASCEND]),
    ] {
        // Whichever of them the pod requests, or both.
        let both = resources.map(|resource| (resource, "1"));
        for requests in [&both[..1], &both[1..], &both[..]] {
            let verdict = world.create_pod(&pod(&[(CARD_NAME, cards)], requests));
            let refused = verdict.refused();
            for part in ["403 CardResourcesDiffer", cards, resources[0], resources[1]] {
                assert!(refused.contains(part), "{part:?} is missing: {refused}");
            }
        }
        // Each by itself is right.
        for (card, request) in cards.split('|').zip(both) {
            assert!(
                world
                    .create_pod(&pod(&[(CARD_NAME, card)], &[request]))
                    .allowed()
                    .is_empty()
            );
        }
    }
}

#[test]
fn unknown_cards_warn_and_wait() {
    let world = World::new();
    let verdict = world.create_pod(&pod(&[(CARD_NAME, "NVIDIA-B200|NVIDIA-A100")], &[(GPU, "1")]));
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
    let verdict = world.create_pod(&pod(&[(CARD_NAME, "NVIDIA-B200|NVIDIA-B300")], &[("amd.com/gpu", "1")]));
    assert_eq!(verdict.allowed().len(), 2, "{:?}", verdict.warnings);
    let verdict = world.create_pod(&pod(&[(CARD_NAME, "NVIDIA-B200")], &[("cpu", "1")]));
    assert_eq!(
        verdict.allowed().len(),
        2,
        "and nothing that could be a card: {:?}",
        verdict.warnings
    );
}

#[test]
fn a_pod_requests_what_its_card_name_stands_for() {
    let world = World::new();
    for requests in [vec![], vec![(GPU, "0")], vec![(SHARED, "1")]] {
        let verdict = world.create_pod(&pod(&[(CARD_NAME, "NVIDIA-A100")], &requests));
        assert!(verdict.refused().contains("403 CardNotRequested"), "{requests:?}");
    }
    let mut limited = pod(&[(CARD_NAME, "NVIDIA-A100")], &[]);
    limited["spec"]["containers"][0]["resources"] = json!({"limits": {GPU: 2}});
    assert!(
        !world.create_pod(&limited).allowed,
        "a bare number is no quantity as the API server writes it"
    );
    limited["spec"]["containers"][0]["resources"] = json!({"limits": {GPU: "2"}});
    assert!(world.create_pod(&limited).allowed().is_empty(), "a limit is a request");
    let mut starting = pod(&[(CARD_NAME, "NVIDIA-A100")], &[]);
    starting["spec"]["initContainers"] = json!([{"name": "warm-up", "resources": {"limits": {GPU: "1"}}}]);
    assert!(
        world.create_pod(&starting).allowed().is_empty(),
        "an init container's too"
    );
}

/// Whoever requests a class by which one card alone is provided has named it, and is charged: he need not be told that nobody is.
#[test]
fn a_resource_that_stands_for_one_card_by_devices_is_never_free() {
    let world = unnamed_cards(UnnamedCards::Free);
    let resource = "deviceclass.resource.kubernetes.io/gpu.nvidia.com";
    let queued = pod(&[(QUEUE_NAME, "team-a")], &[(resource, "1")]);
    let provide = |card: &str| {
        let facts = CardFacts {
            provided_as: [resource.to_owned()].into(),
            ..GPU.into()
        };
        world.knowledge.card_types.set(card.into(), facts);
    };
    provide("NVIDIA-B200");
    assert_eq!(world.create_pod(&queued).allowed(), [""; 0]);
    provide("NVIDIA-B300");
    assert!(world.create_pod(&queued).allowed()[0].contains("counts against no quota"));
}

/// Under `capacity` a queue is limited in what pods request, whatever they call it.
#[test]
fn under_capacity_cards_without_a_name_count_against_the_queues_capability() {
    let world = World::with_configuration(Configuration {
        queue_plugin: QueuePlugin::Capacity,
        cardgate: Settings {
            unnamed_cards: UnnamedCards::Free,
            ..Settings::default()
        },
        ..Configuration::default()
    });
    let queued = pod(&[(QUEUE_NAME, "team-a")], &[(GPU, "1")]);
    assert_eq!(world.create_pod(&queued).allowed(), [""; 0]);
    let two = pod(
        &[(QUEUE_NAME, "team-a"), (CARD_NAME, "NVIDIA-A100")],
        &[(GPU, "1"), ("nvidia.com/mig-1g.5gb", "1")],
    );
    assert_eq!(world.create_pod(&two).allowed(), [""; 0]);
}

#[test]
fn cards_without_a_name_are_charged_refused_or_free() {
    let unqueued = pod(&[], &[(GPU, "1")]);
    let queued = pod(&[(QUEUE_NAME, "team-a")], &[("nvidia.com/mig-1g.5gb", "1")]);
    // Which card it is charged for, its queue says.
    assert!(World::new().create_pod(&queued).allowed().is_empty());
    let verdict = unnamed_cards(UnnamedCards::Free).create_pod(&queued);
    assert!(verdict.allowed()[0].contains("counts against no quota"));
    for settings in [UnnamedCards::Charge, UnnamedCards::Free] {
        let verdict = unnamed_cards(settings).create_pod(&unqueued);
        assert!(verdict.allowed()[0].contains("nobody is charged for the pod's nvidia.com/gpu"));
        assert_eq!(verdict.operations, 0, "not managed, so left alone");
    }
    // But not where it names a group: that may come to name a queue later, and would have that charged for what never waited.
    let early = pod(&[(GROUP_NAME, "late")], &[(GPU, "1")]);
    let verdict = World::new().create_pod(&early);
    let says = "PodGroup \"late\" does not exist in this namespace: the pod's queue is \"default\", and stays so";
    assert!(verdict.allowed()[0].contains(says), "{:?}", verdict.warnings);
    assert_eq!(queue_of(verdict.object()), ("default", "default"));
    let world = World::new();
    world.knowledge.groups.set("research/nameless".into(), group(None));
    let verdict = world.create_pod(&pod(&[(GROUP_NAME, "nameless")], &[(GPU, "1")]));
    assert_eq!(queue_of(verdict.object()), ("default", "default"));
    let denying = unnamed_cards(UnnamedCards::Deny);
    for unnamed in [
        &unqueued,
        &queued,
        &pod(&[], &[("amd.com/gpu", "1")]),
        &pod(&[], &[(MGPU_CORE, "100")]),
    ] {
        assert!(denying.create_pod(unnamed).refused().contains("403 CardNameMissing"));
    }
    for other in [(GPU, "0"), ("example.com/fpga", "1")] {
        assert!(denying.create_pod(&pod(&[], &[other])).allowed().is_empty());
    }
    let several = pod(&[(QUEUE_NAME, "team-a")], &[(GPU, "1"), ("nvidia.com/mig-1g.5gb", "1")]);
    let refused = World::new().create_pod(&several).refused();
    assert!(
        refused.contains("cards by nvidia.com/gpu and nvidia.com/mig-1g.5gb"),
        "{refused}"
    );
}

#[test]
fn cards_are_charged_wherever_the_namespace_names_a_queue_or_nobodys_are_free() {
    let unnamed = pod(&[], &[("amd.com/gpu", "1")]);
    let in_production = |world: World| {
        let mut review = pod_review(&unnamed);
        review["request"]["namespace"] = json!("production");
        world.verdict(Endpoint::Mutate, &review)
    };
    let verdict = in_production(World::new());
    assert!(verdict.allowed().is_empty(), "{:?}", verdict.warnings);
    assert_eq!(queue_of(verdict.object()), ("team-b", "team-b"));
    assert_eq!(verdict.object()["spec"]["schedulingGates"], json!([{"name": GATE}]));
    let verdict = charging().create_pod(&unnamed);
    assert_eq!(queue_of(verdict.object()), ("default", "default"));
}

#[test]
fn a_card_name_covers_one_resource_only() {
    for card in ["NVIDIA-A100", "NVIDIA-B200"] {
        let both = pod(&[(CARD_NAME, card)], &[(GPU, "1"), (SHARED, "1")]);
        let verdict = unnamed_cards(UnnamedCards::Free).create_pod(&both);
        let second: Vec<_> = verdict
            .allowed()
            .iter()
            .filter(|text| text.contains("gpu.shared counts against no"))
            .collect();
        assert_eq!(second.len(), 1, "{:?}", verdict.warnings);
        for settings in [UnnamedCards::Charge, UnnamedCards::Deny] {
            let refused = unnamed_cards(settings).create_pod(&both).refused();
            assert!(refused.contains("403 SecondCardResource"), "{refused}");
        }
    }
}

#[test]
fn a_managed_pod_does_not_name_its_node() {
    let mut bound = pod(&[(QUEUE_NAME, "team-a")], &[]);
    bound["spec"]["nodeName"] = json!("gpu-1");
    assert!(World::new().create_pod(&bound).refused().contains("403 NodeNamed"));
    let mut plain = pod(&[], &[(GPU, "1")]);
    plain["spec"]["nodeName"] = json!("gpu-1");
    World::new().create_pod(&plain).allowed();
}

#[test]
fn requests_that_cannot_be_counted_are_refused() {
    for quantity in ["-1", "100E", "1x", ""] {
        let verdict = World::new().create_pod(&pod(&[(CARD_NAME, "NVIDIA-A100")], &[(GPU, quantity)]));
        assert!(verdict.refused().contains("403 RequestInvalid"), "{quantity:?}");
    }
}

#[test]
fn unknown_scoring_strategies_are_refused() {
    let with = |strategy| World::new().create_pod(&pod(&[(QUEUE_NAME, "team-a"), (SCORING_STRATEGY, strategy)], &[]));
    assert!(with("least-allocated").allowed().is_empty());
    assert!(with("cheapest").refused().contains("403 ScoringStrategyUnknown"));
}

#[test]
fn results_of_an_admission_are_dropped_with_a_warning() {
    for managed in [true, false] {
        let mut annotations = vec![(CARD_ASSIGNED, "NVIDIA-H100"), ("example.com/note", "kept")];
        if managed {
            annotations.push((QUEUE_NAME, "team-a"));
        }
        let verdict = World::new().create_pod(&pod(&annotations, &[]));
        assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
        let left = &verdict.object()["metadata"]["annotations"];
        assert_eq!(
            (left.get(CARD_ASSIGNED), &left["example.com/note"]),
            (None, &json!("kept"))
        );
    }
}

/// Nobody would ever take it off.
#[test]
fn who_writes_the_gate_himself_on_what_is_not_held_loses_it_with_a_warning() {
    let others = json!({"name": "example.com/others"});
    for (gates, left, warnings) in [
        (json!([{"name": GATE}]), json!([]), 1),
        (json!([{"name": GATE}, others, {"name": GATE}]), json!([others]), 1),
        (json!([others]), json!([others]), 0),
    ] {
        let mut gated = pod(&[], &[("cpu", "1")]);
        gated["spec"]["schedulingGates"] = gates;
        let verdict = World::new().create_pod(&gated);
        assert_eq!(verdict.object()["spec"]["schedulingGates"], left);
        assert_eq!(verdict.allowed().len(), warnings, "{:?}", verdict.warnings);
    }
    let mut held = pod(&[(QUEUE_NAME, "team-a")], &[]);
    held["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    let verdict = World::new().create_pod(&held);
    assert_eq!(verdict.object()["spec"]["schedulingGates"], json!([{"name": GATE}]));
    assert_eq!(verdict.allowed(), [""; 0]);
}

#[test]
fn a_scheduler_that_is_not_there_is_replaced_where_that_is_wanted() {
    let options = Options {
        replace_scheduler_name: Some("volcano".to_owned()),
    };
    let scheduled_by = |name: &str, annotations: &[(&str, &str)]| {
        let mut created = pod(annotations, &[]);
        created["spec"]["schedulerName"] = json!(name);
        created
    };
    let managed = [(QUEUE_NAME, "team-a")];
    for (options, created, scheduler, warnings) in [
        (&options, scheduled_by("volcano", &managed), "default-scheduler", 1),
        (&options, scheduled_by("other", &managed), "other", 0),
        (&options, scheduled_by("volcano", &[]), "default-scheduler", 1),
        (&Options::default(), scheduled_by("volcano", &managed), "volcano", 0),
    ] {
        let verdict = World::with(Configuration::default(), options.clone()).create_pod(&created);
        assert_eq!(verdict.object()["spec"]["schedulerName"], scheduler, "{created}");
        assert_eq!(verdict.warnings.len(), warnings, "{:?}", verdict.warnings);
    }
}

#[test]
fn validate_judges_a_pod_as_mutate_does_and_writes_nothing() {
    let world = World::new();
    let verdict = world.verdict(Endpoint::Validate, &pod_review(&pod(&[], &[(GPU, "1")])));
    assert_eq!((verdict.allowed().len(), verdict.operations), (1, 0));
    let verdict = world.verdict(Endpoint::Validate, &pod_review(&pod(&[(CARD_NAME, "A|A")], &[])));
    assert!(verdict.refused().contains("403 CardNameInvalid"));
}

#[test]
fn a_dry_run_is_answered_the_same() {
    for created in [pod(&[(QUEUE_NAME, "team-a")], &[]), pod(&[(CARD_NAME, "|")], &[])] {
        let mut review = pod_review(&created);
        let real = World::new().verdict(Endpoint::Mutate, &review);
        review["request"]["dryRun"] = json!(true);
        assert_eq!(World::new().verdict(Endpoint::Mutate, &review), real);
    }
}

/// What a class will have, nobody knows while it has nothing: who asks for it must not be past the gate by then.
#[test]
fn whatever_class_a_pod_names_it_is_held_where_cards_are_charged() {
    let resource = "deviceclass.resource.kubernetes.io/gpu.example.com";
    let held = charging().create_pod(&pod(&[], &[(resource, "1")]));
    held.allowed();
    assert_eq!(held.object()["spec"]["schedulingGates"], json!([{"name": GATE}]));
    assert_eq!(
        queue_of(held.object()),
        ("none", "none"),
        "the operator knows whether it is for cards"
    );
    let free = World::new().create_pod(&pod(&[], &[(resource, "1")]));
    assert_eq!(
        (free.allowed().len(), free.operations),
        (0, 0),
        "where nobody charges it"
    );
}

/// The policies refuse whoever passes the door with what the operator lists for them.
#[test]
fn what_the_operator_lists_for_the_policies_is_a_card() {
    let world = charging();
    let gates = |resource: &str| {
        let verdict = world.create_pod(&pod(&[], &[(resource, "1")]));
        verdict.allowed();
        verdict.object()["spec"]["schedulingGates"].clone()
    };
    assert_eq!(gates("example.com/gpu"), Value::Null);
    world
        .knowledge
        .list_resources("nvidia.com/gpu,example.com/gpu,other.com/*");
    assert_eq!(gates("example.com/gpu"), json!([{"name": GATE}]));
    assert_eq!(gates("other.com/card"), json!([{"name": GATE}]));
    assert_eq!(gates("example.com/nic"), Value::Null);
    world.knowledge.list_resources("");
    assert_eq!(gates("example.com/gpu"), Value::Null);
}
