//! The rules for Jobs, Volcano's and Kubernetes' own: the card request, and the card names of the pod templates.
//!
//! A pod that is refused shows only in the events of whatever creates it. So what is certain to be refused is refused here,
//! and the warnings that nobody would see on the pods are given here. What another webhook may still put right on the pod
//! (a missing request) is a warning too.

use crds::keys::CARD_NAME;
use crds::lean::{Metadata, Text};
use crds::mgpu::MgpuRequest;
use crds::pod::Pod;
use crds::pod_request::pod_request;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::card::{Cards, check_unnamed};
use super::pod_group::check_card_request;
use super::scalar::Scalar;
use super::{Findings, unreadable};
use crate::denial::Denial;
use crate::view::View;
use crate::warning::Warning;

#[derive(Deserialize)]
struct Job<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
    #[serde(default)]
    spec: Option<Spec<'a>>,
}

/// What is read of either kind of Job: `batch/v1` has one template, `batch.volcano.sh/v1alpha1` one for each task.
#[derive(Default, Deserialize)]
struct Spec<'a> {
    #[serde(borrow, default)]
    template: Option<Pod<Scalar<'a>>>,
    #[serde(default)]
    tasks: Option<Vec<Task<'a>>>,
}

#[derive(Deserialize)]
struct Task<'a> {
    #[serde(borrow, default)]
    name: Option<Scalar<'a>>,
    #[serde(default)]
    template: Option<Pod<Scalar<'a>>>,
}

/// Judges a Job by itself.
pub fn rules(object: &RawValue, view: View<'_>) -> Findings {
    let job: Job<'_> = match serde_json::from_str(object.get()) {
        Ok(job) => job,
        Err(error) => return unreadable("Job", &error),
    };
    let mut findings = Findings::default();
    check_card_request(&job.metadata.annotations, &mut findings);
    let spec = job.spec.unwrap_or_default();
    if let Some(template) = &spec.template {
        check_template("spec.template", template, view, &mut findings);
    }
    for (index, task) in spec.tasks.iter().flatten().enumerate() {
        if let Some(template) = &task.template {
            let place = match &task.name {
                Some(name) => format!("spec.tasks[{:?}].template", name.as_ref()),
                None => format!("spec.tasks[{index}].template"),
            };
            check_template(&place, template, view, &mut findings);
        }
    }
    findings
}

fn check_template(place: &str, template: &Pod<Scalar<'_>>, view: View<'_>, findings: &mut Findings) {
    if let Err(error) = MgpuRequest::read(template) {
        findings.denials.push(Denial::Template {
            place: place.to_owned(),
            denial: Box::new(error.into()),
        });
        return;
    }
    // Quantities that can't be read are refused by the API server, in its own words.
    let request = pod_request(&template.spec).ok();
    let mut warnings = Vec::new();
    let checked = match template.metadata.annotations.get(CARD_NAME) {
        Some(text) => match Cards::read(text, view) {
            Ok(cards) => request.map(|request| cards.check_request(&request, view, &mut warnings)),
            Err(denial) => {
                findings.denials.push(Denial::Template {
                    place: place.to_owned(),
                    denial: Box::new(denial),
                });
                return;
            }
        },
        None => request.map(|request| check_unnamed(&request, true, view, &mut warnings)),
    };
    findings.warnings.append(&mut warnings);
    if let Some(Err(denial)) = checked {
        findings.warnings.push(Warning::Template {
            place: place.to_owned(),
            denial,
        });
    }
}
