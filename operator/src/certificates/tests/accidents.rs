//! Changes that somebody may make to the Secrets.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use proptest::prelude::*;

use super::*;

fn set(secret: &mut Option<Secret>, key: &str, value: &str) {
    let data = secret.as_mut().unwrap().data.as_mut().unwrap();
    data.insert(key.to_owned(), ByteString(value.into()));
}

/// Returns a separate world, whose authority is unknown here.
fn foreign(extra: &[&str]) -> World {
    let mut world = World::default();
    world.reconcile(&names(extra), begin());
    world
}

/// A change, and for the authority's and the webhook's Secret the key that has to be named as damaged.
type Damage = (&'static str, fn(&mut World), Option<&'static str>, Option<&'static str>);

#[test]
fn whatever_happens_to_the_authority_the_webhook_is_believed_again() {
    recovers_from([
        ("authority removed", |world| world.authority = None, None, None),
        (
            "authority emptied",
            |world| world.authority = Some(Secret::default()),
            None,
            None,
        ),
        (
            "bundle garbled",
            |world| set(&mut world.authority, "ca.crt", "garbage"),
            Some("ca.crt"),
            None,
        ),
        (
            "bundle with a broken certificate",
            |world| {
                let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
                set(&mut world.authority, "ca.crt", broken);
            },
            Some("ca.crt"),
            None,
        ),
        (
            "bundle altered by one bit",
            |world| {
                let mut altered = pem::parse(&world.bundle).unwrap().into_contents();
                let last = altered.len() - 1;
                altered[last] ^= 1;
                let altered = pem::encode(&pem::Pem::new("CERTIFICATE", altered));
                set(&mut world.authority, "ca.crt", &altered);
            },
            Some("ca.crt"),
            None,
        ),
        (
            "bundle of a certificate that is no authority",
            |world| {
                let leaf = text(world.serving.as_ref(), "tls.crt").to_owned();
                set(&mut world.authority, "ca.crt", &leaf);
            },
            Some("ca.crt"),
            None,
        ),
        (
            "bundle of too many",
            |world| {
                let many = world.bundle.repeat(9);
                set(&mut world.authority, "ca.crt", &many);
            },
            Some("ca.crt"),
            None,
        ),
        (
            "key garbled",
            |world| set(&mut world.authority, "ca.key", "garbage"),
            Some("ca.key"),
            None,
        ),
        (
            "key of another",
            |world| {
                let other = foreign(&[]);
                set(&mut world.authority, "ca.key", text(other.authority.as_ref(), "ca.key"));
            },
            Some("ca.key"),
            None,
        ),
    ]);
}

#[test]
fn whatever_happens_to_the_certificate_the_webhook_is_believed_again() {
    recovers_from([
        ("serving removed", |world| world.serving = None, None, None),
        (
            "serving emptied",
            |world| world.serving = Some(Secret::default()),
            None,
            None,
        ),
        (
            "certificate garbled",
            |world| set(&mut world.serving, "tls.crt", "garbage"),
            None,
            Some("tls.crt"),
        ),
        (
            "serving key garbled",
            |world| set(&mut world.serving, "tls.key", "garbage"),
            None,
            Some("tls.key"),
        ),
        (
            "serving key of another",
            |world| {
                let other = foreign(&[]);
                set(&mut world.serving, "tls.key", text(other.serving.as_ref(), "tls.key"));
            },
            None,
            Some("tls.key"),
        ),
        (
            "bundle beside the certificate garbled",
            |world| set(&mut world.serving, "ca.crt", "garbage"),
            None,
            None,
        ),
    ]);
}

fn recovers_from<const N: usize>(cases: [Damage; N]) {
    let names = names(&[]);
    for (case, damage, bad_authority, bad_serving) in cases {
        let mut world = foreign(&[]);
        damage(&mut world);
        let now = begin() + DAY;
        let found = secrets::read(world.authority.as_ref(), world.serving.as_ref(), now);
        for (bad, expected) in [(found.bad_authority, bad_authority), (found.bad_serving, bad_serving)] {
            assert_eq!(bad.is_some(), expected.is_some(), "{case}: {bad:?}");
            assert!(
                bad.unwrap_or_default().contains(expected.unwrap_or_default()),
                "{case}: {bad:?}"
            );
        }
        let (states, _) = world.reconcile(&names, now);
        assert!(believes(states.last().unwrap(), &names, now), "{case}");
        assert_eq!(text(world.serving.as_ref(), "ca.crt"), world.bundle, "{case}");
        let settled = world.clone();
        world.reconcile(&names, now);
        assert_eq!(
            (world.authority, world.serving),
            (settled.authority, settled.serving),
            "{case}: settled at once"
        );
    }
}

/// The webhook serves its old certificate until it has seen the new one, so API servers must trust both.
#[test]
fn a_lost_authority_is_replaced_without_a_moment_of_disbelief() {
    let names = names(&[]);
    for lose in [
        (|world: &mut World| world.authority = None) as fn(&mut World),
        |world| set(&mut world.authority, "ca.crt", "garbage"),
        |world| set(&mut world.authority, "ca.key", ""),
    ] {
        let mut world = foreign(&[]);
        lose(&mut world);
        let mut now = begin() + DAY;
        for _ in 0..30 {
            let served = world.public().unwrap();
            let (states, next) = world.reconcile(&names, now);
            for state in &states {
                assert!(believes(state, &names, now), "at {now}");
                let late_webhook = Public {
                    chain: served.chain.clone(),
                    ..state.clone()
                };
                assert!(believes(&late_webhook, &names, now), "a late webhook at {now}");
                let late_api_server = Public {
                    bundle: served.bundle.clone(),
                    ..state.clone()
                };
                assert!(believes(&late_api_server, &names, now), "a late API server at {now}");
            }
            now = next;
        }
        assert!(now > begin() + DAY * 365, "more than a year has passed");
    }
}

/// This is the case if cert-manager wrote the Secret before, with its own authority beside the certificate.
#[test]
fn a_foreign_certificate_serves_until_it_is_replaced() {
    for foreign_names in [vec![], vec!["other.example"]] {
        let theirs = foreign(&foreign_names);
        let mut world = World {
            serving: theirs.serving.clone(),
            ..World::default()
        };
        let now = begin() + DAY;
        let (states, _) = world.reconcile(&names(&[]), now);
        // This holds from the moment when the bundle is written.
        for state in &states[1..] {
            assert!(believes(state, &names(&[]), now), "{foreign_names:?}");
        }
        let replaced = world.public().unwrap().chain != theirs.public().unwrap().chain;
        assert_eq!(replaced, !foreign_names.is_empty());
    }
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let good = foreign(&[]);
    let texts: Vec<Vec<u8>> = ["ca.crt", "tls.crt", "tls.key"]
        .into_iter()
        .map(|key| text(good.serving.as_ref(), key).into())
        .chain([text(good.authority.as_ref(), "ca.key").into()])
        .collect();
    let near =
        (prop::sample::select(texts), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut text, at, byte)| {
            let at = at.index(text.len());
            text[at] = byte;
            text
        });
    prop_oneof![near, prop::collection::vec(any::<u8>(), 0..200)]
}

