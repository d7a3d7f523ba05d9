//! Years without accidents.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::plan::{self, AUTHORITY_LIFETIME, OVERLAP, SERVING_LIFETIME, Step, Validity, plan};
use super::*;

/// How far API servers and webhooks may lag behind the last write.
const LAG: SignedDuration = SignedDuration::from_mins(50);

/// What was public, and until when some component may still use it.
#[derive(Default)]
struct History {
    bundles: Vec<(String, Timestamp)>,
    chains: Vec<(String, Timestamp)>,
}

impl History {
    fn add(&mut self, states: &[Public], now: Timestamp) {
        let until = now + LAG;
        for state in states {
            for (list, text) in [(&mut self.bundles, &state.bundle), (&mut self.chains, &state.chain)] {
                match list.last_mut().filter(|(last, _)| last == text) {
                    Some((_, last)) => *last = until,
                    None => list.push((text.clone(), until)),
                }
            }
        }
        // The newest state stays in use until there is another one.
        for list in [&mut self.bundles, &mut self.chains] {
            let newest = list.len().saturating_sub(1);
            let mut place = 0;
            list.retain(|(_, until)| {
                place += 1;
                place > newest || now <= *until
            });
        }
    }

    /// Checks every bundle that an API server may still use against every certificate that a webhook may still serve.
    fn check(&self, names: &[Name], at: Timestamp) {
        for (bundle, _) in &self.bundles {
            for (chain, _) in &self.chains {
                let state = Public {
                    bundle: bundle.clone(),
                    chain: chain.clone(),
                };
                assert!(
                    believes(&state, names, at),
                    "at {at}: {} bundles, {} chains",
                    self.bundles.len(),
                    self.chains.len()
                );
            }
        }
    }
}

#[test]
fn a_fresh_installation_serves_at_once_and_then_rests() {
    let (names, now) = (names(&["127.0.0.1", "webhook.example"]), begin());
    let mut world = World::default();
    let (states, next) = world.reconcile(&names, now);
    assert!(believes(states.last().unwrap(), &names, now));
    assert_eq!(next, now + OVERLAP);
    let before = world.clone();
    for later in [SignedDuration::ZERO, HOUR, DAY, DAY * 59] {
        world.reconcile(&names, now + later);
        assert_eq!(
            (&world.authority, &world.serving),
            (&before.authority, &before.serving),
            "after {later}"
        );
    }
}

