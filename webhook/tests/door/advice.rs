//! Mistakes are told where they are made: at the creation of what makes pods, and of queues (docs/rules.md, **Mistakes are told
//! where they are made**). Nothing is refused.

use std::time::Instant;

use crds::configuration::{CapacityCard, Configuration, QueuePlugin, Settings, UnnamedCards};
use crds::keys::{CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, MGPU_CORE, MGPU_MEMORY, QUEUE_NAME};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;
use webhook::knowledge::Knowledge;

use crate::common::{Verdict, World, pod, review};

const GPU: &str = "nvidia.com/gpu";
const A100: &str = "NVIDIA-A100";

const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
const STATEFUL_SET: (&str, &str, &str) = ("apps", "v1", "StatefulSet");
const DAEMON_SET: (&str, &str, &str) = ("apps", "v1", "DaemonSet");
const REPLICA_SET: (&str, &str, &str) = ("apps", "v1", "ReplicaSet");
const JOB: (&str, &str, &str) = ("batch", "v1", "Job");
const CRON_JOB: (&str, &str, &str) = ("batch", "v1", "CronJob");
const VOLCANO_JOB: (&str, &str, &str) = ("batch.volcano.sh", "v1alpha1", "Job");
const QUEUE: (&str, &str, &str) = ("scheduling.volcano.sh", "v1beta1", "Queue");

type Texts<'a> = &'a [(&'a str, &'a str)];

fn metadata(annotations: Texts<'_>) -> Value {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({"name": "x", "annotations": annotations})
}

/// A workload with annotations of its own, and a template with others.
fn workload(kind: (&str, &str, &str), own: Texts<'_>, of_pods: Texts<'_>, requests: Texts<'_>) -> Value {
    let template = pod(of_pods, requests);
    let (metadata, of_template) = (metadata(own), json!({"template": template}));
    match kind {
        CRON_JOB => json!({"metadata": metadata, "spec": {"jobTemplate": {"spec": of_template}}}),
        VOLCANO_JOB => {
            json!({"metadata": metadata, "spec": {"queue": "team-a", "tasks": [{"name": "worker", "template": template}]}})
        }
        _ => json!({"metadata": metadata, "spec": of_template}),
    }
}

fn advise(world: &World, kind: (&str, &str, &str), object: &Value) -> Vec<String> {
    changed(world, kind, object, None)
}

fn changed(world: &World, kind: (&str, &str, &str), object: &Value, old: Option<&Value>) -> Vec<String> {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let review = review(kind, operation, object, old.unwrap_or(&Value::Null));
    let verdict: Verdict = world.verdict(Endpoint::Advise, &review);
    assert_eq!(verdict.operations, 0);
    let warnings = verdict.allowed().to_vec();
    for warning in &warnings {
        // What the pods will be refused for is told in the words of the refusal.
        let is_short = warning.len() <= 256 || warning.contains("ask an administrator");
        assert!(is_short, "the API server would cut it: {warning}");
    }
    warnings
}

#[test]
fn an_annotation_on_a_workload_in_place_of_its_template() {
    for (kind, place) in [
        (DEPLOYMENT, "spec.template"),
        (STATEFUL_SET, "spec.template"),
        (DAEMON_SET, "spec.template"),
        (REPLICA_SET, "spec.template"),
        (JOB, "spec.template"),
        (CRON_JOB, "spec.jobTemplate.spec.template"),
        (VOLCANO_JOB, "spec.tasks[\"worker\"].template"),
    ] {
        for key in [CARD_NAME, QUEUE_NAME] {
            let object = workload(kind, &[(key, "team-a")], &[], &[("cpu", "1")]);
            assert_eq!(
                advise(&World::new(), kind, &object),
                [format!(
                    "metadata: the annotation {key} has no effect there: put it on the pods, under {place}.metadata.annotations"
                )],
                "{kind:?}"
            );
            // Who says it in both places has said it where it counts.
            let value = if key == CARD_NAME { A100 } else { "team-a" };
            let both = [(CARD_NAME, A100), (QUEUE_NAME, "team-a")];
            let object = workload(kind, &[(key, value)], &both, &[(GPU, "1")]);
            assert_eq!(advise(&World::new(), kind, &object), [""; 0], "{kind:?}");
        }
    }
}

