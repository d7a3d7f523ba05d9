//! Arguments of the `crossquota` plugin (CrossQuota, **Configuration Parser**).

use std::ops::RangeInclusive;

use regex_lite::Regex;

use super::ConfigurationError;
use super::patterns::is_read_alike;
use super::yaml::{Field, Section};
use crate::cross_quota::{Percentage, parse_quota};
use crate::label_selector::LabelSelector;
use crate::names::{is_label_key, is_label_value};
use crate::resources::CPU;

/// The plugin's name.
pub(super) const PLUGIN: &str = "crossquota";

const GPU_RESOURCE_NAMES: &str = "gpu-resource-names";
const QUOTA_RESOURCES: &str = "quota-resources";
const QUOTA_PREFIX: &str = "quota.";
const QUOTA_PERCENTAGE_PREFIX: &str = "quota-percentage.";
const WEIGHT_PREFIX: &str = "weight.";
const CROSS_QUOTA_WEIGHT: &str = "crossQuotaWeight";
const LABEL_SELECTOR: &str = "label-selector";

/// CrossQuota, **Constants**: `DefaultCrossQuotaWeight`.
const DEFAULT_CROSS_QUOTA_WEIGHT: u32 = 10;
/// CrossQuota, **Constants**: `DefaultCPUWeight`.
const DEFAULT_CPU_WEIGHT: u32 = 10;
/// CrossQuota, **Constants**: `DefaultMemoryWeight`; also the weight of all other resources (docs/rules.md, **CrossQuota**).
const DEFAULT_WEIGHT: u32 = 1;
/// The largest weight. With a larger one the others would not count at all.
const MAX_WEIGHT: i64 = 1_000_000;

/// Arguments of the `crossquota` plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossQuota {
    /// The resources that make a node a GPU node, and a pod a GPU pod.
    pub gpu_resources: GpuResources,
    /// The resources that are limited, each once, in the order in which they are named.
    pub resources: Vec<QuotaResource>,
    /// Scales the scores of nodes; with 0 they are not ordered.
    pub weight: u32,
    /// The pods without GPU that are subject to quotas.
    pub selector: LabelSelector,
}

/// One limited resource.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaResource {
    /// The resource, as `quota-resources` names it.
    pub name: Box<str>,
    /// `quota.<resource>`: CPU in milli, everything else in whole units.
    pub quota: Option<i64>,
    /// `quota-percentage.<resource>`: of what the node has allocatable.
    pub percentage: Option<Percentage>,
    /// `weight.<resource>`: its part in the scores of nodes.
    pub weight: u32,
}

/// Regular expressions on resource names, of which one must match anywhere in the name (CrossQuota, **GPU Node Detection**).
#[derive(Debug, Clone, Default)]
pub struct GpuResources(Vec<Regex>);

impl GpuResources {
    /// Whether the resource is one of GPUs.
    pub fn matches(&self, resource: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(resource))
    }

    /// The expressions, in the order in which they are configured.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Regex::as_str)
    }
}

impl PartialEq for GpuResources {
    fn eq(&self, other: &Self) -> bool {
        self.patterns().eq(other.patterns())
    }
}

