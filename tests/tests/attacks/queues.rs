//! Other teams' queues, and quotas that are held by groups that never run.

use std::fmt::Write as _;

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::world::World;
use crds::keys::{CARD_REQUEST, GROUP_NAME, QUEUE_NAME, QUEUE_NAMESPACES};
use crds::volcano::PodGroup;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use crate::Outcome;
use crate::tenant::Tenant;

fn group(namespace: &str, name: &str, queue: &str, card: &str, count: u32) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": { CARD_REQUEST: format!("{{\"{card}\": {count}}}") },
        },
        "spec": { "minMember": 1, "queue": queue },
    })
}

async fn shows(scenario: &Scenario<'_>, group: &str, phase: &str) -> Outcome {
    let what = format!("the phase {phase} of {group}");
    wait::object(&scenario.api::<PodGroup>(), group, what, |group| {
        let shown = group.and_then(|group| group.status.as_ref()?.phase.as_deref());
        Seen::when(shown == Some(phase), format!("{shown:?}"))
    })
    .await
}

/// A team with a queue of its own and one card's worth of groups, and an attacker in another namespace with another queue.
async fn teams<'w>(
    world: &'w World,
    victim: &str,
    attacker: &str,
) -> anyhow::Result<(Scenario<'w>, Scenario<'w>, Tenant, String)> {
    let (team, other) = (
        Scenario::begin(world, victim).await?,
        Scenario::begin(world, attacker).await?,
    );
    let card = team.card("NVIDIA-A100");
    team.nodes(&[nodes::nvidia(victim, &card, 8, 81_920)]).await?;
    let own = format!("kubernetes.io/metadata.name={victim}");
    team.apply_queue(team.queue().quota(&card, 5).annotation(QUEUE_NAMESPACES, &own))
        .await?;
    other.apply_queue(other.queue().quota(&card, 5)).await?;
    let tenant = Tenant::of(&world.plane, attacker).await?;
    Ok((team, other, tenant, card))
}

/// What a queue keeps is for whom it is for: the group that was Inqueue in its own queue stays out of the team's, by the door
/// first, and by the operator where there is no door.
#[tokio::test]
async fn nobody_moves_into_another_teams_queue() -> Outcome {
    let world = World::start().await?;
    let (team, other, tenant, card) = teams(&world, "moved-into", "mover").await?;
    let denied = "queue \"moved-into\" takes pods only from namespaces with the labels";

    // By every kind and every way, at the door.
    tenant
        .kubectl()
        .apply(&group("mover", "own", "mover", &card, 5).to_string())
        .await?;
    shows(&other, "own", "Inqueue").await?;
    let moved = json!({
        "metadata": { "annotations": { CARD_REQUEST: format!("{{\"{card}\": 1000}}") } },
        "spec": { "queue": "moved-into" },
    });
    tenant.may_not_change::<PodGroup>("own", moved.clone(), denied).await?;
    let only_queue = json!({ "spec": { "queue": "moved-into" } });
    tenant.may_not_change::<PodGroup>("own", only_queue, denied).await?;
    let created: PodGroup = serde_json::from_value(group("mover", "new", "moved-into", &card, 1))?;
    tenant.is_refused(&created, denied).await?;
    let mut least = created.clone();
    least.metadata.annotations = None;
    tenant.is_refused(&least, denied).await?;
    let mut job = pod("job")
        .namespace("mover")
        .card(&card)
        .request("nvidia.com/gpu", 1)
        .job(1);
    job.metadata.annotations = Some([(CARD_REQUEST.to_owned(), format!("{{\"{card}\": 6}}"))].into());
    tenant.create(&job).await?;
    let in_template =
        json!({ "spec": { "template": { "metadata": { "annotations": { QUEUE_NAME: "moved-into" } } } } });
    tenant.may_not_change::<Job>("job", in_template.clone(), denied).await?;
    let mut foreign: Job = job.clone();
    foreign.metadata.name = Some("foreign".to_owned());
    let template = foreign.spec.as_mut().and_then(|spec| spec.template.metadata.as_mut());
    let annotations = template.and_then(|metadata| metadata.annotations.as_mut());
    annotations
        .unwrap()
        .insert(QUEUE_NAME.to_owned(), "moved-into".to_owned());
    tenant.is_refused(&foreign, denied).await?;
    let member = pod("member")
        .namespace("mover")
        .card(&card)
        .request("nvidia.com/gpu", 1);
    tenant
        .is_refused(&member.clone().queue("moved-into").build(), denied)
        .await?;

    // Somebody takes the door away: the operator judges the same, and the team's own group is let in.
    let door = ["delete", "validatingwebhookconfiguration", "cardgate"];
    world.plane.kubectl().run(door).await?;
    let patched = async |kind: &str, name: &str, patch: &Value| {
        let patch = patch.to_string();
        let args = ["-n", "mover", "patch", kind, name, "--type=merge", "-p", &patch];
        wait::eventually("the API server to ask nobody", wait::PATIENCE, async || {
            tenant.kubectl().run(args).await?;
            Ok(Seen::Done(()))
        })
        .await
    };
    patched("podgroup", "own", &moved).await?;
    patched("job", "job", &in_template).await?;
    shows(&other, "own", "Pending").await?;
    other.events("own", "NamespaceNotAllowed").await?;
    other.events("job", "NamespaceNotAllowed").await?;
    let theirs = group("moved-into", "theirs", "moved-into", &card, 5);
    world.plane.apply(&theirs).await?;
    shows(&team, "theirs", "Inqueue").await?;
    // And nothing is left in the queue that was left.
    world.plane.apply(&group("mover", "next", "mover", &card, 5)).await?;
    shows(&other, "next", "Inqueue").await?;

    // Who loses the right to a queue loses what it keeps.
    let closed = queue("mover")
        .quota(&card, 5)
        .annotation(QUEUE_NAMESPACES, "nobody=at-all");
    world.plane.apply(&closed.build()).await?;
    shows(&other, "next", "Pending").await?;
    Ok(())
}

