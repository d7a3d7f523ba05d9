//! What one claim comes to, whichever pod names it: found once for all pods that name it, and again when devices or classes have changed.

use std::sync::Arc;

use crds::dra::ResourceClaim;

use super::asked::{CardCounts, RequestAsked};
use super::asks::Problem;
use super::demand::DevicesWanted;
use super::{ClaimKey, Devices, bounds};
use crate::steps::Steps;

/// The cost of looking up what a claim comes to, in steps. Thousands of pods may name the same claims, and each pod is read when one of
/// these claims changes.
const LOOKUP: usize = 8;

/// A claim, as it was seen last.
#[derive(Debug)]
pub(super) struct KnownClaim {
    pub(super) claim: Arc<ResourceClaim>,
    /// The list of all claims in which this claim was last seen.
    pub(super) seen: u64,
    /// Whether the claim's devices come free once the pods that name it are gone.
    pub(super) ends_with_users: bool,
    given: Option<Found<CardCounts>>,
    asked: Option<Found<ClaimAsked>>,
}

/// What was found of a claim, with the version of the devices for which it was found.
type Found<T> = (u64, Arc<T>);

/// What a claim asks for.
#[derive(Debug, Default)]
pub(super) struct ClaimAsked {
    /// What the claim's requests leave, as far as they are for cards.
    pub(super) requests: Vec<RequestAsked>,
    /// The first request for which no device exists, and why.
    pub(super) unknown: Option<String>,
    /// The request that can't be said in cards, and why.
    pub(super) unclear: Option<String>,
    /// What the claim asks of the devices of one node.
    pub(super) wanted: Arc<DevicesWanted>,
}

impl KnownClaim {
    pub(super) fn new(claim: Arc<ResourceClaim>, seen: u64, ends_with_users: bool) -> Self {
        Self {
            claim,
            seen,
            ends_with_users,
            given: None,
            asked: None,
        }
    }
}

/// Returns what was found for this version.
fn found_of<T>(found: Option<&Found<T>>, version: u64) -> Option<Arc<T>> {
    let (_, found) = found.filter(|(of, _)| *of == version)?;
    Some(Arc::clone(found))
}

impl Devices {
    /// Returns the cards that were allocated to a claim; none where nothing is allocated, or where a device is not known any more.
    /// `assigned` is the card that the claim's pod was let in for: an unknown device counts as that card.
    pub(super) fn allocated(&mut self, key: &ClaimKey, assigned: Option<&str>) -> Option<Arc<CardCounts>> {
        let version = self.version;
        let known = self.claims.get(key)?;
        if let Some(given) = found_of(known.given.as_ref(), version) {
            return Some(given);
        }
        let claim = Arc::clone(&known.claim);
        // An answer that depends on the pod is not remembered.
        let Some(given) = self.allocated_for(&claim, |_| true, None).map(Arc::new) else {
            return self.allocated_for(&claim, |_| true, assigned).map(Arc::new);
        };
        if let Some(known) = self.claims.get_mut(key) {
            known.given = Some((version, Arc::clone(&given)));
        }
        Some(given)
    }

    /// Returns what a claim asks for; none where the claim does not exist, or the steps were spent before the answer was found.
    pub(super) fn asked_for(&mut self, key: &ClaimKey, steps: &Steps) -> Option<Arc<ClaimAsked>> {
        if steps.are_spent() {
            return None;
        }
        steps.spend(LOOKUP);
        if let Some(asked) = self.known_to_ask(key) {
            return Some(asked);
        }
        let claim = Arc::clone(self.claim(key)?);
        let mut asked = ClaimAsked {
            unclear: bounds::excess([&claim.spec].into_iter()),
            ..ClaimAsked::default()
        };
        // Of a claim that asks for too much only a part is kept, also where something was allocated to it.
        let requests = match asked.unclear {
            None => &claim.spec.devices.requests[..],
            Some(_) => &[],
        };
        for request in requests {
            match self.request(request, steps) {
                Ok(found) => asked.requests.extend(found),
                Err(Problem::NoDevice(why)) => {
                    asked
                        .unknown
                        .get_or_insert_with(|| format!("request {}: {why}", request.name));
                }
                Err(Problem::Unevaluated) => return None,
                Err(Problem::Unclear(why)) => {
                    asked.unclear = Some(format!("request {}: {why}", request.name));
                    break;
                }
            }
        }
        if let Some(why) = bounds::too_many_choices(bounds::choices_of(&asked.requests)) {
            asked.requests.clear();
            asked.unclear = Some(why);
        }
        asked.wanted = Arc::new(self.wanted_by(&claim, steps));
        if steps.are_spent() {
            // Part of what the claim wants may be missing.
            return None;
        }
        let asked = Arc::new(asked);
        if let Some(known) = self.claims.get_mut(key) {
            known.asked = Some((self.version, Arc::clone(&asked)));
        }
        Some(asked)
    }

    /// Returns what a claim asks for, if that was found already.
    pub(super) fn known_to_ask(&self, key: &ClaimKey) -> Option<Arc<ClaimAsked>> {
        found_of(self.claims.get(key)?.asked.as_ref(), self.version)
    }
}
