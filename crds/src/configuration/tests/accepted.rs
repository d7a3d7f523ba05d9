//! The documents' own configuration blocks, every setting, and what is warned about.

use std::time::Duration;

use super::of_config_map;
use crate::card_resources::WELL_KNOWN;
use crate::configuration::*;

fn scheduler(text: &str) -> Parsed {
    Configuration::parse(Some(text), None).unwrap()
}

fn settings(text: &str) -> Settings {
    let parsed = Configuration::parse(None, Some(text)).unwrap();
    assert_eq!(parsed.warnings, [""; 0], "{text}");
    parsed.configuration.cardgate
}

#[test]
fn capacity_card_plugin_configuration() {
    let parsed = scheduler(document!("capacity-card/10-plugin-configuration.yaml"));
    assert_eq!(parsed.configuration.actions, ["enqueue", "allocate", "backfill"]);
    assert_eq!(
        parsed.configuration.capacity_card,
        CapacityCard {
            card_unlimited_cpu_memory: true,
            node_order_weight: 1.0
        }
    );
    assert_eq!(parsed.warnings, [""; 0]);
}

#[test]
fn capacity_card_multi_card_selection_scheduler_configuration() {
    let text = of_config_map(document!("capacity-card/22-example-4-configuration.yaml"));
    let parsed = scheduler(&text);
    assert_eq!(
        parsed.configuration.capacity_card,
        CapacityCard {
            card_unlimited_cpu_memory: false,
            node_order_weight: 2.0
        }
    );
    assert_eq!(parsed.warnings, [""; 0]);
}

#[test]
fn mgpu_volcano_plugin_config() {
    let parsed = scheduler(document!("mgpu/12-plugin-configuration.yaml"));
    assert_eq!(
        parsed.configuration.actions,
        ["reclaim", "allocate", "backfill", "preempt"]
    );
    assert_eq!(parsed.configuration.queue_plugin, QueuePlugin::Off);
    assert_eq!(
        parsed.configuration.mgpu,
        Mgpu {
            enable: true,
            policy: CardStrategy::Binpack,
            weight_of_core: 20,
            schedule_mode: ScheduleMode::Index,
            max_containers_per_card: 16,
        }
    );
}

#[test]
fn mgpu_arguments_in_every_spelling() {
    let mgpu = |arguments: &str| {
        let parsed = scheduler(&format!(
            "tiers: [{{plugins: [{{name: predicates, arguments: {{{arguments}}}}}]}}]"
        ));
        assert_eq!(parsed.warnings, [""; 0], "{arguments}");
        parsed.configuration.mgpu
    };
    assert_eq!(mgpu(""), Mgpu::default());
    for policy in ["Spread", "spread", "SPREAD", "\" spread \""] {
        assert_eq!(
            mgpu(&format!("predicate.MGPUPolicy: {policy}")).policy,
            CardStrategy::Spread
        );
    }
    assert_eq!(mgpu("predicate.MGPUPolicy: Binpack").policy, CardStrategy::Binpack);
    assert_eq!(mgpu("predicate.MGPUScheduleMode: ID").schedule_mode, ScheduleMode::Id);
    for (weight, expected) in [("0", 0), ("100", 100), ("\"35\"", 35)] {
        assert_eq!(
            mgpu(&format!("predicate.MGPUWeightOfCore: {weight}")).weight_of_core,
            expected
        );
    }
    assert_eq!(
        mgpu("predicate.MGPUMaxContainersPerCard: \"1\"").max_containers_per_card,
        1
    );
    assert!(!mgpu("predicate.MGPUEnable: \"false\"").enable);
    // The plugin's other arguments are Volcano's.
    assert_eq!(mgpu("predicate.GPUSharingEnable: true"), Mgpu::default());
}

