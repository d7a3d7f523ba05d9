//! Advice at the creation of queues and of objects that make pods. It is about mistakes that are no reason to refuse, and
//! that the author would learn of late or never (docs/rules.md, **Mistakes are told where they are made**).

use crds::bounds::ANNOTATIONS;
use crds::configuration::{QueuePlugin, UnnamedCards, UnqueuedCards};
use crds::keys::{
    CARD_DESERVED, CARD_GUARANTEE, CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, MGPU_CORE, MGPU_MEMORY, QUEUE_NAME,
    QUEUE_NAMESPACES,
};
use crds::lean::{Metadata, TextMap};
use crds::pod::Pod;
use crds::queue_terms::Item;
use crds::resources::{CPU, MEMORY};
use crds::spelling::{may_be_misspelt, meant_key};
use serde_json::value::RawValue;

use super::Findings;
use super::card::card_resources;
use super::claims;
use super::job::{Job, check_template};
use super::queue::Queue;
use super::scalar::Scalar;
use crate::queue_resolution::{Naming, check_access, find};
use crate::queue_source::QueueSource;
use crate::review::RawRequest;
use crate::stop::Stop;
use crate::view::View;
use crate::warning::Warning;

/// How many misspelt keys of one object are reported.
const MOST_KEYS: usize = 4;
/// How many keys of one map are compared with the known keys. Nobody writes more keys that look like one of Cardgate's.
const MOST_COMPARED: usize = 64;
/// The same for an object and all its templates together.
const MOST_COMPARED_IN_ALL: usize = 1024;
/// After templates with this many claims, the claims of further templates are not looked at. Those of one template may cost
/// as much as those of a pod.
const MOST_CLAIMS: usize = 4;
/// How many groups named by templates are looked up. After each question to the API server the object is read again.
const MOST_GROUPS: usize = 4;

/// Looks at an object that is created or changed. What the object said before, and was reported then, is not reported again.
pub fn judge(request: &RawRequest<'_>, view: View<'_>) -> Result<Vec<Warning>, Stop> {
    if !view.is_complete() {
        return Err(Stop::NotReady);
    }
    let kind = request.kind.as_pair().1;
    let mut stopped = None;
    let warnings = super::judge(request, |object| {
        let looked = match kind {
            "Queue" => Ok(look_at_queue(object, view)),
            _ => look_at_workload(kind, object, request.namespace(), view),
        };
        looked.unwrap_or_else(|stop| {
            stopped.get_or_insert(stop);
            Findings::default()
        })
    })?;
    stopped.map_or(Ok(warnings), Err)
}

fn look_at_queue(object: &RawValue, view: View<'_>) -> Findings {
    let mut findings = Findings::default();
    let Ok(queue) = serde_json::from_str::<Queue<'_>>(object.get()) else {
        return findings;
    };
    check_spelling("metadata", &queue.metadata.annotations, &mut findings.warnings);
    let (configuration, terms) = (view.configuration(), queue.terms());
    let named = |name: &str| {
        let mut items = terms.capability.keys();
        items.any(|item| matches!(item, Item::Resource(resource) if **resource == *name))
    };
    // Only under `capacity` are shares of cards limited as resources.
    if configuration.queue_plugin == QueuePlugin::Capacity && named(MGPU_MEMORY) && !named(MGPU_CORE) {
        findings.warnings.push(Warning::WholeCardsUnlimited);
    }
    // If CPU and memory are not limited for pods with cards, a queue for cards alone needs no limit of either.
    let for_cards = configuration.capacity_card.card_unlimited_cpu_memory
        && terms.capability.keys().any(|item| matches!(item, Item::Card(_)));
    if configuration.queue_plugin == QueuePlugin::CapacityCard && !for_cards {
        let missing = match (named(CPU), named(MEMORY)) {
            (false, false) => Some("cpu or memory"),
            (false, true) => Some(CPU),
            (true, false) => Some(MEMORY),
            (true, true) => None,
        };
        findings
            .warnings
            .extend(missing.map(|missing| Warning::NoCapability { missing }));
    }
    findings
}

