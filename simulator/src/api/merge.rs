//! Patches: applies them to objects.

use serde_json::{Map, Value};

use super::asked::PatchKind;
use super::refused::Refused;

/// Lists that a strategic patch merges by a member of their elements.
const MERGED_BY: [(&str, &str); 3] = [
    ("conditions", "type"),
    ("schedulingGates", "name"),
    ("ownerReferences", "uid"),
];

/// Applies a patch.
pub fn apply(kind: PatchKind, object: &mut Value, patch: &[u8]) -> Result<(), Refused> {
    let unreadable = |error: serde_json::Error| Refused::new(400, "BadRequest", error.to_string());
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_slice(patch).map_err(unreadable)?;
            json_patch::patch(object, &patch).map_err(|error| Refused::patch(&error.to_string()))
        }
        PatchKind::Merge | PatchKind::Apply => {
            json_patch::merge(object, &serde_json::from_slice(patch).map_err(unreadable)?);
            Ok(())
        }
        PatchKind::Strategic => {
            strategic("", object, serde_json::from_slice(patch).map_err(unreadable)?);
            Ok(())
        }
    }
}

fn strategic(field: &str, object: &mut Value, patch: Value) {
    match (object, patch) {
        (object, Value::Object(patch)) => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let Some(object) = object.as_object_mut() else { return };
            for (key, value) in patch {
                if value.is_null() {
                    object.remove(&key);
                } else {
                    strategic(&key, object.entry(&*key).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(elements), Value::Array(patch)) if merge_key(field).is_some() => {
            let by = merge_key(field).unwrap_or_default();
            for value in patch {
                match elements.iter_mut().find(|element| element[by] == value[by]) {
                    Some(element) => strategic("", element, value),
                    None => elements.push(value),
                }
            }
        }
        (object, patch) => *object = patch,
    }
}

fn merge_key(field: &str) -> Option<&'static str> {
    MERGED_BY.iter().find(|(list, _)| *list == field).map(|(_, by)| *by)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strategic_patch_merges_conditions_by_their_type() {
        let mut pod =
            json!({"status": {"phase": "Pending", "conditions": [{"type": "A", "status": "True", "reason": "R"}]}});
        let patch =
            json!({"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "False"}]}});
        apply(PatchKind::Strategic, &mut pod, patch.to_string().as_bytes()).unwrap();
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "conditions": [
                {"type": "A", "status": "False", "reason": "R"}, {"type": "B", "status": "False"},
            ]})
        );
    }
}