#[test]
fn an_mgpu_argument_that_is_none_is_warned_about() {
    let parsed = scheduler("tiers: [{plugins: [{name: predicates, arguments: {predicate.MGPUWeight: 5}}]}]");
    assert_eq!(
        parsed.warnings,
        [
            "volcano-scheduler.conf: tiers[0].plugins[0].arguments.predicate.MGPUWeight is unknown and has no effect: the mGPU \
             arguments of predicates are predicate.MGPUEnable, predicate.MGPUPolicy, predicate.MGPUWeightOfCore, \
             predicate.MGPUScheduleMode, predicate.MGPUMaxContainersPerCard"
        ]
    );
}

#[test]
fn arguments_stand_under_arguments_or_beside_it_quoted_or_bare() {
    let expected = CapacityCard {
        card_unlimited_cpu_memory: true,
        node_order_weight: 2.0,
    };
    for plugin in [
        "{name: capacity-card, arguments: {cardUnlimitedCpuMemory: true, nodeOrderWeight: 2}}",
        "{name: capacity-card, arguments: , cardUnlimitedCpuMemory: true, nodeOrderWeight: 2}",
        "{name: capacity-card, cardUnlimitedCpuMemory: 'true', nodeOrderWeight: '2.0'}",
        "{name: capacity-card, cardUnlimitedCpuMemory: \"True\", arguments: {nodeOrderWeight: \" 2e0 \"}}",
    ] {
        let parsed = scheduler(&format!("tiers: [{{plugins: [{plugin}]}}]"));
        assert_eq!(parsed.configuration.capacity_card, expected, "{plugin}");
        assert_eq!(parsed.warnings, [""; 0], "{plugin}");
    }
}

#[test]
fn every_setting_of_cardgate_yaml() {
    let read = settings(
        "defaultQueue: research\nadmitOn: quota\nreservationTimeout: 1h30m\nterminatingTimeout: 90s\ninqueueTimeout: 20m\n\
         unnamedCards: deny\nunqueuedCards: charge\nenqueue: false\ncardResources: [amd.com/gpu, example.com/*, nvidia.com/gpu]\nstrictHierarchy: true\n\
         enforceMGPU: extender\ncardDrivers: [{driver: gpu.example.com, product: model}, {driver: npu.example.com, \
         product: example.com/product, profile: part_2}]\nschedulers: [\"system:serviceaccount:a:b\"]\n",
    );
    assert_eq!(
        read,
        Settings {
            default_queue: "research".to_owned(),
            admit_on: AdmitOn::Quota,
            reservation_timeout: Duration::from_mins(90),
            terminating_timeout: Duration::from_secs(90),
            inqueue_timeout: Duration::from_mins(20),
            unnamed_cards: UnnamedCards::Deny,
            unqueued_cards: UnqueuedCards::Charge,
            enqueue: false,
            card_resources: WELL_KNOWN
                .into_iter()
                .chain(["example.com/*"])
                .map(str::to_owned)
                .collect(),
            enforce_cross_quota: Enforcement::Gating,
            enforce_mgpu: Enforcement::Extender,
            strict_hierarchy: true,
            card_drivers: vec![
                CardDriver {
                    driver: "gpu.example.com".to_owned(),
                    product: "model".to_owned(),
                    profile: None,
                },
                CardDriver {
                    driver: "npu.example.com".to_owned(),
                    product: "example.com/product".to_owned(),
                    profile: Some("part_2".to_owned()),
                },
            ],
            schedulers: vec!["system:serviceaccount:a:b".to_owned()],
        }
    );
    for (resource, is_card) in [
        ("nvidia.com/gpu", true),
        ("nvidia.com/gpu.shared", true),
        ("nvidia.com/mig-1g.5gb", true),
        ("example.com/anything", true),
        ("amd.com/gpu", true),
        ("amd.com/gpu2", false),
        ("nvidia.com/hostdev", false),
        ("cpu", false),
    ] {
        assert_eq!(read.is_card_resource(resource), is_card, "{resource}");
    }
}

