//! Questions and answers in the form in which API servers send and take them (`admission.k8s.io/v1`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crds::bounds::told;
use crds::card_review::{CardReviewSpec, CardReviewStatus, Reviewed};
use crds::made::made_by;
use engine::explain::Asked;
use programs::ports::body::values;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Failure, NoAnswer};

/// The answer to a client that would store a question.
const NOT_STORED: &str = "a CardReview is answered and never stored: create it with dryRun=All, such as by kubectl create \
                          --dry-run=server -o yaml";
/// How many values a question may hold. While a manifest is read, each of its values takes up to a kilobyte, for one manifest at a time,
/// and few values are kept. A Volcano Job with the largest number of tasks has some ten thousand values.
const MOST_VALUES: usize = 32 << 10;

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

/// The fields of an incoming question that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: bool,
    #[serde(borrow, default)]
    object: Object<'a>,
}

#[derive(Default, Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// Why there is no answer. Programs can tell from it what to do: the codes are the HTTP statuses with which the API server itself answers
/// such requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    /// The question cannot be answered in its present form.
    Unreadable = 422,
    /// The object of the question does not exist.
    NotThere = 404,
    /// The question can be answered later. With 429 or 503, clients would repeat it at once, by themselves.
    AskAgain = 409,
    Fell = 500,
}

impl Refusal {
    pub(super) fn of(no_answer: &NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Unknown(_) => Self::NotThere,
            NoAnswer::Fell => Self::Fell,
        }
    }
}

/// The user who asks, and the namespace.
#[derive(Debug)]
pub(super) struct Question {
    uid: String,
    namespace: String,
    user: String,
}

/// Reads a question: who asks, and what is asked about; or, as an error, the text to answer instead.
pub(super) fn read(body: &[u8]) -> Result<(Question, Result<Asked, String>), Failure> {
    let review: Review<'_> = serde_json::from_slice(body).map_err(|error| Failure::Body(error.to_string()))?;
    let request = review.request;
    let asked = if request.dry_run {
        read_spec(request.object.spec.map_or("null", RawValue::get))
    } else {
        Err(NOT_STORED.to_owned())
    };
    let question = Question {
        uid: request.uid,
        namespace: request.namespace,
        user: request.user_info.username,
    };
    Ok((question, asked))
}

/// Reads what is asked about. Other fields are dropped: the whole could take a hundred times as much memory.
fn read_spec(spec: &str) -> Result<Asked, String> {
    if values(spec.as_bytes()) > MOST_VALUES {
        return Err(format!(
            "spec holds more than {MOST_VALUES} values: ask about what is there by its name, or about a smaller manifest"
        ));
    }
    let spec: CardReviewSpec =
        serde_json::from_str(spec).map_err(|error| format!("spec: {error}: see kubectl explain cardreview.spec"))?;
    match spec.into_reviewed().map_err(|error| error.to_string())? {
        Reviewed::Manifest(manifest) => {
            let made = made_by(manifest).map_err(|error| error.to_string())?;
            Ok(Asked::Imagined(Box::new(made)))
        }
        existing => Ok(Asked::Existing(existing)),
    }
}

impl Question {
    /// Returns the user who asks, as the API server knows them.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Returns the namespace of the question, whose names the user may read.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the answer, as the status of the object that was created to ask.
    pub(super) fn answered(&self, status: &CardReviewStatus) -> Vec<u8> {
        let patch = json!([{ "op": "add", "path": "/status", "value": status }]);
        response(&json!({
            "uid": self.uid, "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
        }))
    }

    /// Returns the text that is sent in place of an answer. It is printable and short, whatever part of the question it repeats.
    pub(super) fn refused(&self, why: Refusal, message: String) -> Vec<u8> {
        let status = json!({ "code": why as u16, "message": told(message) });
        response(&json!({ "uid": self.uid, "allowed": false, "status": status }))
    }
}

fn response(response: &Value) -> Vec<u8> {
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
    review.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(dry_run: bool, spec: &Value) -> (Question, Result<Asked, String>) {
        let review = json!({ "request": {
            "uid": "u", "namespace": "team-a", "dryRun": dry_run, "object": { "kind": "CardReview", "spec": spec },
        }});
        read(review.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_would_be_stored_or_says_nothing_is_refused_with_what_to_do() {
        let refusal = |dry_run, spec: Value| question(dry_run, &spec).1.unwrap_err();
        assert!(refusal(false, json!({ "pod": "a" })).contains("--dry-run=server"));
        assert!(refusal(true, json!({})).starts_with("spec names 0 of"));
        assert!(refusal(true, json!({ "pod": 1 })).starts_with("spec: "));
        assert!(refusal(true, json!({ "manifest": { "kind": "ConfigMap" } })).contains("pod template"));
        let many = refusal(true, json!({ "manifest": { "unknown": vec![json!({}); MOST_VALUES] } }));
        assert!(many.contains("a smaller manifest"), "{many}");
    }

    #[test]
    fn a_question_is_asked_in_its_namespace() {
        let (question, asked) = question(true, &json!({ "pod": "a" }));
        assert_eq!(question.namespace(), "team-a");
        assert!(matches!(asked.unwrap(), Asked::Existing(Reviewed::Pod(name)) if name == "a"));
    }

    #[test]
    fn a_refusal_repeats_no_long_text_and_none_that_moves_the_cursor() {
        let long = format!("\u{1b}[31m\n{}", "x".repeat(1 << 20));
        for spec in [
            json!({ "pod": { long.clone(): 1 } }),
            json!({ "manifest": { "spec": { "containers": [long] } } }),
        ] {
            let (question, asked) = question(true, &spec);
            let refused = question.refused(Refusal::Unreadable, asked.unwrap_err());
            let response: Value = serde_json::from_slice(&refused).unwrap();
            let message = response["response"]["status"]["message"].as_str().unwrap();
            assert!(message.len() < 5_000 && message.starts_with("spec"), "{message}");
            assert!(!message.contains(['\u{1b}', '\n']), "{message}");
        }
    }

    #[test]
    fn no_body_makes_it_fall() {
        for body in ["", "{}", "[]", r#"{"request": {}}"#, r#"{"request": {"uid": 1}}"#] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
