//! Bodies that are no reviews, and reviews of anything at all: an answer that says what is wrong, never a panic and never an
//! empty one.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::sync::LazyLock;

use crds::keys::{CARD_NAME, CARD_QUOTA, QUEUE_NAME};
use proptest::prelude::*;
use serde_json::{Value, json};
use webhook::door::Reply;
use webhook::endpoint::Endpoint;

use crate::common::{self, UID, World, pod, pod_review};

const ENDPOINTS: [Endpoint; 2] = [Endpoint::Mutate, Endpoint::Validate];

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Anybody may send a review, and what it names is repeated in the answer and the log.
#[test]
fn a_review_that_calls_something_by_a_name_that_nothing_has_is_a_bad_request() {
    let world = World::new();
    let long = "\u{7f}".repeat(4097);
    for (at, field) in [
        ("/request/uid", "request.uid"),
        ("/request/name", "request.name"),
        ("/request/namespace", "request.namespace"),
        ("/request/userInfo/username", "request.userInfo.username"),
        ("/request/kind/kind", "request.kind.kind"),
    ] {
        let mut review = pod_review(&pod(&[], &[]));
        *review.pointer_mut(at).unwrap() = json!(long);
        for endpoint in ENDPOINTS {
            let reply = world.answer(endpoint, review.to_string().as_bytes());
            let said = format!("the AdmissionReview's {field} is longer than 4096 bytes: nothing has such a name");
            assert_eq!((reply.status, text(&reply)), (400, said));
        }
    }
}

/// A text that is quoted is six times as long as it was sent.
#[test]
fn what_is_said_of_a_long_text_is_short() {
    let world = World::new();
    let long = "\u{7f}".repeat(100_000);
    let mut pod = pod(&[(QUEUE_NAME, "a"), (CARD_NAME, "A")], &[("nvidia.com/gpu", "1")]);
    pod["spec"]["nodeName"] = json!(long);
    let refused = world.create_pod(&pod).refused();
    assert!(
        refused.contains(r#"spec.nodeName: "\u{7f}\u{7f}"#) && refused.len() < 700,
        "{refused}"
    );
}

#[test]
fn a_body_that_is_no_review_is_a_bad_request_that_says_why() {
    let world = World::new();
    for (body, part) in [
        ("", "EOF while parsing"),
        ("not json", "expected ident"),
        ("null", "the body is"),
        ("[]", "the body is"),
        ("42", "invalid type"),
        ("{}", r#"the body is "" of """#),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#, r#"the body is "Pod" of "v1""#),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            "send an AdmissionReview of admission.k8s.io/v1",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            "has no request",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}"#,
            "has no request",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#,
            "has no request.uid",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}"#,
            "has no request.uid",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7}}"#,
            "invalid type",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x"}"#,
            "EOF while parsing",
        ),
    ] {
        for endpoint in ENDPOINTS {
            let reply = world.answer(endpoint, body.as_bytes());
            assert_eq!(reply.status, 400, "{body}");
            assert!(text(&reply).contains(part), "{body}: {}", text(&reply));
        }
    }
    assert_eq!(world.answer(Endpoint::Mutate, b"\xff\xfe{}").status, 400);
}

/// The stack does not grow with the depth, wherever it is.
#[test]
fn a_body_that_is_nothing_but_depth_is_answered() {
    let deep = |open: &str| open.repeat((512 << 10) / open.len());
    let review = |part: &str, inner: String| {
        let begin = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","kind":{"group":"","kind":"Pod"},"operation":"CREATE","#;
        format!("{begin}\"{part}\":{inner}")
    };
    for body in [
        deep("["),
        deep("{\"a\":"),
        review("object", deep("[")),
        review("oldObject", deep("{\"spec\":")),
        review("options", deep("[")),
    ] {
        for endpoint in ENDPOINTS {
            let reply = World::new().answer(endpoint, body.as_bytes());
            assert_eq!(reply.status, 400, "{}", text(&reply));
        }
    }
}

#[test]
fn a_review_of_another_kind_is_answered_by_a_refusal() {
    for (group, kind) in [
        ("apps", "Deployment"),
        ("", "Node"),
        ("", ""),
        ("scheduling.volcano.sh", "Queues"),
        ("example.com", "Pod"),
    ] {
        for endpoint in ENDPOINTS {
            let review = common::review((group, "v1", kind), "CREATE", &json!({"metadata": 1}), &Value::Null);
            let refused = World::new().verdict(endpoint, &review).refused();
            assert!(refused.starts_with("400 KindUnknown"), "{refused}");
        }
    }
    let mut review = pod_review(&pod(&[], &[]));
    review["request"].as_object_mut().unwrap().remove("kind");
    assert!(
        World::new()
            .verdict(Endpoint::Mutate, &review)
            .refused()
            .starts_with("400 KindUnknown")
    );
}

