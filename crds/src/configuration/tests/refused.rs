//! What is refused, with messages that name the place, the offending text and the remedy.

use std::fmt::Write as _;

use proptest::prelude::*;

use crate::configuration::*;

/// Parts of the message: the place, the offending text, the remedy.
fn refused(conf: &str, parts: &[&str]) {
    let message = Configuration::parse(Some(conf), None).unwrap_err().to_string();
    assert!(message.starts_with("volcano-scheduler.conf: "), "{conf}: {message}");
    for part in parts {
        assert!(message.contains(part), "{conf}: {message} lacks {part:?}");
    }
}

#[test]
fn arguments_of_capacity_card_that_are_refused() {
    let card = |arguments: &str| format!("tiers: [{{plugins: [{{name: capacity-card, arguments: {arguments}}}]}}]");
    for (conf, parts) in [
        (
            card("{nodeOrderWeight: 0}"),
            ["plugins[0].arguments.nodeOrderWeight", " is 0", "positive number"],
        ),
        (
            card("{nodeOrderWeight: -1.5}"),
            ["nodeOrderWeight", "-1.5", "positive number"],
        ),
        (
            card("{nodeOrderWeight: .inf}"),
            ["nodeOrderWeight", ".inf", "positive number"],
        ),
        (
            card("{nodeOrderWeight: .nan}"),
            ["nodeOrderWeight", ".nan", "positive number"],
        ),
        (
            card("{nodeOrderWeight: inf}"),
            ["nodeOrderWeight", "\"inf\"", "positive number"],
        ),
        (
            card("{nodeOrderWeight: 1e999}"),
            ["nodeOrderWeight", ".inf", "positive number"],
        ),
        (
            card("{nodeOrderWeight: heavy}"),
            ["nodeOrderWeight", "heavy", "positive number"],
        ),
        (
            card("{nodeOrderWeight: [1]}"),
            ["nodeOrderWeight", "[1]", "positive number"],
        ),
        (
            card("{cardUnlimitedCpuMemory: 1}"),
            ["cardUnlimitedCpuMemory", " is 1", "true or false"],
        ),
        (
            card("{cardUnlimitedCpuMemory: sure}"),
            ["cardUnlimitedCpuMemory", "sure", "true or false"],
        ),
        (card("[1]"), ["plugins[0].arguments", "[1]", "key: value"]),
        (card("5"), ["plugins[0].arguments", " is 5", "key: value"]),
        (
            card("{nodeOrderWeight: 1, nodeOrderWeight: 2}"),
            ["nodeOrderWeight", "twice", "line 1"],
        ),
    ] {
        refused(&conf, &parts);
    }
}

#[test]
fn mgpu_arguments_that_are_refused() {
    for (argument, value, remedy) in [
        ("predicate.MGPUEnable", "1", "true or false"),
        ("predicate.MGPUEnable", "\"on\"", "true or false"),
        ("predicate.MGPUPolicy", "\"pack\"", "binpack or spread"),
        ("predicate.MGPUPolicy", "5", "binpack or spread"),
        ("predicate.MGPUWeightOfCore", "101", "from 0 to 100"),
        ("predicate.MGPUWeightOfCore", "-1", "from 0 to 100"),
        ("predicate.MGPUWeightOfCore", "0.2", "from 0 to 100"),
        ("predicate.MGPUWeightOfCore", "356", "from 0 to 100"),
        ("predicate.MGPUWeightOfCore", "\"heavy\"", "from 0 to 100"),
        ("predicate.MGPUScheduleMode", "\"uuid\"", "index or id"),
        ("predicate.MGPUMaxContainersPerCard", "0", "at least 1"),
        ("predicate.MGPUMaxContainersPerCard", "-16", "at least 1"),
        ("predicate.MGPUMaxContainersPerCard", "4294967296", "at least 1"),
        ("predicate.MGPUMaxContainersPerCard", "[16]", "at least 1"),
    ] {
        let conf = format!("tiers: [{{plugins: [{{name: predicates, arguments: {{{argument}: {value}}}}}]}}]");
        refused(&conf, &[&format!("arguments.{argument} is {value}"), remedy]);
    }
}

