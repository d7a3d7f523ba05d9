//! Why a question has no answer, and what to do about it.

use std::error::Error as _;
use std::iter;

use kube::core::Status;
use thiserror::Error;

use crate::arguments::AGAINST_CLUSTER;
use crate::changes::ChangeError;
use crate::manifests::ManifestError;
use crate::subject::SubjectError;

/// Exit code if what is asked about does not exist.
pub const NOT_THERE: u8 = 1;
/// Exit code if the command or the file can't be read.
const UNREADABLE: u8 = 2;
/// Exit code if the cluster can't be asked.
pub const CANNOT_ASK: u8 = 3;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("no node has the card {card:?}{}: kubectl card types shows those that there are", did_you_mean(.meant.as_deref()))]
    CardUnknown { card: String, meant: Option<String> },
    #[error("there is no queue {0:?}: kubectl card queue shows those that there are")]
    QueueUnknown(String),
    #[error("{0}: name a kubeconfig file by --kubeconfig or KUBECONFIG, and a context of it by --context")]
    Kubeconfig(String),
    #[error(
        "you may not list {what}: ask your administrator for the ClusterRole {role}{}",
        if *.role == EVERYBODY { ", which Cardgate gives to everybody who is logged in" } else { "" }
    )]
    Forbidden { what: &'static str, role: &'static str },
    #[error("you may not list {what} in namespace {namespace}: ask its owner for the ClusterRole view or edit there")]
    ForbiddenIn { what: &'static str, namespace: String },
    #[error(
        "you may not list {0} in all namespaces: leave out -A, or name one by -n, or ask your administrator for the ClusterRole view"
    )]
    ForbiddenEverywhere(&'static str),
    #[error("--against {AGAINST_CLUSTER} stands alone: what is there is compared with the cluster or with files")]
    AgainstBoth,
    #[error("this cluster has no {0}: Cardgate is not installed, or not all of it")]
    NotInstalled(&'static str),
    #[error(
        "you may not ask why something waits in namespace {0} (create cardreviews): ask its owner for the ClusterRole view, edit or {ASK} there"
    )]
    MayNotAsk(String),
    /// Cardgate knows nothing of that name, in its own words.
    #[error("{0}")]
    Unknown(String),
    #[error("there is no namespace {0}")]
    NamespaceUnknown(String),
    /// Cardgate can't answer the question as it stands, in its own words.
    #[error("{0}")]
    Refused(String),
    #[error(
        "the API server does not let the question pass ({0}): have whoever refuses it, such as a webhook, a policy or a quota of the namespace, \
         let cardreviews pass"
    )]
    RefusedByOthers(String),
    #[error(
        "nobody answers ({0}): is Cardgate's operator running? kubectl -n cardgate-system get pods, and what they log, say so; ask again when one \
         of them leads"
    )]
    NobodyAnswers(String),
    /// Cardgate failed on the question, in its own words.
    #[error("{0}")]
    NotAnswered(String),
    #[error(transparent)]
    Subject(#[from] SubjectError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A manifest that is asked about names a `PriorityClass` that does not exist.
    #[error("{0}")]
    NoClass(String),
    #[error(
        "you may not list {0}: a simulation reads nodes, queues, namespaces, jobs and pods of the whole cluster; name files by -f instead"
    )]
    MayNotSimulate(&'static str),
    #[error(
        "the cluster can't be reached ({0}): is it the right one, and does it run? kubectl config view --minify shows which server is asked"
    )]
    Unreachable(String),
    #[error(
        "the cluster does not accept your credentials ({0}): log in again, or name another kubeconfig file by --kubeconfig or KUBECONFIG"
    )]
    Unauthorized(String),
    #[error("{what} can't be read: {error}")]
    Api { what: &'static str, error: String },
    /// Cardgate can't be removed, or not all of it.
    #[error("{0}")]
    Removal(String),
    #[error("nothing was changed: confirm with --yes")]
    NotSure,
    #[error("the pages can't be served: {0}")]
    Ui(String),
    #[error("{0:?} is no namespace: its name has at most 63 lower-case letters, digits and dashes")]
    NoNamespace(String),
    #[error("the answer can't be printed: {0}")]
    Unprintable(String),
}

/// The role that every logged-in user has.
pub const EVERYBODY: &str = "cardgate-everybody";
/// The role of users who may view the cluster.
pub const VIEW: &str = "cardgate-view";
/// The role for asking why something waits; it is a part of `view`.
pub const ASK: &str = "cardgate-ask";

/// How API servers say that a webhook has refused something. The webhook's message follows.
const DENIED: &str = " denied the request: ";
/// The same for the webhook that answers reviews. It answers this way if it can't explain something.
const ANSWERED: &str = "admission webhook \"reviews.card.volcano.sh\" denied the request: ";
/// How API servers say that one of their policies has refused something.
const DENIED_BY_POLICY: &str = " denied request: ";
/// The status of a review about an object that does not exist.
const NOT_KNOWN: u16 = 404;
/// The status of a review that can be answered later.
const ASK_AGAIN: u16 = 409;
/// The status of a review that the operator failed on.
const FAILED: u16 = 500;

