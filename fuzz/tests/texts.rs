//! Every parser of a text that users write: whatever it is, an answer that is short, cheap, and the same when it is read again.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is how a target fails")]

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use crds::bounds::{QUOTA_ENTRIES, REQUEST_CARDS};
use crds::card::{CardAlternatives, parse_name};
use crds::card_assigned::AssignedCards;
use crds::card_counts::{CardQuota, CardRequest};
use crds::configuration::{Configuration, generation};
use crds::cross_quota::{Percentage, parse_quota};
use crds::format::format_amount;
use crds::label_selector::LabelSelector;
use crds::mgpu::ComputePolicy;
use crds::queue_access::QueueAccess;
use crds::resources::parse_amount;
use crds::scoring_strategy::ScoringStrategy;
use crds::{names, quantity, slug, spelling};
use engine::devices::not_evaluated;
use fuzz::corpus;
use fuzz::cost::within;
use fuzz::texts::Texts;

/// As many cases on every machine: by time alone, a faster one would find what a slower one passed.
const CASES: usize = 2_000;

/// What reading a text may cost without optimisation, however long it is.
const LIMIT: Duration = Duration::from_millis(200);
/// The longest message: a sentence or two, with the texts that it quotes cut.
const LONGEST_MESSAGE: usize = 1200;

/// A target: takes a text, and says whether it was accepted.
macro_rules! target {
    ($target:ident, $corpus:literal, $judge:expr) => {
        #[test]
        fn $target() {
            let judge: fn(&str) -> bool = $judge;
            let entries = corpus::read($corpus);
            for entry in &entries {
                let accepted = judge(&entry.text);
                assert!(
                    entry.valid.is_none_or(|valid| valid == accepted),
                    "{} is accepted: {accepted}",
                    entry.name
                );
            }
            let texts = Texts::near(entries.into_iter().map(|entry| entry.text));
            bolero::check!()
                .with_iterations(CASES)
                .with_generator(texts)
                .for_each(|text| {
                    judge(text);
                });
        }
    };
}

/// What was read of a text, twice: where it is refused, by the same words, which are fit to be shown.
fn read<T: PartialEq + Debug, E: Display>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
    let once = within(LIMIT, format_args!("a text of {} bytes", text.len()), || parse(text));
    match (once, parse(text)) {
        (Ok(once), Ok(again)) => {
            assert_eq!(once, again);
            Some(once)
        }
        (Err(once), Err(again)) => {
            check_message(&once.to_string());
            assert_eq!(once.to_string(), again.to_string());
            None
        }
        _ => panic!("{text:?} is accepted now and then"),
    }
}

/// A message is for people: short, on one line, and nothing in it moves the cursor or turns the text around.
fn check_message(message: &str) {
    assert!(
        !message.is_empty() && message.len() <= LONGEST_MESSAGE,
        "{} bytes: {message}",
        message.len()
    );
    let is_odd = |char: char| {
        char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!message.contains(is_odd), "{message:?}");
}

target!(card_names, "card-names", |text| {
    let one = read(text, |text| parse_name(text).map(ToOwned::to_owned));
    let alternatives = read(text, |text| {
        CardAlternatives::parse(text).map(|names| names.to_string())
    });
    if let Some(one) = &one {
        assert!(names::is_object_name(&slug::slug(one)), "{one:?}");
    }
    if let Some(printed) = &alternatives {
        let again = CardAlternatives::parse(printed).unwrap();
        assert_eq!(again.as_slice(), CardAlternatives::parse(text).unwrap().as_slice());
        assert!(again.iter().all(|name| parse_name(name).is_ok()));
    }
    alternatives.is_some()
});

fn printed<'a>(counts: impl Iterator<Item = (&'a str, i64)>) -> String {
    let counts = counts.map(|(name, count)| (name.to_owned(), serde_json::Value::from(count)));
    serde_json::Value::Object(counts.collect()).to_string()
}

target!(card_quotas, "card-quotas", |text| {
    let Some(quota) = read(text, CardQuota::parse) else {
        return false;
    };
    assert!(quota.iter().len() <= QUOTA_ENTRIES);
    for (card, count) in quota.iter() {
        assert!(count >= 0 && parse_name(card).is_ok() && quota.get(card) == count);
    }
    assert_eq!(CardQuota::parse(&printed(quota.iter())).unwrap(), quota);
    // Who has a quota may ask for all of it.
    let within = quota.iter().len() <= REQUEST_CARDS && text.len() <= 16_384;
    assert!(!within || CardRequest::parse(text).is_ok(), "{text:?}");
    true
});

target!(card_requests, "card-requests", |text| {
    let Some(request) = read(text, CardRequest::parse) else {
        return false;
    };
    assert!(request.iter().len() <= REQUEST_CARDS);
    for (alternatives, count) in request.iter() {
        assert!(count >= 0 && CardAlternatives::parse(alternatives).unwrap().to_string() == alternatives);
    }
    assert_eq!(CardRequest::parse(&printed(request.iter())).unwrap(), request);
    true
});

target!(assigned_cards, "assigned-cards", |text| {
    match within(LIMIT, "assigned cards", || AssignedCards::parse(text)) {
        // What can't be read as several is one, by the name that it is.
        AssignedCards::One(name) => {
            assert_eq!(name, text);
            false
        }
        AssignedCards::Counted(counts) => {
            let written = AssignedCards::counted(counts.iter().map(|(card, count)| (card.as_str(), *count)));
            assert_eq!(AssignedCards::parse(&written), AssignedCards::Counted(counts));
            true
        }
    }
});

