//! Objects that the files contain and the cluster already has.

use super::*;

/// Scripts are told of a pod of the files, whether or not it exists already.
#[tokio::test]
async fn a_pod_of_the_files_that_is_there_and_waits_is_told_as_waiting() {
    for (quota, expected) in [(0, NEVER), (1, 0)] {
        let mut pod = template("a", 1);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "p".into();
        let mut there = pod.clone();
        there["metadata"]["namespace"] = "team".into();
        there["metadata"]["uid"] = "u".into();
        there["spec"]["schedulingGates"] = json!([{ "name": "card.volcano.sh/quota" }]);
        let mut world = World::there(vec![ready_node("n1", 4), queue("a", quota), Manifest::in_a_file(there)]);
        world.add(vec![Manifest::in_a_file(pod)], "team");
        let told = report(world).await;
        assert_eq!(code(&told), expected, "{told:#?}");
    }
}

/// Returns a Job for one card, a waiting pod of it as a cluster has it, and the Job as the cluster has it.
fn job_with_pod() -> (Value, Value, Value) {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "train" },
        "spec": { "parallelism": 1, "completions": 1, "template": template("a", 1) },
    });
    let mut there = job.clone();
    there["metadata"]["namespace"] = "team".into();
    there["metadata"]["uid"] = "j".into();
    let mut pod = template("a", 1);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    for (key, value) in [("name", "train-x7f2k"), ("namespace", "team"), ("uid", "u")] {
        pod["metadata"][key] = value.into();
    }
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": true }]);
    pod["spec"]["schedulingGates"] = json!([{ "name": "card.volcano.sh/quota" }]);
    (job, pod, there)
}

/// Jobs are read from the cluster, unlike other objects that make pods.
#[tokio::test]
async fn the_pods_of_a_job_of_the_files_that_is_there_are_told_as_waiting() {
    for (quota, expected) in [(0, NEVER), (1, 0)] {
        let (job, pod, there) = job_with_pod();
        let there = [there, pod].map(Manifest::in_a_file);
        let mut world = World::there(
            [ready_node("n1", 4), queue("a", quota)]
                .into_iter()
                .chain(there)
                .collect(),
        );
        world.add(vec![Manifest::in_a_file(job)], "team");
        let told = report(world).await;
        assert_eq!(code(&told), expected, "{told:#?}");
    }
}

/// The pods of a deleted Job exist until they have ended.
#[tokio::test]
async fn a_job_of_the_files_is_not_taken_for_one_that_is_gone() {
    let (job, pod, _) = job_with_pod();
    let there = vec![ready_node("n1", 4), queue("a", 4), Manifest::in_a_file(pod)];
    let mut world = World::there(there);
    world.add(vec![Manifest::in_a_file(job)], "team");
    let told = report(world).await;
    assert_eq!((told.admitted.len(), code(&told)), (2, 0), "{told:#?}");
}

/// The Job would have been taken for a running one. Its cards would have been reserved for it, and scripts told that nothing
/// waits.
#[tokio::test]
async fn a_job_of_the_files_that_is_there_and_held_is_told_as_waiting() {
    for (quota, expected) in [(2, NEVER), (4, 0)] {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "train", "creationTimestamp": null, "annotations": {
                "volcano.sh/card.request": json!({ CARD: 4 }).to_string(), "scheduling.volcano.sh/queue-name": "a",
            } },
            "spec": { "parallelism": 4, "completions": 4, "template": template("a", 1) },
        });
        let mut there = job.clone();
        there["metadata"]["namespace"] = "team".into();
        there["metadata"]["uid"] = "u".into();
        there["metadata"]["annotations"]["card.volcano.sh/held"] = "true".into();
        there["spec"]["suspend"] = true.into();
        let mut world = World::there(vec![ready_node("n1", 8), queue("a", quota), Manifest::in_a_file(there)]);
        world.add(vec![Manifest::in_a_file(job)], "team");
        let told = report(world).await;
        assert_eq!(code(&told), expected, "{told:#?}");
    }
}

/// A change that the door would refuse is reported, and the object is simulated as it is in the cluster.
#[tokio::test]
async fn a_queue_that_the_door_lets_nobody_change_so_stays_as_it_is() {
    let changed = |quota: &str| {
        let mut changed = queue("a", 1);
        changed.object["metadata"]["annotations"]["volcano.sh/card.quota"] = quota.into();
        changed
    };
    let mut pod = template("a", 2);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "p".into();
    for (quota, refused, admitted) in [(r#"{"NVIDIA-A100": 2}"#, 0, 1), (r#"{"NVIDIA-A100": -2}"#, 1, 0)] {
        let mut world = World::there(vec![ready_node("n1", 4), queue("a", 1)]);
        world.add(vec![changed(quota), Manifest::in_a_file(pod.clone())], "team");
        let told = report(world).await;
        assert_eq!(
            (told.refused.len(), told.admitted.len()),
            (refused, admitted),
            "{told:#?}"
        );
        if refused > 0 {
            assert_eq!(code(&told), REFUSED);
        }
    }
}