#[test]
fn annotations_of_other_kinds_and_annotations_among_labels() {
    let world = World::new();
    for (kind, own, of_pods, expected) in [
        (
            DEPLOYMENT,
            CARD_REQUEST,
            "",
            "metadata: the annotation volcano.sh/card.request has no effect there: it is for the metadata of a Job or PodGroup",
        ),
        (
            CRON_JOB,
            CARD_REQUEST,
            "",
            "metadata: the annotation volcano.sh/card.request has no effect there: it is for the metadata of a Job or PodGroup",
        ),
        (
            JOB,
            CARD_QUOTA,
            "",
            "metadata: the annotation volcano.sh/card.quota has no effect there: it is for a Queue",
        ),
        (
            JOB,
            "",
            CARD_REQUEST,
            "spec.template: the annotation volcano.sh/card.request has no effect there: it is for the metadata of a Job or PodGroup",
        ),
    ] {
        let texts = |key: &'static str| (!key.is_empty()).then_some((key, "{}"));
        let (own, of_pods) = (Vec::from_iter(texts(own)), Vec::from_iter(texts(of_pods)));
        assert_eq!(advise(&world, kind, &workload(kind, &own, &of_pods, &[])), [expected]);
    }
    let asks = workload(JOB, &[(CARD_REQUEST, "{}")], &[], &[]);
    assert_eq!(advise(&world, JOB, &asks), [""; 0]);
    let mut labelled = workload(DEPLOYMENT, &[], &[], &[]);
    labelled["spec"]["template"]["metadata"]["labels"][QUEUE_NAME] = json!("team-a");
    assert_eq!(
        advise(&world, DEPLOYMENT, &labelled),
        ["spec.template: scheduling.volcano.sh/queue-name is an annotation, and has no effect as a label"]
    );
}

#[test]
fn misspelt_keys_with_what_was_meant() {
    let world = World::new();
    for key in ["volcano.sh/cardname", "card.volcano.sh/name"] {
        let said =
            |place: &str| format!("{place}: nobody reads the annotation {key:?}: did you mean volcano.sh/card.name?");
        for (kind, place) in [
            (DEPLOYMENT, "spec.template"),
            (JOB, "spec.template"),
            (CRON_JOB, "spec.jobTemplate.spec.template"),
        ] {
            let object = workload(kind, &[], &[(key, A100)], &[("cpu", "1")]);
            assert_eq!(advise(&world, kind, &object), [said(place)]);
            let object = workload(kind, &[(key, A100)], &[], &[("cpu", "1")]);
            assert_eq!(advise(&world, kind, &object), [said("metadata")]);
        }
        // A bare pod, or that of a workload, comes by the door for pods.
        let bare = pod(&[(key, A100)], &[(GPU, "1")]);
        assert_eq!(world.create_pod(&bare).allowed().last(), Some(&said("the pod")));
        let queued = pod(&[(key, A100), (QUEUE_NAME, "team-a")], &[(GPU, "1")]);
        assert_eq!(world.create_pod(&queued).allowed(), [said("the pod")]);
    }
    let queue = json!({"metadata": metadata(&[("volcano.sh/cardquota", "{}")]), "spec": {"capability": {"cpu": "1", "memory": "1"}}});
    assert_eq!(
        advise(&world, QUEUE, &queue),
        ["metadata: nobody reads the annotation \"volcano.sh/cardquota\": did you mean volcano.sh/card.quota?"]
    );
    // Nobody fills a terminal.
    let keys: Vec<_> = (0..20)
        .map(|index| format!("{}volcano.sh/cardname", "-".repeat(index)))
        .collect();
    let many: Vec<_> = keys.iter().map(|key| (key.as_str(), "x")).collect();
    assert_eq!(
        advise(&world, DEPLOYMENT, &workload(DEPLOYMENT, &[], &many, &[])).len(),
        4
    );
}

