//! Keeps the Secrets and the two webhook configurations as they should be, while this operator leads.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::happening::Happening;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::events::EventType;
use kube::{Api, Resource};
use programs::clock;
use serde::de::DeserializeOwned;
use serde_json::json;
use thiserror::Error;
use tracing::info;

use super::held::{CertificateError, Held, Serving};
use super::inject::{self, CONFIGURATION, Webhooks};
use super::leaf::Leaf;
use super::plan::Step;
use super::secrets::{self, AUTHORITY_SECRET, Data, Found};
use crate::context::Context;
use crate::keep::{KeepError, Keeper};
use crate::metrics::{Certificate, Verb, Write};
use crate::request::RequestError;

/// Type of a Secret with a serving certificate.
const TLS_SECRET: &str = "kubernetes.io/tls";
/// Type of any other Secret.
const OPAQUE_SECRET: &str = "Opaque";

/// The operator's action, in events.
const ACTION: &str = "KeepCertificates";

/// Certificates could not be brought in order. The keeper tries again.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] KeepError),
}

/// Creates certificates, renews them in time, and makes the webhook configurations trust them.
pub struct CertificateKeeper {
    /// Where the certificates are kept, and where problems are reported.
    context: Context,
    /// The certificates that have to exist. The webhook's is the first; by it a lost authority is recognized.
    leaves: Vec<Leaf>,
    /// What was reported about Secrets that cannot be written. Each report is made once, although the write is tried again every half
    /// minute.
    told: Mutex<BTreeMap<&'static str, String>>,
}

/// The existing objects in the cluster.
struct Cluster {
    authority: Option<Secret>,
    /// In the order of [`CertificateKeeper::leaves`].
    leaves: Vec<Option<Secret>>,
    mutating: Option<MutatingWebhookConfiguration>,
    validating: Option<ValidatingWebhookConfiguration>,
}

impl Keeper for CertificateKeeper {
    type Error = KeeperError;
    const OBJECTS: &'static str = "certificates are";

    fn context(&self) -> &Context {
        &self.context
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let Context { client, namespace, .. } = &self.context;
        let secrets = self.leaves.iter().map(|leaf| leaf.secret).chain([AUTHORITY_SECRET]);
        let secrets = secrets.map(|name| {
            let api = Api::namespaced(client.clone(), namespace);
            self.context.changes::<Secret>(api, name)
        });
        let mutating = Api::all(client.clone());
        let validating = Api::all(client.clone());
        let configurations = [
            self.context
                .changes::<MutatingWebhookConfiguration>(mutating, CONFIGURATION),
            self.context
                .changes::<ValidatingWebhookConfiguration>(validating, CONFIGURATION),
        ];
        stream::select_all(secrets.chain(configurations)).boxed()
    }

    async fn reconcile(&mut self) -> Result<Duration, KeeperError> {
        let now = clock::now();
        let next = self.bring_in_order(now).await?;
        // If that time has passed already, the next look follows after the pause.
        Ok(Duration::try_from(now.duration_until(next)).unwrap_or_default())
    }
}

impl CertificateKeeper {
    /// Returns a keeper of these certificates; the webhook's must be the first.
    pub fn new(context: Context, leaves: Vec<Leaf>) -> Self {
        Self {
            context,
            leaves,
            told: Mutex::default(),
        }
    }

    /// Brings everything in order. Returns when to do so again.
    async fn bring_in_order(&self, now: Timestamp) -> Result<Timestamp, KeeperError> {
        let cluster = self.look().await?;
        let mut next = Vec::new();
        let mut created = false;
        // All leaves are planned with the same authorities, one leaf after the other. The first Secret also decides about the authorities.
        let first = cluster.leaves.first().and_then(Option::as_ref);
        let Found {
            mut held,
            bad_authority,
            bad_serving,
        } = secrets::read(cluster.authority.as_ref(), first, now);
        let mut bad = Some(bad_serving);
        let mut issued = Vec::new();
        for (leaf, secret) in self.leaves.iter().zip(&cluster.leaves) {
            let bad = bad.take().unwrap_or_else(|| {
                let (serving, bad, _) = secrets::read_serving(secret.as_ref());
                held.serving = serving;
                bad
            });
            let plan = held.plan(leaf, now);
            held.apply(&plan.steps, leaf, now)?;
            created |= plan.steps.contains(&Step::Create);
            next.push(plan.next);
            let is_new = plan.steps.iter().any(|step| matches!(step, Step::Issue { .. }));
            issued.push((leaf, secret.as_ref(), held.serving.take(), is_new.then_some(bad)));
        }

        let authority = secrets::authority_data(&held);
        if !secrets::holds(cluster.authority.as_ref(), &authority) {
            self.write_secret(AUTHORITY_SECRET, cluster.authority.as_ref(), &authority)
                .await?;
            if created {
                let note = "a new certificate authority; the ones before it stay until they expire. Start schedulers that \
                            ask the extender anew within four weeks: they read whom to trust when they start";
                self.tell(AUTHORITY_SECRET, bad_authority, Happening::CertificateAuthority, note)
                    .await;
            }
        }
        self.inject(cluster.mutating.as_ref(), &held).await?;
        self.inject(cluster.validating.as_ref(), &held).await?;
        self.show_authorities(&held);
        for (leaf, secret, serving, new) in issued {
            held.serving = serving;
            if let Some(data) = secrets::serving_data(&held)
                && !secrets::holds(secret, &data)
            {
                self.write_secret(leaf.secret, secret, &data).await?;
                if let Some(bad) = new {
                    let note = format!("a new certificate for {}", leaf.owner);
                    self.tell(leaf.secret, bad, Happening::ServingCertificate, &note).await;
                }
            }
            self.show(leaf, held.serving.as_ref());
        }
        Ok(next.into_iter().min().unwrap_or(now))
    }

