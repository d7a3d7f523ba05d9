//! The door for Queues, `PodGroup`s and Jobs.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use crds::configuration::{Configuration, Settings, UnnamedCards};
use crds::keys::{
    CARD_DESERVED, CARD_GUARANTEE, CARD_NAME, CARD_QUOTA, CARD_REQUEST, QUEUE_NAME, QUEUE_NAMESPACES, SCORING_STRATEGY,
};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{Verdict, World, review};

type Kind = (&'static str, &'static str, &'static str);
const QUEUE: Kind = ("scheduling.volcano.sh", "v1beta1", "Queue");
const POD_GROUP: Kind = ("scheduling.volcano.sh", "v1beta1", "PodGroup");
const VOLCANO_JOB: Kind = ("batch.volcano.sh", "v1alpha1", "Job");
const JOB: Kind = ("batch", "v1", "Job");

fn annotated(annotations: &[(&str, &str)]) -> Value {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    json!({"metadata": {"name": "x", "annotations": Value::Object(annotations.collect())}})
}

fn create(kind: Kind, object: &Value) -> Verdict {
    World::new().verdict(Endpoint::Validate, &review(kind, "CREATE", object, &Value::Null))
}

fn update(kind: Kind, object: &Value, old: &Value) -> Verdict {
    World::new().verdict(Endpoint::Validate, &review(kind, "UPDATE", object, old))
}

/// A Job of either kind whose pods have this card name and these limits.
fn job(kind: Kind, card: &str, limits: &Value) -> Value {
    let template = json!({
        "metadata": {"annotations": {CARD_NAME: card}},
        "spec": {"containers": [{"name": "worker", "resources": {"limits": limits}}]}
    });
    let spec = if kind == JOB {
        json!({"template": template})
    } else {
        json!({"queue": "team-a", "minAvailable": 1, "tasks": [{"name": "worker", "replicas": 4, "template": template}]})
    };
    json!({"metadata": {"name": "x", "annotations": {CARD_REQUEST: "{\"NVIDIA-A100\": 4}"}}, "spec": spec})
}

#[test]
fn queues_with_readable_annotations_are_accepted() {
    for object in [
        annotated(&[]),
        annotated(&[(CARD_QUOTA, r#"{"NVIDIA-A100": 10, "NVIDIA-A100/mps-80g*1/8": 0}"#)]),
        annotated(&[(CARD_QUOTA, "{}"), (QUEUE_NAMESPACES, "team in (a,b)")]),
        json!({"metadata": {"name": "x"}, "spec": null}),
        json!({"metadata": {"name": "x"}, "spec": {"capability": {"cpu": 4, "memory": "1Gi"}, "weight": 1}}),
    ] {
        assert!(create(QUEUE, &object).allowed().is_empty(), "{object}");
    }
}

#[test]
fn queues_that_nobody_could_read_are_refused() {
    for (object, reason) in [
        (
            annotated(&[(CARD_QUOTA, r#"{"NVIDIA-A100": 1, "NVIDIA-A100": 2}"#)]),
            "CardQuotaInvalid",
        ),
        (annotated(&[(CARD_QUOTA, r#"{"NVIDIA-A100": -1}"#)]), "CardQuotaInvalid"),
        (annotated(&[(CARD_QUOTA, "")]), "CardQuotaInvalid"),
        (annotated(&[(QUEUE_NAMESPACES, "")]), "NamespacesInvalid"),
        (annotated(&[(QUEUE_NAMESPACES, "team in a")]), "NamespacesInvalid"),
        (json!({"spec": {"capability": {"cpu": "-1"}}}), "CapabilityInvalid"),
        (json!({"spec": {"capability": {"cpu": "many"}}}), "CapabilityInvalid"),
        (json!({"spec": {"capability": ["cpu"]}}), "ObjectInvalid"),
        (json!({"metadata": {"annotations": {CARD_QUOTA: 1}}}), "ObjectInvalid"),
    ] {
        assert!(
            create(QUEUE, &object).refused().starts_with(&format!("403 {reason}: ")),
            "{object}"
        );
    }
}

#[test]
fn a_quota_for_a_card_that_no_node_has_is_accepted_with_a_warning_once() {
    let new = annotated(&[(CARD_QUOTA, r#"{"NVIDIA-A100": 1, "NVIDIA-B200": 1}"#)]);
    let verdict = create(QUEUE, &new);
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
    assert!(verdict.warnings[0].contains("NVIDIA-B200"));
    assert!(update(QUEUE, &new, &new).allowed().is_empty(), "not on every update");
}

#[test]
fn what_is_deserved_of_a_card_without_quota_is_warned_about() {
    let both = annotated(&[
        (CARD_QUOTA, r#"{"NVIDIA-A100": 4}"#),
        (CARD_DESERVED, r#"{"NVIDIA-A100": 2}"#),
    ]);
    assert_eq!(create(QUEUE, &both).allowed(), [""; 0]);
    let one = annotated(&[
        (CARD_QUOTA, r#"{"NVIDIA-A100": 4}"#),
        (CARD_DESERVED, r#"{"NVIDIA-H100": 2}"#),
    ]);
    let verdict = create(QUEUE, &one);
    let said = |warning: &&String| {
        warning.contains("\"NVIDIA-H100\" has no effect, since volcano.sh/card.quota names none of it")
    };
    assert_eq!(verdict.allowed().iter().filter(said).count(), 1, "{verdict:?}");
}

#[test]
fn what_is_guaranteed_without_quota_is_warned_about() {
    let warned = |queue: &Value| {
        let verdict = create(QUEUE, queue);
        let said = |warning: &&String| warning.contains("can't be used unless other queues are parts of this one");
        verdict.allowed().iter().filter(said).count()
    };
    let quota = (CARD_QUOTA, r#"{"NVIDIA-A100": 4}"#);
    let of = |card: &str| annotated(&[quota, (CARD_GUARANTEE, &format!("{{\"{card}\": 2}}"))]);
    assert_eq!(warned(&of("NVIDIA-A100")), 0);
    assert_eq!(warned(&of("NVIDIA-H100")), 1);
    let mut of_cpu = annotated(&[quota]);
    of_cpu["spec"] = json!({"guarantee": {"resource": {"cpu": "4", "pods": "10"}}});
    assert_eq!(warned(&of_cpu), 1, "of what every queue may have nothing is lost");
    // Pods with cards use it then.
    let mut configuration = Configuration::default();
    configuration.capacity_card.card_unlimited_cpu_memory = true;
    let verdict = World::with_configuration(configuration)
        .verdict(Endpoint::Validate, &review(QUEUE, "CREATE", &of_cpu, &Value::Null));
    assert!(
        !verdict
            .allowed()
            .iter()
            .any(|warning| warning.contains("can't be used")),
        "{verdict:?}"
    );
}

#[test]
fn an_update_answers_for_what_it_changes() {
    let quota = (CARD_QUOTA, "[]");
    let old = annotated(&[quota]);
    let verdict = update(QUEUE, &annotated(&[quota, ("example.com/note", "x")]), &old);
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
    assert!(verdict.warnings[0].contains("not made worse by this update"));
    update(QUEUE, &annotated(&[(CARD_QUOTA, "{}")]), &old).allowed();
    update(QUEUE, &annotated(&[(CARD_QUOTA, "{")]), &old).refused();
    let second = update(QUEUE, &annotated(&[quota, (QUEUE_NAMESPACES, "!")]), &old);
    assert!(
        second.refused().contains("NamespacesInvalid"),
        "what was wrong does not hide what is new"
    );
    update(
        POD_GROUP,
        &annotated(&[(CARD_REQUEST, "x")]),
        &annotated(&[(CARD_REQUEST, "x")]),
    )
    .allowed();
    let replaced = create(QUEUE, &old);
    replaced.refused();
}

#[test]
fn a_job_asks_for_what_its_pods_use() {
    let of_two = json!({"nvidia.com/gpu": 2});
    let asking = |kind: Kind, card: &str, limits: &Value, request: &str| {
        let mut job = job(kind, card, limits);
        job["metadata"]["annotations"][CARD_REQUEST] = json!(request);
        job
    };
    for (card, request, message) in [
        (
            "NVIDIA-A100",
            r#"{"NVIDIA-A100": 1}"#,
            "NVIDIA-A100 x1 is 1 of the cards that a single pod of the Job requests 2 of",
        ),
        (
            "NVIDIA-A100",
            r#"{"NVIDIA-H100": 8}"#,
            "NVIDIA-H100 x8 asks for none of the cards that the Job's pods name (\"NVIDIA-A100\"",
        ),
        (
            "NVIDIA-A100|NVIDIA-H100",
            r#"{"NVIDIA-A100": 1, "NVIDIA-H100/x": 8}"#,
            "is 1 of the cards",
        ),
    ] {
        let refused = create(JOB, &asking(JOB, card, &of_two, request)).refused();
        assert!(
            refused.starts_with("403 CardRequestUnfit: annotation volcano.sh/card.request: "),
            "{refused}"
        );
        assert!(refused.contains(message), "{refused}");
        // Of a group, the request only opens the queue: its keys need not be the pods' cards.
        create(VOLCANO_JOB, &asking(VOLCANO_JOB, card, &of_two, request)).allowed();
    }
    for (card, request) in [
        ("NVIDIA-A100", r#"{"NVIDIA-A100": 2}"#),
        ("NVIDIA-A100", r#"{"NVIDIA-A100|NVIDIA-H100": 4}"#),
        ("NVIDIA-A100|NVIDIA-H100", r#"{"NVIDIA-A100": 1, "NVIDIA-H100": 1}"#),
        ("NVIDIA-A100", "{}"),
        // Nobody knows yet what it will be requested as.
        ("NVIDIA-B200", r#"{"NVIDIA-B200": 1}"#),
    ] {
        create(JOB, &asking(JOB, card, &of_two, request)).allowed();
    }
    let mut unnamed = asking(JOB, "NVIDIA-A100", &of_two, r#"{"NVIDIA-H100": 1}"#);
    unnamed["spec"]["template"]["metadata"]["annotations"] = json!({QUEUE_NAME: "team-a"});
    assert!(create(JOB, &unnamed).refused().contains("is 1 of the cards"));
}

/// What the operator can't read keeps all pods of a group waiting: whoever writes it is told.
#[test]
fn what_a_group_needs_at_least_is_read() {
    let group = |spec: Value| json!({"metadata": {"name": "training"}, "spec": spec});
    for least in [
        json!(null),
        json!({"cpu": "4", "nvidia.com/gpu": 8}),
        json!({"count/pods": "?"}),
    ] {
        create(POD_GROUP, &group(json!({"minResources": least}))).allowed();
    }
    let many: serde_json::Map<_, _> = (0..300).map(|task| (format!("t{task}"), json!(1))).collect();
    for (spec, message) in [
        (
            json!({"minResources": {"cpu": "much"}}),
            "MinResourcesInvalid: spec.minResources: cpu: \"much\" is not a Kubernetes quantity",
        ),
        (
            json!({"minResources": {"memory": "-1"}}),
            "MinResourcesInvalid: spec.minResources: memory: -1 is negative",
        ),
        (
            json!({"minTaskMember": many}),
            "MinTaskMemberInvalid: spec.minTaskMember: it has 300 tasks",
        ),
    ] {
        let refused = create(POD_GROUP, &group(spec)).refused();
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn card_requests_are_read_on_every_kind_that_has_them() {
    for kind in [POD_GROUP, VOLCANO_JOB, JOB] {
        for request in [r#"{"NVIDIA-A100": 8}"#, r#"{"NVIDIA-A100|NVIDIA-H100": 8}"#, "{}"] {
            assert!(
                create(kind, &annotated(&[(CARD_REQUEST, request)]))
                    .allowed()
                    .is_empty(),
                "{kind:?} {request}"
            );
        }
        for request in [
            r#"{"A": "8"}"#,
            r#"{"A": 1.5}"#,
            r#"{"A|A": 1}"#,
            r#"{"": 1}"#,
            "[8]",
            "8",
        ] {
            let refused = create(kind, &annotated(&[(CARD_REQUEST, request)])).refused();
            assert!(
                refused.starts_with("403 CardRequestInvalid: "),
                "{kind:?} {request}: {refused}"
            );
        }
    }
}

#[test]
fn a_job_whose_pods_would_be_refused_is_refused_itself() {
    for (kind, place) in [(JOB, "spec.template"), (VOLCANO_JOB, "spec.tasks[\"worker\"].template")] {
        let gpu = json!({"nvidia.com/gpu": 1});
        let gpu_text = json!({"nvidia.com/gpu": "1"});
        for limits in [&gpu, &gpu_text] {
            assert!(
                create(kind, &job(kind, "NVIDIA-A100|NVIDIA-H100", limits))
                    .allowed()
                    .is_empty(),
                "{limits}"
            );
        }
        for (card, reason) in [
            ("NVIDIA-A100||NVIDIA-H100", "CardNameInvalid"),
            ("NVIDIA-A100|NVIDIA-A100/mps-80g*1/8", "CardResourcesDiffer"),
        ] {
            let refused = create(kind, &job(kind, card, &gpu)).refused();
            assert!(refused.starts_with(&format!("403 {reason}: {place}: ")), "{refused}");
        }
    }
}

#[test]
fn a_template_is_refused_for_what_its_pods_are_refused_for() {
    for (kind, template) in [(JOB, "/spec/template"), (VOLCANO_JOB, "/spec/tasks/0/template")] {
        let place = if kind == JOB {
            "spec.template"
        } else {
            "spec.tasks[\"worker\"].template"
        };
        let gpu = json!({"nvidia.com/gpu": 1});
        for (field, value, reason) in [
            (
                "/metadata/annotations",
                json!({CARD_NAME: "NVIDIA-A100", SCORING_STRATEGY: "random"}),
                "ScoringStrategyUnknown",
            ),
            ("/spec/nodeName", json!("node-1"), "NodeNamed"),
            (
                "/spec/tolerations",
                json!(vec![json!({"operator": "Exists"}); 1025]),
                "PodBoundExceeded",
            ),
        ] {
            let good = job(kind, "NVIDIA-A100", &gpu);
            let mut bad = good.clone();
            let (parent, key) = field.rsplit_once('/').unwrap();
            bad.pointer_mut(&format!("{template}{parent}")).unwrap()[key] = value;
            let mut pod = bad.pointer(template).unwrap().clone();
            pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
            let of_pod = World::new().create_pod(&pod).refused();
            let (code_and_reason, message) = of_pod.split_once(": ").unwrap();
            assert_eq!(code_and_reason, format!("403 {reason}"));
            assert_eq!(
                create(kind, &bad).refused(),
                format!("{code_and_reason}: {place}: {message}")
            );
            // Who changes something else is not held up by it.
            let updated = update(kind, &bad, &bad);
            let [warning] = updated.allowed() else {
                panic!("{reason}")
            };
            assert!(warning.contains(message), "{warning}");
            assert!(create(kind, &good).allowed().is_empty());
        }
    }
}

#[test]
fn a_template_whose_pods_may_be_none_of_cardgates_business_is_warned_about() {
    let mut job = json!({"metadata": {"name": "x", "annotations": {CARD_REQUEST: "{\"NVIDIA-A100\": 4}"}},
        "spec": {"template": {"spec": {"nodeName": "node-1", "containers": []}}}});
    let warned = create(JOB, &job);
    let [warning] = warned.allowed() else {
        panic!("{warned:?}")
    };
    assert!(
        warning.starts_with("spec.template: spec.nodeName: \"node-1\""),
        "{warning}"
    );
    job["spec"]["template"]["metadata"]["annotations"] = json!({QUEUE_NAME: "team-a"});
    assert!(
        create(JOB, &job)
            .refused()
            .starts_with("403 NodeNamed: spec.template: ")
    );
}

#[test]
fn requests_that_cannot_be_added_up_are_a_warning_on_the_job() {
    let verdict = create(
        VOLCANO_JOB,
        &job(VOLCANO_JOB, "NVIDIA-A100", &json!({"nvidia.com/gpu": "some"})),
    );
    let [warning] = verdict.allowed() else {
        panic!("{verdict:?}")
    };
    assert!(
        warning.starts_with("spec.tasks[\"worker\"].template: ") && warning.contains("\"some\""),
        "{warning}"
    );
}

#[test]
fn what_another_webhook_may_put_right_on_the_pods_is_a_warning_on_the_job() {
    let verdict = create(JOB, &job(JOB, "NVIDIA-A100", &json!({"cpu": "1"})));
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
    assert!(
        verdict.warnings[0].contains("spec.template: annotation volcano.sh/card.name"),
        "{:?}",
        verdict.warnings
    );
    let verdict = create(JOB, &job(JOB, "NVIDIA-B200", &json!({"nvidia.com/gpu": "1"})));
    assert!(
        verdict.allowed()[0].contains("NVIDIA-B200"),
        "pods' warnings are not seen: {:?}",
        verdict.warnings
    );

    let strict = World::with_settings(Settings {
        unnamed_cards: UnnamedCards::Deny,
        ..Settings::default()
    });
    let mut unnamed = job(VOLCANO_JOB, "", &json!({"nvidia.com/gpu": 1}));
    unnamed["spec"]["tasks"][0]["template"]["metadata"] = json!({});
    let verdict = strict.verdict(
        Endpoint::Validate,
        &review(VOLCANO_JOB, "CREATE", &unnamed, &Value::Null),
    );
    assert_eq!(verdict.allowed().len(), 1, "{:?}", verdict.warnings);
}

#[test]
fn tasks_and_templates_may_be_missing() {
    for spec in [
        json!(null),
        json!({}),
        json!({"tasks": null}),
        json!({"tasks": [{"replicas": 1}]}),
        json!({"template": null}),
    ] {
        for kind in [VOLCANO_JOB, JOB] {
            let object = json!({"metadata": {"annotations": {CARD_REQUEST: "{}"}}, "spec": spec});
            assert!(create(kind, &object).allowed().is_empty(), "{object}");
        }
    }
}

#[test]
fn other_operations_pass() {
    for operation in ["DELETE", "CONNECT"] {
        let object = annotated(&[(CARD_QUOTA, "[]")]);
        let verdict = World::new().verdict(Endpoint::Validate, &review(QUEUE, operation, &Value::Null, &object));
        assert!(verdict.allowed().is_empty());
    }
}
