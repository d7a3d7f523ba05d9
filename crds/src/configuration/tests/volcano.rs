//! Configurations as Volcano ships them, and as people copy them from each other.

use crate::configuration::*;

fn parse(text: &str) -> Parsed {
    Configuration::parse(Some(text), None).unwrap()
}

#[test]
fn what_volcano_is_installed_with_is_accepted_without_a_word() {
    let parsed = parse(document!("volcano/01-shipped-default.yaml"));
    let mut expected = Parsed::default();
    expected.configuration.queue_plugin = QueuePlugin::Off;
    assert_eq!(parsed, expected, "proportion is Volcano's own");
}

#[test]
fn a_switch_beside_the_plugin_and_again_among_its_arguments_is_said_twice() {
    let parsed = parse(document!("volcano/02-hierarchy.yaml"));
    assert!(parsed.configuration.capacity.enable_hierarchy);
    assert_eq!(parsed.configuration.queue_plugin, QueuePlugin::Capacity);
    assert_eq!(parsed.warnings, [""; 0]);
}

#[test]
fn of_two_different_values_the_one_under_arguments_counts() {
    let parsed = parse(
        "tiers: [{plugins: [{name: capacity, enableHierarchy: true, arguments: {enableHierarchy: false, rootQueue: top}}]}]",
    );
    assert!(!parsed.configuration.capacity.enable_hierarchy);
    assert_eq!(parsed.configuration.capacity.root_queue, "top");
    assert_eq!(
        parsed.warnings,
        [
            "volcano-scheduler.conf: tiers[0].plugins[0].arguments.enableHierarchy is false, and \
             tiers[0].plugins[0].enableHierarchy is true: the former counts, keep one of them"
        ]
    );
}

#[test]
fn what_has_no_effect_in_a_plugin_that_is_named_again_is_said() {
    let parsed =
        parse("tiers: [{plugins: [{name: capacity-card}]}, {plugins: [{name: capacity-card, rootQueu: top}]}]");
    let [misspelt, again] = &parsed.warnings[..] else {
        panic!("{:?}", parsed.warnings)
    };
    assert!(
        misspelt.contains("rootQueu") && misspelt.contains("tiers[1].plugins[0]"),
        "{misspelt}"
    );
    assert!(again.contains("a second time, which has no effect"), "{again}");
}