pub(super) fn read(mut arguments: Section, warnings: &mut Vec<String>) -> Result<CrossQuota, ConfigurationError> {
    let gpu_resources = read_patterns(&mut arguments, warnings)?;
    let mut resources = read_resources(&mut arguments)?;
    for resource in &mut resources {
        let name = &*resource.name;
        if let Some(field) = arguments.take(&[QUOTA_PREFIX, name].concat()) {
            const EXPECTED: &str = "a quantity of 0 or more, such as 32 or 64Gi";
            let quota = parse_quota(name, &field.scalar(EXPECTED)?);
            resource.quota = Some(quota.map_err(|_| field.refuse(EXPECTED))?);
        }
        if let Some(field) = arguments.take(&[QUOTA_PERCENTAGE_PREFIX, name].concat()) {
            const EXPECTED: &str = "a percentage above 0 and up to 100, such as 50";
            let percentage = Percentage::parse(&field.scalar(EXPECTED)?);
            resource.percentage = Some(percentage.map_err(|_| field.refuse(EXPECTED))?);
        }
        if let Some(field) = arguments.take(&[WEIGHT_PREFIX, name].concat()) {
            const EXPECTED: &str = "a whole number from 0 to 1000000, such as 10";
            resource.weight = weight(&field, 0..=MAX_WEIGHT, EXPECTED)?;
        }
    }
    let cross_quota_weight = match arguments.take(CROSS_QUOTA_WEIGHT) {
        Some(field) => weight(
            &field,
            i64::MIN..=MAX_WEIGHT,
            "a whole number up to 1000000, such as 10; 0 or less turns the order of nodes off",
        )?,
        None => DEFAULT_CROSS_QUOTA_WEIGHT,
    };
    let selector = match arguments.take(LABEL_SELECTOR) {
        Some(field) => read_selector(field)?,
        None => LabelSelector::default(),
    };
    warn_unlimited(&mut arguments, warnings);
    let known = [
        GPU_RESOURCE_NAMES,
        QUOTA_RESOURCES,
        "quota.<resource>",
        "quota-percentage.<resource>",
        CROSS_QUOTA_WEIGHT,
        "weight.<resource>",
        LABEL_SELECTOR,
    ];
    arguments.warn_unknown("the arguments of crossquota", &known, warnings);
    Ok(CrossQuota {
        gpu_resources,
        resources,
        weight: cross_quota_weight,
        selector,
    })
}

fn read_patterns(arguments: &mut Section, warnings: &mut Vec<String>) -> Result<GpuResources, ConfigurationError> {
    const EXPECTED: &str =
        "regular expressions of resource names separated by commas, such as \"nvidia.com/gpu,amd.com/gpu\"";
    const EXPECTED_OF_BOTH: &str = "a regular expression that the policies inside the API server read alike (RE2): without flags but i, m, \
                                    s and U, without \\< and \\>, with names of groups in \
                                    letters, digits and _, and repeated 1000 times at most";
    let Some(field) = arguments.take(GPU_RESOURCE_NAMES) else {
        warnings.push(arguments.warning(
            GPU_RESOURCE_NAMES,
            "is missing: without it no node has GPUs, and crossquota has no effect; write such as \"nvidia.com/gpu\"",
        ));
        return Ok(GpuResources::default());
    };
    let patterns = field.texts(EXPECTED)?;
    let patterns = patterns.iter().map(|pattern| {
        let read = Regex::new(pattern).map_err(|_| field.refuse_part(pattern, EXPECTED))?;
        if is_read_alike(pattern) {
            Ok(read)
        } else {
            Err(field.refuse_part(pattern, EXPECTED_OF_BOTH))
        }
    });
    Ok(GpuResources(patterns.collect::<Result<_, _>>()?))
}

fn read_resources(arguments: &mut Section) -> Result<Vec<QuotaResource>, ConfigurationError> {
    const EXPECTED: &str = "resource names separated by commas, such as \"cpu,memory\"";
    let mut resources = Vec::<QuotaResource>::new();
    let names = match arguments.take(QUOTA_RESOURCES) {
        None => vec![CPU.to_owned()],
        Some(field) => {
            let names = field.texts(EXPECTED)?;
            if let Some(name) = names.iter().find(|name| !is_label_key(name)) {
                return Err(field.refuse_part(name, EXPECTED));
            }
            names
        }
    };
    for name in names {
        if resources.iter().all(|known| *known.name != *name) {
            let weight = if name == CPU {
                DEFAULT_CPU_WEIGHT
            } else {
                DEFAULT_WEIGHT
            };
            resources.push(QuotaResource {
                name: name.into(),
                quota: None,
                percentage: None,
                weight,
            });
        }
    }
    Ok(resources)
}

