//! How much claims may ask to be evaluated: tenants write their selectors, each of which is read, and judged for every kind of device.

use crds::bounds::{CLAIM_SELECTORS_LENGTH, CLAIM_TERMS};
use crds::dra::{ClaimSpec, SubRequest};

/// The steps in which selectors of one namespace's claims are read and evaluated in one round, or those of one pod where somebody asks what
/// its claims would come to: some ten milliseconds. What is left of them is gone on with in the next round.
pub const TURN: u64 = 1 << 18;

/// Why these claims, which one pod names, are not evaluated: what they ask for is too much, or too long, in all.
pub(super) fn excess<'c>(claims: impl Iterator<Item = &'c ClaimSpec>) -> Option<String> {
    let requests = claims.flat_map(|claim| &claim.devices.requests);
    let forms = requests.flat_map(|request| request.exactly.iter().chain(&request.first_available));
    let (mut count, mut length) = (0, 0);
    for form in forms {
        count += 1 + form.selectors.len();
        let texts = form.selectors.iter().map(|selector| selector.cel.expression.len());
        length += texts.sum::<usize>();
        if count > CLAIM_TERMS || length > CLAIM_SELECTORS_LENGTH {
            return Some(format!(
                "the claims of a pod have at most {CLAIM_TERMS} requests, alternatives and selectors in all, and selectors of at most \
                 {CLAIM_SELECTORS_LENGTH} characters in all: use fewer or shorter ones"
            ));
        }
    }
    None
}

/// Cuts a claim that asks for too much by itself, which nobody is let in by: what is left is still too much, and no more than that is kept.
pub fn cut_excess(spec: &mut ClaimSpec) {
    if excess([&*spec].into_iter()).is_none() {
        return;
    }
    let (mut count, mut length) = (0, 0);
    let mut is_within = |text: usize| {
        let is_within = count <= CLAIM_TERMS && length <= CLAIM_SELECTORS_LENGTH;
        count += 1;
        length += text;
        is_within
    };
    let requests = &mut spec.devices.requests;
    requests.retain_mut(|request| {
        let mut keeps = |form: &mut SubRequest| {
            let is_kept = is_within(0);
            form.selectors
                .retain(|selector| is_within(selector.cel.expression.len()));
            form.selectors.shrink_to_fit();
            is_kept
        };
        if let Some(form) = &mut request.exactly
            && !keeps(form)
        {
            request.exactly = None;
        }
        request.first_available.retain_mut(keeps);
        request.first_available.shrink_to_fit();
        request.exactly.is_some() || !request.first_available.is_empty()
    });
    requests.shrink_to_fit();
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
        let long = CLAIM_SELECTORS_LENGTH / 4;
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