#[test]
fn a_pod_that_is_none_is_refused_and_one_that_is_missing_passes() {
    for endpoint in ENDPOINTS {
        for object in [
            json!([{"annotations": 1}]),
            json!("pod"),
            json!({"metadata": []}),
            json!({"spec": {"containers": {}}}),
        ] {
            let verdict = World::new().verdict(endpoint, &pod_review(&object));
            if !verdict.allowed {
                assert!(verdict.refused().starts_with("403 ObjectInvalid"), "{object}");
            }
        }
        assert_eq!(World::new().verdict(endpoint, &pod_review(&Value::Null)).operations, 0);
    }
}

#[test]
fn names_that_need_escapes_come_back_as_they_are() {
    let mut review = pod_review(&pod(&[(QUEUE_NAME, "team-a")], &[]));
    review["request"]["name"] = json!("a\"b\\c\u{1F980}\n");
    review["request"]["userInfo"]["username"] = json!("x\u{0}y");
    World::new().verdict(Endpoint::Mutate, &review).allowed();
    let uid = "\"\\\u{7}";
    review["request"]["uid"] = json!(uid);
    let reply = World::new().answer(Endpoint::Mutate, review.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["response"]["uid"], uid);
}

/// Any JSON, not deeper than a pod.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("NVIDIA-A100|NVIDIA-H100"),
            Just("team-a"),
            Just("1"),
            Just("{\"NVIDIA-A100\": 1}")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let key = prop_oneof![
            Just("metadata"),
            Just("annotations"),
            Just("labels"),
            Just("spec"),
            Just("containers"),
            Just("initContainers"),
            Just("resources"),
            Just("limits"),
            Just("requests"),
            Just("schedulingGates"),
            Just("name"),
            Just("capability"),
            Just("template"),
            Just("tasks"),
            Just(CARD_NAME),
            Just(QUEUE_NAME),
            Just(CARD_QUOTA),
            Just("nvidia.com/gpu"),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

static WORLD: LazyLock<World> = LazyLock::new(World::new);

/// Every answer is either a review that repeats the uid or an error with a text.
fn check(reply: &Reply) {
    if reply.status == 200 {
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        assert!(answer["response"]["allowed"].is_boolean());
        assert_eq!(answer["response"]["uid"], UID);
    } else {
        assert_eq!(reply.status, 400);
        assert!(!reply.body.is_empty());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for endpoint in ENDPOINTS {
            prop_assert_eq!(WORLD.answer(endpoint, &body).status, 400);
        }
    }

    #[test]
    fn any_object_is_judged(
        object in any_json(),
        old in any_json(),
        kind in prop_oneof![
            Just(("", "v1", "Pod")),
            Just(("scheduling.volcano.sh", "v1beta1", "Queue")),
            Just(("scheduling.volcano.sh", "v1beta1", "PodGroup")),
            Just(("batch.volcano.sh", "v1alpha1", "Job")),
            Just(("batch", "v1", "Job")),
        ],
        operation in prop_oneof![Just("CREATE"), Just("UPDATE"), Just("DELETE")],
    ) {
        let body = common::review(kind, operation, &object, &old).to_string();
        for endpoint in ENDPOINTS {
            check(&WORLD.answer(endpoint, body.as_bytes()));
        }
    }

    /// A review with any part of it replaced, or cut off anywhere.
    #[test]
    fn any_damage_to_a_review_is_answered(part in 0..14_usize, value in any_json(), cut in 0.0..1.0_f64) {
        let mut review = pod_review(&pod(&[(CARD_NAME, "NVIDIA-A100"), (QUEUE_NAME, "team-a")], &[("nvidia.com/gpu", "1")]));
        let whole = review.to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a short text")]
        let end = (whole.len() as f64 * cut) as usize;
        for endpoint in ENDPOINTS {
            prop_assert_eq!(WORLD.answer(endpoint, &whole.as_bytes()[..end]).status, 400);
        }
        if let Some((_, member)) = review["request"].as_object_mut().unwrap().iter_mut().nth(part) {
            *member = value;
        }
        if review["request"]["uid"] == UID {
            for endpoint in ENDPOINTS {
                check(&WORLD.answer(endpoint, review.to_string().as_bytes()));
            }
        }
    }
}
