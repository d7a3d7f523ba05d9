//! Kubernetes' Jobs. Their pods carry a finalizer until they are counted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Made, all, next_name, owned, owner, pod, pods_of};
use crate::objects::{JOBS, Key, Objects, PODS};
use crate::world::pods;
use crate::world::scheduler::set_condition;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Counts the ended pods, and makes as many as the Job says.
pub fn run(objects: &mut Objects, made: &mut Made) {
    let mut owned = owned(objects);
    for (key, job) in all(objects, &JOBS) {
        let pods = pods_of(&mut owned, &job);
        one(objects, made, &key, &job, pods);
    }
    // The remaining pods belong to other owners, or to Jobs that are gone.
    for (key, pod) in owned.into_values().flatten() {
        if pods::has_finalizer(&pod, TRACKING) {
            pods::release(objects, "job-controller", &key, TRACKING);
        }
    }
}

fn one(objects: &mut Objects, made: &mut Made, key: &Key, job: &Value, pods: Vec<(Key, Arc<Value>)>) {
    let who = Arc::from("job-controller");
    let count = |field: &str| job["status"][field].as_u64().unwrap_or(0);
    let (mut succeeded, mut failed) = (count("succeeded"), count("failed"));
    let mut active = Vec::new();
    for (key, pod) in pods {
        let went_well = pod["status"]["phase"] == "Succeeded";
        if pods::is_active(&pod) {
            active.push(key);
        } else if pods::has_finalizer(&pod, TRACKING) {
            succeeded += u64::from(went_well);
            failed += u64::from(!went_well);
            pods::release(objects, "job-controller", &key, TRACKING);
        }
    }
    let spec = |field: &str, default: u64| job["spec"][field].as_u64().unwrap_or(default);
    let is_complete = succeeded >= spec("completions", 1);
    let has_failed = failed > spec("backoffLimit", 6);
    let is_suspended = job["spec"]["suspend"] == true;
    let wanted = if is_complete || has_failed || is_suspended {
        0
    } else {
        spec("parallelism", 1).min(spec("completions", 1) - succeeded)
    };
    for _ in active.len() as u64..wanted {
        let name = next_name(made, key);
        let mut pod = pod(&job["spec"]["template"], &name, owner(&JOBS, job));
        pod["metadata"]["finalizers"] = json!([TRACKING]);
        if objects.create(&who, &PODS, pod).is_err() {
            break;
        }
        active.push(name);
    }
    let surplus = active.len().saturating_sub(usize::try_from(wanted).unwrap_or(0));
    for key in active.drain(..surplus) {
        let _ = objects.delete(&who, &PODS, &key);
    }
    let _ = objects.change(&who, &JOBS, key, |job| {
        job["status"]["active"] = active.len().into();
        job["status"]["succeeded"] = succeeded.into();
        job["status"]["failed"] = failed.into();
        let suspended = if is_suspended { "True" } else { "False" };
        set_condition(job, json!({"type": "Suspended", "status": suspended}));
        if is_complete || has_failed {
            let kind = if is_complete { "Complete" } else { "Failed" };
            set_condition(job, json!({"type": kind, "status": "True"}));
        }
        Ok(())
    });
}
