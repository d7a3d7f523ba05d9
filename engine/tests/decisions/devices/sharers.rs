//! Claims that several pods name: who pays for them (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use super::*;

#[test]
fn a_shared_claim_is_charged_once_and_in_one_queue() {
    let mut world = world();
    world.queue(&queue("team-b").quota(r#"{"A": 3}"#));
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    world.pod(&sharing(pod("p1"), "shared"));
    world.pod(&sharing(pod("p2"), "shared"));
    world.pod(&sharing(pod("p3").queue("team-b"), "shared"));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
    world.pod(
        &sharing(
            bare_pod("p1")
                .queue("team-a")
                .annotation("volcano.sh/card.assigned", "A"),
            "shared",
        )
        .on("n1"),
    );
    assert_eq!(world.admit(), [], "nothing is allocated yet");
    assert_eq!(world.refusal_of("p2"), "ResourceClaimShared");
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    assert_eq!(world.admit(), [("p2".to_owned(), None)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    assert_eq!(world.refusal_of("p3"), "ResourceClaimShared");
    // Who pays goes: the other one does from then on.
    world.pod(&sharing(bare_pod("p2").queue("team-a"), "shared").on("n1"));
    world.remove_pod("p1");
    assert_eq!((world.allocated("team-a", "A"), world.allocated("team-b", "A")), (2, 0));
    world.remove_pod("p2");
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    assert_eq!(world.admit(), [admitted("p3", r#"{"A":2}"#)]);
}

/// Nothing leads who shares a claim to the card that is paid for: where the scheduler took it first, it could have another one allocated.
#[test]
fn nobody_has_another_card_allocated_by_sharing_the_claim_of_who_is_not_placed() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.claim("shared", &exactly(1, None), &json!({}));
    let pays = sharing(pod("p1").annotation("volcano.sh/card.name", "A"), "shared");
    world.pod(&pays);
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.pod(&sharing(pod("p2"), "shared"));
    assert_eq!(world.refusal_of("p2"), "ResourceClaimShared");
}

/// An operator that is started anew sees pods by name, and not in the order in which they came.
#[test]
fn a_shared_claim_is_charged_to_who_is_in_whoever_is_seen_first() {
    let mut world = world();
    world.queue(&queue("team-b").quota(r#"{"A": 3}"#));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    world.pod(&sharing(pod("p1").queue("team-b"), "shared"));
    world.pod(&sharing(pod("p2").queue("team-b"), "shared"));
    world.pod(&sharing(bare_pod("p3").queue("team-a"), "shared").on("n1"));
    world.pod(&sharing(pod("p4"), "shared"));
    assert_eq!(world.admit(), [("p4".to_owned(), None)]);
    assert_eq!((world.allocated("team-a", "A"), world.allocated("team-b", "A")), (2, 0));
    for waits in ["p1", "p2"] {
        assert_eq!(world.refusal_of(waits), "ResourceClaimShared");
    }
}

/// Who no queue is charged for may share what another pod is charged for: that stays charged when an operator that is started anew sees the
/// other one first.
#[test]
fn a_shared_claim_is_charged_to_who_is_charged_at_all_whoever_is_seen_first() {
    for free_first in [true, false] {
        let mut world = with_claim(&allocated("n1", &["gpu-0", "gpu-1"]));
        let free = sharing(bare_pod("p0"), "shared").on("n1");
        let pays = let_in("p1").on("n1");
        let pods = if free_first { [free, pays] } else { [pays, free] };
        world.pods(pods);
        world.pod(&waiting("p2"));
        assert_eq!(world.allocated("team-a", "A"), 2, "{free_first}");
        assert_eq!(world.admit(), [("p2".to_owned(), None)], "{free_first}");
        // Who is charged goes, and who is not has the devices.
        world.remove_pod("p2");
        world.remove_pod("p1");
        world.pod(&waiting("p3"));
        assert_eq!(world.refusal_of("p3"), "ResourceClaimShared");
        assert_eq!(world.allocated("team-a", "A"), 0);
    }
}

#[test]
fn of_those_that_wait_the_oldest_pays_for_a_shared_claim_whoever_is_seen_first() {
    for others_first in [false, true] {
        let mut world = world();
        world.queue(&queue("team-b").quota(r#"{"A": 0}"#));
        world.claim("shared", &exactly(2, Some("A")), &json!({}));
        let oldest = sharing(pod("p9").queue("team-b").created(1), "shared");
        let others = ["p1", "p2"].map(|name| sharing(pod(name).created(2), "shared"));
        if others_first {
            world.pods(others);
            world.pod(&oldest);
        } else {
            world.pod(&oldest);
            world.pods(others);
        }
        assert_eq!(world.admit(), [], "{others_first}");
        assert_eq!(world.refusal_of("p9"), "InsufficientScalarQuota");
        assert_eq!(world.refusal_of("p1"), "ResourceClaimShared");
        world.remove_pod("p9");
        assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
    }
}

#[test]
fn of_many_that_share_a_claim_each_goes_at_the_cost_of_itself() {
    let mut world = world();
    world.claim("shared", &exactly(1, Some("A")), &json!({}));
    let names: Vec<_> = (0..300).map(|index| format!("p{index:03}")).collect();
    for name in &names {
        world.pod(&sharing(pod(name), "shared"));
    }
    assert_eq!(world.admit(), [admitted("p000", "A")]);
    // Who pays waits, and goes: the next pays and waits.
    let mut others = self::world();
    others.claim("shared", &exactly(9, Some("A")), &json!({}));
    for name in &names {
        others.pod(&sharing(pod(name), "shared"));
    }
    assert_eq!(others.refusal_of("p000"), "InsufficientScalarQuota");
    for pair in names.windows(2).take(150) {
        let [goes, next] = pair else { panic!("a pair") };
        assert_eq!(others.refusal_of(next), "ResourceClaimShared");
        others.remove_pod(goes);
        assert_eq!(others.refusal_of(next), "InsufficientScalarQuota");
        assert_eq!(others.refusal_of("p299"), "ResourceClaimShared");
    }
    // Others go, and nobody else pays for that.
    others.remove_pod("p299");
    assert_eq!(others.refusal_of("p150"), "InsufficientScalarQuota");
}

fn let_in(name: &str) -> Object {
    let pod = bare_pod(name).queue("team-a");
    sharing(pod.annotation("volcano.sh/card.assigned", r#"{"A":2}"#), "shared")
}

fn waiting(name: &str) -> Object {
    sharing(pod(name), "shared")
}

/// A world with a claim for two `A`, which `allocated` says where they are.
fn with_claim(status: &Value) -> World {
    let mut world = world();
    world.claim("shared", &exactly(2, Some("A")), status);
    world
}

#[test]
fn who_is_deleted_and_never_goes_leaves_its_claim_to_be_paid_by_who_has_it() {
    let mut world = with_claim(&json!({}));
    world.pod(&waiting("p1"));
    world.pod(&waiting("p2"));
    assert_eq!(world.admit_names(), ["p1"]);
    world.pod(&let_in("p1"));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    assert_eq!(world.admit_names(), ["p2"]);
    world.pod(&sharing(bare_pod("p2").queue("team-a"), "shared").on("n1"));
    assert_eq!(world.allocated("team-a", "A"), 2);
    // Who paid is nowhere, and somebody's finalizer keeps it.
    world.pod(&let_in("p1").deleted(0));
    world.wait(3600);
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    // Who comes later shares it with who pays now.
    world.pod(&waiting("p3"));
    assert_eq!(world.admit(), [("p3".to_owned(), None)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    // And pays, where nobody else is left who could.
    world.pod(&waiting("p3"));
    world.remove_pod("p2");
    world.remove_pod("p3");
    assert_eq!(world.allocated("team-a", "A"), 0);
    world.pod(&waiting("p4"));
    assert_eq!(world.admit(), [admitted("p4", r#"{"A":2}"#)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

/// Somebody's finalizer keeps it.
#[test]
fn who_is_deleted_while_it_waits_leaves_its_claim_to_be_paid_by_others() {
    let mut world = with_claim(&json!({}));
    world.queue(&queue("team-a").quota(r#"{"A": 0}"#));
    world.pods([waiting("p1").created(1), waiting("p2").created(2)]);
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("p2"), "ResourceClaimShared");
    world.pod(&waiting("p1").created(1).deleted(0));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":2}"#)]);
}

/// Who runs with what it shares is charged when its namespace comes to name a queue, whoever waits for the claim in another one; and is so
/// by an operator that is started anew.
#[test]
fn who_runs_pays_when_its_namespace_names_a_queue() {
    for named_before in [true, false] {
        let mut world = world();
        world.queue(&queue("team-a"));
        world.queue(&queue("default").quota(r#"{"A": 3}"#));
        let name_queue = |world: &mut World| world.namespace("team", &[], Some("default"));
        if named_before {
            name_queue(&mut world);
        }
        world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
        world.pod(&sharing(pod("older"), "shared"));
        world.pod(&sharing(bare_pod("runs").created(5), "shared").on("n1"));
        assert_eq!(world.admit_names(), [""; 0]);
        if !named_before {
            assert_eq!(world.allocated("default", "A"), 0);
            name_queue(&mut world);
            assert_eq!(world.admit_names(), [""; 0]);
        }
        assert_eq!(world.allocated("default", "A"), 2, "{named_before}");
    }
}

/// Nobody is charged for the claim from then on, so nobody is let in on account of who has it.
#[test]
fn who_shares_a_claim_waits_once_its_devices_are_charged_to_no_queue() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#).capability("cpu", "1"));
    world.namespace("team", &[], Some("team-a"));
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-0", "gpu-1"]));
    world.pod(&sharing(bare_pod("runs"), "shared").on("n1"));
    world.pod(&sharing(pod("waits").created(5), "shared"));
    assert_eq!(world.allocated("team-a", "A"), 2);
    assert_eq!(world.refusal_of("waits"), "InsufficientCPUQuota");
    world.namespace("team", &[], None);
    assert_eq!(world.allocated("team-a", "A"), 0);
    assert_eq!(world.refusal_of("waits"), "ResourceClaimShared");
}

/// Who waits for the claim would have it at its own expense, and the others for nothing.
#[test]
fn nobody_is_let_in_at_nobodys_cost_by_sharing_the_claim_of_who_waits() {
    let mut world = world();
    world.queue(&queue("team-a"));
    world.queue(&queue("default").quota(r#"{"A": 3}"#));
    world.namespace("team", &[], Some("default"));
    world.claim("shared", &exactly(2, Some("A")), &json!({}));
    world.pod(&sharing(pod("older"), "shared"));
    let held = bare_pod("shares").created(5).gates(&["card.volcano.sh/quota"]);
    world.pod(&sharing(held, "shared"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("shares"), "ResourceClaimShared");
}

/// Simulator's seeds 92023 and 90202: whoever was seen first after a restart was charged, and the other one for its CPU. Of who pays it is not
/// counted here, so that it shows.
#[test]
fn who_pays_for_a_shared_claim_is_the_same_for_an_operator_that_is_started_anew() {
    let begin = || {
        let mut world = with_claim(&allocated("n1", &["gpu-0", "gpu-1"]));
        let now = world.now;
        world.set_configuration(
            configuration("cardUnlimitedCpuMemory: true", "unnamedCards: charge"),
            now,
        );
        world
    };
    let sharer = |name: &str| sharing(bare_pod(name).queue("team-a"), "shared").on("n1");
    let first = let_in("p2").requests("cpu", "2").created(1).on("n1");
    let oldest = sharer("p1");
    let last = sharer("p0").requests("cpu", "4").created(2);

    let mut world = begin();
    world.pod(&first);
    world.pod(&waiting("p1"));
    assert_eq!(world.admit(), [("p1".to_owned(), None)]);
    world.pod(&oldest);
    world.pod(&last);
    assert_eq!(world.allocated_cpu("team-a"), 1000 + 4000, "who was let in first");
    world.remove_pod("p2");
    assert_eq!(world.allocated_cpu("team-a"), 4000, "then the oldest");

    for (pods, counted) in [(vec![&first, &oldest, &last], 5000), (vec![&oldest, &last], 4000)] {
        for begins_with in 0..pods.len() {
            let mut anew = begin();
            for place in 0..pods.len() {
                anew.pod(pods[(begins_with + place) % pods.len()]);
            }
            assert_eq!(anew.allocated_cpu("team-a"), counted, "{begins_with}");
        }
    }
}

/// Simulator's seed 90202: who was let in just before the devices were not shown any more was taken for a pod without cards, which only
/// `CrossQuota` is about.
#[test]
fn who_shares_a_claim_stays_in_its_queue_while_the_devices_are_not_shown() {
    let mut world = with_claim(&allocated("n1", &["gpu-0", "gpu-1"]));
    world.namespace("team", &[], Some("team-a"));
    world.pod(&let_in("p1").on("n1"));
    let sharer = sharing(bare_pod("p2").label("card.volcano.sh/crossquota", "enabled"), "shared");
    world.pod(&sharer.clone().gates(&["card.volcano.sh/quota"]));
    assert_eq!(world.admit_names(), ["p2"]);
    assert_eq!(world.allocated_cpu("team-a"), 2000);
    world.slice("n1", NVIDIA, &json!([]));
    world.pod(&sharer.clone());
    assert_eq!(world.allocated_cpu("team-a"), 2000, "let in");
    world.pod(&sharer.on("n1"));
    assert_eq!(world.allocated_cpu("team-a"), 2000, "bound");
}

/// Who pays for no card is charged CPU, and for a card none (`cardUnlimitedCpuMemory`).
#[test]
fn who_may_come_to_pay_for_a_claim_that_it_shares_is_not_told_that_waiting_cant_help() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&bare_queue("team-a").quota(r#"{"A": 2}"#));
    world.claim("shared", &exactly(1, Some("A")), &json!({}));
    world.pods([sharing(pod("p1"), "shared"), sharing(pod("p2").created(1), "shared")]);
    assert_eq!(world.admit_names(), ["p1"]);
    world.seen_admitted(&sharing(pod("p1"), "shared").on("n1"), "p1", Some("A"));
    world.claim("shared", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
    let told = world.refusal_of("p2");
    assert_eq!(told, "InsufficientCPUQuota");
    let told = world.notices();
    assert!(!told[0].message.contains("waiting can't help"), "{told:?}");
    world.remove_pod("p1");
    world.claim("shared", &exactly(1, Some("A")), &json!({}));
    assert_eq!(world.admit_names(), ["p2"]);
}

/// What it asks for by itself is more than its queue has of cards, whoever pays for the claim that it shares.
#[test]
fn who_asks_for_too_many_cards_beside_a_shared_claim_is_told_that_waiting_cant_help() {
    for unlimited in [false, true] {
        let mut world = World::with(configuration(&format!("cardUnlimitedCpuMemory: {unlimited}"), ""));
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &gpus("A", 8));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        let queue = bare_queue("team-a").quota(r#"{"A": 2}"#);
        world.queue(&queue.capability("cpu", "64").capability("memory", "4Ti"));
        world.claim("shared", &exactly(1, Some("A")), &json!({}));
        world.claim("big", &exactly(4, Some("A")), &json!({}));
        world.pod(&sharing(pod("p1"), "shared"));
        assert_eq!(world.admit_names(), ["p1"]);
        world.seen_admitted(&sharing(pod("p1"), "shared").on("n1"), "p1", Some("A"));
        world.claim("shared", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
        let claims = json!([
            {"name": "gpu", "resourceClaimName": "shared"},
            {"name": "big", "resourceClaimName": "big"}
        ]);
        world.pod(&pod("p2").created(1).set(["spec", "resourceClaims"], claims));
        assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota", "{unlimited}");
        let told = world.notices();
        assert!(told[0].message.contains("waiting can't help"), "{unlimited}: {told:?}");
    }
}