impl Failure {
    /// Why `what` could not be listed; `role` allows it.
    pub fn of_list(what: &'static str, role: &'static str, error: &kube::Error) -> Self {
        Self::of_any_list(what, error, Self::Forbidden { what, role })
    }

    /// Why `what` of a namespace, or of all namespaces, could not be listed.
    pub fn of_list_in(what: &'static str, namespace: Option<&str>, error: &kube::Error) -> Self {
        let forbidden = match namespace.map(str::to_owned) {
            Some(namespace) => Self::ForbiddenIn { what, namespace },
            None => Self::ForbiddenEverywhere(what),
        };
        Self::of_any_list(what, error, forbidden)
    }

    /// Why a simulation can't read all objects of a kind.
    pub fn of_everything(what: &'static str, error: &kube::Error) -> Self {
        Self::of_any_list(what, error, Self::MayNotSimulate(what))
    }

    /// Why `what` could not be listed; `forbidden` says it of a user who has no right to.
    fn of_any_list(what: &'static str, error: &kube::Error, forbidden: Self) -> Self {
        match error {
            error if lacks_right(error) => forbidden,
            kube::Error::Api(status) if status.code == 404 => Self::NotInstalled(what),
            error => Self::of_anything(what, error),
        }
    }

    /// Why a review in a namespace was not answered.
    pub fn of_review(namespace: &str, error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::of_anything("the answer", error);
        };
        let said = status.message.split_once(ANSWERED).map(|(_, said)| said);
        let is_refused = status.code == 403 || status.message.contains(DENIED);
        match (said, status.code) {
            (Some(said), NOT_KNOWN) => Self::Unknown(said.to_owned()),
            (Some(said), ASK_AGAIN) => Self::NobodyAnswers(said.to_owned()),
            (Some(said), FAILED) => Self::NotAnswered(said.to_owned()),
            (Some(said), _) => Self::Refused(said.to_owned()),
            (None, _) if lacks_right(error) => Self::MayNotAsk(namespace.to_owned()),
            (None, _) if is_refused => Self::RefusedByOthers(status.message.clone()),
            (None, 401) => Self::Unauthorized(words(error)),
            (None, 404) if is_namespace(status) => Self::NamespaceUnknown(namespace.to_owned()),
            (None, 404) => Self::NotInstalled("cardreviews"),
            (None, _) => Self::NobodyAnswers(status.message.clone()),
        }
    }

    /// Why `what` could not be read, if nothing but the error is known.
    pub fn of_anything(what: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::Unauthorized(words(error)),
            kube::Error::Service(_) | kube::Error::HyperError(_) => Self::Unreachable(words(error)),
            error => Self::Api {
                what,
                error: words(error),
            },
        }
    }

    /// Why an answer can't be written as data.
    pub fn unprintable(error: &serde_json::Error) -> Self {
        Self::Unprintable(error.to_string())
    }

    /// Whether the user has no right to ask.
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. }
                | Self::ForbiddenIn { .. }
                | Self::ForbiddenEverywhere(_)
                | Self::MayNotAsk(_)
                | Self::MayNotSimulate(_)
        )
    }

    /// The exit code, for scripts.
    pub fn code(&self) -> u8 {
        match self {
            Self::CardUnknown { .. } | Self::QueueUnknown(_) | Self::Unknown(_) | Self::NamespaceUnknown(_) => {
                NOT_THERE
            }
            Self::Subject(_)
            | Self::Manifest(_)
            | Self::Change(_)
            | Self::NoClass(_)
            | Self::NotSure
            | Self::AgainstBoth
            | Self::NoNamespace(_)
            | Self::Refused(_) => UNREADABLE,
            Self::Kubeconfig(_)
            | Self::Forbidden { .. }
            | Self::ForbiddenIn { .. }
            | Self::ForbiddenEverywhere(_)
            | Self::NotInstalled(_)
            | Self::MayNotAsk(_)
            | Self::MayNotSimulate(_)
            | Self::RefusedByOthers(_)
            | Self::Removal(_)
            | Self::Ui(_)
            | Self::NobodyAnswers(_)
            | Self::NotAnswered(_)
            | Self::Unreachable(_)
            | Self::Unauthorized(_)
            | Self::Api { .. }
            | Self::Unprintable(_) => CANNOT_ASK,
        }
    }
}

/// Whether the user has no right to ask. Webhooks, policies and quotas refuse with the same status. But if a right is
/// missing, the API server's message names the user and what the user can't do, whichever authorizer decided.
pub fn lacks_right(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let said = &status.message;
    let names_right = said.contains("User \"") && said.contains("\" cannot ");
    let by_others = said.contains(DENIED) || said.contains(DENIED_BY_POLICY);
    status.code == 403 && (said.is_empty() || names_right && !by_others)
}

