//! Pods, Deployments and Jobs.

use serde_json::{Value, json};

use super::super::chance::{number, percent};
use super::template::{Maker, template};
use crate::Dice;
use crate::objects::{DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, PODS, Resource};

/// Objects that are created together.
pub type Objects = Vec<(&'static Resource, Value)>;

/// Returns a name that no other object has.
pub fn name(make: &Maker<'_>, of: &str) -> String {
    format!("{of}-{}", make.objects.version())
}

/// Draws a pod without an owner.
pub fn pod(dice: &mut Dice, make: &Maker<'_>) -> Objects {
    let name = name(make, "pod");
    let count = number(dice, 1, 4);
    let template = template(dice, make);
    let pod = |index: i64| {
        let mut pod = template.clone();
        pod["metadata"]["name"] = format!("{name}-{index}").into();
        pod["metadata"]["namespace"] = make.namespace.into();
        (&PODS, pod)
    };
    (0..count).map(pod).collect()
}

/// Draws a Deployment: the same pod several times, replaced whenever one is lost.
pub fn deployment(dice: &mut Dice, make: &Maker<'_>) -> Objects {
    let (name, replicas) = (name(make, "web"), number(dice, 1, 5));
    let mut template = template(dice, make);
    template["metadata"]["labels"]["app"] = name.as_str().into();
    let mut objects = vec![(&DEPLOYMENTS, deployment_of(make, &name, replicas, &template))];
    if percent(dice, 15) {
        let budget = json!({
            "metadata": {"namespace": make.namespace, "name": name},
            "spec": {"minAvailable": number(dice, 0, replicas + 1), "selector": {"matchLabels": {"app": name}}},
        });
        objects.push((&POD_DISRUPTION_BUDGETS, budget));
    }
    objects
}

/// Returns a Deployment of this template.
pub fn deployment_of(make: &Maker<'_>, name: &str, replicas: i64, template: &Value) -> Value {
    json!({
        "metadata": {"namespace": make.namespace, "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    })
}

/// Draws a Job whose pods are admitted one by one.
pub fn job(dice: &mut Dice, make: &Maker<'_>) -> Objects {
    let name = name(make, "job");
    let mut template = template(dice, make);
    template["metadata"]["labels"]["job-name"] = name.as_str().into();
    vec![(&JOBS, job_of(dice, make, &name, template))]
}

/// Returns a Job of this template.
pub fn job_of(dice: &mut Dice, make: &Maker<'_>, name: &str, mut template: Value) -> Value {
    let count = number(dice, 1, 5);
    template["spec"]["restartPolicy"] = "Never".into();
    json!({
        "metadata": {"namespace": make.namespace, "name": name, "annotations": {}},
        "spec": {
            "parallelism": count, "completions": count, "backoffLimit": 6, "suspend": percent(dice, 6),
            "template": template,
        },
    })
}

/// Draws a Job that its queue lets in as a whole or not at all.
pub fn held_job(dice: &mut Dice, make: &Maker<'_>) -> Objects {
    // Most templates name no card.
    let asked = (0..12).find_map(|_| {
        let template = template(dice, make);
        if template["spec"]["resourceClaims"].is_array() {
            return None;
        }
        let card = template["metadata"]["annotations"]["volcano.sh/card.name"]
            .as_str()?
            .to_owned();
        Some((template, card))
    });
    let Some((mut template, card)) = asked else {
        return job(dice, make);
    };
    let name = name(make, "held");
    template["metadata"]["labels"]["job-name"] = name.as_str().into();
    let mut job = job_of(dice, make, &name, template);
    let per_pod: i64 = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(resource, _)| resource.contains('/') && !resource.ends_with("mgpu-memory"))
        .filter_map(|(_, count)| count.as_str()?.parse::<i64>().ok())
        .sum();
    let count = per_pod * job["spec"]["parallelism"].as_i64().unwrap_or(1);
    job["metadata"]["annotations"]["volcano.sh/card.request"] = json!({ card: count }).to_string().into();
    vec![(&JOBS, job)]
}
