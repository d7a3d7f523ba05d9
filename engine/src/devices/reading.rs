//! What one claim comes to, whoever names it: found once for all pods that do, and again when devices or classes have changed.

use std::sync::Arc;

use crds::dra::ResourceClaim;

use super::asked::{CardCounts, RequestAsked};
use super::asks::Problem;
use super::demand::DevicesWanted;
use super::{ClaimKey, Devices, bounds};
use crate::steps::Steps;

/// What it costs to look up what a claim comes to, in steps: thousands of pods may name the same claims, and each is read when one of these
/// changes.
const LOOKUP: usize = 8;

/// A claim, as it was seen last.
#[derive(Debug)]
pub(super) struct KnownClaim {
    pub(super) claim: Arc<ResourceClaim>,
    /// The list of all claims in which it was seen last.
    pub(super) seen: u64,
    /// Whether its devices come free once who names it is gone.
    pub(super) ends_with_users: bool,
    given: Option<Found<CardCounts>>,
    asked: Option<Found<ClaimAsked>>,
}

/// What was found of a claim, and of which version of the devices.
type Found<T> = (u64, Arc<T>);

/// What a claim asks for.
#[derive(Debug, Default)]
pub(super) struct ClaimAsked {
    /// What its requests leave, as far as they are for cards.
    pub(super) requests: Vec<RequestAsked>,
    /// The first of them that no device is there for, and why.
    pub(super) unknown: Option<String>,
    /// Which of them can't be said in cards, and why.
    pub(super) unclear: Option<String>,
    /// What it asks of the devices of one node.
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

/// What was found of this version.
fn found_of<T>(found: Option<&Found<T>>, version: u64) -> Option<Arc<T>> {
    let (_, found) = found.filter(|(of, _)| *of == version)?;
    Some(Arc::clone(found))
}

impl Devices {
    /// The cards that were allocated to a claim; none where nothing is, or where a device is not known any more. `assigned` is the card that
    /// its pod was let in for: such a device is that.
    pub(super) fn allocated(&mut self, key: &ClaimKey, assigned: Option<&str>) -> Option<Arc<CardCounts>> {
        let version = self.version;
        let known = self.claims.get(key)?;
        if let Some(given) = found_of(known.given.as_ref(), version) {
            return Some(given);
        }
        let claim = Arc::clone(&known.claim);
        // What depends on the pod is not remembered.
        let Some(given) = self.allocated_for(&claim, |_| true, None).map(Arc::new) else {
            return self.allocated_for(&claim, |_| true, assigned).map(Arc::new);
        };
        if let Some(known) = self.claims.get_mut(key) {
            known.given = Some((version, Arc::clone(&given)));
        }
        Some(given)
    }

    /// What a claim asks for; none where it is not there, or the steps were spent before that was found.
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
        // Of one that asks for too much a part is kept, also where something was allocated to it.
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
            // Of what it wants something may be missing.
            return None;
        }
        let asked = Arc::new(asked);
        if let Some(known) = self.claims.get_mut(key) {
            known.asked = Some((self.version, Arc::clone(&asked)));
        }
        Some(asked)
    }

    /// The same, where it was found already.
    pub(super) fn known_to_ask(&self, key: &ClaimKey) -> Option<Arc<ClaimAsked>> {
        found_of(self.claims.get(key)?.asked.as_ref(), self.version)
    }
}
