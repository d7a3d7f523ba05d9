//! The door for pods: what it refuses, and what it writes on a pod that it allows.

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
use crate::patch::{ObjectPatch, Options};
use crate::queue_resolution::{Resolved, check_access, resolve};
use crate::queue_source::QueueSource;
use crate::stop::Stop;
use crate::validate::advice::check_spelling;
use crate::validate::card::check_unnamed;
use crate::validate::claims;
use crate::validate::pod::SoundPod;
use crate::view::{Lookup, View};
use crate::warning::Warning;

/// A pod whose creation is allowed, held or not.
#[derive(Debug, Default, PartialEq)]
pub struct AllowedPod {
    /// What is written on the pod.
    pub patch: ObjectPatch,
    /// What the pod's author is told.
    pub warnings: Vec<Warning>,
    /// The pod's queue, if the pod is managed.
    pub resolved: Option<Resolved>,
}

/// Judges a pod that is being created. Pods that do not concern Cardgate are left unchanged.
pub fn judge(
    pod: &Pod<Text<'_>>,
    user: &str,
    by_kubelet: bool,
    namespace: &str,
    view: View<'_>,
    options: &Options,
) -> Result<AllowedPod, Stop> {
    // A mirror pod shows what a node runs by itself. Only a kubelet may say so; a pod of anybody else is judged like every
    // other.
    let is_mirror_pod = by_kubelet && pod.metadata.annotations.contains_key(MIRROR_POD);
    if EXEMPT_NAMESPACES.contains(&namespace) || is_mirror_pod {
        return Ok(AllowedPod::default());
    }
    check_results(pod)?;
    // Checked on every pod where `CrossQuota` is configured, even if nothing else of the pod concerns the door: schedulers
    // ask for it.
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
        return Ok(AllowedPod {
            patch: ObjectPatch::leave(pod, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    if !view.is_complete() {
        return Err(Stop::NotReady);
    }
    // Each resource is compared with all cards. So a pod that names thousands of resources is refused first, whatever they
    // are.
    let resources = extended_resources(&pod.spec)?;
    let asks_for_cards = resources.iter().any(|resource| view.is_card_resource(resource));
    let is_charged_for_cards = !concerned && (asks_for_cards || names_classes) && charges_cards(namespace, view)?;
    let managed = concerned || asks_for_cards && is_charged_for_cards;
    // Only the operator knows which devices a claim or a class is for. Where they are not cards, it lets the pod in at once.
    let is_held_for_classes = !managed && names_classes && is_charged_for_cards;
    let mut warnings = Vec::new();
    if !managed && !cross_quota && !is_held_for_classes {
        // The API server refuses quantities that can't be read, in its own words.
        if let Ok(request) = pod_request(&pod.spec) {
            check_unnamed(&request, false, view, &mut warnings)?;
        }
        check_spelling("the pod", &pod.metadata.annotations, &mut warnings);
        return Ok(AllowedPod {
            patch: ObjectPatch::leave(pod, options, &mut warnings),
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
    // Cards for which nothing names a queue are charged to nobody, if the configuration says so (`unqueuedCards`). The rest
    // of the pod is charged to the default queue. Such a pod gets no queue written on it; by this the operator recognises
    // it. A pod that names a group does get the default queue written on it. Otherwise its group might be created later, or
    // name a queue later, and that queue would be charged for a pod that never waited for it.
    let is_unaccounted = !sound.names_cards()
        && asks_for_cards
        && pod.metadata.annotations.get(GROUP_NAME).is_none_or(str::is_empty)
        && view.configuration().cardgate.unqueued_cards == UnqueuedCards::Count
        && resolved
            .as_ref()
            .is_some_and(|resolved| resolved.source == QueueSource::Default);
    sound.check_request(&request, managed && !is_unaccounted, view, &mut warnings)?;
    let Some(resolved) = resolved else {
        return Ok(AllowedPod {
            patch: ObjectPatch::hold(pod, None, cross_quota, options, &mut warnings),
            warnings,
            resolved: None,
        });
    };
    check_access(&resolved, namespace, view, &mut warnings)?;
    if sound.names_cards() {
        claims::check(pod, namespace, view, &mut warnings)?;
    }
    let queue = (!is_unaccounted).then_some(&*resolved.queue);
    Ok(AllowedPod {
        patch: ObjectPatch::hold(pod, queue, cross_quota, options, &mut warnings),
        warnings,
        resolved: Some(resolved),
    })
}

/// Whether cards are charged in a namespace whatever its pods say: the namespace names a queue, or the default queue is
/// charged for pods that name none (docs/rules.md, **Card quota**, `unqueuedCards`).
fn charges_cards(namespace: &str, view: View<'_>) -> Result<bool, Stop> {
    if view.configuration().cardgate.unqueued_cards == UnqueuedCards::Charge {
        return Ok(true);
    }
    let lookup = || Lookup::Namespace(namespace.to_owned());
    let facts = view.namespace(namespace).known(lookup)?;
    Ok(facts.is_some_and(|facts| facts.queue.is_some()))
}
