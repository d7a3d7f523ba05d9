//! Keeps the two Secrets and the two webhook configurations as they should be, while this operator leads.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::events::EventType;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::held::{CertificateError, Held};
use super::inject::{self, CONFIGURATION, Webhooks};
use super::names::Name;
use super::plan::Step;
use super::secrets::{self, AUTHORITY_SECRET, Data, Found, SERVING_SECRET};
use crate::lease::Leadership;
use crate::metrics::{Certificate, Metrics, Verb, Write};
use crate::recorder::Recorder;

/// How long one request may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Everything is looked at again after this time, whatever was heard: a lost message heals by itself.
const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// The shortest time between two looks: what comes in a burst is one look, and a quarrel about an object stays slow.
const PAUSE: Duration = Duration::from_millis(100);
/// The wait after the first failure; doubled with every one that follows.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Type of a Secret with a serving certificate.
const TLS_SECRET: &str = "kubernetes.io/tls";
/// Type of any other Secret.
const OPAQUE_SECRET: &str = "Opaque";

/// What the operator was doing, in events.
const ACTION: &str = "KeepCertificates";

/// Certificates could not be brought in order. It is tried again.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The API server refuses, or can't be reached.
    #[error("can't {verb} {what}: {source}")]
    Api {
        /// What was tried.
        verb: &'static str,
        /// With what.
        what: &'static str,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// The API server did not answer.
    #[error("can't {verb} {what}: no answer within {} s", TIME_LIMIT.as_secs())]
    Timeout {
        /// What was tried.
        verb: &'static str,
        /// With what.
        what: &'static str,
    },
    /// Somebody else leads.
    #[error("this operator no longer leads")]
    NotLeading,
}

/// Keeps certificates.
pub struct CertificateKeeper {
    /// For reading and writing.
    pub client: Client,
    /// Cardgate's own namespace.
    pub namespace: String,
    /// The names of the webhook ([`Name::of_webhook`]).
    pub names: Vec<Name>,
    /// Nothing is written without it.
    pub leadership: Leadership,
    /// Counts writes and errors, and shows when certificates expire.
    pub metrics: Arc<Metrics>,
    /// Says what was replaced.
    pub recorder: Recorder,
}

/// What there is in the cluster.
struct Cluster {
    authority: Option<Secret>,
    serving: Option<Secret>,
    mutating: Option<MutatingWebhookConfiguration>,
    validating: Option<ValidatingWebhookConfiguration>,
}

impl CertificateKeeper {
    /// Keeps certificates for ever, whenever this operator leads.
    pub async fn run(self) {
        let mut leads = self.leadership.changes();
        loop {
            // Without an election any more, this operator will never lead again.
            if leads.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let end = leads.wait_for(|leads| !*leads).map(|_| ());
            tokio::select! {
                () = end => {}
                () = self.keep() => {}
            }
        }
    }

    async fn keep(&self) {
        let mut changes = stream::select_all([
            self.changes::<Secret>(Api::namespaced(self.client.clone(), &self.namespace), AUTHORITY_SECRET),
            self.changes::<Secret>(Api::namespaced(self.client.clone(), &self.namespace), SERVING_SECRET),
            self.changes::<MutatingWebhookConfiguration>(Api::all(self.client.clone()), CONFIGURATION),
            self.changes::<ValidatingWebhookConfiguration>(Api::all(self.client.clone()), CONFIGURATION),
        ]);
        let mut wait = FIRST_WAIT;
        loop {
            let now = Timestamp::now();
            let rest = match self.reconcile(now).await {
                Ok(next) => {
                    wait = FIRST_WAIT;
                    // Time that has passed already is looked at after the pause.
                    Duration::try_from(now.duration_until(next))
                        .unwrap_or_default()
                        .min(LOOK_AGAIN)
                }
                Err(error) => {
                    warn!(%error, "certificates are not in order, trying again");
                    let rest = wait;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    rest
                }
            };
            sleep(PAUSE).await;
            tokio::select! {
                () = sleep(rest) => {}
                _ = changes.next() => while let Some(Some(())) = changes.next().now_or_never() {},
            }
        }
    }

    /// Something about the object has changed.
    fn changes<K>(&self, api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let metrics = Arc::clone(&self.metrics);
        watcher(api, only)
            .default_backoff()
            .filter_map(move |change| {
                if let Err(error) = &change {
                    metrics.watch_error(error);
                    warn!(kind = %K::kind(&()), %error, "a watch was interrupted, trying again");
                }
                std::future::ready(change.ok().map(|_| ()))
            })
            .boxed()
    }

    /// Brings everything in order. Returns when to do so again.
    async fn reconcile(&self, now: Timestamp) -> Result<Timestamp, KeeperError> {
        let cluster = self.look().await?;
        let Found {
            mut held,
            bad_authority,
            bad_serving,
        } = secrets::read(cluster.authority.as_ref(), cluster.serving.as_ref(), now);
        let plan = held.plan(&self.names, now);
        held.apply(&plan.steps, &self.names, now)?;

        let authority = secrets::authority_data(&held);
        if !secrets::holds(cluster.authority.as_ref(), &authority) {
            self.write_secret(AUTHORITY_SECRET, cluster.authority.as_ref(), &authority)
                .await?;
            if plan.steps.contains(&Step::Create) {
                let note = "a new certificate authority for the webhook; the ones before it stay until they expire";
                self.tell(AUTHORITY_SECRET, bad_authority, "CertificateAuthority", note)
                    .await;
            }
        }
        self.inject(cluster.mutating.as_ref(), &held).await?;
        self.inject(cluster.validating.as_ref(), &held).await?;
        if let Some(serving) = secrets::serving_data(&held)
            && !secrets::holds(cluster.serving.as_ref(), &serving)
        {
            self.write_secret(SERVING_SECRET, cluster.serving.as_ref(), &serving)
                .await?;
            if plan.steps.iter().any(|step| matches!(step, Step::Issue { .. })) {
                let note = "a new certificate for the webhook";
                self.tell(SERVING_SECRET, bad_serving, "ServingCertificate", note).await;
            }
        }
        self.show(&held);
        Ok(plan.next)
    }