#[test]
fn misspelt_cards_with_what_was_meant() {
    let world = World::new();
    let object = workload(
        DEPLOYMENT,
        &[],
        &[(CARD_NAME, "A100"), (QUEUE_NAME, "team-a")],
        &[(GPU, "1")],
    );
    assert_eq!(
        advise(&world, DEPLOYMENT, &object),
        [
            "annotation volcano.sh/card.name: no node has the card \"A100\" at the moment, and the pod can't be let in before one has (did you mean \
          \"NVIDIA-A100\"?), see kubectl get cardtypes"
        ]
    );
    let bare = world.create_pod(&pod(&[(CARD_NAME, "NVIDIA-H100|nvidia_a100")], &[(GPU, "1")]));
    assert!(
        bare.allowed()[0].contains("one of the others (did you mean \"NVIDIA-A100\"?), see"),
        "{bare:?}"
    );
    let queue = json!({"metadata": metadata(&[(CARD_QUOTA, "{\"NVIDIA-A1OO\": 1}")])});
    let verdict = world.verdict(Endpoint::Validate, &review(QUEUE, "CREATE", &queue, &Value::Null));
    assert!(
        verdict.allowed()[0].contains("(did you mean \"NVIDIA-A100\"?)"),
        "{verdict:?}"
    );
}

#[test]
fn a_workload_that_asks_for_cards_and_names_none() {
    let world = World::new();
    let named = workload(DEPLOYMENT, &[], &[(QUEUE_NAME, "team-a")], &[(GPU, "1")]);
    assert_eq!(
        advise(&world, DEPLOYMENT, &named),
        [
            "spec.template requests nvidia.com/gpu and names no card: its pods get any that their queue has a quota for; say which \
          by the annotation volcano.sh/card.name"
        ]
    );
    let plain = workload(DEPLOYMENT, &[], &[], &[(GPU, "1")]);
    assert_eq!(
        advise(&world, DEPLOYMENT, &plain),
        [
            "nobody is charged for the pod's nvidia.com/gpu, since nothing names its queue: name it by the annotation \
          scheduling.volcano.sh/queue-name on the pod or its namespace"
        ]
    );
    let deny = World::with_settings(Settings {
        unnamed_cards: UnnamedCards::Deny,
        ..Settings::default()
    });
    let [refused] = advise(&deny, DEPLOYMENT, &named).try_into().unwrap();
    assert!(
        refused.starts_with("spec.template: the pod requests nvidia.com/gpu"),
        "{refused}"
    );
    // Where no card has a quota, none needs a name.
    for queue_plugin in [QueuePlugin::Capacity, QueuePlugin::Off] {
        let world = World::with_configuration(Configuration {
            queue_plugin,
            ..Configuration::default()
        });
        assert_eq!(advise(&world, DEPLOYMENT, &named), [""; 0]);
    }
}

#[test]
fn what_will_be_refused_or_wait_is_told_with_its_place() {
    let world = World::new();
    for (of_pods, requests, part) in [
        (
            &[(CARD_NAME, "A|A")][..],
            &[(GPU, "1")][..],
            "spec.template: annotation volcano.sh/card.name",
        ),
        (
            &[(QUEUE_NAME, "nobodys")],
            &[("cpu", "1")],
            "queue \"nobodys\" does not exist",
        ),
        (
            &[(QUEUE_NAME, "team-b")],
            &[("cpu", "1")],
            "spec.template: annotation scheduling.volcano.sh/queue-name",
        ),
        (&[(QUEUE_NAME, "No Queue")], &[("cpu", "1")], "spec.template: "),
        (
            &[],
            &[
                ("vke.volcengine.com/mgpu-core", "20"),
                ("vke.volcengine.com/mgpu-memory", "8Gi"),
            ],
            "which counts MiB: write 8192",
        ),
    ] {
        let said = advise(&world, DEPLOYMENT, &workload(DEPLOYMENT, &[], of_pods, requests));
        assert!(
            said.len() == 1 && said[0].contains(part),
            "{part:?} is missing: {said:?}"
        );
    }
}

