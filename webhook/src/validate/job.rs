//! The rules for Jobs, Volcano's and Kubernetes' own: the card request, and the pod templates, by the rules for pods.
//!
//! A refused pod shows only in the events of the object that creates it. So what is certain to be refused is refused here,
//! and the warnings that nobody would see on the pods are given here. A fault that another webhook may still put right on
//! the pod (a missing request) is a warning too.

use std::fmt;

use crds::bounds::{self, BoundError, excerpt};
use crds::card::{CardAlternatives, SEPARATOR};
use crds::card_counts::CardRequest;
use crds::keys::CARD_NAME;
use crds::lean::{Metadata, Text};
use crds::managed::is_concerned;
use crds::pod::Pod;
use crds::pod_request::pod_request;
use crds::resources::ResourceVector;
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::card::{Cards, card_resources};
use super::pod::SoundPod;
use super::pod_group::check_card_request;
use super::scalar::Scalar;
use super::{Findings, unreadable};
use crate::denial::Denial;
use crate::view::View;
use crate::warning::Warning;

/// An object that makes pods.
#[derive(serde::Deserialize)]
pub(super) struct Job<'a> {
    #[serde(borrow, default)]
    pub metadata: Metadata<Text<'a>>,
    #[serde(default)]
    pub spec: Option<Spec<'a>>,
}

/// The part that is read of an object that makes pods. `batch/v1` and `apps/v1` have one template,
/// `batch.volcano.sh/v1alpha1` has one for each task, and a `CronJob` has the one of its Jobs.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow, default)]
    template: Option<Pod<Scalar<'a>>>,
    #[serde(borrow, default)]
    tasks: Option<Tasks<'a>>,
    #[serde(default)]
    pub job_template: Option<Box<Job<'a>>>,
}

impl<'a> Spec<'a> {
    /// Returns the pod templates, and the place of each.
    pub(super) fn templates(&self) -> impl Iterator<Item = (String, &Pod<Scalar<'a>>)> {
        let own = self
            .template
            .iter()
            .map(|template| ("spec.template".to_owned(), template));
        let tasks = self.tasks.iter().flat_map(|tasks| &tasks.first);
        let tasks = tasks.enumerate().filter_map(|(index, task)| {
            let place = match &task.name {
                Some(name) => format!("spec.tasks[{:?}].template", excerpt(name.as_ref())),
                None => format!("spec.tasks[{index}].template"),
            };
            Some((place, task.template.as_ref()?))
        });
        own.chain(tasks)
    }

    /// Checks that there are no more tasks than are looked at.
    pub(super) fn check_tasks(&self) -> Result<(), BoundError> {
        bounds::tasks(
            self.tasks.as_ref().map_or(0, |tasks| tasks.count),
            "make one task with more replicas of those that differ in nothing, or several Jobs",
        )
    }
}

/// The tasks of a Volcano Job. Volcano sets no bound on their number, so only as many as a group may name are kept: in
/// memory the others would take many times what they take in the request.
struct Tasks<'a> {
    first: Vec<Task<'a>>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Tasks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TasksVisitor;
        impl<'de> Visitor<'de> for TasksVisitor {
            type Value = Tasks<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tasks")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tasks: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < bounds::TASKS {
                    match tasks.next_element()? {
                        Some(task) => first.push(task),
                        None => break,
                    }
                }
                let mut count = first.len();
                while tasks.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Tasks { first, count })
            }
        }
        deserializer.deserialize_seq(TasksVisitor)
    }
}

#[derive(serde::Deserialize)]
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
    let asked = check_card_request(&job.metadata.annotations, &mut findings);
    let spec = job.spec.unwrap_or_default();
    findings.check(spec.check_tasks().map_err(Denial::Tasks));
    for (place, template) in spec.templates() {
        // Volcano makes a group of all pods of its Job.
        let is_held = spec.template.is_none() || is_concerned(template);
        check_template(&place, template, is_held, true, view, &mut findings);
    }
    if let (Some(template), Some(asked)) = (&spec.template, asked)
        && asked.iter().len() > 0
        && findings.denials.is_empty()
    {
        findings.check(check_covers(&asked, template, view));
    }
    findings
}

/// Checks that what a Job asks for in advance covers one of its pods. Otherwise the Job is let into its queue for less, or
/// for something else, and what its pods then wait for was never looked at.
fn check_covers(asked: &CardRequest, template: &Pod<Scalar<'_>>, view: View<'_>) -> Result<(), Denial> {
    // What is wrong with the template is reported where the template is judged.
    let Ok(request) = pod_request(&template.spec) else {
        return Ok(());
    };
    let text = template.metadata.annotations.get(CARD_NAME);
    let named = text.and_then(|text| CardAlternatives::parse(text).ok());
    let cards = text.and_then(|text| Cards::read(text, view).ok());
    let resource = match &cards {
        Some(cards) => cards.resource.as_deref(),
        None => card_resources(&request, view).into_iter().next(),
    };
    // For a card that no node has, it is not known which resource will be requested.
    let Some(resource) = resource.filter(|resource| request.get(resource) > 0) else {
        return Ok(());
    };
    let is_for_them = |(names, _): &(&str, i64)| {
        let is_named = |name: &str| named.as_ref().is_none_or(|named| named.iter().any(|card| card == name));
        names.split(SEPARATOR).any(is_named)
    };
    let request_text = || {
        let entries = asked.iter().map(|(names, count)| format!("{names} x{count}"));
        excerpt(&entries.collect::<Vec<_>>().join(", ")).into_owned()
    };
    let of_them: Vec<_> = asked.iter().filter(is_for_them).map(|(_, count)| count).collect();
    if let (Some(card_name), true) = (text, of_them.is_empty()) {
        let (request, card_name) = (request_text(), card_name.to_owned());
        return Err(Denial::RequestOfOtherCards { request, card_name });
    }
    let sum = of_them.into_iter().fold(0, i64::saturating_add);
    let needed = request.get(resource);
    if needed <= sum {
        return Ok(());
    }
    Err(Denial::RequestBelowPod {
        request: request_text(),
        asked: sum,
        needed,
        resource: resource.to_owned(),
    })
}

/// Checks a template, and returns what it requests if that can be read. `is_held` says whether Cardgate certainly holds its
/// pods; then a fault in them is a fault of the Job. `is_charged` says whether any queue is charged for cards that the
/// template does not name.
pub(super) fn check_template<'t>(
    place: &str,
    template: &'t Pod<Scalar<'_>>,
    is_held: bool,
    is_charged: bool,
    view: View<'_>,
    findings: &mut Findings,
) -> Option<ResourceVector<'t>> {
    let warning = |denial| Warning::Template {
        place: place.to_owned(),
        denial,
    };
    let sound = match SoundPod::read(template, view, &mut findings.warnings) {
        Ok(sound) => sound,
        Err(denial) if is_held => {
            findings.denials.push(Denial::Template {
                place: place.to_owned(),
                denial: Box::new(denial),
            });
            return None;
        }
        Err(denial) => {
            findings.warnings.push(warning(denial));
            return None;
        }
    };
    let request = pod_request(&template.spec).map_err(Denial::from);
    let checked = request.and_then(|request| {
        sound.check_request(&request, is_charged, view, &mut findings.warnings)?;
        Ok(request)
    });
    checked.map_err(|denial| findings.warnings.push(warning(denial))).ok()
}
