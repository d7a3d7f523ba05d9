//! That each right of `manifests/` is used: what both accounts ask of the API server while all that Cardgate does is done, by the
//! API server's own audit log, beside what their roles grant.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use cardgate_tests::cardgate::NAMESPACE;
use cardgate_tests::controlplane::{Account, Options};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use cardgate_tests::{manifests, nodes};
use crds::card_usage::CardUsage;
use crds::keys::{CARD_DESERVED, CARD_REQUEST, CROSS_QUOTA_LABEL, GPU_NODE_LABEL, GROUP_NAME, JOB_HELD};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PodResourceClaim, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

type Outcome = anyhow::Result<()>;

/// Account, `group/resource[/subresource]` and verb.
type Right = (String, String, String);

/// Rights that are used only when something fails, and what for.
const RARE: [(&str, &str, &str); 6] = [
    // The garbage collector is faster as a rule, since a queue owns its usage.
    ("operator", "card.volcano.sh/cardusages", "delete"),
    // An event that comes again is counted on the first.
    ("operator", "events.k8s.io/events", "patch"),
    // Asked for beside `patch`, where a server-side apply finds nothing; the log calls it a patch.
    ("operator", "/configmaps", "create"),
    // What an older release or somebody else wrote is put right.
    ("operator", "card.volcano.sh/cardinventories", "patch"),
    ("operator", "card.volcano.sh/cardtypes", "patch"),
    ("operator", "card.volcano.sh/cardusages", "patch"),
];

/// What the roles in `manifests/base/rbac` grant to the two accounts.
fn granted() -> anyhow::Result<BTreeSet<Right>> {
    let mut granted = BTreeSet::new();
    for file in ["operator", "certificates", "webhook"] {
        let path = manifests::directory().join(format!("base/rbac/{file}.yaml"));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path)?)?;
        let account = if file == "webhook" { "webhook" } else { "operator" };
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        for rule in objects
            .iter()
            .flat_map(|role| role["rules"].as_array().into_iter().flatten())
        {
            for (group, resource) in texts(&rule["apiGroups"]).iter().flat_map(|group| {
                texts(&rule["resources"])
                    .into_iter()
                    .map(move |resource| (group.clone(), resource))
            }) {
                for verb in texts(&rule["verbs"]) {
                    granted.insert((account.to_owned(), format!("{group}/{resource}"), verb));
                }
            }
        }
    }
    Ok(granted)
}

/// What both accounts have asked for so far, and were not refused by RBAC.
fn used(world: &World) -> anyhow::Result<BTreeSet<Right>> {
    let accounts: BTreeMap<_, _> = ["operator", "webhook"]
        .map(|name| (Account::new(NAMESPACE, name).user(), name))
        .into();
    let log = world.plane.audit_log()?;
    let rights = log.iter().filter_map(|request| {
        let target = request.object_ref.as_ref()?;
        let account = accounts.get(request.user())?;
        let subresource = if target.subresource.is_empty() { "" } else { "/" };
        let resource = format!(
            "{}/{}{subresource}{}",
            target.api_group, target.resource, target.subresource
        );
        Some(((*account).to_owned(), resource, request.verb.clone()))
    });
    Ok(rights.collect())
}

const CONFIGURATION: &str = "
    actions: enqueue, allocate, reclaim
    tiers:
      - plugins:
          - {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true, guaranteeThreshold: 100, reclaimInterval: 1}}
          - {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: 8}}";

#[tokio::test]
async fn every_right_is_used() -> Outcome {
    let world = World::start_with(Options::default().audit_cardgate()).await?;
    world
        .cardgate
        .configure(&world.plane, Some(CONFIGURATION), None)
        .await?;
    let scenario = Scenario::begin(&world, "rights").await?;
    queues_pods_and_nodes(&world, &scenario).await?;
    workloads(&scenario).await?;
    claims(&scenario).await?;
    what_somebody_takes_away(&world).await?;

    let rare = RARE.map(|(account, resource, verb)| (account.to_owned(), resource.to_owned(), verb.to_owned()));
    let granted = granted()?;
    for right in &rare {
        assert!(granted.contains(right), "{right:?} is none");
    }
    wait::eventually("every right to be used", wait::PATIENCE, async || {
        let used = used(&world)?;
        let unused: Vec<_> = granted
            .difference(&used)
            .filter(|right| !rare.contains(right))
            .collect();
        Ok(Seen::when(unused.is_empty(), format!("unused: {unused:?}")))
    })
    .await
}

