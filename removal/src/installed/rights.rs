//! Checks whether roles and bindings still give the rights that this version needs. They may give more: that is the administrator's choice.

use serde_json::Value;

/// Returns the first right, as verb and object, that the rules in `expected` give and those in `actual` do not.
pub fn lacking(expected: &Value, actual: &Value) -> Option<String> {
    let mut rights = items(expected).flat_map(rights);
    let lacking = rights.find(|right| !items(actual).any(|rule| right.is_given_by(rule)));
    lacking.map(|right| right.to_string())
}

/// Returns the first subject in `expected` that is missing in `actual`.
pub fn unbound(expected: &Value, actual: &Value) -> Option<String> {
    const KEYS: [&str; 3] = ["kind", "name", "namespace"];
    let is_same = |one: &Value, other: &Value| KEYS.iter().all(|key| one.get(key) == other.get(key));
    let unbound = items(expected).find(|subject| !items(actual).any(|bound| is_same(subject, bound)));
    unbound.map(|subject| text(&subject["name"]).to_owned())
}

/// One verb on one resource, or on one object of it.
#[derive(Debug)]
struct Right<'r> {
    verb: &'r str,
    group: &'r str,
    resource: &'r str,
    name: Option<&'r str>,
}

/// Returns all rights that a rule gives.
fn rights(rule: &Value) -> Vec<Right<'_>> {
    let names: Vec<_> = match texts(&rule["resourceNames"]).map(Some).collect() {
        names if Vec::is_empty(&names) => vec![None],
        names => names,
    };
    let mut rights = Vec::new();
    for verb in texts(&rule["verbs"]) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                rights.extend(names.iter().map(|name| Right {
                    verb,
                    group,
                    resource,
                    name: *name,
                }));
            }
        }
    }
    rights
}

impl Right<'_> {
    fn is_given_by(&self, rule: &Value) -> bool {
        let has = |key: &str, wanted: &str| texts(&rule[key]).any(|given| given == wanted || given == "*");
        let subresource = self.resource.split_once('/').map(|(_, rest)| format!("*/{rest}"));
        let is_named = || texts(&rule["resourceNames"]).any(|name| self.name == Some(name));
        has("verbs", self.verb)
            && has("apiGroups", self.group)
            && (has("resources", self.resource) || subresource.is_some_and(|any| has("resources", &any)))
            && (texts(&rule["resourceNames"]).next().is_none() || is_named())
    }
}

impl std::fmt::Display for Right<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.verb, self.group, self.resource)?;
        self.name.map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    items(list).map(text)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expected() -> Value {
        json!([
            { "apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"] },
            { "apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": ["a", "b"], "verbs": ["get", "patch"] },
        ])
    }

    #[test]
    fn what_gives_the_same_in_other_words_or_more_lacks_nothing() {
        for actual in [
            expected(),
            json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]),
            json!([
                { "apiGroups": ["", "batch"], "resources": ["jobs", "pods", "*/status"], "verbs": ["get", "patch", "delete"] },
            ]),
        ] {
            assert_eq!(lacking(&expected(), &actual), None, "{actual}");
        }
    }

    #[test]
    fn the_first_right_that_is_not_given_is_named() {
        for (pointer, value, lacks) in [
            ("/0/verbs", json!(["get"]), "patch pods"),
            ("/0/resources", json!(["pods"]), "patch pods/status"),
            ("/1/apiGroups", json!(["apps"]), "get batch/jobs a"),
            ("/1/resourceNames", json!(["a"]), "get batch/jobs b"),
        ] {
            let mut actual = expected();
            *actual.pointer_mut(pointer).unwrap() = value;
            assert_eq!(lacking(&expected(), &actual).as_deref(), Some(lacks));
        }
        assert_eq!(lacking(&expected(), &Value::Null).as_deref(), Some("patch pods"));
        // A right to one object does not give the right to all objects of the kind.
        let one = json!([{ "apiGroups": [""], "resources": ["*"], "resourceNames": ["a"], "verbs": ["*"] }]);
        assert_eq!(lacking(&expected(), &one).as_deref(), Some("patch pods"));
    }

    #[test]
    fn whoever_is_not_bound_is_named() {
        let account = |name: &str| json!({ "kind": "ServiceAccount", "name": name, "namespace": "cardgate-system" });
        let expected = json!([account("operator")]);
        assert_eq!(
            unbound(&expected, &json!([account("other"), account("operator")])),
            None
        );
        assert_eq!(
            unbound(&expected, &json!([account("other")])).as_deref(),
            Some("operator")
        );
        assert_eq!(unbound(&expected, &Value::Null).as_deref(), Some("operator"));
    }
}
