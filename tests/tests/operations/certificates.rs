//! Cardgate's own certificate authority on a real API server, with the rights of the manifests' own service account.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cardgate_tests::cardgate::{Cardgate, NAMESPACE, Settings};
use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use operator::certificates::{AUTHORITY_SECRET, CONFIGURATION, CertificateKeeper, Leaf, Name, SERVING_SECRET};
use operator::context::Context;
use operator::keep;
use operator::lease::Candidate;
use operator::metrics::Metrics;
use operator::policy_parameters::LeaderName;
use operator::recorder::{CONTROLLER, Recorder};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::json;
use tokio::task::AbortHandle;

type Outcome = anyhow::Result<()>;

/// An operator that does nothing but lead and keep certificates.
struct Keeping {
    metrics: Arc<Metrics>,
    tasks: [AbortHandle; 2],
}

impl Keeping {
    fn start(client: &Client, extra_names: &[&str]) -> Self {
        let metrics = Arc::new(Metrics::default());
        let instance = "operator-1".to_owned();
        let (candidate, leadership) = Candidate::new(
            client.clone(),
            NAMESPACE,
            instance.clone(),
            Arc::clone(&metrics),
            Arc::default(),
        );
        let fence = LeaderName::new(client.clone(), NAMESPACE, instance.clone(), Arc::clone(&metrics));
        let extra: Vec<Name> = extra_names
            .iter()
            .map(|name| name.parse().expect("a good name"))
            .collect();
        let context = Context {
            client: client.clone(),
            namespace: NAMESPACE.to_owned(),
            leadership,
            metrics: Arc::clone(&metrics),
            readiness: Arc::default(),
            recorder: Recorder::new(client.clone(), instance, Arc::clone(&metrics)),
        };
        let keeper = CertificateKeeper::new(context, vec![Leaf::webhook(NAMESPACE, &extra)]);
        let leading = tokio::spawn(candidate.run(fence, std::future::pending()));
        let keeping = tokio::spawn(keep::run(keeper));
        Self {
            metrics,
            tasks: [leading.abort_handle(), keeping.abort_handle()],
        }
    }

    /// Waits until the API server has refused so many writes.
    async fn refused(&self, times: u64) -> Outcome {
        let refused = "cardgate_api_errors_total{verb=\"patch\",code=\"422\"} ";
        wait::eventually(format!("{times} refused writes"), wait::PATIENCE, async || {
            let metrics = self.metrics.encode()?;
            let count = metrics
                .lines()
                .find_map(|line| line.strip_prefix(refused)?.parse().ok());
            Ok(Seen::when(count.unwrap_or(0_u64) >= times, metrics))
        })
        .await
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// What API servers and the webhook see.
struct Seer {
    secrets: Api<Secret>,
    events: Api<Event>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
}

impl Seer {
    fn new(client: &Client) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), NAMESPACE),
            events: Api::namespaced(client.clone(), NAMESPACE),
            mutating: Api::all(client.clone()),
            validating: Api::all(client.clone()),
        }
    }

    /// What every webhook of both configurations trusts.
    async fn bundles(&self) -> anyhow::Result<Vec<Option<ByteString>>> {
        let mutating = self.mutating.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let validating = self.validating.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let bundles = mutating.into_iter().map(|webhook| webhook.client_config.ca_bundle);
        Ok(bundles
            .chain(validating.into_iter().map(|webhook| webhook.client_config.ca_bundle))
            .collect())
    }

    /// Waits until API servers believe the certificate that is served, for `name`, and returns that certificate.
    async fn believed(&self, name: &'static str) -> anyhow::Result<Vec<u8>> {
        wait::eventually(
            format!("a certificate for {name} that is believed"),
            wait::PATIENCE,
            async || {
                let Some(serving) = self
                    .secrets
                    .get_opt(SERVING_SECRET)
                    .await?
                    .and_then(|secret| secret.data)
                else {
                    return Ok(Seen::NotYet("no Secret".to_owned()));
                };
                let chain = &serving["tls.crt"].0;
                let bundles = self.bundles().await?;
                assert!(bundles.len() >= 2, "{bundles:?}");
                let all_believe = bundles
                    .iter()
                    .all(|bundle| bundle.as_ref().is_some_and(|bundle| believes(&bundle.0, chain, name)));
                Ok(if all_believe {
                    Seen::Done(chain.clone())
                } else {
                    Seen::NotYet("some webhook's caBundle does not fit".to_owned())
                })
            },
        )
        .await
    }

    /// Waits for an event of this kind whose text contains `part`.
    async fn event(&self, kind: &str, part: &str) -> Outcome {
        let own = ListParams::default().fields(&format!("reportingController={CONTROLLER}"));
        wait::eventually(format!("an event with {part:?}"), wait::PATIENCE, async || {
            let events = self.events.list(&own).await?.items;
            let found = events.iter().any(|event| {
                event.type_.as_deref() == Some(kind) && event.note.as_deref().is_some_and(|note| note.contains(part))
            });
            Ok(Seen::when(
                found,
                format!("{:?}", events.iter().map(|event| &event.note).collect::<Vec<_>>()),
            ))
        })
        .await
    }

    async fn versions(&self) -> anyhow::Result<Vec<Option<String>>> {
        Ok(vec![
            self.secrets.get(AUTHORITY_SECRET).await?.metadata.resource_version,
            self.secrets.get(SERVING_SECRET).await?.metadata.resource_version,
            self.mutating.get(CONFIGURATION).await?.metadata.resource_version,
            self.validating.get(CONFIGURATION).await?.metadata.resource_version,
        ])
    }
}

