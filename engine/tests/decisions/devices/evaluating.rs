//! What it may cost to evaluate the selectors of claims: who writes many that take long waits for nobody but themselves, and nobody else for
//! them (docs/security.md, **Bounds**).

use engine::reason::Reason;

use super::*;

/// Nodes of eight devices, each with a UUID of its own: none of what is found of one says anything of another.
const NODES: usize = 64;
/// Requests of one claim, as many as there may be.
const REQUESTS: usize = 32;

fn world_of_many() -> World {
    let mut world = world();
    for index in 0..NODES {
        let name = format!("m{index}");
        let device = |gpu: usize| {
            json!({"name": format!("gpu-{gpu}"), "attributes": {"type": {"string": "gpu"}, "productName": {"string": "A"},
                "uuid": {"string": format!("GPU-{index}-{gpu}")}}})
        };
        world.node(&node(&name));
        world.slice(&name, NVIDIA, &(0..8).map(device).collect());
    }
    world
}

/// Requests that select one device each by its UUID, which none has.
fn by_uuid(claim: &str) -> Value {
    let request = |index: usize| {
        let expression = format!("device.attributes['{NVIDIA}'].uuid == '{claim}-{index}'");
        json!({"name": format!("r{index}"), "exactly": {"deviceClassName": NVIDIA, "selectors": [{"cel": {"expression": expression}}]}})
    };
    (0..REQUESTS).map(request).collect()
}

fn of(namespace: &str, pod: Object) -> Object {
    pod.set(["metadata", "namespace"], namespace)
}

#[test]
fn selectors_that_take_long_are_evaluated_some_at_a_time_and_nobody_else_waits() {
    let mut world = world_of_many();
    world.claim_in("greedy", "long", &by_uuid("none"), &json!({}));
    world.pod(&of("greedy", claiming(pod("greedy"), "long")));
    world.claim("short", &exactly(1, Some("A")), &json!({}));
    world.pod(&claiming(pod("quick"), "short"));
    assert_eq!(world.admit(), [admitted("quick", "A")]);
    assert_eq!(
        world.reason("greedy").map(Reason::as_str),
        Some("SelectorsNotEvaluated")
    );
    assert_eq!(
        world.notices()[0].message,
        "the selectors of the pod's resource claims are not evaluated yet: they are long, or look at what tells single devices apart, and \
         are evaluated some at a time, namespace by namespace"
    );
    // It takes its turns, and nothing has to happen meanwhile.
    let rounds = (1..100).find(|_| world.refusal_of("greedy") == "NoDeviceSelected");
    let rounds = rounds.expect("its selectors are evaluated");
    assert!(rounds > 1, "{rounds}");
    // What was found is known from then on: nothing is evaluated again where its pod is read again.
    world.pod(&of("greedy", claiming(pod("greedy"), "long").label("seen", "again")));
    assert_eq!(world.refusal_of("greedy"), "NoDeviceSelected");
}

#[test]
fn of_a_pod_that_names_more_claims_than_any_may_none_is_looked_at() {
    let mut world = world();
    world.claim("one", &exactly(1, Some("A")), &json!({}));
    let naming = |count: usize| -> Value {
        let claims = (0..count).map(|index| json!({"name": format!("c{index}"), "resourceClaimName": "one"}));
        claims.collect()
    };
    world.pod(&pod("many").set(["spec", "resourceClaims"], naming(65)));
    assert_eq!(world.refusal_of("many"), "GetTaskRequestResourceFailed");
    let told = world.notices();
    assert!(
        told[0]
            .message
            .contains("spec.resourceClaims names 65 claims, and 64 are allowed"),
        "{told:?}"
    );
    // Nobody waits for it to pay.
    world.pod(&sharing(pod("other"), "one"));
    assert_eq!(world.admit(), [admitted("other", "A")]);
}

/// How many of these pods wait until their claims are evaluated.
fn not_evaluated(world: &World, pods: usize) -> usize {
    let reason = |index: usize| world.reason(&format!("p{index:04}")).map(Reason::as_str);
    let waits = |index: &usize| reason(*index) == Some("SelectorsNotEvaluated");
    (0..pods).filter(waits).count()
}

/// So many pods of a namespace, each of which names all of these claims.
fn all_sharing(world: &mut World, namespace: &str, pods: usize, claims: &[String]) {
    let named = claims
        .iter()
        .map(|claim| json!({"name": claim, "resourceClaimName": claim}));
    let named: Value = named.collect();
    for index in 0..pods {
        let pod = pod(&format!("p{index:04}")).set(["spec", "resourceClaims"], named.clone());
        world.pod(&of(namespace, pod));
    }
}

/// Decides until all of them are evaluated.
#[track_caller]
fn evaluate_all(world: &mut World, pods: usize) -> usize {
    let rounds = (0..100).find(|_| {
        assert_eq!(world.admit(), []);
        not_evaluated(world, pods) == 0
    });
    rounds.expect("all are evaluated")
}