fn weight(field: &Field, range: RangeInclusive<i64>, expected: &'static str) -> Result<u32, ConfigurationError> {
    let weight = field.scalar(expected)?.parse::<i64>().ok();
    let weight = weight
        .filter(|weight| range.contains(weight))
        .map(|weight| weight.max(0));
    weight
        .and_then(|weight| u32::try_from(weight).ok())
        .ok_or_else(|| field.refuse(expected))
}

/// Reads a selector as text, or in the form of Kubernetes' objects, with `matchLabels` and `matchExpressions`.
fn read_selector(field: Field) -> Result<LabelSelector, ConfigurationError> {
    const EXPECTED: &str = "a label selector, such as \"team in (a,b)\", or one with matchLabels or matchExpressions";
    let refusal = field.refuse(EXPECTED);
    if let Ok(text) = field.text(EXPECTED) {
        return LabelSelector::parse(text).map_err(|_| refusal);
    }
    let mut selector = field.section(EXPECTED)?.ok_or_else(|| refusal.clone())?;
    let mut terms = Vec::new();
    if let Some(labels) = selector.take("matchLabels") {
        let labels = labels.section(EXPECTED)?;
        for (key, value) in labels.into_iter().flat_map(Section::fields) {
            terms.push(format!("{}={}", label_key(&key, &value)?, label_value(&value)?));
        }
    }
    if let Some(expressions) = selector.take("matchExpressions") {
        for expression in expressions.list(EXPECTED)? {
            terms.push(read_expression(expression)?);
        }
    }
    if terms.is_empty() || selector.keys().next().is_some() {
        return Err(refusal);
    }
    LabelSelector::parse(&terms.join(",")).map_err(|_| refusal)
}

fn read_expression(field: Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str = "an expression with key, operator (In, NotIn, Exists or DoesNotExist) and values";
    let refusal = field.refuse(EXPECTED);
    let mut expression = field.section(EXPECTED)?.ok_or_else(|| refusal.clone())?;
    let key = expression.take("key").ok_or_else(|| refusal.clone())?;
    let key = label_key(key.text(EXPECTED)?, &key)?.to_owned();
    let operator = expression.take("operator").ok_or_else(|| refusal.clone())?;
    let values = match expression.take("values") {
        Some(values) => values.list(EXPECTED)?,
        None => Vec::new(),
    };
    let values = values.iter().map(label_value).collect::<Result<Vec<_>, _>>()?.join(",");
    match (operator.text(EXPECTED)?, values.is_empty()) {
        ("In", false) => Ok(format!("{key} in ({values})")),
        ("NotIn", false) => Ok(format!("{key} notin ({values})")),
        ("Exists", true) => Ok(key),
        ("DoesNotExist", true) => Ok(format!("!{key}")),
        _ => Err(refusal),
    }
}

fn label_key<'k>(key: &'k str, place: &Field) -> Result<&'k str, ConfigurationError> {
    let refuse = || place.refuse_part(key, "a label key, such as app.kubernetes.io/name");
    Some(key).filter(|key| is_label_key(key)).ok_or_else(refuse)
}

fn label_value(field: &Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str = "a label value, in quotes where it is a number or boolean";
    let value = field.text(EXPECTED)?;
    if is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(field.refuse(EXPECTED))
    }
}

/// Warns of arguments about resources that are not limited: they are easily taken for limits.
fn warn_unlimited(arguments: &mut Section, warnings: &mut Vec<String>) {
    let prefixes = [QUOTA_PREFIX, QUOTA_PERCENTAGE_PREFIX, WEIGHT_PREFIX];
    let keys: Vec<_> = arguments
        .keys()
        .filter(|key| prefixes.iter().any(|prefix| key.starts_with(prefix)))
        .map(str::to_owned)
        .collect();
    for key in keys {
        arguments.take(&key);
        warnings.push(arguments.warning(
            &key,
            "has no effect: quota-resources (cpu where it is not given) does not name its resource",
        ));
    }
}
