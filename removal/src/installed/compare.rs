//! Compares an object of the installation with what was installed.

use serde_json::Value;

/// Keys that are not compared: how the API server reaches the webhook, and with which authority, is the administrator's choice.
const IGNORED: [&str; 1] = ["clientConfig"];
/// The values that the API server adds as defaults. Any other addition may exempt some objects.
const DEFAULTS: [(&str, &str); 5] = [
    ("matchPolicy", "\"Equivalent\""),
    ("reinvocationPolicy", "\"Never\""),
    ("failurePolicy", "\"Fail\""),
    ("timeoutSeconds", "10"),
    ("scope", "\"*\""),
];

/// Returns where an object first differs from what it should say; none if it does not differ. If `added` is set, additional content counts
/// as a difference too.
pub fn difference(place: &str, expected: &Value, actual: &Value, added: bool) -> Option<String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let in_it = expected.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str()));
            let differing = in_it.filter_map(|(key, value)| {
                let place = format!("{place}.{key}");
                match actual.get(key) {
                    Some(actual) => difference(&place, value, actual, added),
                    None if is_empty(value) => None,
                    None => Some(place),
                }
            });
            let new = actual.iter().filter(|(key, value)| {
                added && !expected.contains_key(*key) && !IGNORED.contains(&key.as_str()) && !is_default(key, value)
            });
            let new = new.map(|(key, _)| format!("{place}.{key}"));
            differing.chain(new).next()
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            let differing =
                pairs.find_map(|(index, (one, other))| difference(&format!("{place}[{index}]"), one, other, added));
            differing.or_else(|| (expected.len() != actual.len()).then(|| place.to_owned()))
        }
        (Value::Number(expected), Value::Number(actual)) => {
            (expected.as_f64() != actual.as_f64()).then(|| place.to_owned())
        }
        _ => (expected != actual).then(|| place.to_owned()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn is_default(key: &str, value: &Value) -> bool {
    let text = value.to_string();
    is_empty(value)
        || DEFAULTS
            .iter()
            .any(|(known, default)| key == *known && text == *default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expected() -> Value {
        json!([{
            "name": "pods", "failurePolicy": "Fail", "timeoutSeconds": 5,
            "clientConfig": {"service": {"name": "webhook"}},
            "rules": [{"resources": ["pods"], "operations": ["CREATE"]}],
            "matchConditions": [{"name": "a", "expression": "true"}],
        }])
    }

    #[test]
    fn what_the_api_server_and_the_keeper_of_certificates_add_does_not_count() {
        let mut actual = expected();
        actual[0]["clientConfig"] = json!({"url": "https://127.0.0.1", "caBundle": "AAAA"});
        actual[0]["matchPolicy"] = json!("Equivalent");
        actual[0]["namespaceSelector"] = json!({});
        actual[0]["objectSelector"] = json!({});
        actual[0]["reinvocationPolicy"] = json!("Never");
        actual[0]["rules"][0]["scope"] = json!("*");
        assert_eq!(difference("webhooks", &expected(), &actual, true), None);
    }

    #[test]
    fn whatever_takes_something_out_of_reach_counts() {
        for (pointer, value, place) in [
            ("/0/failurePolicy", json!("Ignore"), "webhooks[0].failurePolicy"),
            ("/0/timeoutSeconds", json!(1), "webhooks[0].timeoutSeconds"),
            ("/0/rules/0/operations", json!([]), "webhooks[0].rules[0].operations"),
            (
                "/0/matchConditions/0/expression",
                json!("false"),
                "webhooks[0].matchConditions[0].expression",
            ),
        ] {
            let mut actual = expected();
            *actual.pointer_mut(pointer).unwrap() = value;
            assert_eq!(
                difference("webhooks", &expected(), &actual, true).as_deref(),
                Some(place)
            );
        }
        let mut narrowed = expected();
        narrowed[0]["objectSelector"] = json!({"matchLabels": {"cards": "counted"}});
        let found = difference("webhooks", &expected(), &narrowed, true);
        assert_eq!(found.as_deref(), Some("webhooks[0].objectSelector"));
        // An addition to a definition takes nothing away.
        assert_eq!(difference("webhooks", &expected(), &narrowed, false), None);
        let mut more = expected();
        more[0]["matchConditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "b", "expression": "false"}));
        let found = difference("webhooks", &expected(), &more, true);
        assert_eq!(found.as_deref(), Some("webhooks[0].matchConditions"));
        assert_eq!(
            difference("webhooks", &expected(), &json!([]), true).as_deref(),
            Some("webhooks")
        );
        assert_eq!(
            difference("webhooks", &expected(), &Value::Null, true).as_deref(),
            Some("webhooks")
        );
    }
}
