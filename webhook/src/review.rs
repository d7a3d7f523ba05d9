//! Admission reviews as they come in and go out (`admission.k8s.io/v1`).
//!
//! A request is parsed into a lean view that borrows from the body. An answer is serialised in one go.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use crds::bounds::excerpt;
use crds::lean::Text;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::brief::brief;
use crate::denial::Denial;
use crate::patch::ObjectPatch;
use crate::warning::Warning;

/// The only version of the API.
const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind that API servers send and get back.
const KIND: &str = "AdmissionReview";
/// The prefix of a node's user name, as the API server authenticates kubelets.
const NODE_USER: &str = "system:node:";
/// The group that all users of nodes belong to.
const NODE_GROUP: &str = "system:nodes";
/// The longest text that names something in a request, in bytes. Kubernetes' names have 253 at most; users' names may be longer, but an
/// API server gets none that comes near this.
const MAX_NAME: usize = 4096;
/// How many warnings an answer has. The API server passes on 4,096 characters of warnings; if they are longer, it cuts each
/// to 256.
const MOST_WARNINGS: usize = 16;

/// Why a body is not a review.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// Not JSON, or JSON of another shape.
    #[error("the body is no AdmissionReview of {API_VERSION}: {0}")]
    Json(#[from] serde_json::Error),
    /// Another kind or version.
    #[error("the body is {kind:?} of {api_version:?}: send an {KIND} of {API_VERSION}")]
    #[expect(missing_docs, reason = "the message says what they are")]
    Kind { kind: String, api_version: String },
    /// A review without an essential field.
    #[error("the {KIND} has no {0}: send one")]
    Missing(&'static str),
    /// A review that calls something by a name that nothing has.
    #[error("the {KIND}'s {0} is longer than {MAX_NAME} bytes: nothing has such a name")]
    Long(&'static str),
}

#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "O: Deserialize<'de>, P: Deserialize<'de>")
)]
struct Review<'a, O, P> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    request: Option<Request<'a, O, P>>,
}

/// The request in a review. `O` is the type that the object is read as, `P` the type of the object before an update.
#[derive(Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "O: Deserialize<'de>, P: Deserialize<'de>")
)]
pub struct Request<'a, O, P> {
    /// The uid, which the answer must repeat.
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(default)]
    pub(crate) kind: GroupVersionKind<'a>,
    /// Set where the request writes a part of the object and not the object itself.
    sub_resource: Option<Text<'a>>,
    /// Name of the object; empty where the API server will generate one.
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    operation: Option<Text<'a>>,
    #[serde(default)]
    user_info: UserInfo<'a>,
    /// The object as the request would make it.
    pub(crate) object: Option<O>,
    /// The object as it is stored.
    pub(crate) old_object: Option<P>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct GroupVersionKind<'a> {
    /// API group; empty for the core.
    #[serde(borrow)]
    group: Option<Text<'a>>,
    version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
}