fn any_secret() -> impl Strategy<Value = Option<Secret>> {
    let key = prop::sample::select(vec!["ca.crt", "ca.key", "tls.crt", "tls.key"]).prop_map(str::to_owned);
    let data = prop::collection::btree_map(key, any_bytes().prop_map(ByteString), 0..4);
    prop::option::of(data.prop_map(|data: BTreeMap<_, _>| secret(data)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_secret_makes_the_keeper_panic(authority in any_secret(), serving in any_secret()) {
        let names = names(&[]);
        let mut world = World { authority, serving, ..World::default() };
        let (states, _) = world.reconcile(&names, begin());
        prop_assert!(believes(states.last().unwrap(), &names, begin()));
    }

    /// Every accepted name can be served. Otherwise every look would create another certificate.
    #[test]
    fn every_accepted_name_can_be_served(
        dns in "[a-zA-Z0-9_-]{1,10}(\\.[a-zA-Z0-9_-]{1,10}){0,4}\\.?", address in any::<u128>(), short in any::<u32>(),
    ) {
        let v6 = std::net::Ipv6Addr::from(address).to_string();
        let v4 = std::net::Ipv4Addr::from(short).to_string();
        let extra: Vec<Name> = [dns.as_str(), &v6, &v4].iter().filter_map(|text| text.parse().ok()).collect();
        let names = Name::of_service("webhook", "cardgate-system", &extra);
        let mut world = World::default();
        let (states, _) = world.reconcile(&names, begin());
        prop_assert!(believes(states.last().unwrap(), &names, begin()));
        let settled = world.serving.clone();
        world.reconcile(&names, begin());
        prop_assert_eq!(world.serving, settled);
    }
}