#[test]
fn a_queue_without_capability_under_capacity_card() {
    let queue = |capability: Value| json!({"metadata": metadata(&[(CARD_QUOTA, "{\"NVIDIA-A100\": 1}")]), "spec": {"capability": capability}});
    let world = World::new();
    for (capability, missing) in [
        (Value::Null, Some("cpu or memory")),
        (json!({"cpu": "4"}), Some("memory")),
        (json!({"memory": "4Gi"}), Some("cpu")),
        (json!({"cpu": "4", "memory": "4Gi"}), None),
    ] {
        let said = advise(&world, QUEUE, &queue(capability));
        let expected = missing.map(|missing| {
            format!(
                "spec.capability names no {missing}: under capacity-card that is 0, and pods that request {missing} wait for \
                 ever; set it"
            )
        });
        assert_eq!(said, Vec::from_iter(expected));
    }
    for configuration in [
        Configuration {
            queue_plugin: QueuePlugin::Capacity,
            ..Configuration::default()
        },
        Configuration {
            capacity_card: CapacityCard {
                card_unlimited_cpu_memory: true,
                ..CapacityCard::default()
            },
            ..Configuration::default()
        },
    ] {
        assert_eq!(
            advise(&World::with_configuration(configuration), QUEUE, &queue(Value::Null)),
            [""; 0]
        );
    }
}

#[test]
fn a_queue_that_limits_the_memory_of_cards_and_not_whole_cards() {
    let queue = |capability: Value| json!({"metadata": metadata(&[]), "spec": {"capability": capability}});
    let world = World::with_configuration(Configuration {
        queue_plugin: QueuePlugin::Capacity,
        ..Configuration::default()
    });
    let said = advise(&world, QUEUE, &queue(json!({MGPU_MEMORY: "8k"})));
    assert_eq!(
        said,
        [
            "spec.capability limits vke.volcengine.com/mgpu-memory and not vke.volcengine.com/mgpu-core: who takes whole cards \
             (vke.volcengine.com/mgpu-core of 100) requests no memory, and is not limited; set vke.volcengine.com/mgpu-core too"
        ]
    );
    assert!(said[0].len() <= 256, "kubectl shows no more: {}", said[0].len());
    for right in [json!({MGPU_CORE: 200}), json!({MGPU_CORE: 200, MGPU_MEMORY: "8k"})] {
        assert_eq!(advise(&world, QUEUE, &queue(right)), [""; 0]);
    }
}

#[test]
fn nothing_is_told_twice_and_nothing_that_is_right() {
    let world = World::new();
    let wrong = workload(DEPLOYMENT, &[(CARD_NAME, A100)], &[], &[]);
    assert_eq!(changed(&world, DEPLOYMENT, &wrong, Some(&wrong)), [""; 0]);
    let right = workload(
        DEPLOYMENT,
        &[],
        &[(CARD_NAME, A100), (QUEUE_NAME, "team-a")],
        &[(GPU, "1")],
    );
    assert_eq!(advise(&world, DEPLOYMENT, &right), [""; 0]);
    assert_eq!(changed(&world, DEPLOYMENT, &wrong, Some(&right)).len(), 1);
    let others = workload(DEPLOYMENT, &[("volcano.sh/task-spec", "x")], &[], &[("rdma/hca", "1")]);
    assert_eq!(advise(&world, DEPLOYMENT, &others), [""; 0]);
}

