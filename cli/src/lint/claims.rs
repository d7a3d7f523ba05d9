//! Claims of devices, claim templates, and classes. No webhook is asked about these, and a fault in them keeps pods waiting.

use crds::dra::{ClaimSpec, DeviceClass, ResourceClaim, ResourceClaimTemplate};
use engine::devices::{Unknown, not_evaluated};
use engine::steps::Steps;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Linted, Operation, Refused};
use crate::applied::{Old, stays};
use crate::known::Known;
use crate::manifests::Manifest;

/// Reports what is wrong with such an object, also if it is a change of `before`. Returns what could not be checked; `None`
/// for an object of another kind.
pub fn judge(manifest: &Manifest, before: Option<&Old>, known: &Known, linted: &mut Linted) -> Option<Vec<String>> {
    let judged = look(manifest, known, linted)?;
    if let Some(before) = before {
        linted.operation = Operation::Update;
        // A class may be changed.
        let is_fixed = manifest.group_and_kind().1 != "DeviceClass";
        if is_fixed && linted.refused.is_none() && !stays(before, &manifest.object, "spec") {
            linted.refused = Some(Refused {
                reason: "Immutable",
                message: "spec: what a claim asks for can't be changed: delete it and create it anew once its pods are gone, or \
                          give it another name and have new pods name that"
                    .to_owned(),
            });
        }
    }
    Some(judged)
}

fn look(manifest: &Manifest, known: &Known, linted: &mut Linted) -> Option<Vec<String>> {
    let object = &manifest.object;
    match manifest.group_and_kind() {
        ("resource.k8s.io", "DeviceClass") => {
            if let Some(class) = read::<DeviceClass>(object, linted) {
                linted.warnings.extend(selectors_not_evaluated(&class));
            }
            Some(Vec::new())
        }
        ("resource.k8s.io", "ResourceClaim") => {
            let claim = read::<ResourceClaim>(object, linted);
            Some(claim.map_or_else(Vec::new, |claim| look_at(&claim.spec, "spec", known, linted)))
        }
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            let template = read::<ResourceClaimTemplate>(object, linted);
            Some(template.map_or_else(Vec::new, |template| {
                look_at(&template.spec.spec, "spec.spec", known, linted)
            }))
        }
        _ => None,
    }
}

/// Returns the selectors of a class that Cardgate does not evaluate. Pods that ask for devices of this class wait.
pub fn selectors_not_evaluated(class: &DeviceClass) -> impl Iterator<Item = String> + '_ {
    let expressions = class.spec.selectors.iter().map(|selector| &selector.cel.expression);
    expressions.filter_map(|expression| {
        let why = not_evaluated(expression)?;
        let quoted: String = expression.chars().take(100).collect();
        Some(format!(
            "spec.selectors: selector {quoted:?}: {why}: pods that ask for devices of the class wait: select by other means"
        ))
    })
}

fn look_at(spec: &ClaimSpec, place: &str, known: &Known, linted: &mut Linted) -> Vec<String> {
    let mut unchecked = Vec::new();
    let mut catalogue = known.knowledge.catalogue();
    for class in known.classes() {
        catalogue.add_class(DeviceClass::clone(class));
    }
    // This command holds nobody up but its own user, so its steps are not limited.
    let steps = Steps::new(u64::MAX);
    for (request, cards) in catalogue.requests(spec, &steps) {
        let place = format!("{place}.devices.requests[{request:?}]");
        match cards {
            Err(Unknown::Class(class)) if known.knows_classes => linted.warnings.push(format!(
                "{place}: DeviceClass {class:?} does not exist: pods with such a claim wait until it is created"
            )),
            Err(Unknown::Class(class)) => unchecked.push(format!(
                "DeviceClass {class:?}, and which cards it has: name it by -f, or ask by --cluster"
            )),
            Err(Unknown::Selector(why)) => linted.warnings.push(format!("{place}: {why}")),
            Err(Unknown::None(why)) => linted.warnings.push(format!(
                "{place}: {why}: pods with such a claim wait until there is one; kubectl get cardtypes -o yaml shows in status.devices what \
                 there is to select by"
            )),
            Ok(_) | Err(Unknown::Devices) => {}
        }
    }
    // The selectors of a request are read even if its class is not known.
    let requests = spec.devices.requests.iter();
    let forms = requests.flat_map(|request| request.exactly.iter().chain(&request.first_available));
    for selector in forms.flat_map(|form| &form.selectors) {
        let expression = &*selector.cel.expression;
        if let Some(why) = not_evaluated(expression) {
            let quoted: String = expression.chars().take(100).collect();
            let said = linted.warnings.iter().any(|said| said.contains(&why));
            if !said {
                linted.warnings.push(format!(
                    "{place}.devices: selector {quoted:?}: {why}: select by other means"
                ));
            }
        }
    }
    unchecked
}

/// Parses an object as a type. API servers refuse an object that can't be parsed.
fn read<T: DeserializeOwned>(object: &Value, linted: &mut Linted) -> Option<T> {
    let read = serde_json::from_str(&object.to_string());
    read.map_err(|error: serde_json::Error| {
        linted.refused = Some(Refused {
            reason: "ObjectInvalid",
            message: error.to_string(),
        });
    })
    .ok()
}