/// Returns what an API server said, or what kept a question from reaching it. Of nested errors it is the innermost cause.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("status {} {}", status.code, status.reason),
        error => iter::successors(error.source(), |error| (**error).source())
            .last()
            .map_or_else(|| error.to_string(), ToString::to_string),
    }
}

/// Whether the object that was not found is the namespace.
fn is_namespace(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "namespaces")
}

fn did_you_mean(card: Option<&str>) -> String {
    card.map_or_else(String::new, |card| format!(" (did you mean {card:?}?)"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::json;

    use super::*;

    fn api(code: u16, message: &str, kind: &str) -> kube::Error {
        let status = json!({ "status": "Failure", "code": code, "message": message, "details": { "kind": kind } });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn a_cluster_that_is_not_reached_says_so_and_by_what() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = kube::Error::Service(io::Error::other(refused).into());
        for failure in [
            Failure::of_list("queues", EVERYBODY, &error),
            Failure::of_list_in("pods", Some("team"), &error),
            Failure::of_everything("nodes", &error),
            Failure::of_review("team", &error),
        ] {
            let said = failure.to_string();
            assert!(
                said.starts_with("the cluster can't be reached (connection refused): "),
                "{said}"
            );
            assert_eq!(failure.code(), CANNOT_ASK);
        }
    }

    #[test]
    fn credentials_that_are_not_accepted_are_no_fault_of_cardgate() {
        let error = api(401, "Unauthorized", "");
        for failure in [
            Failure::of_list("queues", EVERYBODY, &error),
            Failure::of_review("team", &error),
        ] {
            let said = failure.to_string();
            assert!(
                said.starts_with("the cluster does not accept your credentials (Unauthorized): log in"),
                "{said}"
            );
            assert_eq!(failure.code(), CANNOT_ASK);
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_not_taken_for_a_missing_installation() {
        let said = |error: &kube::Error| Failure::of_review("tema", error);
        let nowhere = said(&api(404, "namespaces \"tema\" not found", "namespaces"));
        assert_eq!(
            (&*nowhere.to_string(), nowhere.code()),
            ("there is no namespace tema", NOT_THERE)
        );
        let not_installed = said(&api(404, "the server could not find the requested resource", ""));
        assert!(not_installed.to_string().contains("Cardgate is not installed"));
    }

    #[test]
    fn what_an_api_server_says_is_told_in_its_words_alone() {
        let failure = Failure::of_list("queues", EVERYBODY, &api(500, "etcdserver: no leader", ""));
        assert_eq!(failure.to_string(), "queues can't be read: etcdserver: no leader");
    }

    /// A refusal by RBAC, in API servers' own words.
    const NO_RIGHT: &str = "cardreviews.card.volcano.sh is forbidden: User \"eve\" cannot create resource \"cardreviews\" in API group \
                            \"card.volcano.sh\" in the namespace \"team\"";

    #[test]
    fn what_somebody_else_refuses_is_no_missing_right() {
        let says = |failure: Failure, said: &str| {
            let told = failure.to_string();
            assert!(told.contains(said) && !told.contains("you may not"), "{told}");
            assert!(!failure.is_forbidden());
            assert_eq!(failure.code(), CANNOT_ASK);
        };
        for said in [
            "admission webhook \"guard.example.com\" denied the request: no questions today",
            "cardreviews.card.volcano.sh \"why-x\" is forbidden: ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: no",
            "cardreviews.card.volcano.sh \"why-x\" is forbidden: exceeded quota: objects, requested: 1, used: 9, limited: 9",
            "cardreviews.card.volcano.sh \"why-x\" is forbidden: unable to create new content in namespace team because it is being terminated",
        ] {
            let error = api(403, said, "cardreviews");
            says(Failure::of_review("team", &error), said);
            says(Failure::of_list("queues", EVERYBODY, &error), said);
            says(Failure::of_list_in("pods", Some("team"), &error), said);
            says(Failure::of_list_in("pods", None, &error), said);
            says(Failure::of_everything("nodes", &error), said);
        }
        for said in [NO_RIGHT, ""] {
            let error = api(403, said, "cardreviews");
            for failure in [
                Failure::of_review("team", &error),
                Failure::of_list("queues", EVERYBODY, &error),
                Failure::of_list_in("pods", Some("team"), &error),
                Failure::of_everything("nodes", &error),
            ] {
                assert!(failure.is_forbidden(), "{failure}");
            }
        }
    }

    #[test]
    fn what_cardgate_itself_answers_stays_an_answer() {
        for (status, code) in [
            (404, NOT_THERE),
            (422, UNREADABLE),
            (409, CANNOT_ASK),
            (500, CANNOT_ASK),
        ] {
            let said = "admission webhook \"reviews.card.volcano.sh\" denied the request: so it is";
            let failure = Failure::of_review("team", &api(status, said, ""));
            assert!(failure.to_string().contains("so it is"), "{failure}");
            assert_eq!(failure.code(), code);
        }
    }
}