fn look_at_workload(kind: &str, object: &RawValue, namespace: &str, view: View<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let Ok(owner) = serde_json::from_str::<Job<'_>>(object.get()) else {
        return Ok(findings);
    };
    let spec = owner.spec.unwrap_or_default();
    let jobs = spec.job_template.as_deref();
    let in_jobs = jobs.and_then(|jobs| jobs.spec.as_ref());
    let templates: Vec<_> = match in_jobs {
        Some(jobs) => jobs
            .templates()
            .map(|(place, template)| (format!("spec.jobTemplate.{place}"), template))
            .collect(),
        None => spec.templates().collect(),
    };
    let pods = Pods {
        place: templates.first().map_or("spec.template", |(place, _)| place),
        annotations: templates
            .iter()
            .map(|(_, template)| &template.metadata.annotations)
            .collect(),
    };
    let mut looks = Looks::default();
    let mut own = |place: &str, metadata: &Metadata<_>, asks: bool, warnings: &mut Vec<Warning>| {
        looks.check_spelling(&format!("{place}metadata"), &metadata.annotations, warnings);
        pods.check_places(&format!("{place}metadata"), metadata, asks, warnings);
    };
    let warnings = &mut findings.warnings;
    own("", &owner.metadata, kind == "Job", warnings);
    if let Some(jobs) = jobs {
        own("spec.jobTemplate.", &jobs.metadata, true, warnings);
    }
    warnings.extend(spec.check_tasks().err().map(Warning::Tasks));
    let mut requests_cards = false;
    for (place, template) in &templates {
        requests_cards |= look_at_template(kind, (place, template), namespace, view, &mut looks, &mut findings)?;
    }
    if !requests_cards && !owner.metadata.annotations.contains_key(CARD_REQUEST) && asks_in_advance(view) {
        let mut of_tasks = templates.iter().filter(|(place, _)| is_volcanos(place));
        let claims = of_tasks.find(|(_, template)| !template.spec.resource_claims.is_empty());
        let unannounced = claims.map(|(place, _)| Warning::ClaimsUnannounced { place: place.clone() });
        findings.warnings.extend(unannounced);
    }
    Ok(findings)
}

/// Whether the queue of a Volcano Job is asked before there are pods, and limits CPU and memory only of pods without cards.
fn asks_in_advance(view: View<'_>) -> bool {
    let configuration = view.configuration();
    configuration.queue_plugin == QueuePlugin::CapacityCard
        && configuration.capacity_card.card_unlimited_cpu_memory
        && configuration.has_action("enqueue")
}

/// Whether a template belongs to a Volcano Job. Such a Job names its queue in a field of its own, which is judged with the
/// Job.
fn is_volcanos(place: &str) -> bool {
    place.starts_with("spec.tasks")
}