impl GroupVersionKind<'_> {
    /// Returns group and kind.
    pub fn as_pair(&self) -> (&str, &str) {
        (text(self.group.as_ref()), text(self.kind.as_ref()))
    }

    /// `group/version`, as manifests write it.
    pub fn api_version(&self) -> String {
        match (text(self.group.as_ref()), text(self.version.as_ref())) {
            ("", version) => version.to_owned(),
            (group, version) => [group, "/", version].concat(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct UserInfo<'a> {
    #[serde(borrow)]
    username: Option<Text<'a>>,
    #[serde(default)]
    groups: Option<Vec<Text<'a>>>,
}

/// A request whose object is not read yet.
pub type RawRequest<'a> = Request<'a, &'a RawValue, &'a RawValue>;
/// A request whose former object is not needed.
pub type CreateRequest<'a, O> = Request<'a, O, IgnoredAny>;

/// Parses a review and returns its request.
pub fn parse<'a, O, P>(body: &'a [u8]) -> Result<Request<'a, O, P>, ReviewError>
where
    O: Deserialize<'a>,
    P: Deserialize<'a>,
{
    let review: Review<'a, O, P> = serde_json::from_slice(body)?;
    let (kind, api_version) = (text(review.kind.as_ref()), text(review.api_version.as_ref()));
    if (kind, api_version) != (KIND, API_VERSION) {
        return Err(ReviewError::Kind {
            kind: excerpt(kind).into_owned(),
            api_version: excerpt(api_version).into_owned(),
        });
    }
    let request = review.request.ok_or(ReviewError::Missing("request"))?;
    if request.uid().is_empty() {
        return Err(ReviewError::Missing("request.uid"));
    }
    let long = request.names().into_iter().find(|(_, name)| name.len() > MAX_NAME);
    match long.map(|(field, _)| field) {
        Some(field) => Err(ReviewError::Long(field)),
        None => Ok(request),
    }
}

impl<'a, O, P> Request<'a, O, P> {
    /// Returns what is repeated in the answer or the log, each with its field.
    fn names(&self) -> [(&'static str, &str); 7] {
        let (group, kind) = self.kind.as_pair();
        [
            ("request.uid", self.uid()),
            ("request.name", self.name()),
            ("request.namespace", self.namespace()),
            ("request.userInfo.username", self.username()),
            ("request.kind.group", group),
            ("request.kind.kind", kind),
            ("request.kind.version", text(self.kind.version.as_ref())),
        ]
    }

    /// The uid, which the answer must repeat.
    pub fn uid(&self) -> &str {
        text(self.uid.as_ref())
    }

    /// The uid, for a caller that outlives the request.
    pub(crate) fn answered(&self) -> Text<'a> {
        self.uid.clone().unwrap_or_else(|| "".into())
    }

    /// Name of the object; empty where the API server will generate one.
    pub fn name(&self) -> &str {
        text(self.name.as_ref())
    }

    /// Namespace of the object; empty where it has none.
    pub fn namespace(&self) -> &str {
        text(self.namespace.as_ref())
    }

    /// Name of the user or service account that asks.
    pub fn username(&self) -> &str {
        text(self.user_info.username.as_ref())
    }

    /// Whether a node's kubelet asks. Only a kubelet may say which pods are mirror pods.
    pub fn is_by_kubelet(&self) -> bool {
        let mut groups = self.user_info.groups.iter().flatten();
        self.username().starts_with(NODE_USER) && groups.any(|group| group.as_ref() == NODE_GROUP)
    }

    /// Whether this is `operation` on the object itself.
    pub fn is(&self, operation: &str) -> bool {
        text(self.operation.as_ref()) == operation && text(self.sub_resource.as_ref()).is_empty()
    }
}

fn text<'t>(text: Option<&'t Text<'_>>) -> &'t str {
    text.map_or("", AsRef::as_ref)
}

/// The answer to a review.
#[derive(Debug, Default)]
pub struct Answer<'a> {
    /// Why the request is refused, if it is.
    pub denial: Option<&'a Denial>,
    /// What is written on the object.
    pub patch: Option<&'a ObjectPatch>,
    /// What the user is told.
    pub warnings: &'a [Warning],
}

impl Answer<'_> {
    /// Writes the review that answers the one with `uid`.
    pub fn write(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let patch = match self.patch.filter(|patch| !patch.is_empty()) {
            Some(patch) => Some(serde_json::to_vec(patch)?),
            None => None,
        };
        let mut body = Vec::with_capacity(1024);
        serde_json::to_writer(
            &mut body,
            &ReviewOut {
                api_version: API_VERSION,
                kind: KIND,
                response: Response {
                    uid,
                    allowed: self.denial.is_none(),
                    status: self.denial.map(Status::new),
                    patch_type: patch.as_ref().map(|_| "JSONPatch"),
                    patch: patch.as_deref().map(Encoded),
                    warnings: told(self.warnings),
                },
            },
        )?;
        Ok(body)
    }
}

/// Returns the first few warnings, as users read them, and a line on how many more there are.
fn told(warnings: &[Warning]) -> Vec<String> {
    let (shown, more) = match warnings.split_at_checked(MOST_WARNINGS - 1) {
        Some((shown, more)) if more.len() > 1 => (shown, more.len()),
        _ => (warnings, 0),
    };
    let mut texts: Vec<_> = shown.iter().map(brief).collect();
    if more > 0 {
        texts.push(format!("{more} more like these are not shown: mend these first"));
    }
    texts
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewOut<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Encoded<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Kubernetes' `metav1.Status`. Users see the message; the reason in the cause is for programs.
#[derive(Serialize)]
struct Status {
    code: u16,
    reason: &'static str,
    message: String,
    details: Details,
}

#[derive(Serialize)]
struct Details {
    causes: [Cause; 1],
}

#[derive(Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
}

impl Status {
    fn new(denial: &Denial) -> Self {
        let (code, reason) = denial.status();
        let message = brief(denial);
        let causes = [Cause {
            reason: denial.reason(),
            message: message.clone(),
        }];
        Self {
            code,
            reason,
            message,
            details: Details { causes },
        }
    }
}

/// Bytes as base64.
struct Encoded<'a>(&'a [u8]);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}
