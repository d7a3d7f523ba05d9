//! The door for pods: what is refused, and what is written on a pod that is let in to wait for its quota.

use crds::keys::{CARD_NAME, MGPU_CONTAINER_CARDS, SCORING_STRATEGY};
use crds::lean::Text;
use crds::managed::{is_managed, is_reachable, requests_any};
use crds::mgpu::{ComputePolicy, MgpuRequest};
use crds::pod::Pod;
use crds::pod_request::pod_request;
use crds::scoring_strategy::ScoringStrategy;

use crate::cross_quota;
use crate::denial::Denial;
use crate::patch::PodPatch;
use crate::queue_resolution::{Resolved, check_access, resolve};
use crate::validate::card::{Cards, check_unnamed, is_extended};
use crate::view::{Lookup, View};
use crate::warning::Warning;

/// Why there is no decision yet, or none in favour.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The pod is refused.
    Denied(Denial),
    /// The decision needs an answer of the API server.
    Ask(Lookup),
    /// Not everything has been read yet.
    NotReady,
}

impl From<Lookup> for Stop {
    fn from(lookup: Lookup) -> Self {
        Self::Ask(lookup)
    }
}

impl<D: Into<Denial>> From<D> for Stop {
    fn from(denial: D) -> Self {
        Self::Denied(denial.into())
    }
}

/// What the door does besides what the documents ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// A scheduler that this cluster does not have; pods that name it get the default scheduler.
    pub replace_scheduler_name: Option<String>,
}

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

/// Judges a pod that a user creates. Pods that are none of Cardgate's business come out as they went in.
pub fn judge(
    pod: &Pod<Text<'_>>,
    user: &str,
    namespace: &str,
    view: View<'_>,
    options: &Options,
) -> Result<Admitted, Stop> {
    if !is_reachable(pod, namespace) {
        return Ok(Admitted::default());
    }
    let managed = is_managed(pod, namespace);
    let asks_for_devices = requests_any(pod, is_extended);
    let cross_quota = cross_quota::decides(pod, user, namespace, view, !managed && !asks_for_devices)?;
    if !managed && !asks_for_devices && !cross_quota {
        let mut warnings = Vec::new();
        return Ok(Admitted {
            patch: PodPatch::correct(pod, false, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    if !view.knowledge.is_complete() {
        return Err(Stop::NotReady);
    }
    let settings = view.knowledge.settings();
    let mut warnings = Vec::new();
    if !managed && !cross_quota {
        // Quantities that can't be read are refused by the API server, in its own words.
        if let Ok(request) = pod_request(&pod.spec) {
            check_unnamed(&request, &settings, &mut warnings)?;
        }
        return Ok(Admitted {
            patch: PodPatch::correct(pod, false, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    if let Some(node) = pod
        .spec
        .node_name
        .as_ref()
        .map(AsRef::as_ref)
        .filter(|node| !node.is_empty())
    {
        return Err(Denial::NodeNamed { node: node.to_owned() }.into());
    }
    let annotation = |key| pod.metadata.annotations.get(key);
    match MgpuRequest::read(pod)? {
        Some(mgpu) if !ComputePolicy::ALL.into_iter().any(|policy| mgpu.accepts(policy)) => {
            let policy = mgpu.policy.unwrap_or_default();
            warnings.push(Warning::MgpuPolicyUnfit { policy });
        }
        None if annotation(MGPU_CONTAINER_CARDS).is_some() => warnings.push(Warning::MgpuNotRequested),
        _ => {}
    }
    let cards = annotation(CARD_NAME)
        .map(|text| Cards::read(text, view.knowledge))
        .transpose()?;
    let request = pod_request(&pod.spec)?;
    match cards {
        Some(cards) => cards.check_request(&request, &settings, &mut warnings)?,
        None => check_unnamed(&request, &settings, &mut warnings)?,
    }
    if let Some(strategy) = annotation(SCORING_STRATEGY) {
        strategy.parse::<ScoringStrategy>()?;
    }
    if !managed {
        return Ok(Admitted {
            patch: PodPatch::hold(pod, None, true, options, &mut warnings),
            warnings,
            resolved: None,
        });
    }
    let resolved = resolve(pod, namespace, view, &mut warnings)?;
    check_access(&resolved, namespace, view, &mut warnings)?;
    Ok(Admitted {
        patch: PodPatch::hold(pod, Some(&resolved.queue), cross_quota, options, &mut warnings),
        warnings,
        resolved: Some(resolved),
    })
}