    async fn look(&self) -> Result<Cluster, KeeperError> {
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let mut leaves = Vec::new();
        for leaf in &self.leaves {
            leaves.push(self.read(secrets.get_opt(leaf.secret), leaf.described).await?);
        }
        Ok(Cluster {
            leaves,
            authority: self
                .read(secrets.get_opt(AUTHORITY_SECRET), "the Secret cardgate-ca")
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
    ) -> Result<T, KeepError> {
        self.context.request(request, Verb::Get, "read", what).await
    }

    /// Writes Cardgate's keys of a Secret over the version that was read.
    async fn write_secret(&self, name: &'static str, old: Option<&Secret>, data: &Data) -> Result<(), KeeperError> {
        self.context.may_write(Write::CertificateSecret)?;
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        if let Some(old) = old {
            let version = &old.metadata.resource_version;
            let change = json!({ "metadata": { "resourceVersion": version }, "data": data });
            let (params, change) = (PatchParams::default(), Patch::Merge(change));
            let written = self
                .context
                .request(api.patch(name, &params, &change), Verb::Patch, "write the Secret", name)
                .await;
            if let Err(KeepError::Request { source, .. }) = &written
                && source.code() == Some(422)
            {
                // The Secret is immutable, or has a type that requires other keys.
                self.tell_not_writable(name, source).await;
            }
            written?;
        } else {
            let kind = if name == AUTHORITY_SECRET {
                OPAQUE_SECRET
            } else {
                TLS_SECRET
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
            self.context
                .request(
                    api.create(&PostParams::default(), &secret),
                    Verb::Create,
                    "create the Secret",
                    name,
                )
                .await?;
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        info!(secret = name, "wrote certificates");
        Ok(())
    }

    async fn tell_not_writable(&self, name: &'static str, error: &RequestError) {
        let note = format!("Cardgate can't write this Secret, delete it so that it is made anew: {error}");
        let earlier = self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, note.clone());
        if earlier.as_ref() == Some(&note) {
            return;
        }
        let (secret, reason) = (self.secret(name), Happening::SecretNotWritable);
        let recorder = &self.context.recorder;
        recorder
            .publish(&secret, EventType::Warning, reason, ACTION, &note)
            .await;
    }

    /// Makes API servers trust all authorities. If there is no configuration, no API server calls the webhook, and nothing is done.
    async fn inject<K>(&self, configuration: Option<&K>, held: &Held) -> Result<(), KeeperError>
    where
        K: Webhooks + Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let Some(patch) = configuration.and_then(|found| inject::patch(found, &secrets::bundle(held))) else {
            return Ok(());
        };
        self.context.may_write(Write::CaBundle)?;
        let api: Api<K> = Api::all(self.context.client.clone());
        let (params, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        self.context
            .request(
                api.patch(CONFIGURATION, &params, &patch),
                Verb::Patch,
                "write caBundle into",
                CONFIGURATION,
            )
            .await?;
        info!(kind = %K::kind(&()), "API servers trust the webhook's authorities");
        Ok(())
    }

    /// Reports a new certificate or authority in an event; as a warning if it replaces something that could not be used.
    async fn tell(&self, secret: &'static str, bad: Option<&'static str>, reason: Happening, note: &str) {
        let (kind, note) = match bad {
            Some(bad) => (EventType::Warning, format!("{bad}; replaced by {note}")),
            None => (EventType::Normal, note.to_owned()),
        };
        info!(secret, "{note}");
        self.context
            .recorder
            .publish(&self.secret(secret), kind, reason, ACTION, &note)
            .await;
    }

    fn secret(&self, name: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(self.context.namespace.clone()),
            ..ObjectReference::default()
        }
    }

    fn show_authorities(&self, held: &Held) {
        let ends = held
            .authorities
            .iter()
            .map(|authority| authority.certificate.validity.not_after);
        if let Some(end) = ends.max() {
            self.context
                .metrics
                .certificate_expires(Certificate::Authority, end.as_second());
        }
    }

    fn show(&self, leaf: &Leaf, serving: Option<&Serving>) {
        if let Some(certificate) = serving.and_then(Serving::leaf) {
            let end = certificate.validity.not_after;
            self.context.metrics.certificate_expires(leaf.metric, end.as_second());
        }
    }
}