#[test]
fn what_is_absent_or_empty_leaves_the_defaults() {
    let defaults = Parsed::default();
    assert_eq!(defaults.configuration.cardgate.default_queue, "default");
    assert_eq!(defaults.configuration.cardgate.admit_on, AdmitOn::Fit);
    assert_eq!(
        defaults.configuration.cardgate.reservation_timeout,
        Duration::from_mins(5)
    );
    assert_eq!(
        defaults.configuration.cardgate.terminating_timeout,
        Duration::from_mins(5)
    );
    assert_eq!(Configuration::parse(None, None), Ok(defaults.clone()));
    for text in [
        "",
        "\n",
        "  \n# nothing but a comment\n",
        "---\n",
        "null",
        "~",
        "{}",
        "---\n...\n",
    ] {
        assert_eq!(
            Configuration::parse(Some(text), Some(text)),
            Ok(defaults.clone()),
            "{text:?}"
        );
    }
    for conf in [
        "tiers:",
        "tiers: []",
        "tiers: [{plugins: }]",
        "tiers: [{}, ~]",
        "actions:",
        "metrics: {}",
    ] {
        assert_eq!(Configuration::parse(Some(conf), None), Ok(defaults.clone()), "{conf:?}");
    }
    assert_eq!(settings("admitOn:\ndefaultQueue: ~\n"), Settings::default());
}

#[test]
fn what_has_no_effect_is_named_in_a_warning() {
    for (conf, parts) in [
        (
            "tiers: [{plugins: [{name: capacity-card, arguments: {cardUnlimited: true}}]}]",
            ["tiers[0].plugins[0].arguments.cardUnlimited", "nodeOrderWeight"],
        ),
        (
            "tiers: [{plugins: [{name: capacity-card, nodeOrderWait: 2}]}]",
            ["nodeOrderWait", "cardUnlimitedCpuMemory"],
        ),
        ("actions: \"enqueue, alocate\"", ["\"alocate\"", "allocate"]),
        (
            "tiers: [{plugins: [{name: capacity-card}]}, {plugins: [{name: proportion}]}]",
            ["proportion", "capacity-card"],
        ),
    ] {
        let warnings = scheduler(conf).warnings;
        assert_eq!(warnings.len(), 1, "{conf}: {warnings:?}");
        for part in parts {
            assert!(warnings[0].contains(part), "{conf}: {warnings:?}");
        }
    }
    let parsed = Configuration::parse(None, Some("admiton: quota\nstrictness: true\n")).unwrap();
    assert_eq!(parsed.configuration, Configuration::default());
    let [first, second] = parsed.warnings.as_slice() else {
        panic!("{:?}", parsed.warnings)
    };
    assert!(
        first.starts_with("cardgate.yaml: admiton is unknown") && first.contains("admitOn"),
        "{first}"
    );
    assert!(second.contains("strictness"), "{second}");
}

#[test]
fn generations_differ_where_texts_do() {
    let texts = [None, Some(""), Some("a"), Some("a\n"), Some("b")];
    let mut generations: Vec<_> = texts
        .iter()
        .flat_map(|conf| texts.iter().map(|own| generation(*conf, *own)))
        .collect();
    assert_eq!(generation(Some("a"), None), generation(Some("a"), None));
    assert!(
        generations.iter().all(|generation| (1..1 << 52).contains(generation)),
        "{generations:?}"
    );
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), texts.len() * texts.len());
}

#[test]
fn of_many_warnings_the_first_are_told_and_how_many_more_there_are() {
    let actions = vec!["all"; 2_639].join(", ");
    let warnings = scheduler(&format!("actions: \"{actions}\"")).warnings;
    assert_eq!(warnings.len(), 101);
    assert!(warnings[0].contains("\"all\""), "{}", warnings[0]);
    assert_eq!(warnings[100], "and 2539 more: mend these first");
}
