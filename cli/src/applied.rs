//! What becomes of an existing object when a manifest is applied to it, as kubectl does it.

use serde_json::{Map, Value};

/// The annotation in which kubectl keeps what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// An existing object.
#[derive(Debug)]
pub struct Old {
    /// The object as it is.
    pub object: Value,
    /// The part of it that was applied. What a new manifest lacks of this part is removed; everything else stays.
    applied: Value,
}

impl Old {
    /// An object in the cluster, which kubectl may have applied.
    pub fn of_cluster(object: Value) -> Self {
        let applied = object["metadata"]["annotations"][LAST_APPLIED].as_str();
        let applied = applied
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        Self { object, applied }
    }

    /// An object as it became when `applied` was applied.
    pub fn applied_as(object: Value, applied: Value) -> Self {
        Self { object, applied }
    }
}

/// Returns an object once a manifest is applied to it, as kubectl does: what the manifest says, and what the object had
/// besides and was not applied before, whoever wrote it.
pub fn updated(old: &Old, new: &Value) -> Value {
    merged(&old.object, &old.applied, new)
}

/// Whether a manifest leaves a place of an object as it is. It does if it says there only what is there already, or what API
/// servers take as the default.
pub fn stays(old: &Old, new: &Value, place: &str) -> bool {
    let at = |object: &Value| object.get(place).cloned().unwrap_or_default();
    is_same(&at(&old.object), &at(&old.applied), &at(new))
}

fn is_same(old: &Value, applied: &Value, new: &Value) -> bool {
    let (Value::Object(of_old), Value::Object(of_new)) = (old, new) else {
        return said(old) == said(new);
    };
    let taken_away = of_old.keys().filter(|key| applied.get(key).is_some());
    let mut keys = of_new.keys().chain(taken_away);
    let at = |object: &Map<String, Value>, key: &String| object.get(key).cloned().unwrap_or_default();
    keys.all(|key| {
        let applied = applied.get(key).unwrap_or(&Value::Null);
        is_same(&at(of_old, key), applied, &at(of_new, key))
    })
}

/// Removes from a value what is implied: empty values, and the defaults of claims.
fn said(value: &Value) -> Value {
    let is_default = |key: &str, value: &Value| match (key, value) {
        (_, Value::Null) => true,
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(fields)) => fields.is_empty(),
        ("allocationMode", value) => value == "ExactCount",
        ("count", value) => *value == 1,
        ("operator", value) => value == "Equal",
        _ => false,
    };
    match value {
        Value::Array(items) => items.iter().map(said).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), said(value)));
            Value::Object(fields.filter(|(key, value)| !is_default(key, value)).collect())
        }
        value => value.clone(),
    }
}

fn merged(old: &Value, applied: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => Value::Object(merged_fields(old, applied, new)),
        (Value::Array(old), Value::Array(new)) if is_of_names(old) && is_of_names(new) => {
            let items = new.iter().map(|item| {
                let named = |items: &[Value]| items.iter().find(|other| other["name"] == item["name"]).cloned();
                let applied = applied.as_array().and_then(|items| named(items)).unwrap_or_default();
                named(old).map_or_else(|| item.clone(), |old| merged(&old, &applied, item))
            });
            items.collect()
        }
        _ => new.clone(),
    }
}

fn merged_fields(old: &Map<String, Value>, applied: &Value, new: &Map<String, Value>) -> Map<String, Value> {
    let kept = old.iter().filter(|(key, _)| applied.get(key).is_none());
    let mut fields: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in new {
        let of_old = old.get(key).unwrap_or(&Value::Null);
        let of_applied = applied.get(key).unwrap_or(&Value::Null);
        fields.insert(key.clone(), merged(of_old, of_applied, value));
    }
    fields
}

/// Whether each item of a list has a name, as containers do. In such lists, items of the same name are the same thing.
fn is_of_names(items: &[Value]) -> bool {
    items.iter().all(|item| item["name"].is_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_goes_with_the_manifest_and_what_others_wrote_stays() {
        let container = |image: &str| json!({ "name": "main", "image": image });
        let applied = json!({
            "metadata": { "annotations": { "mine": "1", "left out": "1" } },
            "spec": { "containers": [container("a")], "args": ["x", "y"] },
        });
        let mut object = applied.clone();
        object["metadata"]["annotations"]["theirs"] = "2".into();
        object["metadata"]["uid"] = "u".into();
        object["spec"]["containers"][0]["policy"] = "defaulted".into();
        object["status"] = json!({ "phase": "Running" });
        let new = json!({
            "metadata": { "annotations": { "mine": "3" } },
            "spec": { "containers": [container("b"), { "name": "other" }], "args": ["z"] },
        });
        let expected = json!({
            "metadata": { "annotations": { "mine": "3", "theirs": "2" }, "uid": "u" },
            "spec": {
                "containers": [{ "name": "main", "image": "b", "policy": "defaulted" }, { "name": "other" }], "args": ["z"],
            },
            "status": { "phase": "Running" },
        });
        assert_eq!(
            updated(
                &Old {
                    object: object.clone(),
                    applied: applied.clone()
                },
                &new
            ),
            expected
        );
        // If it is not known what was applied, nothing is removed.
        let kept = updated(
            &Old {
                object,
                applied: Value::Null,
            },
            &new,
        );
        assert_eq!(kept["metadata"]["annotations"]["left out"], "1");
        // Between files, the new file is the whole truth.
        assert_eq!(
            updated(
                &Old {
                    object: applied.clone(),
                    applied
                },
                &new
            ),
            new
        );
    }

    #[test]
    fn a_claim_stays_as_it_is_where_only_what_goes_without_saying_is_left_out() {
        let claim = |request: Value| json!({ "spec": { "devices": { "requests": [request] } } });
        let short = claim(json!({ "name": "gpu", "exactly": { "deviceClassName": "c" } }));
        let filled =
            json!({ "name": "gpu", "exactly": { "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 } });
        let old = |applied: Value| Old {
            object: claim(filled.clone()),
            applied,
        };
        assert!(stays(&old(short.clone()), &short, "spec") && stays(&old(Value::Null), &short, "spec"));
        let two = claim(json!({ "name": "gpu", "exactly": { "deviceClassName": "c", "count": 2 } }));
        let renamed = claim(json!({ "name": "npu", "exactly": { "deviceClassName": "c" } }));
        for other in [two, renamed, json!({ "spec": { "devices": { "requests": [] } } })] {
            assert!(!stays(&old(short.clone()), &other, "spec"), "{other}");
        }
        // What others wrote stays; what was applied follows the manifest.
        let mut constrained = old(short.clone());
        constrained.object["spec"]["devices"]["constraints"] = json!([{ "matchAttribute": "a/b" }]);
        assert!(stays(&constrained, &short, "spec"));
        constrained.applied = constrained.object.clone();
        assert!(!stays(&constrained, &short, "spec"));
    }
}
