//! The operator's configuration on a real API server, with the rights of the manifests' own service account.

use std::sync::Arc;

use cardgate_tests::cardgate::{Cardgate, NAMESPACE, Settings};
use cardgate_tests::controlplane::{Account, ControlPlane, Options};
use cardgate_tests::wait::{self, Seen};
use crds::configuration::{Configuration, QueuePlugin};
use crds::keys::CONFIG_MAP;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use operator::configuration::{self, READY_PART};
use operator::context::Context;
use operator::lease::Candidate;
use operator::metrics::Metrics;
use operator::policy_parameters::LeaderName;
use operator::recorder::{CONTROLLER, Recorder};
use programs::readiness::Readiness;
use tokio::sync::mpsc;

type Outcome = anyhow::Result<()>;

async fn next(published: &mut mpsc::Receiver<Arc<Configuration>>) -> anyhow::Result<Arc<Configuration>> {
    let next = tokio::time::timeout(wait::PATIENCE, published.recv()).await?;
    next.ok_or_else(|| anyhow::anyhow!("the watch ended"))
}

fn shows(metrics: &Metrics, line: &str) -> bool {
    metrics
        .encode()
        .is_ok_and(|text| text.lines().any(|shown| shown == line))
}

/// Waits for an event about the configuration and returns its text.
async fn event(events: &Api<Event>, reason: &str, part: &str) -> anyhow::Result<Event> {
    wait::eventually(format!("an event {reason} about {part}"), wait::PATIENCE, async || {
        let list = events.list(&ListParams::default()).await?.items;
        let found = list.iter().find(|event| {
            event.reason.as_deref() == Some(reason) && event.note.as_deref().is_some_and(|note| note.contains(part))
        });
        Ok(match found {
            Some(event) => Seen::Done(event.clone()),
            None => Seen::NotYet(format!(
                "{:?}",
                list.iter().map(|event| &event.note).collect::<Vec<_>>()
            )),
        })
    })
    .await
}

#[tokio::test]
async fn the_newest_readable_configuration_is_in_force_and_what_is_wrong_is_told() -> Outcome {
    let plane = ControlPlane::start(Options::default().without_kwok().without_scheduler()).await?;
    Cardgate::install(&plane, &Settings::default()).await?;
    let client = plane.client_of_account(&Account::new(NAMESPACE, "operator")).await?;
    let metrics = Arc::new(Metrics::default());
    let readiness = Arc::new(Readiness::waiting_for([READY_PART]));
    let (publish, mut published) = mpsc::channel(8);
    let (candidate, leadership) = Candidate::new(
        client.clone(),
        NAMESPACE,
        "operator-1".to_owned(),
        Arc::clone(&metrics),
        Arc::default(),
    );
    let fence = LeaderName::new(client.clone(), NAMESPACE, "operator-1".to_owned(), Arc::clone(&metrics));
    let context = Context {
        client: client.clone(),
        namespace: NAMESPACE.to_owned(),
        leadership,
        metrics: Arc::clone(&metrics),
        readiness: Arc::clone(&readiness),
        recorder: Recorder::new(client, "operator-1".to_owned(), Arc::clone(&metrics)),
    };
    let following = tokio::spawn(configuration::run(context, move |configuration| {
        let publish = publish.clone();
        async move {
            publish
                .send(configuration)
                .await
                .expect("the test receives until it ends");
        }
    }));

    assert_eq!(*next(&mut published).await?, Configuration::default());
    wait::eventually("readiness", wait::PATIENCE, async || {
        Ok(Seen::when(
            readiness.report() == (true, "ok\n".to_owned()),
            readiness.report().1,
        ))
    })
    .await?;

    let conf = "tiers: [{plugins: [{name: capacity-card, nodeOrderWeight: 2, nodeOrderWait: 3}]}]";
    Cardgate::write_configuration(&plane, Some(conf), Some("admitOn: quota")).await?;
    let loaded = next(&mut published).await?;
    assert_eq!(loaded.capacity_card.node_order_weight.to_string(), "2");

    // Who does not lead writes no events; who becomes the leader makes up for it.
    let events: Api<Event> = Api::namespaced(plane.client().await?, NAMESPACE);
    let own = ListParams::default().fields(&format!("reportingController={CONTROLLER}"));
    assert_eq!(events.list(&own).await?.items, []);
    tokio::spawn(candidate.run(fence, std::future::pending()));
    let warning = event(&events, "ConfigurationWarning", "nodeOrderWait").await?;
    let regarding = warning.regarding.unwrap_or_default();
    assert_eq!(
        (regarding.kind.as_deref(), regarding.name.as_deref()),
        (Some("ConfigMap"), Some(CONFIG_MAP))
    );

    // Two different mistakes: two events. Nothing new comes into force.
    for (text, part) in [
        ("admitOn: sometimes", "sometimes"),
        ("reservationTimeout: 5", "reservationTimeout"),
    ] {
        Cardgate::write_configuration(&plane, Some(conf), Some(text)).await?;
        let told = event(&events, "InvalidConfiguration", part).await?;
        assert_eq!(told.type_.as_deref(), Some("Warning"));
        assert!(shows(&metrics, "cardgate_config_valid 0"));
        let (ready, text) = readiness.report();
        assert!(
            ready && text.contains(part) && text.contains("the last good one stays in force"),
            "{text}"
        );
    }

    Cardgate::write_configuration(&plane, None, None).await?;
    assert_eq!(*next(&mut published).await?, Configuration::default());
    wait::eventually("the metric to say that all is well", wait::PATIENCE, async || {
        Ok(Seen::when(
            shows(&metrics, "cardgate_config_valid 1"),
            metrics.encode()?,
        ))
    })
    .await?;
    assert_eq!(readiness.report().1, "ok\n");

    // A configuration for something else takes the quotas off, and says so.
    let conf = "tiers: [{plugins: [{name: predicates, arguments: {predicate.MGPUEnable: true}}]}]";
    Cardgate::write_configuration(&plane, Some(conf), None).await?;
    assert_eq!(next(&mut published).await?.queue_plugin, QueuePlugin::Off);
    event(&events, "ConfigurationWarning", "queues limit nothing").await?;

    // The ConfigMap may be deleted and come back. Nothing else is in force meanwhile.
    Cardgate::write_configuration(&plane, None, Some("defaultQueue: research")).await?;
    assert_eq!(next(&mut published).await?.cardgate.default_queue, "research");
    plane
        .kubectl()
        .run(["-n", NAMESPACE, "delete", "configmap", CONFIG_MAP])
        .await?;
    event(&events, "InvalidConfiguration", "missing").await?;
    assert!(shows(&metrics, "cardgate_config_valid 0"));
    plane
        .kubectl()
        .run(["-n", NAMESPACE, "create", "configmap", CONFIG_MAP])
        .await?;
    assert_eq!(next(&mut published).await?.cardgate.default_queue, "default");
    assert!(!following.is_finished());
    following.abort();
    Ok(())
}
