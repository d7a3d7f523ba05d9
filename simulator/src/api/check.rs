//! What the API server itself allows in an update, as far as Cardgate writes it.

use serde_json::Value;

use crate::objects::{JOBS, PODS, Resource};

/// Longest value of a label.
const LONGEST_LABEL: usize = 63;
/// The most that all annotations of an object may take.
const MOST_ANNOTATIONS: usize = 256 * 1024;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks an update. The error says why it is not allowed.
pub fn update(resource: &Resource, before: &Value, after: &Value) -> Result<(), String> {
    metadata(before, after)?;
    if resource == &PODS {
        pod(&before["spec"], &after["spec"])
    } else if resource == &JOBS {
        job(before, after)
    } else {
        Ok(())
    }
}

/// Checks every object's metadata.
fn metadata(before: &Value, after: &Value) -> Result<(), String> {
    if after["metadata"]["uid"] != before["metadata"]["uid"] {
        return Err(format!(
            "metadata.uid: Invalid value: {}: field is immutable",
            after["metadata"]["uid"]
        ));
    }
    for (key, value) in after["metadata"]["labels"].as_object().into_iter().flatten() {
        if value.as_str().is_none_or(|value| value.len() > LONGEST_LABEL) {
            return Err(format!(
                "metadata.labels: Invalid value: {value}: must be no more than {LONGEST_LABEL} characters ({key})"
            ));
        }
    }
    let annotations = after["metadata"]["annotations"].as_object().into_iter().flatten();
    let size: usize = annotations
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MOST_ANNOTATIONS {
        return Err(format!(
            "metadata.annotations: Too long: may not be more than {MOST_ANNOTATIONS} bytes"
        ));
    }
    Ok(())
}

fn pod(before: &Value, after: &Value) -> Result<(), String> {
    let gates = |spec: &Value| -> Vec<Value> { spec["schedulingGates"].as_array().cloned().unwrap_or_default() };
    let (had, has) = (gates(before), gates(after));
    if let Some(new) = has.iter().find(|gate| !had.contains(gate)) {
        return Err(format!(
            "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate {}",
            new["name"]
        ));
    }
    let is_gated = !had.is_empty();
    if is_gated {
        narrowed_selector(&before["nodeSelector"], &after["nodeSelector"])?;
        narrowed_affinity(&before["affinity"], &after["affinity"])?;
    }
    for (field, value) in after.as_object().into_iter().flatten() {
        let may_change = match &**field {
            "schedulingGates" | "tolerations" | "activeDeadlineSeconds" => true,
            "nodeSelector" | "affinity" => is_gated,
            _ => false,
        };
        if !may_change && *value != before[field] {
            return Err(format!(
                "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                 `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
                 tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative): \
                 {field}"
            ));
        }
    }
    let gone = before
        .as_object()
        .into_iter()
        .flatten()
        .find(|(field, value)| after.get(field).is_none() && !value.is_null() && *field != "schedulingGates");
    gone.map_or(Ok(()), |(field, _)| {
        Err(format!("spec: Forbidden: pod updates may not remove {field}"))
    })
}

fn narrowed_selector(before: &Value, after: &Value) -> Result<(), String> {
    let mut kept = before.as_object().into_iter().flatten();
    if kept.all(|(key, value)| after[key] == *value) {
        Ok(())
    } else {
        Err("spec.nodeSelector: Invalid value: only additions to spec.nodeSelector are allowed (no mutations or deletions)".to_owned())
    }
}

/// Existing required terms may only become stricter.
fn narrowed_affinity(before: &Value, after: &Value) -> Result<(), String> {
    for kind in ["podAffinity", "podAntiAffinity"] {
        if before[kind] != after[kind] {
            return Err(format!("spec.affinity.{kind}: Invalid value: field is immutable"));
        }
    }
    let terms = |affinity: &Value| {
        affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
            .as_array()
            .cloned()
    };
    let Some(had) = terms(before) else { return Ok(()) };
    let has = terms(after).unwrap_or_default();
    let keeps = |(had, has): (&Value, &Value)| {
        ["matchExpressions", "matchFields"].into_iter().all(|kind| {
            let mut all = had[kind].as_array().into_iter().flatten();
            all.all(|one| has[kind].as_array().is_some_and(|has| has.contains(one)))
        })
    };
    // An empty term selects nothing, and must not be made to select something.
    let is_empty = |term: &Value| {
        ["matchExpressions", "matchFields"]
            .into_iter()
            .all(|kind| term[kind].as_array().is_none_or(Vec::is_empty))
    };
    let stays_empty = |(had, has): (&Value, &Value)| !is_empty(had) || is_empty(has);
    if had.len() == has.len() && had.iter().zip(&has).all(|pair| keeps(pair) && stays_empty(pair)) {
        Ok(())
    } else {
        Err("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: no \
             additions/deletions to non-empty NodeSelectorTerms list are allowed"
            .to_owned())
    }
}

/// A Job's template may change only while the Job is suspended and has not started.
fn job(before: &Value, after: &Value) -> Result<(), String> {
    let may_change = before["spec"]["suspend"] == true && before["status"]["startTime"].is_null();
    if before["spec"]["template"] != after["spec"]["template"] && !may_change {
        return Err("spec.template: Invalid value: field is immutable".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gated_pod_may_be_narrowed_and_no_other() {
        let gated = json!({"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "1"}, "containers": []});
        let after = |change: fn(&mut Value), of: &Value| {
            let mut after = of.clone();
            change(&mut after);
            pod(of, &after)
        };
        let open: fn(&mut Value) = |spec| {
            spec.as_object_mut().unwrap().remove("schedulingGates");
            spec["nodeSelector"]["b"] = json!("2");
        };
        assert_eq!(after(open, &gated), Ok(()));
        assert!(after(|spec| spec["nodeSelector"]["a"] = json!("2"), &gated).is_err());
        assert!(after(|spec| spec["containers"] = json!([1]), &gated).is_err());
        assert!(after(|spec| spec["schedulingGates"] = json!([{"name": "h"}]), &gated).is_err());
        let free = json!({"nodeSelector": {"a": "1"}});
        assert!(after(|spec| spec["nodeSelector"]["b"] = json!("2"), &free).is_err());
        assert!(after(|spec| spec["schedulingGates"] = json!([{"name": "g"}]), &free).is_err());
    }
}
