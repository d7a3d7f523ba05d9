//! Watches each object of the installation that enforcement rests on, to notice when somebody changes or removes it.
//!
//! An object that is missing, or that differs from what this version was installed with, is shown in the readiness text, in metrics, in an
//! event and in the log: once, and again when it is restored. Only an administrator can restore it, because the operator has no right to
//! create or loosen the objects that constrain itself. The operator stays ready meanwhile: its work still holds, and taking it out of
//! service would help nobody.

use crds::keys::CONFIG_MAP;
use engine::happening::Happening;
use futures::StreamExt as _;
use futures::stream::select_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::events::EventType;
use kube::runtime::{WatchStreamExt as _, watcher};
use programs::logging::plain;

use crate::context::Context;
pub use removal::installed::{ExpectedError, Part, parts};

/// The operator's action, in events.
const ACTION: &str = "WatchInstallation";
/// HTTP status for an object that the operator may not read.
const FORBIDDEN: u16 = 403;

/// Watches the installation.
pub struct InstallationWatch(pub Context);

/// The state in which an object of the installation was found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    InPlace,
    Missing,
    /// The object differs; the text says where it first does.
    Changed(String),
    /// The operator may not read it.
    NotWatched,
}

impl InstallationWatch {
    /// Watches for ever.
    pub async fn run(self) -> Result<(), ExpectedError> {
        let parts = parts(&self.0.namespace)?;
        let watches = parts.iter().enumerate().map(|(index, part)| {
            let api = self.api(part);
            let seen = watcher::watch_object(api, &part.name).default_backoff();
            seen.map(move |seen| (index, seen)).boxed()
        });
        let mut watches = select_all(watches);
        let mut findings = vec![None; parts.len()];
        let mut elections = self.0.elections();
        loop {
            tokio::select! {
                biased;
                Some((index, seen)) = watches.next() => {
                    if let Some(finding) = self.read(&parts[index], seen) {
                        self.found(&parts, &mut findings, index, finding).await;
                    }
                }
                _ = elections.next() => {
                    for (part, finding) in parts.iter().zip(&findings) {
                        if let Some(finding @ (Finding::Missing | Finding::Changed(_))) = finding {
                            self.tell(part, finding).await;
                        }
                    }
                }
            }
        }
    }

    fn api(&self, part: &Part) -> Api<DynamicObject> {
        let client = self.0.client.clone();
        match &part.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &part.resource),
            None => Api::all_with(client, &part.resource),
        }
    }

    /// Returns the finding of a watch; none if the watch was only interrupted.
    fn read(&self, part: &Part, seen: Result<Option<DynamicObject>, watcher::Error>) -> Option<Finding> {
        match seen {
            Ok(None) => Some(Finding::Missing),
            Ok(Some(object)) => {
                let found = part.difference(&object.data);
                Some(found.map_or(Finding::InPlace, Finding::Changed))
            }
            Err(error) => {
                self.0.metrics.watch_error(&error);
                let is_forbidden = matches!(
                    &error,
                    watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == FORBIDDEN
                );
                tracing::debug!(
                    kind = part.kind,
                    name = part.name,
                    error = plain(&error),
                    "watch interrupted, trying again"
                );
                is_forbidden.then_some(Finding::NotWatched)
            }
        }
    }

    async fn found(&self, parts: &[Part], findings: &mut [Option<Finding>], index: usize, finding: Finding) {
        let before = findings[index].replace(finding.clone());
        if before.as_ref() == Some(&finding) {
            return;
        }
        let part = &parts[index];
        let (missing, changed) = (finding == Finding::Missing, matches!(finding, Finding::Changed(_)));
        self.0.metrics.installation(part.kind, &part.name, missing, changed);
        let known = parts.iter().zip(findings.iter());
        let problems = known.filter_map(|(part, finding)| Some((part, finding.as_ref()?)));
        let problems = problems.filter(|(_, finding)| **finding != Finding::InPlace);
        let problems = problems.map(|(part, finding)| describe(part, finding));
        self.0.readiness.installation(problems.collect());
        match &finding {
            // No report said that it was not in place.
            Finding::InPlace if matches!(before, None | Some(Finding::NotWatched)) => return,
            Finding::InPlace => tracing::info!("{}", describe(part, &finding)),
            _ => tracing::warn!("{}", describe(part, &finding)),
        }
        self.tell(part, &finding).await;
    }

    /// Reports the finding in an event on the configuration.
    async fn tell(&self, part: &Part, finding: &Finding) {
        let (kind, reason) = match finding {
            Finding::InPlace => (EventType::Normal, Happening::InstallationRestored),
            Finding::Missing => (EventType::Warning, Happening::InstallationIncomplete),
            Finding::Changed(_) => (EventType::Warning, Happening::InstallationChanged),
            // The administrator who installed it so knows it.
            Finding::NotWatched => return,
        };
        if !self.0.leadership.is_elected() {
            return;
        }
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            name: Some(CONFIG_MAP.to_owned()),
            namespace: Some(self.0.namespace.clone()),
            ..ObjectReference::default()
        };
        let note = describe(part, finding);
        self.0.recorder.publish(&regarding, kind, reason, ACTION, &note).await;
    }
}

fn describe(part: &Part, finding: &Finding) -> String {
    let Part {
        kind, name, purpose, ..
    } = part;
    let version = env!("CARGO_PKG_VERSION");
    match finding {
        Finding::InPlace => format!("{kind} {name} is as it was installed again"),
        Finding::Missing => {
            format!("{kind} {name} is missing: {purpose}; apply the manifests of version {version} again")
        }
        Finding::Changed(place) => format!(
            "{kind} {name} is not as the manifests of version {version} have it, first at {place}: apply them again, unless \
             you have changed it yourself"
        ),
        Finding::NotWatched => {
            format!(
                "{kind} {name} is not watched: the operator may not read it (ClusterRole cardgate-operator-installation)"
            )
        }
    }
}