#[test]
fn structure_of_volcano_scheduler_conf_that_is_refused() {
    for (conf, parts) in [
        ("tiers: 5", ["tiers is 5", "write", "list of tiers"]),
        ("tiers: [5]", ["tiers[0] is 5", "write", "plugins"]),
        (
            "tiers: [{plugins: gang}]",
            ["tiers[0].plugins", "gang", "list of plugins"],
        ),
        ("tiers: [{plugins: [gang]}]", ["plugins[0]", "\"gang\"", "name: "]),
        ("tiers: [{plugins: [~]}]", ["plugins[0]", "is null", "name: "]),
        ("tiers: [{plugins: [{args: 1}]}]", ["plugins[0]", "args", "name: "]),
        (
            "tiers: [{plugins: [{name: 5}]}]",
            ["plugins[0].name", " is 5", "name of a plugin"],
        ),
        (
            "actions: [enqueue]",
            ["actions", "[\"enqueue\"]", "separated by commas"],
        ),
        (
            "actions: \"enqueue,,allocate\"",
            ["actions", "enqueue,,", "separated by commas"],
        ),
        (
            "tiers: [{plugins: [{name: capacity}]}, {plugins: [{name: capacity-card}]}]",
            ["capacity and capacity-card", "both enabled", "remove one"],
        ),
        (
            "tiers: [{plugins: [{name: capacity-card}, {name: capacity-card, rootQueue: top}]}]",
            [
                "plugins[1]",
                "capacity-card a second time, with other arguments",
                "once",
            ],
        ),
        ("- 1", ["the document", "[1]", "key: value"]),
        ("enqueue", ["the document", "enqueue", "key: value"]),
        ("tiers:\n\t- plugins:\n", ["YAML", "tabs", "line 2"]),
        ("a: 1\n---\nb: 2\n", ["YAML", "one document", "---"]),
        ("tiers: [", ["YAML", "line 1", "bracket"]),
        ("? [a]\n: b", ["YAML", "line 1", "string"]),
    ] {
        refused(conf, &parts);
    }
}