/// Admission, waiting, reclaim, the label of GPU nodes, and the removal of what is shown.
async fn queues_pods_and_nodes(world: &World, scenario: &Scenario<'_>) -> Outcome {
    let client = world.plane.client().await?;
    let card = scenario.card("NVIDIA-A100");
    let short_lived = nodes::nvidia("rights-gone", &scenario.card("NVIDIA-T4"), 1, 16_384);
    scenario
        .nodes(&[nodes::nvidia("rights", &card, 8, 81_920), short_lived])
        .await?;
    let nodes: Api<Node> = Api::all(client.clone());
    wait::object(&nodes, "rights", "the label of GPU nodes", |node| {
        let labels = node.and_then(|node| node.metadata.labels.as_ref());
        Seen::when(labels.is_some_and(|labels| labels.contains_key(GPU_NODE_LABEL)), "none")
    })
    .await?;
    nodes.delete("rights-gone", &DeleteParams::default()).await?;

    let deserved = json!({ &card: 4 }).to_string();
    let halves = [scenario.queue(), queue("rights-b")];
    for half in halves {
        scenario
            .apply_queue(half.quota(&card, 8).annotation(CARD_DESERVED, &deserved))
            .await?;
    }
    scenario
        .create(&scenario.gpu_pod("borrower", &card, 1).deployment(8))
        .await?;
    scenario.expect("borrower", &Tally::none().running(&card, 8)).await?;
    // Evicted for one of the other half: those come back and wait.
    let claimant = scenario.gpu_pod("claimant", &card, 1).queue("rights-b");
    scenario.create(&claimant.deployment(2)).await?;
    scenario.expect("claimant", &Tally::none().running(&card, 2)).await?;
    scenario
        .expect("borrower", &Tally::none().running(&card, 6).waiting("NoNodeFits", 2))
        .await?;

    // What the door's watches can't have delivered: a namespace that has just opted in, a queue and a group that do not exist.
    let namespaces: Api<Namespace> = Api::all(client);
    let label = Patch::Merge(json!({ "metadata": { "labels": { CROSS_QUOTA_LABEL: "enabled" } } }));
    namespaces.patch("rights", &PatchParams::default(), &label).await?;
    scenario
        .create(&pod("nowhere").queue("no-such-queue").request("cpu", 1).build())
        .await?;
    let grouped = pod("grouped").annotation(GROUP_NAME, "no-such-group").request("cpu", 1);
    scenario.create(&grouped.build()).await?;
    let mut restricted = queue("rights-c").quota(&card, 1);
    restricted = restricted.annotation("card.volcano.sh/namespaces", "team=c");
    scenario.apply_queue(restricted).await?;
    let refused = scenario
        .refused(&scenario.gpu_pod("refused", &card, 1).queue("rights-c").build())
        .await?;
    assert!(refused.contains("rights-c"), "{refused}");
    let usages: Api<CardUsage> = Api::all(world.plane.client().await?);
    wait::object(&usages, "rights-c", "existence", |usage| {
        Seen::when(usage.is_some(), "none")
    })
    .await?;
    // Its pods are asked for.
    world.plane.kubectl().run(["delete", "queue", "rights-c"]).await?;
    Ok(())
}

/// A group and a Job that ask for their cards in advance.
async fn workloads(scenario: &Scenario<'_>) -> Outcome {
    let card = scenario.card("NVIDIA-A100");
    let request = json!({ &card: 1 }).to_string();
    scenario
        .plane()
        .apply(&json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": { "name": "group", "namespace": "rights", "annotations": { CARD_REQUEST: request } },
            "spec": { "queue": "rights-b", "minMember": 1 },
        }))
        .await?;
    let mut job = scenario.gpu_pod("asking", &card, 1).queue("rights-b").job(1);
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.insert(CARD_REQUEST.to_owned(), request);
    let held = scenario.create(&job).await?;
    assert!(held.metadata.annotations.unwrap_or_default().contains_key(JOB_HELD));
    wait::object(&scenario.api::<Job>(), "asking", "its resumption", |job| {
        let suspended = job.and_then(|job| job.spec.as_ref()?.suspend);
        Seen::when(suspended == Some(false), format!("{suspended:?}"))
    })
    .await
}

/// A pod that names its card beside a claim and a template, which the door compares with it.
async fn claims(scenario: &Scenario<'_>) -> Outcome {
    let plane = scenario.plane();
    let of_kind = |kind: &str, spec: Value| {
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": kind,
            "metadata": { "name": "rights", "namespace": scenario.name() }, "spec": spec })
    };
    let asks = json!({ "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "rights" } }] } });
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "rights" }, "spec": {} });
    plane.apply(&class).await?;
    plane.apply(&of_kind("ResourceClaim", asks.clone())).await?;
    plane
        .apply(&of_kind("ResourceClaimTemplate", json!({ "spec": asks })))
        .await?;
    let claim = |name: &str, is_template: bool| PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: (!is_template).then(|| "rights".to_owned()),
        resource_claim_template_name: is_template.then(|| "rights".to_owned()),
    };
    let claiming = scenario.pod("claiming").card(&scenario.card("NVIDIA-A100"));
    let claiming = claiming.spec(|spec| spec.resource_claims = Some(vec![claim("a", false), claim("b", true)]));
    scenario.create(&claiming.build()).await.map(drop)
}

/// Secrets, what API servers trust, and what the policies read.
async fn what_somebody_takes_away(world: &World) -> Outcome {
    let client = world.plane.client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let garbage = Patch::Merge(json!({ "data": { "tls.key": ByteString(b"garbage".to_vec()) } }));
    secrets
        .patch("cardgate-webhook-tls", &PatchParams::default(), &garbage)
        .await?;
    let no_bundle = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let no_bundle = Patch::Json::<()>(serde_json::from_value(no_bundle)?);
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    mutating.patch("cardgate", &PatchParams::default(), &no_bundle).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    validating
        .patch("cardgate", &PatchParams::default(), &no_bundle)
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    maps.delete("cardgate-policy", &DeleteParams::default())
        .await
        .map(drop)
        .context("cardgate-policy")
}