    async fn look(&self) -> Result<Cluster, KeeperError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        Ok(Cluster {
            authority: self
                .read(secrets.get_opt(AUTHORITY_SECRET), "the Secret cardgate-ca")
                .await?,
            serving: self
                .read(secrets.get_opt(SERVING_SECRET), "the Secret cardgate-webhook-tls")
                .await?,
            mutating: self
                .read(
                    mutating.get_opt(CONFIGURATION),
                    "the MutatingWebhookConfiguration cardgate",
                )
                .await?,
            validating: self
                .read(
                    validating.get_opt(CONFIGURATION),
                    "the ValidatingWebhookConfiguration cardgate",
                )
                .await?,
        })
    }

    async fn read<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        what: &'static str,
    ) -> Result<T, KeeperError> {
        self.request(request, Verb::Get, "read", what).await
    }

    async fn request<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
        kind: Verb,
        verb: &'static str,
        what: &'static str,
    ) -> Result<T, KeeperError> {
        match timeout(TIME_LIMIT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.metrics.api_error(kind, &error);
                Err(KeeperError::Api {
                    verb,
                    what,
                    source: Box::new(error),
                })
            }
            Err(_) => {
                self.metrics.api_timeout(kind);
                Err(KeeperError::Timeout { verb, what })
            }
        }
    }

    /// Writes our part of a Secret over the version that was read.
    async fn write_secret(&self, name: &'static str, old: Option<&Secret>, data: &Data) -> Result<(), KeeperError> {
        self.may_write(Write::CertificateSecret)?;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        if let Some(old) = old {
            let version = &old.metadata.resource_version;
            let change = json!({ "metadata": { "resourceVersion": version }, "data": data });
            let (params, change) = (PatchParams::default(), Patch::Merge(change));
            let written = self
                .request(api.patch(name, &params, &change), Verb::Patch, "write the Secret", name)
                .await;
            if let Err(KeeperError::Api { source, .. }) = &written
                && matches!(&**source, kube::Error::Api(status) if status.code == 422)
            {
                // An immutable Secret, or one of a type that wants other keys.
                let note = format!("Cardgate can't write this Secret, delete it so that it is made anew: {source}");
                self.recorder
                    .publish(
                        &self.secret(name),
                        EventType::Warning,
                        "SecretNotWritable",
                        ACTION,
                        &note,
                    )
                    .await;
            }
            written?;
        } else {
            let kind = if name == SERVING_SECRET {
                TLS_SECRET
            } else {
                OPAQUE_SECRET
            };
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    ..ObjectMeta::default()
                },
                data: Some(data.clone()),
                type_: Some(kind.to_owned()),
                ..Secret::default()
            };
            self.request(
                api.create(&PostParams::default(), &secret),
                Verb::Create,
                "create the Secret",
                name,
            )
            .await?;
        }
        info!(secret = name, "wrote certificates");
        Ok(())
    }

    /// Makes API servers trust all authorities. Without a configuration, no API server calls the webhook.
    async fn inject<K>(&self, configuration: Option<&K>, held: &Held) -> Result<(), KeeperError>
    where
        K: Webhooks + Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let Some(patch) = configuration.and_then(|found| inject::patch(found, &secrets::bundle(held))) else {
            return Ok(());
        };
        self.may_write(Write::CaBundle)?;
        let api: Api<K> = Api::all(self.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        self.request(
            api.patch(CONFIGURATION, &params, &patch),
            Verb::Patch,
            "write caBundle into",
            CONFIGURATION,
        )
        .await?;
        info!(kind = %K::kind(&()), "API servers trust the webhook's authorities");
        Ok(())
    }

    fn may_write(&self, kind: Write) -> Result<(), KeeperError> {
        if !self.leadership.holds() {
            return Err(KeeperError::NotLeading);
        }
        self.metrics.api_write(kind);
        Ok(())
    }

    /// Says what is new; as a warning where something else was there.
    async fn tell(&self, secret: &'static str, bad: Option<&'static str>, reason: &'static str, note: &str) {
        let (kind, note) = match bad {
            Some(bad) => (EventType::Warning, format!("{bad}; replaced by {note}")),
            None => (EventType::Normal, note.to_owned()),
        };
        info!(secret, "{note}");
        self.recorder
            .publish(&self.secret(secret), kind, reason, ACTION, &note)
            .await;
    }

    fn secret(&self, name: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            ..ObjectReference::default()
        }
    }

    fn show(&self, held: &Held) {
        let ends = held
            .authorities
            .iter()
            .map(|authority| authority.certificate.validity.not_after);
        if let Some(end) = ends.max() {
            self.metrics
                .certificate_expires(Certificate::Authority, end.as_second());
        }
        if let Some(leaf) = held.serving.as_ref().and_then(|serving| serving.leaf()) {
            let end = leaf.validity.not_after;
            self.metrics.certificate_expires(Certificate::Webhook, end.as_second());
        }
    }
}