/// Many pods that name the same claims cost little more to read than one: what these come to is found once.
#[test]
fn what_a_claim_comes_to_is_found_once_for_all_pods_that_name_it() {
    const PODS: usize = 300;
    let mut world = world();
    let claims: Vec<_> = (0..32).map(|index| format!("c{index}")).collect();
    for claim in &claims {
        let form = |index: usize| {
            let mut form = request(NVIDIA, 9, Some(&format!("{claim}-{index}")));
            form["name"] = json!(format!("f{index}"));
            form
        };
        let forms: Value = (0..8).map(form).collect();
        world.claim(claim, &json!([{"name": "r", "firstAvailable": forms}]), &json!({}));
    }
    all_sharing(&mut world, "team", PODS, &claims);
    evaluate_all(&mut world, PODS);
    // All are read anew, and each of their claims is looked up.
    assert_eq!(world.admit(), []);
    world.claim("c0", &exactly(9, Some("A")), &json!({}));
    assert_eq!(world.admit(), []);
    assert_eq!(not_evaluated(&world, PODS), 0);
}

/// Pods that share claims are read in the turn of their namespace, as many as there are, and nobody else waits for that.
#[test]
fn of_many_pods_that_share_many_claims_some_are_read_at_a_time() {
    const PODS: usize = 1200;
    let mut world = world();
    let claims: Vec<_> = (0..64).map(|index| format!("c{index}")).collect();
    for claim in &claims {
        world.claim_in("greedy", claim, &exactly(9, Some("A")), &json!({}));
    }
    all_sharing(&mut world, "greedy", PODS, &claims);
    assert!(evaluate_all(&mut world, PODS) > 0);
    world.claim_in("greedy", "c0", &exactly(8, Some("A")), &json!({}));
    assert_eq!(world.admit(), []);
    assert!(not_evaluated(&world, PODS) > 0);
    // Nobody else waits meanwhile.
    world.claim("own", &exactly(1, Some("A")), &json!({}));
    world.pod(&sharing(pod("quick"), "own"));
    assert_eq!(world.admit(), [admitted("quick", "A")]);
    evaluate_all(&mut world, PODS);
}

/// How many of these pods were read when their claim was not there.
fn read_before(world: &World, pods: usize) -> usize {
    let reason = |index: usize| {
        let id = world.cluster.pod_with_uid(&format!("p{index:04}"))?;
        world.cluster.pod(id)?.task.claimed.as_ref()?.refusal
    };
    let waits = |index: &usize| reason(*index) == Some(Reason::ResourceClaimNotFound);
    (0..pods).filter(waits).count()
}

/// Whoever makes and deletes a claim in turn that thousands of his pods share has some of them read in each round, and nobody else waits for
/// the others; be they held by a gate of his own besides.
#[test]
fn of_many_pods_whose_claim_comes_some_are_read_at_a_time() {
    some_are_read_at_a_time(&["card.volcano.sh/quota"]);
    some_are_read_at_a_time(&["card.volcano.sh/quota", "example.com/hold"]);
}

fn some_are_read_at_a_time(gates: &[&str]) {
    const PODS: usize = 5000;
    let mut world = world();
    for index in 0..PODS {
        let pod = sharing(pod(&format!("p{index:04}")).gates(gates), "late");
        world.pod(&of("greedy", pod));
    }
    assert_eq!(world.admit(), []);
    assert_eq!(read_before(&world, PODS), PODS);
    world.claim_in("greedy", "late", &exactly(9, Some("A")), &json!({}));
    world.claim("own", &exactly(1, Some("A")), &json!({}));
    world.pod(&sharing(pod("quick"), "own"));
    assert_eq!(world.admit(), [admitted("quick", "A")]);
    assert!(read_before(&world, PODS) > 0);
    let rounds = (0..10).find(|_| {
        assert_eq!(world.admit(), []);
        read_before(&world, PODS) == 0
    });
    assert!(rounds.is_some());
}

/// Somebody deletes a claim that all his pods name. Each would be read at once, also those that their claims don't keep out.
#[test]
fn pods_whose_claim_is_gone_are_read_some_at_a_time_and_none_is_let_in_before() {
    const PODS: usize = 5_000;
    let mut world = world();
    world.queue(&queue("team-a").capability("cpu", "0"));
    world.claim("empty", &json!([]), &json!({}));
    for index in 0..PODS {
        world.pod(&claiming(pod(&format!("p{index}")), "empty").requests("cpu", "1"));
    }
    assert_eq!(world.admit(), []);
    assert_eq!(world.reason("p0"), Some(Reason::InsufficientCpuQuota));
    world.remove_claim("empty");
    // By what they claimed, all may get in now.
    world.queue(&queue("team-a").capability("cpu", "10000"));
    let mut read = Vec::new();
    while read.last() != Some(&PODS) && read.len() < 100 {
        assert_eq!(world.admit(), []);
        let is_read = |index: &usize| {
            let reason = world.reason(&format!("p{index}"));
            reason.is_some_and(|reason| reason == Reason::ResourceClaimNotFound)
        };
        read.push((0..PODS).filter(is_read).count());
    }
    assert_eq!(read.last(), Some(&PODS), "{read:?}");
    // Two turns at most: that in which the claim is seen to be gone, and that of the round.
    assert!(read[0] <= 4_096, "{read:?}");
}
