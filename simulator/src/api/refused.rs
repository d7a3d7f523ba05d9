//! Refusals by the API server, in the words of the real one.

use serde_json::{Value, json};

use crate::objects::{Key, Refusal, Resource};

/// A `Status` that reports a failure.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Refused {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: json!({}),
        }
    }

    /// The refusal for this object.
    pub fn of(refusal: Refusal, resource: &Resource, key: &Key) -> Self {
        let (plural, name) = (full_name(resource), &key.name);
        let mut refused = match refusal {
            Refusal::NotFound => Self::new(404, "NotFound", format!("{plural} {name:?} not found")),
            Refusal::AlreadyExists => Self::new(409, "AlreadyExists", format!("{plural} {name:?} already exists")),
            Refusal::Conflict => Self::new(
                409,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {plural} {name:?}: the object has been modified; please apply your \
                     changes to the latest version and try again"
                ),
            ),
            Refusal::Invalid(what) => {
                let mut refused = Self::new(422, "Invalid", format!("{} {name:?} is invalid: {what}", resource.kind));
                let field = what.split(':').next().unwrap_or_default();
                refused.details = json!({"causes": [{"reason": "FieldValueInvalid", "message": what, "field": field}]});
                refused
            }
            Refusal::Denied(why) => Self::new(
                403,
                "Forbidden",
                format!("admission webhook \"cardgate.card.volcano.sh\" denied the request: {why}"),
            ),
        };
        refused.details["name"] = (&**name).into();
        refused.details["group"] = resource.group.into();
        refused.details["kind"] = resource.plural.into();
        refused
    }

    /// A JSON patch whose `test` fails, or that does not apply.
    pub fn patch(why: &str) -> Self {
        let mut refused = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        refused.details = json!({"causes": [{"reason": "UnexpectedServerResponse", "message": why}]});
        refused
    }

    /// A version that is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns the refusal as JSON.
    pub fn status(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "details": self.details, "code": self.code,
        })
    }
}

fn full_name(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.plural.to_owned()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}
