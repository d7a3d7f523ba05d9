//! Which of its alternatives a pod takes that was let in and has not been given its devices yet.

use std::collections::{BTreeMap, BTreeSet};

use super::placing::{Form, Wanted};
use crate::alternative::combine;

/// Cards by name, and how many of each.
pub type Charged<'c> = BTreeMap<&'c str, i64>;

/// Keeps, in each request, the forms by which all requests together come to exactly the number of each card that is charged. (The scheduler
/// gives fewer only where it finds no more.) Keeps all forms where no combination does, as where part of it was given already, or where a
/// form selects several cards. `card_of` returns which card a device is.
pub(super) fn keep_charged<'r>(
    requests: &mut [Wanted],
    card_of: impl Fn(usize) -> Option<&'r str>,
    charged: &Charged<'_>,
) {
    if requests.iter().all(|request| request.forms.len() < 2) {
        return;
    }
    let mut all = Vec::new();
    for request in &*requests {
        let mut forms = Vec::new();
        for (index, form) in request.forms.iter().enumerate() {
            let cards: BTreeSet<_> = form.of.iter().map(|device| card_of(*device)).collect();
            match Vec::from_iter(cards)[..] {
                // A form without devices can't be given.
                [] => {}
                [card] => forms.push((index, card, count_of(form))),
                _ => return,
            }
        }
        all.push(forms);
    }
    let Some(ways) = combine(&all) else { return };
    let comes_to_that = |way: &Vec<&(usize, Option<&str>, i64)>| {
        let mut sums = Charged::new();
        for (_, card, count) in way {
            if let Some(card) = card {
                *sums.entry(*card).or_default() += count;
            }
        }
        sums == *charged
    };
    let ways: Vec<_> = ways.into_iter().filter(comes_to_that).collect();
    if ways.is_empty() {
        return;
    }
    for (place, request) in requests.iter_mut().enumerate() {
        let taken: BTreeSet<_> = ways.iter().map(|way| way[place].0).collect();
        let mut index = 0;
        request.forms.retain(|_| {
            index += 1;
            taken.contains(&(index - 1))
        });
    }
}

fn count_of(form: &Form) -> i64 {
    i64::try_from(form.count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests with forms `(devices, count)`. Devices 0 and 1 are cards `A`, devices 2 and 3 are cards `B`, device 4 is no card.
    fn kept(requests: &[&[(&[usize], usize)]], charged: &[(&'static str, i64)]) -> Vec<Vec<usize>> {
        let form = |(of, count): &(&[usize], usize)| Form {
            of: of.to_vec(),
            count: *count,
            ties: Vec::new(),
        };
        let requests = requests.iter().map(|forms| Wanted {
            forms: forms.iter().map(form).collect(),
        });
        let mut requests: Vec<_> = requests.collect();
        let cards = [Some("A"), Some("A"), Some("B"), Some("B"), None];
        keep_charged(
            &mut requests,
            |device| cards[device],
            &charged.iter().copied().collect(),
        );
        let counts = |request: &Wanted| request.forms.iter().map(|form| form.count).collect();
        requests.iter().map(counts).collect()
    }

    #[test]
    fn forms_are_left_that_come_to_what_is_charged() {
        let (a, b, other): (&[usize], &[usize], &[usize]) = (&[0, 1], &[2, 3], &[4]);
        assert_eq!(kept(&[&[(a, 2), (a, 1)]], &[("A", 1)]), [[1]]);
        assert_eq!(
            kept(&[&[(a, 2), (a, 1)], &[(b, 1)]], &[("A", 2), ("B", 1)]),
            [vec![2], vec![1]]
        );
        // Either request may take the larger form.
        assert_eq!(
            kept(&[&[(a, 2), (a, 1)], &[(a, 2), (a, 1)]], &[("A", 3)]),
            [[2, 1], [2, 1]]
        );
        assert_eq!(kept(&[&[(a, 2), (b, 1)]], &[("B", 1)]), [[1]]);
        // Devices that are no cards are not charged.
        assert_eq!(kept(&[&[(a, 2), (a, 1)], &[(other, 1)]], &[("A", 2)]), [[2], [1]]);
    }

    #[test]
    fn all_are_left_where_that_is_not_known() {
        let (a, mixed): (&[usize], &[usize]) = (&[0, 1], &[0, 1, 2]);
        assert_eq!(kept(&[&[(a, 2), (a, 1)]], &[("A", 5)]), [[2, 1]]);
        assert_eq!(kept(&[&[(mixed, 2), (a, 1)]], &[("A", 1)]), [[2, 1]]);
        assert_eq!(kept(&[&[(&[], 2), (&[], 1)]], &[("A", 1)]), [[2, 1]]);
    }
}
