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
