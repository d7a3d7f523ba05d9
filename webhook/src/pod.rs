//! The door for pods: what is refused, and what is written on a pod that is let in to wait for its quota.

use crds::card_resources::is_extended;
use crds::configuration::UnqueuedCards;
use crds::keys::{EXEMPT_NAMESPACES, GROUP_NAME, MIRROR_POD, SCORING_STRATEGY};
use crds::lean::Text;
use crds::managed::{asks_for_devices_of_classes, is_concerned, requests_any};
use crds::pod::Pod;
use crds::pod_bounds::check_results;
use crds::pod_request::{extended_resources, pod_request};
use crds::scoring_strategy::ScoringStrategy;

use crate::cross_quota;
use crate::patch::{Options, PodPatch};
use crate::queue_resolution::{Resolved, check_access, resolve};
use crate::queue_source::QueueSource;
use crate::stop::Stop;
use crate::validate::advice::check_spelling;
use crate::validate::card::check_unnamed;
use crate::validate::claims;
use crate::validate::pod::SoundPod;
use crate::view::{Lookup, View};
use crate::warning::Warning;

/// A pod that is let in.
#[derive(Debug, Default, PartialEq)]
pub struct Admitted {
    /// What is written on it.
    pub patch: PodPatch,
    /// What its author is told.
    pub warnings: Vec<Warning>,
    /// Its queue, if it is managed.
    pub resolved: Option<Resolved>,
}

/// Judges a pod that is being created. Pods that are none of Cardgate's business come out as they went in.
pub fn judge(
    pod: &Pod<Text<'_>>,
    user: &str,
    by_kubelet: bool,
    namespace: &str,
    view: View<'_>,
    options: &Options,
) -> Result<Admitted, Stop> {
    // A mirror pod shows what a node runs by itself. Whoever else says so is judged as everybody.
    let is_mirror_pod = by_kubelet && pod.metadata.annotations.contains_key(MIRROR_POD);
    if EXEMPT_NAMESPACES.contains(&namespace) || is_mirror_pod {
        return Ok(Admitted::default());
    }
    check_results(pod)?;
    // Whoever reads it: where schedulers ask, nothing else of the pod need concern the door.
    if let Some(strategy) = pod.metadata.annotations.get(SCORING_STRATEGY)
        && view.configuration().cross_quota.is_some()
    {
        strategy.parse::<ScoringStrategy>()?;
    }
    let concerned = is_concerned(pod);
    let names_classes = asks_for_devices_of_classes(pod);
    let requests_devices = requests_any(pod, is_extended);
    let asks_for_devices = names_classes || requests_devices;
    let cross_quota = cross_quota::decides(pod, user, namespace, view, !concerned && !requests_devices)?;
    if !concerned && !asks_for_devices && !cross_quota {
        let mut warnings = Vec::new();
        return Ok(Admitted {
            patch: PodPatch::leave(pod, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    if !view.is_complete() {
        return Err(Stop::NotReady);
    }
    // Each is compared with all cards. Whoever makes up thousands is refused before, whatever they would turn out to be.
    let resources = extended_resources(&pod.spec)?;
    let asks_for_cards = resources.iter().any(|resource| view.is_card_resource(resource));
    let is_charged_for_cards = !concerned && (asks_for_cards || names_classes) && charges_cards(namespace, view)?;
    let managed = concerned || asks_for_cards && is_charged_for_cards;
    // Which devices a claim or a class is for, the operator knows: where they are no cards, it lets the pod in at once.
    let is_held_for_classes = !managed && names_classes && is_charged_for_cards;
    let mut warnings = Vec::new();
    if !managed && !cross_quota && !is_held_for_classes {
        // Quantities that can't be read are refused by the API server, in its own words.
        if let Ok(request) = pod_request(&pod.spec) {
            check_unnamed(&request, false, view, &mut warnings)?;
        }
        check_spelling("the pod", &pod.metadata.annotations, &mut warnings);
        return Ok(Admitted {
            patch: PodPatch::leave(pod, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    check_spelling("the pod", &pod.metadata.annotations, &mut warnings);
    let sound = SoundPod::read(pod, view, &mut warnings)?;
    let request = pod_request(&pod.spec)?;
    let resolved = if managed {
        Some(resolve(pod, namespace, view, &mut warnings)?)
    } else {
        None
    };
    // Cards that nobody's queue is named for are charged to nobody, if the configuration has it so; the rest of the pod is
    // the default queue's. Without the queue on it, the operator knows such a pod again. One that names a group has the default queue
    // written on it: its group may come later, or come to name a queue, which would be charged then for what never waited for it.
    let is_unaccounted = !sound.names_cards()
        && asks_for_cards
        && pod.metadata.annotations.get(GROUP_NAME).is_none_or(str::is_empty)
        && view.configuration().cardgate.unqueued_cards == UnqueuedCards::Count
        && resolved
            .as_ref()
            .is_some_and(|resolved| resolved.source == QueueSource::Default);
    sound.check_request(&request, managed && !is_unaccounted, view, &mut warnings)?;
    let Some(resolved) = resolved else {
        return Ok(Admitted {
            patch: PodPatch::hold(pod, None, cross_quota, options, &mut warnings),
            warnings,
            resolved: None,
        });
    };
    check_access(&resolved, namespace, view, &mut warnings)?;
    if sound.names_cards() {
        claims::check(pod, namespace, view, &mut warnings)?;
    }
    let queue = (!is_unaccounted).then_some(&*resolved.queue);
    Ok(Admitted {
        patch: PodPatch::hold(pod, queue, cross_quota, options, &mut warnings),
        warnings,
        resolved: Some(resolved),
    })
}

/// Whether cards are charged in a namespace whatever its pods say: it names a queue, or the default queue is charged for those
/// that name none (docs/rules.md, **Card quota**, `unqueuedCards`).
fn charges_cards(namespace: &str, view: View<'_>) -> Result<bool, Stop> {
    if view.configuration().cardgate.unqueued_cards == UnqueuedCards::Charge {
        return Ok(true);
    }
    let lookup = || Lookup::Namespace(namespace.to_owned());
    let facts = view.namespace(namespace).known(lookup)?;
    Ok(facts.is_some_and(|facts| facts.queue.is_some()))
}
