//! Arguments of the `crossquota` plugin (CrossQuota, **Configuration Format**): the document's block, every argument, and
//! what earlier implementations took in silence.

use crate::configuration::*;
use crate::cross_quota::Percentage;

fn parse(arguments: &str) -> Result<Parsed, ConfigurationError> {
    let conf = format!("tiers: [{{plugins: [{{name: crossquota, arguments: {{{arguments}}}}}]}}]");
    Configuration::parse(Some(&conf), None)
}

fn read(arguments: &str) -> CrossQuota {
    let parsed = parse(arguments).unwrap();
    assert_eq!(parsed.warnings, [""; 0], "{arguments}");
    parsed.configuration.cross_quota.unwrap()
}

fn limited(name: &str, quota: Option<i64>, percentage: Option<&str>, weight: u32) -> QuotaResource {
    QuotaResource {
        name: name.into(),
        quota,
        percentage: percentage.map(|text| Percentage::parse(text).unwrap()),
        weight,
    }
}

#[test]
fn configuration_format() {
    let arguments = document!("crossquota/01-configuration.yaml").replace('\n', "\n    ");
    let conf = format!("tiers:\n- plugins:\n  - name: crossquota\n    {arguments}");
    let parsed = Configuration::parse(Some(&conf), None).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    assert_eq!(parsed.configuration.queue_plugin, QueuePlugin::Off);
    let read = parsed.configuration.cross_quota.unwrap();
    assert_eq!(
        read.resources,
        [
            limited("cpu", Some(32_000), None, 10),
            limited("memory", None, Some("50"), 1)
        ]
    );
    assert_eq!(read.weight, 10);
    assert!(read.selector.selects_all());
    for (resource, is_gpu) in [
        ("nvidia.com/gpu", true),
        ("amd.com/gpu", true),
        ("cpu", false),
        ("nvidia.com/hostdev", false),
    ] {
        assert_eq!(read.gpu_resources.matches(resource), is_gpu, "{resource}");
    }
}

#[test]
fn without_the_plugin_there_is_no_cross_quota() {
    assert_eq!(
        Configuration::parse(None, None).unwrap().configuration.cross_quota,
        None
    );
}

#[test]
fn constants_are_the_defaults_and_cpu_alone_is_limited_as_before() {
    let read = read("gpu-resource-names: nvidia.com/gpu, quota.cpu: 4");
    assert_eq!(read.resources, [limited("cpu", Some(4_000), None, 10)]);
    assert_eq!(read.weight, 10);
}

#[test]
fn an_unquoted_quota_is_not_silently_ignored() {
    for quota in ["4", "'4'", "\" 4 \"", "4000m", "4.0", "4e0"] {
        let read = read(&format!("gpu-resource-names: g, quota.cpu: {quota}"));
        assert_eq!(read.resources[0].quota, Some(4_000), "{quota}");
    }
    for percentage in ["12.5", "'12.5'", "12.50"] {
        let read = read(&format!("gpu-resource-names: g, quota-percentage.cpu: {percentage}"));
        assert_eq!(
            read.resources[0].percentage,
            Percentage::parse("12.5").ok(),
            "{percentage}"
        );
    }
}

#[test]
fn every_resource_can_be_limited() {
    let read = read(
        "gpu-resource-names: [nvidia.com/gpu], \
         quota-resources: \"cpu, memory, ephemeral-storage, hugepages-2Mi, example.com/fpga, pods, cpu\", \
         quota.cpu: 1500m, quota.memory: 64Gi, quota-percentage.ephemeral-storage: 25, quota.hugepages-2Mi: 1Gi, \
         quota.example.com/fpga: 2, weight.example.com/fpga: 5, quota.pods: 20, weight.memory: 0",
    );
    assert_eq!(
        read.resources,
        [
            limited("cpu", Some(1_500), None, 10),
            limited("memory", Some(64 << 30), None, 0),
            limited("ephemeral-storage", None, Some("25"), 1),
            limited("hugepages-2Mi", Some(1 << 30), None, 1),
            limited("example.com/fpga", Some(2), None, 5),
            limited("pods", Some(20), None, 1),
        ]
    );
}

