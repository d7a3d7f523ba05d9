//! Limits on what claims may ask to be evaluated. Tenants write their selectors, and each selector is read and judged for every kind of
//! device.

use std::collections::BTreeMap;
use std::iter;

use crds::bounds::{CLAIM_TERMS, CLAIM_TEXTS_LENGTH, Tally};
use crds::dra::{ClaimSpec, Constraint, DeviceToleration, Selector, SubRequest};

use super::asked::RequestAsked;

/// The steps for reading and evaluating selectors of one namespace's claims in one round, or those of one pod when a user asks what its
/// claims would come to: some ten milliseconds. Work that is left over goes on in the next round.
pub const TURN: u64 = 1 << 18;

/// The most choices that the requests of all claims of a pod may leave together: for each form, each card that its selectors leave. This is
/// far more than a pod can be charged by.
const CHOICES: usize = 512;

/// Returns why the claims of one pod are not evaluated: what they ask for is too much, or too long, in all. Returns none where they are.
pub(super) fn excess<'c>(claims: impl Iterator<Item = &'c ClaimSpec>) -> Option<String> {
    let mut tally = Tally::of(CLAIM_TERMS, CLAIM_TEXTS_LENGTH);
    let mut is_too_much = |text: usize| {
        tally.takes(text);
        tally.is_exceeded()
    };
    claims.flat_map(terms).any(&mut is_too_much).then(|| {
        format!(
            "the claims of a pod have at most {CLAIM_TERMS} requests, alternatives, selectors, tolerations, constraints and names in \
             constraints in all, and at most {CLAIM_TEXTS_LENGTH} characters in these in all: use fewer or shorter ones"
        )
    })
}

/// Returns how many choices requests leave.
pub(super) fn choices_of(requests: &[RequestAsked]) -> usize {
    let choices = requests.iter().flat_map(|request| &request.choices);
    choices.map(BTreeMap::len).sum()
}

/// Returns why requests with so many choices in all are not charged.
pub(super) fn too_many_choices(count: usize) -> Option<String> {
    (count > CHOICES).then(|| {
        format!(
            "requests leave {count} choices of cards in all, and {CHOICES} are allowed: select fewer cards, or give fewer alternatives"
        )
    })
}

/// Returns the lengths of all parts of a claim that are compared with devices: 0 for each form, and the lengths of its parts.
fn terms(claim: &ClaimSpec) -> impl Iterator<Item = usize> {
    let requests = claim.devices.requests.iter();
    let forms = requests.flat_map(|request| request.exactly.iter().chain(&request.first_available));
    let of_forms = forms.flat_map(|form| {
        let selectors = form.selectors.iter().map(of_selector);
        iter::once(0)
            .chain(selectors)
            .chain(form.tolerations.iter().map(of_toleration))
    });
    let of_constraints = claim.devices.constraints.iter().flat_map(|constraint| {
        let names = constraint.requests.iter().map(|name| name.len());
        iter::once(of_attributes(constraint)).chain(names)
    });
    of_forms.chain(of_constraints)
}

fn of_selector(selector: &Selector) -> usize {
    selector.cel.expression.len()
}

fn of_toleration(toleration: &DeviceToleration) -> usize {
    let DeviceToleration {
        key,
        operator,
        value,
        effect,
    } = toleration;
    key.len() + operator.len() + value.len() + effect.len()
}

fn of_attributes(constraint: &Constraint) -> usize {
    let attributes = constraint.match_attribute.iter().chain(&constraint.distinct_attribute);
    attributes.map(|attribute| attribute.len()).sum()
}

/// Cuts a claim that asks for too much by itself, so that no pod is let in by it. What is left is still just too much, so no more than that
/// is kept in memory.
pub fn cut_excess(spec: &mut ClaimSpec) {
    if excess([&*spec].into_iter()).is_none() {
        return;
    }
    let mut tally = Tally::of(CLAIM_TERMS, CLAIM_TEXTS_LENGTH);
    let requests = &mut spec.devices.requests;
    requests.retain_mut(|request| {
        let mut keeps = |form: &mut SubRequest| {
            let is_kept = tally.takes(0);
            keep(&mut form.selectors, |selector| tally.takes(of_selector(selector)));
            keep(&mut form.tolerations, |toleration| {
                tally.takes(of_toleration(toleration))
            });
            is_kept
        };
        if let Some(form) = &mut request.exactly
            && !keeps(form)
        {
            request.exactly = None;
        }
        keep(&mut request.first_available, keeps);
        request.exactly.is_some() || !request.first_available.is_empty()
    });
    requests.shrink_to_fit();
    keep(&mut spec.devices.constraints, |constraint| {
        let is_kept = tally.takes(of_attributes(constraint));
        keep(&mut constraint.requests, |name| tally.takes(name.len()));
        is_kept
    });
}