#[test]
fn for_eight_years_every_api_server_believes_every_webhook() {
    let names = names(&[]);
    let (mut world, mut history) = (World::default(), History::default());
    let (mut now, end) = (begin(), begin() + DAY * 8 * 365);
    let (mut authorities, mut chains) = (Vec::new(), Vec::new());
    while now < end {
        let (states, next) = world.reconcile(&names, now);
        history.add(&states, now);
        history.check(&names, now);
        assert!(world.authorities() <= 3, "{} authorities at {now}", world.authorities());
        let certificates = world.bundle.split_inclusive("-----END CERTIFICATE-----\n");
        authorities.extend(certificates.map(|one| one.trim().to_owned()));
        chains.push(states.last().unwrap().chain.clone());
        // Check while a component may lag behind, and just before the next change.
        for at in [now + LAG, next - SignedDuration::from_secs(1)] {
            if now < at && at < next {
                history.add(&[], at);
                history.check(&names, at);
            }
        }
        now = next.min(now + DAY * 5);
    }
    authorities.sort_unstable();
    authorities.dedup();
    chains.dedup();
    // An authority signs for 243 days; a certificate is served for 60.
    assert_eq!(authorities.len(), 12);
    assert!((48..=55).contains(&chains.len()), "{} certificates", chains.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// The operator is away for up to 29 days at a time, again and again.
    #[test]
    fn an_operator_that_is_away_for_weeks_is_not_missed(gaps in prop::collection::vec(0i64..29 * 24, 60)) {
        let names = names(&[]);
        let (mut world, mut history) = (World::default(), History::default());
        let mut now = begin();
        history.add(&world.reconcile(&names, now).0, now);
        for gap in gaps {
            let back = now + HOUR * i32::try_from(gap).unwrap();
            for at in [now + LAG, back] {
                if at <= back {
                    history.add(&[], at);
                    history.check(&names, at);
                }
            }
            now = back;
            history.add(&world.reconcile(&names, now).0, now);
            history.check(&names, now);
        }
    }

    #[test]
    fn after_any_absence_a_webhook_is_believed_again(years in 0i32..30, days in 0i32..365) {
        let names = names(&[]);
        let mut world = World::default();
        world.reconcile(&names, begin());
        let now = begin() + DAY * (365 * years + days);
        let (states, _) = world.reconcile(&names, now);
        prop_assert!(believes(states.last().unwrap(), &names, now));
        prop_assert!(world.authorities() <= 2);
    }
}

#[test]
fn other_names_are_served_at_once() {
    let mut world = World::default();
    world.reconcile(&names(&[]), begin());
    let before = world.clone();
    for (day, extra) in [(1, vec!["127.0.0.1"]), (2, vec!["a.example", "::1"]), (3, vec![])] {
        let (names, now) = (names(&extra), begin() + DAY * day);
        let (states, _) = world.reconcile(&names, now);
        assert!(believes(states.last().unwrap(), &names, now), "{extra:?}");
        assert_eq!(world.bundle, before.bundle, "the same authority signs");
    }
    let no_longer = names(&["127.0.0.1"]);
    assert!(
        !believes(&world.public().unwrap(), &no_longer, begin() + DAY * 3),
        "a name that was taken away is gone"
    );
}

fn authority(made: i64, lifetime: i64, has_key: bool) -> plan::Authority {
    plan::Authority {
        validity: Validity::new(
            begin() + HOUR * made.try_into().unwrap(),
            HOUR * lifetime.try_into().unwrap(),
            None,
        ),
        has_key,
    }
}

#[test]
fn an_authority_joins_long_before_it_signs_and_stays_until_it_expires() {
    let now = begin();
    let old = authority(-6000, 8760, true);
    let serving = |renewed: i64| {
        Some(plan::Serving {
            validity: Validity::new(now - HOUR * renewed.try_into().unwrap(), SERVING_LIFETIME, None),
            is_good: true,
        })
    };
    assert_eq!(plan(&[old], serving(0), now).steps, [Step::Create]);
    let new = |age: i64| authority(-age, 8760, true);
    assert_eq!(plan(&[old, new(0)], serving(0), now).steps, []);
    assert_eq!(plan(&[old, new(0)], serving(0), now).next, now + OVERLAP);
    // The old authority signs a renewal that is due meanwhile.
    assert_eq!(plan(&[old, new(0)], serving(1500), now).steps, [Step::Issue { by: 0 }]);
    // The new authority is trusted, so the old key is no longer needed.
    assert_eq!(plan(&[old, new(700)], serving(0), now).steps, [Step::DropKey(0)]);
    assert_eq!(
        plan(&[old, new(700)], serving(1500), now).steps,
        [Step::DropKey(0), Step::Issue { by: 1 }]
    );
    let expired = authority(-8760, 8760, false);
    assert_eq!(plan(&[expired, new(700)], serving(0), now).steps, [Step::Drop(0)]);
}

#[test]
fn a_certificate_never_outlives_its_authority() {
    let limit = begin() + DAY;
    let short = Validity::new(begin(), SERVING_LIFETIME, Some(limit));
    assert_eq!(short.not_after, limit);
    assert_eq!(short.renewal(), begin() + HOUR * 16);
    let long = Validity::new(begin(), SERVING_LIFETIME, Some(begin() + AUTHORITY_LIFETIME));
    assert_eq!(long.not_after, begin() + SERVING_LIFETIME);
    assert_eq!(long.renewal(), begin() + DAY * 60);
}

fn any_authority() -> impl Strategy<Value = plan::Authority> {
    (-10_000i64..200, 1i64..20_000, any::<bool>()).prop_map(|(made, lifetime, key)| authority(made, lifetime, key))
}

proptest! {
    /// For any state: applying the plan settles it, and nothing is planned twice.
    #[test]
    fn one_plan_is_enough(
        mut authorities in prop::collection::vec(any_authority(), 0..6),
        serving in prop::option::of((any_authority(), any::<bool>())),
    ) {
        let now = begin();
        let mut serving = serving.map(|(made, is_good)| plan::Serving { validity: made.validity, is_good });
        let first = plan(&authorities, serving, now);
        let count = authorities.len();
        for step in &first.steps {
            match *step {
                Step::Create => authorities.push(authority(0, 8760, true)),
                Step::Issue { by } => {
                    let signer = authorities[by];
                    prop_assert!(signer.has_key && signer.validity.contains(now));
                    let validity = Validity::new(now, SERVING_LIFETIME, Some(signer.validity.not_after));
                    serving = Some(plan::Serving { validity, is_good: true });
                }
                Step::DropKey(place) => authorities[place].has_key = false,
                Step::Drop(place) => prop_assert!(place < count && authorities[place].validity.not_after <= now),
            }
        }
        authorities.retain(|authority| now < authority.validity.not_after);
        let second = plan(&authorities, serving, now);
        prop_assert_eq!(&second.steps, &[]);
        prop_assert!(second.next > now);
        prop_assert!(serving.is_some_and(|serving| serving.is_good && serving.validity.contains(now)));
    }
}