#[test]
fn patterns_are_regular_expressions_and_match_anywhere() {
    let read = read("gpu-resource-names: \"gpu$,^nvidia\\\\.com/mig-.*\"");
    for (resource, is_gpu) in [
        ("nvidia.com/gpu", true),
        ("amd.com/gpu", true),
        ("nvidia.com/mig-1g.5gb", true),
        ("nvidia.com/gpu.shared", false),
        ("other.nvidia.com/mig-1g", false),
    ] {
        assert_eq!(read.gpu_resources.matches(resource), is_gpu, "{resource}");
    }
}

#[test]
fn a_pattern_that_the_policies_would_read_otherwise_is_refused() {
    let refused = parse(r#"gpu-resource-names: "(?x) gpu""#).unwrap_err().to_string();
    assert!(refused.contains("(?x) gpu") && refused.contains("RE2"), "{refused}");
}

#[test]
fn a_weight_of_zero_or_less_turns_ordering_off() {
    for (text, weight) in [("0", 0), ("-3", 0), ("'-3'", 0), ("7", 7), ("'7'", 7)] {
        assert_eq!(
            read(&format!("gpu-resource-names: g, crossQuotaWeight: {text}")).weight,
            weight,
            "{text}"
        );
    }
}

#[test]
fn a_label_selector_is_text_or_as_in_kubernetes_objects() {
    let selector = "team in (a,b),!old,tier=batch";
    let as_object = "{matchLabels: {tier: batch}, matchExpressions: [{key: team, operator: In, values: [a, b]}, \
                     {key: old, operator: DoesNotExist}]}";
    for written in [format!("\"{selector}\""), as_object.to_owned()] {
        let read = read(&format!("gpu-resource-names: g, label-selector: {written}"));
        for (team, old, tier, selected) in [
            ("a", None, "batch", true),
            ("c", None, "batch", false),
            ("a", Some("1"), "batch", false),
            ("b", None, "web", false),
        ] {
            let label = |key: &str| match key {
                "team" => Some(team),
                "old" => old,
                "tier" => Some(tier),
                _ => None,
            };
            assert_eq!(
                read.selector.selects(label),
                selected,
                "{written}: {team} {old:?} {tier}"
            );
        }
    }
}

#[test]
fn every_malformed_value_is_named() {
    for (arguments, parts) in [
        ("quota.cpu: -4", ["arguments.quota.cpu", " is -4", "0 or more"]),
        ("quota.cpu: '-500m'", ["quota.cpu", "-500m", "0 or more"]),
        ("quota.cpu: many", ["quota.cpu", "many", "such as 32"]),
        ("quota.cpu: [4]", ["quota.cpu", "[4]", "such as 32"]),
        ("quota.cpu: true", ["quota.cpu", "true", "such as 32"]),
        ("quota.cpu: 99999999999999999999", ["quota.cpu", "1e+20", "such as 32"]),
        ("quota-percentage.cpu: 0", ["quota-percentage.cpu", " is 0", "above 0"]),
        ("quota-percentage.cpu: -5", ["quota-percentage.cpu", "-5", "above 0"]),
        (
            "quota-percentage.cpu: 100.5",
            ["quota-percentage.cpu", "100.5", "up to 100"],
        ),
        (
            "quota-percentage.cpu: 50%",
            ["quota-percentage.cpu", "50%", "such as 50"],
        ),
        ("weight.cpu: -1", ["weight.cpu", " is -1", "from 0"]),
        ("weight.cpu: 1.5", ["weight.cpu", "1.5", "whole number"]),
        ("weight.cpu: 1000001", ["weight.cpu", "1000001", "1000000"]),
        ("crossQuotaWeight: ten", ["crossQuotaWeight", "ten", "whole number"]),
        (
            "crossQuotaWeight: 1000001",
            ["crossQuotaWeight", "1000001", "up to 1000000"],
        ),
        (
            "quota-resources: \"cpu,,memory\"",
            ["quota-resources", "cpu,,memory", "separated by commas"],
        ),
        (
            "quota-resources: \"cpu memory\"",
            ["quota-resources", "cpu memory", "separated by commas"],
        ),
        (
            "quota-resources: 5",
            ["quota-resources", " is 5", "separated by commas"],
        ),
        ("quota-resources: []", ["quota-resources", "[]", "separated by commas"]),
        (
            "gpu-resource-names: \"a,b(\"",
            ["gpu-resource-names", "\"b(\"", "regular expressions"],
        ),
        (
            "gpu-resource-names: \"\"",
            ["gpu-resource-names", "\"\"", "regular expressions"],
        ),
        (
            "gpu-resource-names: [1]",
            ["gpu-resource-names", "[1]", "regular expressions"],
        ),
        (
            "label-selector: \"a in (b\"",
            ["label-selector", "a in (b", "label selector"],
        ),
        ("label-selector: 5", ["label-selector", " is 5", "label selector"]),
        ("label-selector: {}", ["label-selector", "{}", "matchLabels"]),
        (
            "label-selector: {matchlabels: {a: b}}",
            ["label-selector", "matchlabels", "matchLabels"],
        ),
        (
            "label-selector: {matchLabels: {a: \"b,c=d\"}}",
            ["label-selector.matchLabels.a", "b,c=d", "label value"],
        ),
        (
            "label-selector: {matchLabels: {\"a,b\": c}}",
            ["label-selector.matchLabels", "a,b", "label key"],
        ),
        (
            "label-selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            ["label-selector.matchExpressions[0]", "Exists", "operator"],
        ),
    ] {
        let message = parse(arguments).unwrap_err().to_string();
        assert!(
            message.starts_with("volcano-scheduler.conf: tiers[0]"),
            "{arguments}: {message}"
        );
        for part in parts {
            assert!(message.contains(part), "{arguments}: {message} lacks {part:?}");
        }
    }
}

/// **Goals**, "maintain backward compatibility with CPU-only configurations": these name no resources to limit. The document has
/// no other keys of the older plugin; whatever else somebody writes is named, as in the next test.
#[test]
fn cpu_only_configurations_keep_working() {
    for (arguments, quota, percentage) in [
        ("quota.cpu: 4", Some(4_000), None),
        ("quota.cpu: \"500m\"", Some(500), None),
        ("quota-percentage.cpu: 50", None, Some("50")),
        ("weight.cpu: 10", None, None),
    ] {
        let read = read(&format!("gpu-resource-names: nvidia.com/gpu, {arguments}"));
        assert_eq!(read.resources, [limited("cpu", quota, percentage, 10)], "{arguments}");
        assert_eq!(read.weight, 10);
    }
}

#[test]
fn what_has_no_effect_is_named() {
    for (arguments, parts) in [
        ("quota.cpu: 4", ["gpu-resource-names is missing", "no node has GPUs"]),
        (
            "gpu-resource-names: g, quota.memory: 4Gi",
            ["quota.memory has no effect", "quota-resources"],
        ),
        (
            "gpu-resource-names: g, weight.pods: 4",
            ["weight.pods has no effect", "quota-resources"],
        ),
        (
            "gpu-resource-names: g, cpu-quota: 4",
            ["cpu-quota is unknown", "quota.<resource>"],
        ),
    ] {
        let warnings = parse(arguments).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{arguments}: {warnings:?}");
        for part in parts {
            assert!(warnings[0].contains(part), "{arguments}: {warnings:?}");
        }
    }
}

/// The configuration chooses for each feature by itself.
#[test]
fn how_cross_quota_and_mgpu_are_enforced() {
    use Enforcement::{Extender, Gating};
    let enforced = |text: &str| {
        let settings = Configuration::parse(None, Some(text)).unwrap().configuration.cardgate;
        (settings.enforce_cross_quota, settings.enforce_mgpu)
    };
    assert_eq!(enforced(""), (Gating, Gating));
    assert_eq!(
        enforced("enforceCrossQuota: gating\nenforceMGPU: gating"),
        (Gating, Gating)
    );
    assert_eq!(enforced("enforceCrossQuota: extender"), (Extender, Gating));
    assert_eq!(enforced("enforceMGPU: extender"), (Gating, Extender));
    for key in ["enforceCrossQuota", "enforceMGPU"] {
        let error = Configuration::parse(None, Some(&format!("{key}: both"))).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(&format!("{key} is \"both\": write gating or extender")),
            "{message}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_argument_panics(key in "(quota|quota-percentage|weight)\\.cpu|crossQuotaWeight|label-selector|gpu-resource-names|quota-resources", value in ".{0,40}") {
        let quoted = serde_json::to_string(&value).unwrap();
        let _ = parse(&format!("{key}: {quoted}"));
        let _ = parse(&format!("{key}: {value}"));
    }
}