fn believes(bundle: &[u8], chain: &[u8], name: &'static str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok));
    let Ok(verifier) = WebPkiServerVerifier::builder(Arc::new(roots)).build() else {
        return false;
    };
    let Ok(leaf) = CertificateDer::from_pem_slice(chain) else {
        return false;
    };
    let name = ServerName::try_from(name).expect("a good name");
    verifier
        .verify_server_cert(&leaf, &[], &name, &[], UnixTime::now())
        .is_ok()
}

#[tokio::test]
async fn api_servers_believe_the_webhook_whatever_happens_to_secrets_and_configurations() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    Cardgate::install(&plane, &Settings::default()).await?;
    let client = plane.client_of_account(&Account::new(NAMESPACE, "operator")).await?;
    let seer = Seer::new(&plane.client().await?);

    let keeping = Keeping::start(&client, &["127.0.0.1"]);
    for name in [
        "127.0.0.1",
        "webhook.cardgate-system.svc",
        "webhook.cardgate-system.svc.cluster.local",
    ] {
        seer.believed(name).await?;
    }
    let serving = seer.secrets.get(SERVING_SECRET).await?;
    assert_eq!(serving.type_.as_deref(), Some("kubernetes.io/tls"));
    assert!(serving.data.is_some_and(|data| data.contains_key("ca.crt")));
    seer.event("Normal", "a new certificate authority").await?;

    // What is in order is not written again.
    let versions = seer.versions().await?;
    wait::holds("nothing is written", Duration::from_secs(2), async || {
        let now = seer.versions().await?;
        Ok(Seen::when(now == versions, format!("{now:?} instead of {versions:?}")))
    })
    .await?;

    // As after `kubectl replace`, or an apply that knows of no caBundle: repaired within seconds.
    let no_bundle = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let no_bundle = Patch::Json::<()>(serde_json::from_value(no_bundle)?);
    let begin = Instant::now();
    seer.mutating
        .patch(CONFIGURATION, &PatchParams::default(), &no_bundle)
        .await?;
    seer.validating
        .patch(CONFIGURATION, &PatchParams::default(), &no_bundle)
        .await?;
    let served = seer.believed("127.0.0.1").await?;
    assert!(begin.elapsed() < wait::PATIENCE, "{:?}", begin.elapsed());

    // The webhook's Secret is lost: another certificate of the same authority.
    seer.secrets.delete(SERVING_SECRET, &DeleteParams::default()).await?;
    assert_ne!(seer.believed("127.0.0.1").await?, served);

    // The authority is garbled: another one signs, and until it does the certificate stays believed.
    let served = seer.believed("127.0.0.1").await?;
    let garbage = Patch::Merge(json!({ "data": { "ca.crt": ByteString(b"garbage".to_vec()) } }));
    seer.secrets
        .patch(AUTHORITY_SECRET, &PatchParams::default(), &garbage)
        .await?;
    seer.event("Warning", "ca.crt holds no certificate").await?;
    assert_eq!(seer.believed("127.0.0.1").await?, served);
    let garbage = Patch::Merge(json!({ "data": { "tls.key": ByteString(b"garbage".to_vec()) } }));
    seer.secrets
        .patch(SERVING_SECRET, &PatchParams::default(), &garbage)
        .await?;
    seer.event("Warning", "tls.key does not hold a private key").await?;
    assert_ne!(seer.believed("127.0.0.1").await?, served);

    // Started again with other names.
    drop(keeping);
    let keeping = Keeping::start(&client, &["webhook.example"]);
    let served = seer.believed("webhook.example").await?;
    assert!(
        seer.bundles()
            .await?
            .iter()
            .flatten()
            .all(|bundle| !believes(&bundle.0, &served, "127.0.0.1"))
    );

    // An immutable Secret can't be mended: somebody has to know.
    let immutable = Patch::Merge(json!({ "immutable": true, "data": { "tls.crt": ByteString(b"x".to_vec()) } }));
    seer.secrets
        .patch(SERVING_SECRET, &PatchParams::default(), &immutable)
        .await?;
    seer.event("Warning", "delete it so that it is made anew").await?;
    // It is tried again and again, and said once.
    keeping.refused(3).await?;
    let said = ListParams::default().fields("reason=SecretNotWritable");
    assert_eq!(seer.events.list(&said).await?.items.len(), 1);
    seer.secrets.delete(SERVING_SECRET, &DeleteParams::default()).await?;
    seer.believed("webhook.example").await?;
    Ok(())
}

