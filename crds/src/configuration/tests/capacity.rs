//! The capacity documents: section 3 (`pluginArguments`), and the one about `checkQueueDimensionsOnly`.

use std::time::Duration;

use super::of_config_map;
use crate::configuration::*;

fn read(text: &str) -> Configuration {
    let parsed = Configuration::parse(Some(text), None).unwrap();
    assert_eq!(parsed.warnings, [""; 0], "{text}");
    parsed.configuration
}

fn plugin(text: &str) -> String {
    format!("tiers: [{{plugins: [{text}]}}]")
}

#[test]
fn check_queue_dimensions_only_configuration() {
    let enabled = of_config_map(document!("dimensions/02-configuration.yaml"));
    let default = of_config_map(document!("dimensions/06-default-configuration.yaml"));
    for (text, expected) in [(enabled, true), (default, false)] {
        let configuration = read(&text);
        assert_eq!(configuration.queue_plugin, QueuePlugin::Capacity);
        assert_eq!(configuration.capacity.check_queue_dimensions_only, expected);
    }
}

#[test]
fn using_the_plugin_with_reclaim() {
    let parsed = Configuration::parse(Some(&of_config_map(document!("capacity/01-configuration.yaml"))), None).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    assert!(parsed.configuration.has_action("reclaim") && !parsed.configuration.has_action("preempt"));
    assert_eq!(parsed.configuration.queue_plugin, QueuePlugin::Capacity);
    assert_eq!(parsed.configuration.capacity, Capacity::default());
}

#[test]
fn section_5_configuration_example_with_the_arguments_beside_arguments() {
    let configuration = read(&of_config_map(document!("capacity/03-example-configuration.yaml")));
    let expected = Capacity {
        log_level: Some(LogLevel::Info),
        reclaim_interval: Duration::from_secs(30),
        ..Capacity::default()
    };
    assert_eq!(configuration.capacity, expected);
}

#[test]
fn section_3_defaults() {
    let defaults = read(&plugin("{name: capacity}")).capacity;
    assert!(defaults.reclaimable && defaults.enable_overuse && defaults.metrics_enabled);
    assert!(!defaults.enable_hierarchy && !defaults.check_queue_dimensions_only);
    assert_eq!(defaults.reclaim_interval, Duration::from_mins(1));
    assert_eq!(defaults.guarantee_threshold, 80);
    assert_eq!((defaults.root_queue.as_str(), defaults.log_level), ("root", None));
}

#[test]
fn section_3_every_argument_quoted_or_bare_on_either_plugin() {
    let expected = Capacity {
        root_queue: "company".to_owned(),
        reclaimable: false,
        enable_overuse: false,
        enable_hierarchy: true,
        log_level: Some(LogLevel::Debug),
        metrics_enabled: false,
        reclaim_interval: Duration::from_secs(5),
        guarantee_threshold: 95,
        check_queue_dimensions_only: false,
    };
    for arguments in [
        "{rootQueue: company, reclaimable: false, enableOveruse: false, enableHierarchy: true, logLevel: debug, \
         metricsEnabled: false, reclaimInterval: 5, guaranteeThreshold: 95}",
        "{rootQueue: \"company\", reclaimable: \"false\", enableOveruse: 'false', enableHierarchy: \"true\", \
         logLevel: \"DEBUG\", metricsEnabled: 'False', reclaimInterval: \"5\", guaranteeThreshold: ' 95 '}",
    ] {
        for name in ["capacity", "capacity-card"] {
            let configuration = read(&plugin(&format!("{{name: {name}, arguments: {arguments}}}")));
            assert_eq!(configuration.capacity, expected, "{name} {arguments}");
            assert_eq!(configuration.queue_plugin == QueuePlugin::Capacity, name == "capacity");
        }
    }
}

#[test]
fn an_unknown_argument_is_named_in_a_warning() {
    for (text, parts) in [
        (
            "{name: capacity, arguments: {enableOverUse: true}}",
            ["arguments.enableOverUse", "enableOveruse"],
        ),
        (
            "{name: capacity, reclaimable: false, enableHierarchie: true}",
            ["arguments.enableHierarchie", "reclaimInterval"],
        ),
        // Of the capacity plugin alone: what a card quota does not name is none, not unchecked.
        (
            "{name: capacity-card, checkQueueDimensionsOnly: true}",
            ["arguments.checkQueueDimensionsOnly", "enableHierarchy"],
        ),
    ] {
        let warnings = Configuration::parse(Some(&plugin(text)), None).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
        for part in parts {
            assert!(warnings[0].contains(part), "{text}: {warnings:?}");
        }
    }
}

#[test]
fn an_ill_typed_argument_is_refused() {
    for (argument, parts) in [
        ("rootQueue: 5", [" is 5", "name of a queue"]),
        ("rootQueue: Root", ["\"Root\"", "lower case"]),
        ("reclaimable: 1", [" is 1", "true or false"]),
        ("enableOveruse: yes please", ["yes please", "true or false"]),
        ("enableHierarchy: []", ["[]", "true or false"]),
        ("metricsEnabled: maybe", ["maybe", "true or false"]),
        ("logLevel: loud", ["loud", "debug, info"]),
        ("logLevel: 3", [" is 3", "debug, info"]),
        ("reclaimInterval: 0", [" is 0", "from 1 to 86400"]),
        ("reclaimInterval: -1", [" is -1", "from 1 to 86400"]),
        ("reclaimInterval: 1.5", ["1.5", "whole number of seconds"]),
        ("reclaimInterval: 30s", ["30s", "whole number of seconds"]),
        ("guaranteeThreshold: 101", [" is 101", "from 0 to 100"]),
        ("guaranteeThreshold: 80.5", ["80.5", "whole number of percent"]),
        ("guaranteeThreshold: most", ["most", "such as 80"]),
        ("checkQueueDimensionsOnly: 2", [" is 2", "true or false"]),
    ] {
        let text = plugin(&format!("{{name: capacity, arguments: {{{argument}}}}}"));
        let message = Configuration::parse(Some(&text), None).unwrap_err().to_string();
        let key = argument.split(':').next().unwrap();
        assert!(message.contains(&format!("plugins[0].arguments.{key}")), "{message}");
        for part in parts {
            assert!(message.contains(part), "{argument}: {message}");
        }
    }
}

#[test]
fn the_plugin_is_incompatible_with_proportion() {
    let text = plugin("{name: capacity}, {name: proportion}");
    let warnings = Configuration::parse(Some(&text), None).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("proportion conflicts with capacity:"),
        "{warnings:?}"
    );
}