target!(selectors, "selectors", |text| {
    let evaluated = |text: &str| not_evaluated(text).map_or(Ok(()), Err);
    read(text, evaluated).is_some()
});

target!(quantities, "quantities", |text| {
    let units = read(text, quantity::parse_units);
    let milli = read(text, quantity::parse_milli);
    // What is whole in thousandths is so in whole units, rounded away from zero; only the larger one may be too large.
    if let Some(milli) = milli {
        let whole = milli / 1000 + i64::from(milli % 1000 != 0) * milli.signum();
        assert!(
            units.is_some_and(|units| units == whole || (milli % 1000).abs() == 1),
            "{text:?}: {units:?} {milli}"
        );
    }
    for resource in [
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "hugepages-2Mi",
        "nvidia.com/gpu",
        "vke.volcengine.com/mgpu-memory",
    ] {
        if let Some(amount) = read(text, |text| parse_amount(resource, text)) {
            let printed = format_amount(resource, amount.into());
            assert_eq!(
                parse_amount(resource, &printed).ok(),
                Some(amount),
                "{resource}: {text:?} is shown as {printed}"
            );
        }
    }
    units.is_some()
});

target!(label_selectors, "label-selectors", |text| {
    let Some(selector) = read(text, LabelSelector::parse) else {
        assert!(QueueAccess::parse(Some(text)).is_err() || text.trim().is_empty());
        return false;
    };
    assert!(!selector.selects_all(), "{text:?} selects everything");
    // White space around it says nothing.
    let spaced = format!(" {text}\t");
    assert!(spaced.len() > 4096 || LabelSelector::parse(&spaced).unwrap() == selector);
    for value in [None, Some(""), Some("a"), Some("7")] {
        within(LIMIT, "a look at labels", || selector.selects(|_| value));
    }
    assert!(
        read(text, |text| QueueAccess::parse(Some(text))
            .map(|access| access.allows_all()))
        .is_some()
    );
    true
});

target!(cross_quota_annotations, "cross-quota-annotations", |text| {
    let percentage = read(text, Percentage::parse);
    if let Some(percentage) = percentage {
        for amount in [0, 1, 1000, i64::MAX] {
            let part = percentage.of(amount);
            assert!((0..=amount).contains(&part), "{text} of {amount} is {part}");
        }
    }
    let quotas =
        ["cpu", "memory", "pods", "hugepages-1Gi"].map(|resource| read(text, |text| parse_quota(resource, text)));
    assert!(quotas.iter().flatten().all(|quota| *quota >= 0));
    percentage.is_some() || quotas[0].is_some()
});

target!(words, "words", |text| {
    let strategy = read(text, |text| {
        ScoringStrategy::from_str(text).map(|strategy| format!("{strategy:?}"))
    });
    let policy = read(text, ComputePolicy::from_str);
    if let Some(policy) = policy {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    strategy.is_some() || policy.is_some()
});

const CARDS: [&str; 4] = [
    "NVIDIA-A100",
    "NVIDIA-H100",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100/mig-1g.5gb-mixed",
];

target!(spellings, "spellings", |text| {
    let key = within(LIMIT, "a key", || spelling::meant_key(text));
    let card = within(LIMIT, "a card", || spelling::meant_card(text, CARDS));
    assert!(key.is_none_or(|key| key != text && spelling::may_be_misspelt(text)));
    assert!(card.is_none_or(|card| card != text && CARDS.contains(&card)));
    // Whoever writes what was meant is told nothing more.
    assert_eq!(key.and_then(spelling::meant_key), None);
    assert_eq!(card.and_then(|card| spelling::meant_card(card, CARDS)), None);
    key.is_some() || card.is_some()
});

target!(object_names, "object-names", |text| {
    let is_name = within(LIMIT, "a name", || names::is_object_name(text));
    let label = within(LIMIT, "a label", || {
        (names::is_label_key(text), names::is_label_value(text))
    });
    assert!(!is_name || text.len() <= 253);
    assert!(!label.1 || text.len() <= 63);
    if !text.is_empty() {
        let slug = within(LIMIT, "a slug", || slug::slug(text));
        assert!(names::is_object_name(&slug), "{slug}");
    }
    is_name
});

/// A configuration is read the same when the other half of it is there too, and what is not taken is told.
fn configuration(parse: fn(&str) -> Parsed, text: &str) -> bool {
    let read = within(
        5 * LIMIT,
        format_args!("a configuration of {} bytes", text.len()),
        || parse(text),
    );
    match read {
        Ok((configuration, warnings)) => {
            assert!(warnings.len() <= 101, "{} warnings", warnings.len());
            for warning in &warnings {
                check_message(warning);
            }
            let (again, _) = parse(text).unwrap();
            assert_eq!(configuration, again);
            true
        }
        Err(message) => {
            check_message(&message);
            false
        }
    }
}

type Parsed = Result<(Configuration, Vec<String>), String>;

fn parsed(scheduler: Option<&str>, cardgate: Option<&str>) -> Parsed {
    let _ = generation(scheduler, cardgate);
    let parsed = Configuration::parse(scheduler, cardgate).map_err(|error| error.to_string())?;
    let warnings = parsed.warnings.iter().map(ToString::to_string).collect();
    Ok((parsed.configuration, warnings))
}

target!(scheduler_configurations, "scheduler-configurations", |text| {
    configuration(|text| parsed(Some(text), None), text)
});

target!(cardgate_configurations, "cardgate-configurations", |text| {
    configuration(|text| parsed(None, Some(text)), text)
});
