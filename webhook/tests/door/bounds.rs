//! What a request may cost that is as long as requests can be: an answer that says what is too much, and is short.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::time::{Duration, Instant};

use crds::keys::{CARD_ASSIGNED, CARD_NAME, MGPU_INDEX_PREFIX, QUEUE_NAME};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{World, pod, pod_review, review};

const VOLCANO_JOB: (&str, &str, &str) = ("batch.volcano.sh", "v1alpha1", "Job");
/// How many tasks of a Job are looked at.
const TASKS: usize = 256;

/// How often what is compared is measured.
const RUNS: usize = 5;

/// What the API server passes on of all warnings of an answer.
const PASSED_ON: usize = 4096;

/// A pod that brings along so many results of an admission.
fn with_results(count: usize, queue: Option<&str>) -> Value {
    let mut pod = pod(&[], &[]);
    let annotations = &mut pod["metadata"]["annotations"];
    for index in 0..count {
        annotations[format!("{MGPU_INDEX_PREFIX}{index:04}")] = json!("");
    }
    if let Some(queue) = queue {
        annotations[QUEUE_NAME] = json!(queue);
    }
    pod
}

#[test]
fn a_pod_brings_along_no_more_results_than_can_be_taken_off() {
    for queue in [None, Some("team-a")] {
        let let_in = World::new().create_pod(&with_results(64, queue));
        let annotations = let_in.object()["metadata"]["annotations"].as_object().unwrap();
        assert!(!annotations.keys().any(|key| key.starts_with(MGPU_INDEX_PREFIX)));
        let refused = World::new().create_pod(&with_results(65, queue)).refused();
        for part in [
            "403 PodBoundExceeded: annotation vke.volcengine.com/gpu-index-container-0000: ",
            "the pod has 65 results of an admission, and 64 are allowed",
            "create it without them",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    let long = pod_review(&with_results(60_000, Some("team-a"))).to_string();
    let reply = World::new().answer(Endpoint::Mutate, long.as_bytes());
    assert!(reply.body.len() < 4096, "{} bytes", reply.body.len());
}

#[test]
fn an_answer_has_as_many_warnings_as_are_passed_on_and_says_how_many_more_there_are() {
    for (count, shown, last) in [
        (15, 15, "was removed"),
        (16, 16, "was removed"),
        (17, 16, "2 more like these are not shown: mend these first"),
        (64, 16, "49 more like these are not shown: mend these first"),
    ] {
        let verdict = World::new().create_pod(&with_results(count, None));
        let warnings = verdict.allowed();
        assert_eq!(warnings.len(), shown, "{warnings:?}");
        assert!(warnings.last().unwrap().contains(last), "{warnings:?}");
        assert!(warnings.concat().len() <= PASSED_ON);
    }
}

#[test]
fn a_binding_is_refused_in_few_words_however_much_it_carries() {
    let index = |index| (format!("{MGPU_INDEX_PREFIX}{index}{}", "x".repeat(1000)), json!("0"));
    let annotations: serde_json::Map<_, _> = (0..1000)
        .map(index)
        .chain([(CARD_ASSIGNED.to_owned(), json!("x"))])
        .collect();
    let binding = json!({"metadata": {"name": "worker", "annotations": annotations}});
    let mut review = review(("", "v1", "Binding"), "CREATE", &binding, &Value::Null);
    review["request"]["subResource"] = json!("binding");
    let refused = World::new().verdict(Endpoint::Mutate, &review).refused();
    assert!(refused.contains("x..., ..., which would replace"), "{refused}");
}

/// A Job of so many tasks, each of which names the cards that are its own.
fn job_of(tasks: usize, cards: impl Fn(usize) -> String) -> Value {
    let task = |index| {
        let template = pod(&[(CARD_NAME, &cards(index))], &[("nvidia.com/gpu", "1")]);
        json!({"name": format!("task-{index}"), "template": template})
    };
    let tasks: Vec<_> = (0..tasks).map(task).collect();
    json!({"metadata": {"name": "x"}, "spec": {"queue": "team-a", "tasks": tasks}})
}

#[test]
fn a_job_of_more_tasks_than_a_group_may_name_is_refused_with_their_number() {
    let world = World::new();
    let job = |tasks| job_of(tasks, |_| "NVIDIA-A100".to_owned());
    let judge = |endpoint, object: &Value, old: Option<&Value>| {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        world.verdict(
            endpoint,
            &review(VOLCANO_JOB, operation, object, old.unwrap_or(&Value::Null)),
        )
    };
    let says = "spec.tasks: it has 257 tasks, and 256 are allowed: make one task";
    let (most, beyond) = (job(TASKS), job(TASKS + 1));
    assert_eq!(judge(Endpoint::Validate, &most, None).allowed(), [""; 0]);
    let refused = judge(Endpoint::Validate, &beyond, None).refused();
    assert!(refused.starts_with(&format!("403 TasksExceeded: {says}")), "{refused}");
    // It was there before.
    let kept = judge(Endpoint::Validate, &beyond, Some(&beyond));
    assert!(kept.allowed()[0].contains(says), "{:?}", kept.warnings);
    assert_eq!(judge(Endpoint::Advise, &most, None).allowed(), [""; 0]);
    let advised = judge(Endpoint::Advise, &beyond, None);
    assert!(advised.allowed()[0].contains(says), "{:?}", advised.warnings);
}

fn took(world: &World, endpoint: Endpoint, job: &Value) -> Duration {
    took_review(world, endpoint, &review(VOLCANO_JOB, "CREATE", job, &Value::Null))
}

/// How long an answer takes that nothing else on the machine delays: the quickest of some.
fn took_review(world: &World, endpoint: Endpoint, review: &Value) -> Duration {
    let review = review.to_string();
    let answers = (0..RUNS).map(|_| {
        let began = Instant::now();
        assert_eq!(world.answer(endpoint, review.as_bytes()).status, 200);
        began.elapsed()
    });
    answers.min().unwrap()
}

/// So many names of cards that no node has, with numbers from this one on.
fn unknown(from: usize) -> String {
    let names: Vec<_> = (from..from + 32).map(|number| format!("card-{number}")).collect();
    names.join("|")
}

#[test]
fn what_tasks_have_to_be_told_costs_no_more_than_its_size() {
    let world = World::new();
    for endpoint in [Endpoint::Validate, Endpoint::Advise] {
        // Each warning was compared with every other.
        let same = took(&world, endpoint, &job_of(TASKS, |_| unknown(0)));
        let different = took(&world, endpoint, &job_of(TASKS, |task| unknown(100 * task)));
        assert!(
            different < 4 * same,
            "{different:?}, and {same:?} where all say the same"
        );
    }
}

/// A world where many kinds of cards are.
fn of_many_cards() -> World {
    let world = World::new();
    for number in 0..500 {
        let name = format!("NVIDIA-A{number}-PCIE-80GB");
        world.knowledge.card_types.set(name.into(), "nvidia.com/gpu".into());
    }
    world
}

#[test]
fn few_cards_of_an_object_are_compared_with_those_that_there_are() {
    let (few, many) = (World::new(), of_many_cards());
    let job = job_of(TASKS, |task| unknown(100 * task));
    let slipped = job_of(2, |task| ["NVIDIA-L40", "NVIDIA-A1O0"][task].to_owned());
    for endpoint in [Endpoint::Validate, Endpoint::Advise] {
        let (few, many) = (took(&few, endpoint, &job), took(&many, endpoint, &job));
        assert!(many < 4 * few, "{many:?}, and {few:?} where there are four");
        let told = World::new().verdict(endpoint, &review(VOLCANO_JOB, "CREATE", &slipped, &Value::Null));
        assert!(
            told.allowed()[1].contains("did you mean \"NVIDIA-A100\"?"),
            "{:?}",
            told.warnings
        );
    }
}

#[test]
fn few_claims_of_an_object_are_looked_at() {
    let world = World::new();
    let mut job = job_of(12, |_| "NVIDIA-A100".to_owned());
    for (index, task) in job["spec"]["tasks"].as_array_mut().unwrap().iter_mut().enumerate() {
        let claim = json!({"name": "cards", "resourceClaimTemplateName": format!("template-{index}")});
        task["template"]["spec"]["resourceClaims"] = json!([claim]);
    }
    world
        .verdict(Endpoint::Advise, &review(VOLCANO_JOB, "CREATE", &job, &Value::Null))
        .allowed();
    let asked = world.asked().iter().filter(|asked| asked.contains("template-")).count();
    assert_eq!(asked, 4, "{:?}", world.asked());
}

#[test]
fn made_up_resources_are_counted_before_they_are_compared_with_cards() {
    // What is 0 is counted as well: it is nothing to be charged for, and is compared.
    let made_up = |count: usize, amount: &str| {
        let names: Vec<_> = (0..count).map(|number| format!("example.com/r{number}")).collect();
        pod(
            &[],
            &names.iter().map(|name| (name.as_str(), amount)).collect::<Vec<_>>(),
        )
    };
    for amount in ["0", "1"] {
        assert_eq!(World::new().create_pod(&made_up(64, amount)).allowed(), [""; 0]);
        let refused = World::new().create_pod(&made_up(65, amount)).refused();
        assert!(
            refused.starts_with(
                "403 RequestInvalid: the pod has 65 requested resources, and 64 are allowed: request fewer"
            ),
            "{refused}"
        );
    }
    let created = pod_review(&made_up(20_000, "0"));
    let [few, many] = [World::new(), of_many_cards()].map(|world| took_review(&world, Endpoint::Mutate, &created));
    assert!(many < 4 * few, "{many:?}, and {few:?} where there are four");
}