#[test]
fn nobody_waits_for_advice_that_can_not_be_had() {
    let wrong = workload(DEPLOYMENT, &[(CARD_NAME, A100)], &[(QUEUE_NAME, "unseen")], &[]);
    let unread = World::of(
        Knowledge::default(),
        std::sync::Arc::default(),
        webhook::Options::default(),
    );
    assert_eq!(advise(&unread, DEPLOYMENT, &wrong), [""; 0]);
    assert_eq!(unread.asked(), [""; 0]);
    for nonsense in [
        json!({"spec": 3}),
        json!({"metadata": {"annotations": 4}}),
        json!({}),
        Value::Null,
    ] {
        for kind in [DEPLOYMENT, QUEUE, VOLCANO_JOB] {
            assert_eq!(
                advise(&World::new(), kind, &nonsense).len(),
                usize::from(kind == QUEUE && nonsense == json!({}))
            );
        }
    }
}

#[test]
fn thousands_of_misspelt_keys_cost_no_more_than_their_size() {
    // Each was compared with every known key, and the right one looked for among all of them.
    let took = |right: &str| {
        // Letters in capitals where the number has a bit: the same word to whoever compares.
        let misspelt = |index: u32| {
            let mut bits = (0..).map(|place| index >> place & 1 == 1);
            let mut in_capitals = |letter: char| letter.is_ascii_alphabetic() && bits.next() == Some(true);
            let capitals: Vec<_> = right.chars().map(&mut in_capitals).collect();
            let letters = right.chars().zip(capitals);
            let letters = letters.map(|(letter, is_capital)| {
                if is_capital {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                }
            });
            (letters.collect::<String>(), json!(A100))
        };
        let mut object = pod(&[], &[(GPU, "1")]);
        object["metadata"]["annotations"] = (0..8000).map(misspelt).collect::<serde_json::Map<_, _>>().into();
        let world = World::new();
        // The quickest is one that nothing else on the machine delays.
        let answers = (0..5).map(|_| {
            let began = Instant::now();
            world.create_pod(&object);
            began.elapsed()
        });
        answers.min().unwrap_or_default()
    };
    let (others, misspelt) = (took("example.org/of-others"), took(CARD_NAME));
    assert!(
        misspelt < others * 4,
        "{others:?} for keys of others, {misspelt:?} for those like Cardgate's"
    );
}

/// Each costs a question to the API server, after which the whole object is read anew.
#[test]
fn no_more_than_four_groups_of_one_object_are_asked_for() {
    let world = World::new();
    let tasks = (0..20).map(|index| {
        let template = pod(&[(GROUP_NAME, &format!("g-{}", index / 2))], &[]);
        json!({"name": format!("t-{index}"), "template": template})
    });
    let spec = json!({"queue": "team-a", "tasks": tasks.collect::<Vec<_>>()});
    advise(&world, VOLCANO_JOB, &json!({"metadata": {"name": "x"}, "spec": spec}));
    let asked = world.asked().into_iter().filter(|asked| asked.contains("g-"));
    assert_eq!(asked.count(), 4);
}

/// Its `PodGroup` asks for CPU and memory alone, in Job mode before there are pods.
#[test]
fn a_job_of_volcanos_that_claims_cards_is_told_to_say_so_in_advance() {
    let warned = |unlimited: bool, own: Texts<'_>, requests: Texts<'_>| {
        let world = World::with_configuration(Configuration {
            queue_plugin: QueuePlugin::CapacityCard,
            capacity_card: CapacityCard {
                card_unlimited_cpu_memory: unlimited,
                ..CapacityCard::default()
            },
            ..Configuration::default()
        });
        let mut job = workload(VOLCANO_JOB, own, &[], requests);
        job["spec"]["tasks"][0]["template"]["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        let warnings = advise(&world, VOLCANO_JOB, &job);
        warnings.iter().any(|warning| {
            warning.starts_with("spec.tasks[\"worker\"].template claims devices") && warning.contains(CARD_REQUEST)
        })
    };
    assert!(warned(true, &[], &[]));
    assert!(!warned(true, &[(CARD_REQUEST, r#"{"NVIDIA-A100": 1}"#)], &[]));
    assert!(!warned(true, &[], &[(GPU, "1")]), "its PodGroup asks for cards, too");
    assert!(!warned(false, &[], &[]), "it is limited in any case");
}
