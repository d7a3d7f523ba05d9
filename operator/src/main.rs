//! The operator: discovers cards, lets waiting pods in within their queues' quotas, and shows what there is.

use std::sync::Arc;

use crds::configuration::Configuration;
use operator::act::Actor;
use operator::mind::Mind;
use operator::observe::observe;
use operator::report;
use operator::report::Reporter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider().install_default().ok();
    tracing_subscriber::fmt().init();
    let client = kube::Client::try_default().await?;
    let (events, heard) = tokio::sync::mpsc::channel(4096);
    let (_lead, leads) = tokio::sync::watch::channel(true);
    let metrics = Arc::default();
    let actor = Actor::new(client.clone(), events.clone(), leads.clone(), Arc::clone(&metrics));
    let (reports, inbox) = report::channel();
    let reporter = Reporter {
        client: kube::Client::try_default().await?,
        instance: "x".into(),
        leader: leads,
        metrics: Arc::clone(&metrics),
    };
    let mind = Mind::new(
        Arc::new(Configuration::default()),
        actor,
        reports,
        metrics,
        Arc::default(),
    );
    tokio::join!(observe(client, events), mind.run(heard), reporter.run(inbox));
    Ok(())
}
