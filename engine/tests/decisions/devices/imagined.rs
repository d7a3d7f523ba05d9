//! Pods that claim devices and are asked about before they are there: what is answered is what then happens, and nothing comes of the
//! question.

use crds::card_review::CardReviewStatus;
use crds::keys::GATE;
use crds::made::made_by;
use engine::explain::{Asked, review};
use serde_json::{Value, json};

use super::{allocated, claiming, exactly, set, sharing, world};
use crate::world::{Object, World, bare_pod, pod, queue};

pub fn imagined(world: &mut World, pod: &Object) -> CardReviewStatus {
    let made = made_by(pod.read::<Value>()).unwrap();
    let now = world.now;
    review(&mut world.cluster, "team", Asked::Imagined(Box::new(made)), now).unwrap()
}

fn reasons(status: &CardReviewStatus) -> Vec<&str> {
    status.blocks.iter().map(|block| block.reason.as_str()).collect()
}

#[test]
fn what_is_answered_of_claims_by_name_is_what_then_happens() {
    for (count, product, expected) in [
        (1, "A", [].as_slice()),
        (3, "A", &[]),
        (4, "A", &["InsufficientScalarQuota"]),
        (5, "A", &["InsufficientScalarQuota", "NoNodeFits"]),
        (1, "B", &[]),
        (1, "C", &["NoDeviceSelected"]),
    ] {
        let mut world = world();
        let asks = sharing(pod("p"), "mine");
        assert_eq!(reasons(&imagined(&mut world, &asks)), ["ResourceClaimNotFound"]);
        world.claim("mine", &exactly(count, Some(product)), &json!({}));
        let status = imagined(&mut world, &asks);
        assert_eq!(reasons(&status), expected, "{count} {product}: {status:?}");
        world.pod(&asks);
        assert_eq!(
            world.admissions().len(),
            usize::from(status.admitted),
            "{count} {product}"
        );
    }
}

/// A claim of a template is made with the pod, whatever the manifest says of one that was made.
#[test]
fn a_claim_of_a_template_is_none_before_the_pod_is_there() {
    let mut world = world();
    world.claim("another", &exactly(1, Some("A")), &json!({}));
    let status = imagined(&mut world, &claiming(pod("p"), "another"));
    assert_eq!(reasons(&status), ["ResourceClaimNotFound"]);
    assert!(!status.admitted);
    // Nor is it known whether one is held for longer that names neither queue nor card.
    let status = imagined(&mut world, &claiming(bare_pod("p"), "another"));
    assert_eq!(reasons(&status), ["ResourceClaimNotFound"]);
    assert!(
        !status.admitted && status.message.contains("kubectl card simulate"),
        "{status:?}"
    );
}

/// The door holds it for its claims alone, with the gate written in the manifest or without.
#[test]
fn who_names_nothing_but_claims_by_name_waits_for_what_they_are_for() {
    let mut world = set("unqueuedCards: charge");
    for asks in [
        sharing(bare_pod("p"), "mine"),
        sharing(bare_pod("p"), "mine").gates(&[GATE]),
    ] {
        assert_eq!(reasons(&imagined(&mut world, &asks)), ["ResourceClaimNotFound"]);
    }
    world.claim("mine", &exactly(1, Some("C")), &json!({}));
    let asks = sharing(bare_pod("p"), "mine");
    let told = imagined(&mut world, &asks);
    world.pod(&asks.gates(&[GATE]));
    assert_eq!(
        (reasons(&told), world.refusal_of("p")),
        (vec!["NoDeviceSelected"], "NoDeviceSelected")
    );
}

/// Who asks pays for no claim: not beside those who share it, and not in their place.
#[test]
fn a_question_changes_nothing_about_who_pays() {
    let mut world = world();
    world.queue(&queue("team-b").quota(r#"{"A": 3}"#));
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    let asks = sharing(pod("asked"), "shared");
    assert!(imagined(&mut world, &asks).admitted);
    world.pod(&sharing(pod("first"), "shared"));
    assert_eq!(reasons(&imagined(&mut world, &asks)), ["ResourceClaimShared"]);
    assert_eq!(world.admit_names(), ["first"]);
    let runs = bare_pod("first")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", r#"{"A":2}"#);
    world.pod(&sharing(runs, "shared").on("n1"));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    let status = imagined(&mut world, &asks);
    assert!(status.admitted, "{status:?}");
    let elsewhere = imagined(&mut world, &asks.clone().queue("team-b"));
    assert_eq!(reasons(&elsewhere), ["ResourceClaimShared"]);
    // Nor by the name or the UID of one that is there.
    assert!(imagined(&mut world, &sharing(pod("first"), "shared")).admitted);
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.remove_pod("first");
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    world.pod(&asks);
    assert_eq!(world.admit_names(), ["asked"]);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

#[test]
fn more_claims_than_any_pod_may_have_are_not_looked_at() {
    let mut world = world();
    world.claim("mine", &exactly(1, Some("A")), &json!({}));
    let claims = |count: usize| -> Value {
        let claim = |index| json!({"name": format!("c{index}"), "resourceClaimName": "mine"});
        (0..count).map(claim).collect()
    };
    for count in [65, 20_000] {
        let asks = pod("p").set(["spec", "resourceClaims"], claims(count));
        let status = imagined(&mut world, &asks);
        assert_eq!(reasons(&status), ["GetTaskRequestResourceFailed"]);
        assert!(status.message.contains("64 are allowed"), "{}", status.message);
    }
}

/// docs/security.md, **Bounds**: of a manifest, not of each of its templates.
#[test]
fn of_a_manifest_no_more_claims_are_looked_at_than_a_pod_may_name() {
    let task = |name: &str, claims: usize| {
        let named = (0..claims).map(|index| json!({"name": format!("c{index}"), "resourceClaimName": "one"}));
        let pod = bare_pod("p").set(["spec", "resourceClaims"], named.collect::<Value>());
        json!({"name": name, "template": pod.read::<Value>()})
    };
    for (second, expected) in [
        (32, None),
        (33, Some("the pods of the manifest name more than 64 claims")),
    ] {
        let mut world = world();
        world.claim("one", &exactly(1, Some("A")), &json!({}));
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"},
            "spec": {"queue": "team-a", "tasks": [task("a", 32), task("b", second)]},
        });
        let (made, now) = (made_by(job).unwrap(), world.now);
        let status = review(&mut world.cluster, "team", Asked::Imagined(Box::new(made)), now).unwrap();
        let said = status.blocks.iter().map(|block| &*block.message);
        let said: Vec<_> = said.collect();
        match expected {
            None => assert!(status.admitted, "{status:?}"),
            Some(expected) => assert!(said.iter().any(|said| said.contains(expected)), "{said:?}"),
        }
    }
}