/// Looks at one template. Returns whether its pods request cards as resources.
fn look_at_template(
    kind: &str,
    (place, template): (&str, &Pod<Scalar<'_>>),
    namespace: &str,
    view: View<'_>,
    looks: &mut Looks,
    findings: &mut Findings,
) -> Result<bool, Stop> {
    let annotation = |key| template.metadata.annotations.get(key).filter(|name| !name.is_empty());
    check_labels(place, &template.metadata.labels, &mut findings.warnings);
    looks.check_spelling(place, &template.metadata.annotations, &mut findings.warnings);
    for key in [
        CARD_REQUEST,
        CARD_QUOTA,
        CARD_DESERVED,
        CARD_GUARANTEE,
        QUEUE_NAMESPACES,
    ] {
        if annotation(key).is_some() {
            findings.warnings.push(Warning::KeyMisplaced {
                place: place.to_owned(),
                key,
                remedy: remedy(key, ""),
            });
        }
    }
    // The queue of the pods says whether their author may use it, and whether anybody is charged for their cards.
    let group = annotation(GROUP_NAME);
    let naming = Naming {
        own: annotation(QUEUE_NAME).map(|queue| (queue, QueueSource::Template)),
        group: group.filter(|name| looks.at_group(name)),
    };
    let found = find(&naming, namespace, view, &mut Vec::new());
    let resolved = or_warning(found, place, &mut findings.warnings)?;
    if let Some(resolved) = resolved.as_ref().filter(|_| naming.own.is_some() && kind != "Job") {
        let checked = check_access(resolved, namespace, view, &mut findings.warnings);
        or_warning(checked, place, &mut findings.warnings)?;
    }
    let cardgate = &view.configuration().cardgate;
    let names_queue = resolved.is_some_and(|resolved| resolved.source != QueueSource::Default);
    let is_charged =
        is_volcanos(place) || names_queue || group.is_some() || cardgate.unqueued_cards == UnqueuedCards::Charge;
    if (is_charged || annotation(CARD_NAME).is_some()) && looks.at_claims_of(template) {
        let checked = claims::check(template, namespace, view, &mut findings.warnings);
        or_warning(checked, place, &mut findings.warnings)?;
    }
    let request = check_template(place, template, false, is_charged, view, findings);
    let requested = request.as_ref().map(|request| card_resources(request, view));
    let requested = requested.into_iter().flatten().next();
    let is_unnamed = annotation(CARD_NAME).is_none()
        && is_charged
        && cardgate.unnamed_cards == UnnamedCards::Charge
        && view.configuration().queue_plugin == QueuePlugin::CapacityCard;
    if let Some(resource) = requested.filter(|_| is_unnamed) {
        findings.warnings.push(Warning::NoCardNamed {
            place: place.to_owned(),
            resource: resource.to_owned(),
        });
    }
    Ok(requested.is_some())
}

/// Turns a denial into a warning about the template. Its pods would be refused for it, which their author would learn of late.
fn or_warning<T>(judged: Result<T, Stop>, place: &str, warnings: &mut Vec<Warning>) -> Result<Option<T>, Stop> {
    match judged {
        Ok(judged) => Ok(Some(judged)),
        Err(Stop::Denied(denial)) => {
            warnings.push(Warning::Template {
                place: place.to_owned(),
                denial,
            });
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}

/// Where the annotations of an object's pods belong, and which annotations the pods have.
struct Pods<'o, S> {
    place: &'o str,
    annotations: Vec<&'o TextMap<S>>,
}

impl<S: AsRef<str>> Pods<'_, S> {
    /// Warns of annotations on the object that are meant for its pods or for another kind. `asks` says whether the object
    /// may ask for cards in advance.
    fn check_places<T: AsRef<str>>(
        &self,
        place: &str,
        metadata: &Metadata<T>,
        asks: bool,
        warnings: &mut Vec<Warning>,
    ) {
        check_labels(place, &metadata.labels, warnings);
        for (key, _) in ANNOTATIONS {
            let is_meant = key != CARD_REQUEST || !asks;
            // An annotation that is also on the pods is already where it has an effect.
            let is_said = self.annotations.iter().any(|annotations| annotations.contains_key(key));
            if is_meant && !is_said && metadata.annotations.contains_key(key) {
                warnings.push(Warning::KeyMisplaced {
                    place: place.to_owned(),
                    key,
                    remedy: remedy(
                        key,
                        &format!("put it on the pods, under {}.metadata.annotations", self.place),
                    ),
                });
            }
        }
    }
}

/// Says where an annotation belongs that has no effect at its place; `of_pods` is the answer for annotations of pods.
fn remedy(key: &str, of_pods: &str) -> String {
    match key {
        CARD_REQUEST => "it is for the metadata of a Job or PodGroup".to_owned(),
        CARD_QUOTA | CARD_DESERVED | CARD_GUARANTEE | QUEUE_NAMESPACES => "it is for a Queue".to_owned(),
        _ => of_pods.to_owned(),
    }
}

/// Warns of annotation keys among the labels.
fn check_labels<S: AsRef<str>>(place: &str, labels: &TextMap<S>, warnings: &mut Vec<Warning>) {
    for (key, _) in ANNOTATIONS {
        if labels.contains_key(key) {
            warnings.push(Warning::KeyAmongLabels {
                place: place.to_owned(),
                key,
            });
        }
    }
}

/// How much of an object may still be looked at, beyond what costs no more than the object's size.
struct Looks {
    /// How many keys may still be compared.
    compared: usize,
    /// How many claims may still be looked at.
    claims: usize,
    /// The groups that are looked at.
    groups: Vec<String>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            compared: MOST_COMPARED_IN_ALL,
            claims: MOST_CLAIMS,
            groups: Vec::new(),
        }
    }
}

impl Looks {
    /// Whether the claims of a template are looked at.
    fn at_claims_of(&mut self, template: &Pod<Scalar<'_>>) -> bool {
        let claims = template.spec.resource_claims.len();
        let looks = claims > 0 && self.claims > 0;
        self.claims = self.claims.saturating_sub(claims);
        looks
    }

    /// Whether the group of a template is looked at.
    fn at_group(&mut self, name: &str) -> bool {
        if self.groups.iter().any(|known| known == name) {
            return true;
        }
        let looks = self.groups.len() < MOST_GROUPS;
        if looks {
            self.groups.push(name.to_owned());
        }
        looks
    }

    /// Warns of annotations that nobody reads and that resemble one of Cardgate's.
    fn check_spelling<S: AsRef<str>>(&mut self, place: &str, annotations: &TextMap<S>, warnings: &mut Vec<Warning>) {
        let like_ours = annotations
            .iter()
            .map(|(key, _)| key)
            .filter(|key| may_be_misspelt(key));
        let compared: Vec<_> = like_ours.take(MOST_COMPARED.min(self.compared)).collect();
        self.compared -= compared.len();
        let misspelt = compared.into_iter().filter_map(|key| Some((key, meant_key(key)?)));
        // If the correct key is there too, the author has noticed.
        let misspelt = misspelt.filter(|(_, meant)| !annotations.contains_key(meant));
        warnings.extend(misspelt.take(MOST_KEYS).map(|(key, meant)| Warning::KeyMisspelt {
            place: place.to_owned(),
            key: key.to_owned(),
            meant,
        }));
    }
}

/// Warns of annotations of one object that nobody reads and that resemble one of Cardgate's.
pub fn check_spelling<S: AsRef<str>>(place: &str, annotations: &TextMap<S>, warnings: &mut Vec<Warning>) {
    Looks::default().check_spelling(place, annotations, warnings);
}