/// The certificate that is served at this address, to a client that trusts the bundle.
async fn handshake(address: String, bundle: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let handshake = move || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bundle).filter_map(Result::ok));
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1")?)?;
        let mut stream = TcpStream::connect(address)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        let served = connection.peer_certificates().and_then(<[_]>::first);
        Ok(served.context("no certificate")?.to_vec())
    };
    tokio::task::spawn_blocking(handshake).await?
}

#[tokio::test]
async fn certificates_are_replaced_under_load_without_one_refused_pod() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    let cardgate = Cardgate::start(&plane).await?;
    let seer = Seer::new(&plane.client().await?);

    // Pods pass the door all the time.
    let pods: Api<Pod> = Api::default_namespaced(plane.client().await?);
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let load = tokio::spawn(async move {
        let (managed, mut passed) = (workloads::pod("probe").queue("default").build(), 0);
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        while stopped.try_recv().is_err() {
            pods.create(&dry_run, &managed).await?;
            passed += 1;
        }
        anyhow::Ok(passed)
    });

    for lost in [AUTHORITY_SECRET, SERVING_SECRET, SERVING_SECRET, AUTHORITY_SECRET] {
        let before = seer.secrets.get(lost).await?.metadata.uid;
        seer.secrets.delete(lost, &DeleteParams::default()).await?;
        wait::object(&seer.secrets, lost, "another Secret", |secret| {
            let uid = secret.and_then(|secret| secret.metadata.uid.clone());
            Seen::when(uid.is_some() && uid != before, format!("{uid:?}"))
        })
        .await?;
        let written = seer.believed("127.0.0.1").await?;
        let written = CertificateDer::from_pem_slice(&written).context("tls.crt")?.to_vec();
        wait::eventually(
            "the webhook to serve what is in the Secret",
            wait::PATIENCE,
            async || {
                let bundle = seer
                    .bundles()
                    .await?
                    .into_iter()
                    .flatten()
                    .next()
                    .context("no caBundle")?;
                let served = handshake(cardgate.webhook().address(), bundle.0).await?;
                Ok(Seen::when(served == written, "another certificate"))
            },
        )
        .await?;
    }
    stop.send(()).expect("the load runs until it fails");
    let passed = load.await?.context("a pod was refused")?;
    assert!(passed > 4, "only {passed} pods");
    Ok(())
}
