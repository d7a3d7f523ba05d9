//! Who reaches the operator's port for reviews and asks in another's name is not answered: API servers alone know where to ask.

use anyhow::{Context as _, ensure};
use cardgate_tests::http;
use cardgate_tests::tls::Identity;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use operator::certificates::{CONFIGURATION, REVIEW_SECRET};
use operator::review::WEBHOOK;
use rustls::ClientConfig;
use serde_json::json;

use crate::Outcome;

/// The place of the webhook for reviews in its configuration, and the path at which it is asked.
async fn found(world: &World) -> anyhow::Result<(usize, String)> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.plane.client().await?);
    let webhooks = api.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
    let place = webhooks.iter().position(|webhook| webhook.name == WEBHOOK);
    let place = place.context("no webhook for reviews")?;
    let url = webhooks[place].client_config.url.as_deref().context("no URL")?;
    Ok((place, url.parse::<::http::Uri>()?.path().to_owned()))
}

/// The path, as soon as it is another one than before.
async fn path(world: &World, before: &str) -> anyhow::Result<String> {
    wait::eventually("a path that ends with a secret", wait::PATIENCE, async || {
        let (_, path) = found(world).await?;
        let is_new = path.len() > "/review/".len() && path != before;
        Ok(if is_new { Seen::Done(path) } else { Seen::NotYet(path) })
    })
    .await
}

#[tokio::test]
async fn a_forged_question_is_answered_to_nobody_who_does_not_know_the_path() -> Outcome {
    let world = World::shared().await?;
    let operator = world.cardgate.operator();
    let stranger = Identity::of_secret(&world.plane, REVIEW_SECRET, false).await?;
    let config = stranger.config()?;
    let first = path(world, "").await?;
    let forged = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "forged", "namespace": "kube-system", "dryRun": true, "userInfo": { "username": "kubernetes-admin" },
        "object": { "kind": "CardReview", "spec": { "pod": "nobody" } },
    }});
    let ask =
        async |config: &ClientConfig, path: &str| http::post_tls(config, &operator.address(), path, &forged).await;
    // Whoever knows it is answered: so what follows is no accident.
    wait::eventually("an answer", wait::PATIENCE, async || {
        let (status, text) = ask(&config, &first).await?;
        let is_answered = status == 200 && text.contains("is not known in namespace kube-system");
        Ok(if is_answered {
            Seen::Done(())
        } else {
            Seen::NotYet(text)
        })
    })
    .await?;
    let (all_but_one, last) = first.split_at(first.len() - 1);
    let guessed = format!("{all_but_one}{}", if last == "x" { "y" } else { "x" });
    for path in ["/", "/review", "/review/", &guessed, &first.to_uppercase(), "/mutate"] {
        let (status, text) = ask(&config, path).await?;
        ensure!(
            status == 404 && text.contains("create a CardReview"),
            "{path}: {status} {text}"
        );
        ensure!(!text.contains(&first), "{path}: {text}");
    }
    ensure!(!operator.log()?.contains(&first), "the path stands in the log");

    // Whoever has lost it takes the path away, and API servers get another one.
    let (place, _) = found(world).await?;
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.plane.client().await?);
    let without = json!([{
        "op": "replace", "path": format!("/webhooks/{place}/clientConfig/url"),
        "value": format!("https://{}/review", operator.address()),
    }]);
    let without = Patch::Json::<()>(serde_json::from_value(without)?);
    api.patch(CONFIGURATION, &PatchParams::default(), &without).await?;
    let second = path(world, &first).await?;
    wait::eventually("the old path to be forgotten", wait::PATIENCE, async || {
        let old = ask(&config, &first).await?.0;
        let new = ask(&config, &second).await?.0;
        Ok(if (old, new) == (404, 200) {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{old}, {new}"))
        })
    })
    .await
}
