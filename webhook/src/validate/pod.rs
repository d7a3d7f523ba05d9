//! The rules for a pod's metadata and spec, wherever they stand: in a pod that is created, or in the template of a Job.
//!
//! The rules that depend on who creates the pod, and where, are in [`crate::pod`].

use crds::bounds::excerpt;
use crds::keys::{CARD_NAME, MGPU_CONTAINER_CARDS, SCORING_STRATEGY};
use crds::managed::names_claims;
use crds::mgpu::{ComputePolicy, MgpuRequest};
use crds::pod::Pod;
use crds::pod_bounds;
use crds::resources::ResourceVector;
use crds::scoring_strategy::ScoringStrategy;

use super::card::{Cards, check_unnamed};
use crate::denial::Denial;
use crate::view::View;
use crate::warning::Warning;

/// A pod whose metadata and spec are sound, whatever it requests.
#[derive(Debug)]
pub struct SoundPod<'p> {
    cards: Option<Cards<'p>>,
    names_claims: bool,
}

impl<'p> SoundPod<'p> {
    /// Checks the metadata and spec of a pod that Cardgate holds. A fault here stays a fault on the way from a template to a
    /// pod.
    pub fn read<S: AsRef<str>>(pod: &'p Pod<S>, view: View<'_>, warnings: &mut Vec<Warning>) -> Result<Self, Denial> {
        if let Some(node) = pod.spec.node_name.as_ref().map(AsRef::as_ref)
            && !node.is_empty()
        {
            return Err(Denial::NodeNamed {
                node: excerpt(node).into_owned(),
            });
        }
        let annotation = |key| pod.metadata.annotations.get(key);
        pod_bounds::check(pod)?;
        match MgpuRequest::read(pod)? {
            Some(mgpu) if !ComputePolicy::ALL.into_iter().any(|policy| mgpu.accepts(policy)) => {
                let policy = mgpu.policy.unwrap_or_default();
                warnings.push(Warning::MgpuPolicyUnfit { policy });
            }
            None if annotation(MGPU_CONTAINER_CARDS).is_some() => warnings.push(Warning::MgpuNotRequested),
            _ => {}
        }
        let cards = annotation(CARD_NAME).map(|text| Cards::read(text, view)).transpose()?;
        if let Some(strategy) = annotation(SCORING_STRATEGY) {
            strategy.parse::<ScoringStrategy>()?;
        }
        Ok(Self {
            cards,
            names_claims: names_claims(pod),
        })
    }

    /// Whether the pod names its cards.
    pub fn names_cards(&self) -> bool {
        self.cards.is_some()
    }

    /// Checks the pod's request against its card name. `is_charged` says whether any queue is charged for cards that the pod
    /// does not name.
    pub fn check_request(
        &self,
        request: &ResourceVector<'_>,
        is_charged: bool,
        view: View<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Denial> {
        match &self.cards {
            Some(cards) => cards.check_request(request, self.names_claims, view, warnings),
            None => check_unnamed(request, is_charged, view, warnings),
        }
    }
}