#[test]
fn settings_that_are_refused() {
    for (text, parts) in [
        ("defaultQueue: 5", ["defaultQueue", " is 5", "in quotes"]),
        ("defaultQueue: ''", ["defaultQueue", "\"\"", "name of a queue"]),
        ("defaultQueue: Team_A", ["defaultQueue", "Team_A", "lower case letters"]),
        ("defaultQueue: -a", ["defaultQueue", "-a", "lower case letters"]),
        ("defaultQueue: a..b", ["defaultQueue", "a..b", "lower case letters"]),
        ("admitOn: Fit", ["admitOn", "Fit", "fit or quota"]),
        ("admitOn: true", ["admitOn", "true", "fit or quota"]),
        (
            "reservationTimeout: 300",
            ["reservationTimeout", " is 300", "such as 5m"],
        ),
        ("reservationTimeout: 0s", ["reservationTimeout", "0s", "from 1s"]),
        ("reservationTimeout: -5m", ["reservationTimeout", "-5m", "such as 5m"]),
        ("reservationTimeout: 9999h", ["reservationTimeout", "9999h", "to 8760h"]),
        (
            "terminatingTimeout: 5 minutes",
            ["terminatingTimeout", "5 minutes", "such as 5m"],
        ),
        ("inqueueTimeout: 0s", ["inqueueTimeout", "0s", "such as 10m"]),
        ("enqueue: 1", ["enqueue", "1", "true or false"]),
        ("unnamedCards: maybe", ["unnamedCards", "maybe", "charge, deny or free"]),
        ("unqueuedCards: free", ["unqueuedCards", "free", "count or charge"]),
        (
            "cardResources: amd.com/gpu",
            ["cardResources", "amd.com/gpu", "a list of"],
        ),
        ("cardResources: [gpu]", ["cardResources[0]", "gpu", "with its domain"]),
        ("cardResources: ['*']", ["cardResources[0]", "*", "with its domain"]),
        (
            "cardResources: [a.com/gpu, 'a*b/c']",
            ["cardResources[1]", "a*b/c", "with its domain"],
        ),
        (
            "cardResources: [a.com/]",
            ["cardResources[0]", "a.com/", "with its domain"],
        ),
        ("schedulers: all", ["schedulers", "all", "a list of user names"]),
        ("schedulers: [a, '']", ["schedulers[1]", "", "a user as the API server"]),
        (
            "schedulers: [a b]",
            ["schedulers[0]", "a b", "a user as the API server"],
        ),
        ("cardResources: [5]", ["cardResources[0]", " is 5", "with its domain"]),
        (
            "cardDrivers: gpu.example.com",
            ["cardDrivers", "gpu.example.com", "a list of"],
        ),
        (
            "cardDrivers: [gpu.example.com]",
            ["cardDrivers[0]", "gpu.example.com", "{driver: "],
        ),
        ("cardDrivers: [~]", ["cardDrivers[0]", "null", "{driver: "]),
        (
            "cardDrivers: [{driver: a.com}]",
            ["cardDrivers[0]", "a.com", "product: productName"],
        ),
        ("cardDrivers: [{product: a}]", ["cardDrivers[0]", "product", "driver: "]),
        (
            "cardDrivers: [{driver: A_b, product: a}]",
            ["cardDrivers[0].driver", "A_b", "ResourceSlices"],
        ),
        (
            "cardDrivers: [{driver: gpu.nvidia.com, product: a}]",
            ["cardDrivers[0].driver", "gpu.nvidia.com", "other than"],
        ),
        (
            "cardDrivers: [{driver: a.com, product: a-b}]",
            ["cardDrivers[0].product", "a-b", "attribute"],
        ),
        (
            "cardDrivers: [{driver: a.com, product: b/c/d}]",
            ["cardDrivers[0].product", "b/c/d", "attribute"],
        ),
        (
            "cardDrivers: [{driver: a.com, product: a, profile: 1g}]",
            ["cardDrivers[0].profile", "1g", "attribute"],
        ),
        (
            "cardDrivers: [{driver: a.com, product: a}, {driver: a.com, product: b}]",
            ["cardDrivers[1].driver", "a.com", "named already"],
        ),
        ("admitOn: fit\nadmitOn: fit", ["YAML", "admitOn", "twice"]),
        ("[]", ["the document", "[]", "key: value"]),
    ] {
        let message = Configuration::parse(None, Some(text)).unwrap_err().to_string();
        assert!(message.starts_with("cardgate.yaml: "), "{text}: {message}");
        for part in parts {
            assert!(message.contains(part), "{text}: {message} lacks {part:?}");
        }
    }
}

#[test]
fn long_values_are_cut_in_messages() {
    let text = format!("admitOn: {}", "é".repeat(5000));
    let message = Configuration::parse(None, Some(&text)).unwrap_err().to_string();
    assert!(message.len() < 400, "{message}");
}

#[test]
fn aliases_that_explode_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let elements = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{elements}]").unwrap();
    }
    assert!(matches!(
        Configuration::parse(None, Some(&text)),
        Err(ConfigurationError::Syntax { .. })
    ));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), other in "[-:{}\\[\\]a-c \\n\\t'\"&*!|>#,.0-9]{0,60}") {
        let _ = Configuration::parse(Some(&text), Some(&other));
        let _ = Configuration::parse(Some(&other), Some(&text));
    }

    #[test]
    fn no_argument_panics(value in any::<String>(), key in any::<String>()) {
        let quote = |text: &str| serde_json::to_string(text).unwrap();
        let conf = format!(
            "tiers: [{{plugins: [{{name: capacity-card, {}: {}}}]}}]", quote(&key), quote(&value),
        );
        let _ = Configuration::parse(Some(&conf), Some(&format!("{}: {}", quote(&key), quote(&value))));
    }
}