fn keep<T>(all: &mut Vec<T>, is_kept: impl FnMut(&mut T) -> bool) {
    all.retain_mut(is_kept);
    all.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(count: usize, length: usize) -> ClaimSpec {
        let selector = json!({ "cel": { "expression": "x".repeat(length) } });
        let form = json!({ "deviceClassName": "c", "selectors": vec![selector; count] });
        serde_json::from_value(json!({ "devices": { "requests": [{ "name": "r", "exactly": form }] } })).unwrap()
    }

    #[test]
    fn requests_and_selectors_are_few_and_short_in_all_claims_of_a_pod() {
        let long = CLAIM_TEXTS_LENGTH / 4;
        for (claims, is_too_much) in [
            (vec![], false),
            (vec![claim(CLAIM_TERMS - 1, 10)], false),
            (vec![claim(CLAIM_TERMS - 2, 1), claim(0, 1)], false),
            (vec![claim(CLAIM_TERMS - 1, 1), claim(0, 1)], true),
            (vec![claim(4, long)], false),
            (vec![claim(3, long), claim(1, long + 1)], true),
        ] {
            assert_eq!(excess(claims.iter()).is_some(), is_too_much);
        }
    }

    #[test]
    fn tolerations_and_constraints_count_as_well() {
        let with = |tolerations: usize, constraints: usize, key: &str| -> ClaimSpec {
            let form = json!({ "deviceClassName": "c", "tolerations": vec![json!({ "key": key }); tolerations] });
            let constraint = json!({ "requests": ["r"], "matchAttribute": key });
            serde_json::from_value(json!({ "devices": {
                "requests": [{ "name": "r", "exactly": form }], "constraints": vec![constraint; constraints],
            } }))
            .unwrap()
        };
        let long = "x".repeat(CLAIM_TEXTS_LENGTH / 8);
        for (claim, is_too_much) in [
            (with(CLAIM_TERMS - 1, 0, "k"), false),
            (with(CLAIM_TERMS, 0, "k"), true),
            (with(1, CLAIM_TERMS / 2 - 1, "k"), false),
            (with(2, CLAIM_TERMS / 2 - 1, "k"), true),
            (with(8, 0, &long), false),
            (with(8, 1, &long), true),
            (with(4, 4, &long), true),
        ] {
            assert_eq!(excess([&claim].into_iter()).is_some(), is_too_much);
            let mut kept = claim.clone();
            cut_excess(&mut kept);
            assert_eq!(excess([&kept].into_iter()).is_some(), is_too_much);
            assert!(format!("{kept:?}").len() < 150_000);
        }
        let mut many = with(2000, 2000, &long);
        cut_excess(&mut many);
        assert!(format!("{many:?}").len() < 100_000 && excess([&many].into_iter()).is_some());
    }

    #[test]
    fn of_a_claim_that_asks_for_too_much_no_more_is_kept_than_that() {
        let form = |selectors: usize, length: usize| {
            let selector = json!({ "cel": { "expression": "x".repeat(length) } });
            json!({ "deviceClassName": "c", "selectors": vec![selector; selectors] })
        };
        for (requests, form) in [(32, form(32, 1_000)), (4, form(32, 10_000)), (32, form(32, 1))] {
            let request = json!({ "name": "r", "firstAvailable": vec![form; 8] });
            let whole: ClaimSpec =
                serde_json::from_value(json!({ "devices": { "requests": vec![request; requests] } })).unwrap();
            let mut kept = whole.clone();
            cut_excess(&mut kept);
            assert!(excess([&kept].into_iter()).is_some());
            let length = format!("{kept:?}").len();
            assert!(length < 200_000 && length < format!("{whole:?}").len(), "{length}");
        }
        let mut within = claim(4, 10);
        cut_excess(&mut within);
        assert_eq!(within, claim(4, 10));
    }
}
