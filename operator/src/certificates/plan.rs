//! What is to be done about certificates, as a pure function of the existing certificates and of time.
//!
//! At all times API servers must be able to verify the certificate that the webhook serves. Both sides follow with a delay: API servers
//! read the bundle of authorities from the webhook configurations, and the webhook reads its certificate from a Secret. So an authority
//! joins the bundle long before it signs, and stays until it expires, when nothing that it signed is valid any more.

use std::cmp::Reverse;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// How long an authority is valid.
pub const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long a serving certificate is valid, unless its authority expires before.
pub const SERVING_LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long an authority is in the bundle before it signs. API servers follow within seconds, but a kube-scheduler reads its trusted
/// authorities only when it starts: these four weeks leave time to restart it. The time is shorter than the third of [`SERVING_LIFETIME`]
/// that is left when a certificate is renewed. So a certificate whose authority was lost is still valid when the new authority may sign.
pub const OVERLAP: SignedDuration = SignedDuration::from_hours(28 * 24);
/// How long before its creation a new certificate is already valid, for clocks that are behind.
pub const BACKDATE: SignedDuration = SignedDuration::from_hours(1);

/// The period in which something is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Validity {
    /// Returns the validity of something that is created now and ends after `lifetime`, or at `limit` if that is earlier.
    pub fn new(now: Timestamp, lifetime: SignedDuration, limit: Option<Timestamp>) -> Self {
        let end = later(now, lifetime);
        Self {
            not_before: later(now, -BACKDATE),
            not_after: limit.map_or(end, |limit| limit.min(end)),
        }
    }

    pub fn contains(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Returns the time of creation.
    pub fn made(&self) -> Timestamp {
        later(self.not_before, BACKDATE)
    }

    /// Returns the time of renewal: after two thirds of the lifetime.
    pub fn renewal(&self) -> Timestamp {
        later(self.made(), self.made().duration_until(self.not_after) * 2 / 3)
    }
}

/// Returns a time after another, or the last representable time.
fn later(time: Timestamp, after: SignedDuration) -> Timestamp {
    let end = if after.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    time.checked_add(after).unwrap_or(end)
}

/// The properties of an authority that matter to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Authority {
    pub validity: Validity,
    /// Whether it can sign.
    pub has_key: bool,
}

/// The properties of the serving certificate that matter to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serving {
    pub validity: Validity,
    /// Whether one of the authorities verifies the certificate now, for exactly the webhook's names.
    pub is_good: bool,
}

/// One step. An authority is identified by its place in the plan's input; a new authority has the place behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Create an authority.
    Create,
    /// Sign a serving certificate.
    Issue {
        /// The authority that signs.
        by: usize,
    },
    /// Drop the key of an authority that no longer signs.
    DropKey(usize),
    /// Drop an authority that has expired.
    Drop(usize),
}

/// What is to be done now, and when to plan again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    pub next: Timestamp,
}

/// Returns the plan. After its steps are applied, planning again yields no steps until `next`.
pub(super) fn plan(authorities: &[Authority], serving: Option<Serving>, now: Timestamp) -> Plan {
    let mut steps = Vec::new();
    let mut next = vec![later(now, AUTHORITY_LIFETIME)];

    let mut all = authorities.to_vec();
    let mut signers = signers(&all, now);
    let renewal = signers.first().map(|newest| all[*newest].validity.renewal());
    if let Some(renewal) = renewal.filter(|renewal| now < *renewal) {
        next.push(renewal);
    } else {
        steps.push(Step::Create);
        all.push(Authority {
            validity: Validity::new(now, AUTHORITY_LIFETIME, None),
            has_key: true,
        });
        signers.insert(0, all.len() - 1);
    }

    // The newest authority that has been in the bundle for long enough signs. Older authorities will never sign again.
    let may_sign = |signer: &usize| later(all[*signer].validity.made(), OVERLAP);
    let trusted = signers.iter().position(|signer| may_sign(signer) <= now);
    next.extend(signers[..trusted.unwrap_or(signers.len())].iter().map(may_sign));
    if let Some(trusted) = trusted {
        steps.extend(signers[trusted + 1..].iter().copied().map(Step::DropKey));
    }

    let good = serving.filter(|serving| serving.is_good && serving.validity.contains(now));
    let renewal = good.map(|serving| serving.validity.renewal());
    let signer = match (renewal, trusted) {
        (Some(renewal), _) if now < renewal => {
            next.push(renewal);
            None
        }
        (_, Some(trusted)) => Some(signers[trusted]),
        // The present certificate still works, and the authority that would sign another one is not trusted yet.
        (Some(_), None) => {
            next.extend(good.map(|serving| serving.validity.not_after));
            None
        }
        // A certificate that API servers do not trust yet is better than none.
        (None, None) => signers.first().copied(),
    };
    if let Some(by) = signer {
        steps.push(Step::Issue { by });
        next.push(Validity::new(now, SERVING_LIFETIME, Some(all[by].validity.not_after)).renewal());
    }

    for (place, authority) in authorities.iter().enumerate() {
        if authority.validity.not_after <= now {
            steps.push(Step::Drop(place));
        } else {
            next.push(authority.validity.not_after);
        }
    }
    let next = next.into_iter().filter(|time| now < *time).min();
    Plan {
        steps,
        next: next.unwrap_or(now),
    }
}

/// Returns the authorities that can sign now, newest first.
fn signers(authorities: &[Authority], now: Timestamp) -> Vec<usize> {
    let mut signers: Vec<_> = (0..authorities.len())
        .filter(|place| authorities[*place].has_key && authorities[*place].validity.contains(now))
        .collect();
    signers.sort_by_key(|place| Reverse((authorities[*place].validity.not_before, *place)));
    signers
}