/// A queue that is open to all: groups without pods, too few pods, and pods that no node takes together hold it for a time,
/// and a whole crowd of them no longer than one.
#[tokio::test]
async fn groups_that_never_run_hold_nobodys_quota() -> Outcome {
    let world = World::start().await?;
    world
        .cardgate
        .configure(&world.plane, None, Some("inqueueTimeout: 10s"))
        .await?;
    let (team, other, tenant, card) = teams(&world, "held-up", "holder").await?;
    // The team's queue is open to all.
    let open = team.queue().quota(&card, 5).annotation("example.com/open", "true");
    world.plane.kubectl().run(["delete", "queue", "held-up"]).await?;
    team.apply_queue(open).await?;

    let empty = |index: usize| group("holder", &format!("empty-{index}"), "held-up", &card, 5);
    // Alone at first, so that it is seen to hold the queue while it does.
    tenant.kubectl().apply(&empty(0).to_string()).await?;
    shows(&other, "empty-0", "Inqueue").await?;
    let mut crowd = String::new();
    for index in 1..20 {
        writeln!(crowd, "{}\n---", empty(index))?;
    }
    tenant.kubectl().apply(&crowd).await?;
    let mut theirs = group("held-up", "theirs", "held-up", &card, 5);
    theirs["spec"]["minMember"] = json!(5);
    world.plane.apply(&theirs).await?;
    // The first that held it says why it does no longer.
    let told = other.events("empty-0", "InqueueTimeout").await?;
    let says = told.iter().any(|event| {
        let message = event.message.as_deref().unwrap_or_default();
        message.contains("during 10s (inqueueTimeout)") && message.contains("holder")
    });
    assert!(says, "{told:?}");
    shows(&other, "empty-0", "Pending").await?;
    shows(&team, "theirs", "Inqueue").await?;
    // Its pods come, and run, although 20 groups wait for the same.
    let member = team.gpu_pod("member", &card, 1).annotation(GROUP_NAME, "theirs");
    team.create(&member.deployment(5)).await?;
    team.expect_for_good("member", &Tally::none().running(&card, 5)).await?;
    Ok(())
}
