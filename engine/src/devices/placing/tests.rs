use proptest::prelude::*;

use super::*;

/// Tries every way to give devices to requests, one after the other, with nothing left out.
fn by_force(question: &Question) -> bool {
    fn forms(question: &Question, number: usize, chosen: &mut Vec<(usize, Vec<usize>)>) -> bool {
        let Some(request) = question.requests.get(number) else {
            return is_right(question, chosen);
        };
        request.forms.iter().enumerate().any(|(place, form)| {
            (0_u32..1 << form.of.len())
                .filter(|bits| bits.count_ones() as usize == form.count)
                .any(|bits| {
                    let of = form.of.iter().enumerate();
                    let set = of
                        .filter(|(bit, _)| bits >> bit & 1 == 1)
                        .map(|(_, device)| *device)
                        .collect();
                    chosen.push((place, set));
                    let found = forms(question, number + 1, chosen);
                    chosen.pop();
                    found
                })
        })
    }
    fn is_right(question: &Question, chosen: &[(usize, Vec<usize>)]) -> bool {
        let mut left = question.counters.clone();
        let mut times = vec![0; question.devices.len()];
        let mut tied: Vec<Vec<usize>> = vec![Vec::new(); question.ties.len()];
        for (request, (form, devices)) in question.requests.iter().zip(chosen) {
            for device in devices {
                times[*device] += 1;
                if times[*device] > 1 && !question.devices[*device].is_shared {
                    return false;
                }
                if times[*device] == 1 {
                    for (counter, amount) in &question.devices[*device].takes {
                        left[*counter] -= amount;
                    }
                }
                for tie in &request.forms[*form].ties {
                    match question.ties[*tie].values[*device] {
                        Some(value) => tied[*tie].push(value),
                        None => return false,
                    }
                }
            }
        }
        let holds = |(tie, values): (&Tie, &Vec<usize>)| {
            let mut each = values.clone();
            each.sort_unstable();
            each.dedup();
            if tie.differ {
                each.len() == values.len()
            } else {
                each.len() <= 1
            }
        };
        left.iter().all(|left| *left >= 0) && question.ties.iter().zip(&tied).all(holds)
    }
    forms(question, 0, &mut Vec::new())
}

fn questions() -> impl Strategy<Value = Question> {
    let counters = proptest::collection::vec(0_i64..4, 0..3);
    (1_usize..6, counters).prop_flat_map(|(count, counters)| {
        let most = counters.len();
        let takes = proptest::collection::vec((0..most.max(1), 1_i64..3), 0..=most);
        let takes = takes.prop_map(|takes| {
            takes
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>()
                .into_iter()
                .collect()
        });
        let thing = (takes, proptest::bool::weighted(0.3)).prop_map(|(takes, is_shared)| Thing { takes, is_shared });
        let tie = (
            proptest::collection::vec(proptest::option::weighted(0.8, 0_usize..3), count),
            any::<bool>(),
        )
            .prop_map(|(values, differ)| Tie { values, differ });
        let form = (
            proptest::sample::subsequence((0..count).collect::<Vec<_>>(), 0..=count),
            1_usize..4,
            0_usize..4,
        )
            .prop_map(|(of, count, ties)| {
                let ties = (0..2).filter(|tie| ties >> tie & 1 == 1).collect();
                Form { of, count, ties }
            });
        let wanted = proptest::collection::vec(form, 1..3).prop_map(|forms| Wanted { forms });
        (
            proptest::collection::vec(thing, count),
            Just(counters),
            proptest::collection::vec(wanted, 0..4),
            proptest::collection::vec(tie, 2),
        )
            .prop_map(|(devices, counters, requests, ties)| Question {
                devices,
                counters,
                requests,
                ties,
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_found_is_what_trying_everything_finds(mut question in questions()) {
        let counters = question.counters.len();
        for thing in &mut question.devices {
            thing.takes.retain(|(counter, _)| *counter < counters);
        }
        let expected = if by_force(&question) { Answer::Fits } else { Answer::NoRoom };
        prop_assert_eq!(question.answer(&Steps::new(1_000_000)), expected);
    }
}

#[test]
fn what_takes_too_many_steps_is_said_to() {
    // Sixteen cards of two halves each, of which no two that are tied have the same: pigeons and their holes.
    let devices = vec![Thing::default(); 24];
    let ties = (0..12)
        .map(|tie| Tie {
            values: (0..24).map(|device| Some((device * (tie + 3)) % 11)).collect(),
            differ: true,
        })
        .collect();
    let form = Form {
        of: (0..24).collect(),
        count: 12,
        ties: (0..12).collect(),
    };
    let question = Question {
        devices,
        counters: Vec::new(),
        requests: vec![Wanted { forms: vec![form] }],
        ties,
    };
    assert_eq!(question.answer(&Steps::new(100)), Answer::TooComplex);
}

/// Each given device takes room on the stack, and a thread has 2 MiB of stack.
#[test]
fn a_device_that_several_may_have_is_not_given_without_end() {
    let shared = Thing {
        is_shared: true,
        takes: vec![(0, 1)],
    };
    let one = Form {
        of: vec![0],
        count: 1,
        ties: Vec::new(),
    };
    let asked_by = |requests: usize| Question {
        devices: vec![shared.clone()],
        counters: vec![i64::MAX],
        requests: vec![
            Wanted {
                forms: vec![one.clone()]
            };
            requests
        ],
        ..Question::default()
    };
    let steps = Steps::new(1_000_000);
    assert_eq!(asked_by(MOST_GIVEN).answer(&steps), Answer::Fits);
    assert!(!steps.are_spent());
    let mut too_many = asked_by(50_000);
    assert_eq!(too_many.answer(&steps), Answer::TooComplex);
    assert!(steps.are_spent());
    // Two devices like that one, each for one request alone, for three requests that may have no third.
    too_many.devices.resize(3, Thing::default());
    let either = Form {
        of: vec![1, 2],
        ties: vec![0],
        ..one.clone()
    };
    too_many.ties.push(Tie {
        values: vec![Some(0); 3],
        differ: false,
    });
    too_many.requests.extend(vec![Wanted { forms: vec![either] }; 3]);
    assert_eq!(too_many.answer(&Steps::new(1000)), Answer::NoRoom);
}

#[test]
fn requests_that_have_nothing_in_common_are_searched_for_apart() {
    let shared = Thing {
        is_shared: true,
        ..Thing::default()
    };
    let tie = Tie {
        values: vec![Some(0); 3],
        differ: false,
    };
    // Thousands of claims, each for two of the devices that all may have, alike in something, and one for a device of its own.
    let claims = 5000;
    let mut question = Question {
        devices: vec![shared.clone(), shared, Thing::default()],
        ties: vec![tie; claims],
        ..Question::default()
    };
    let wanted = |of: Vec<usize>, ties| {
        let count = of.len();
        Wanted {
            forms: vec![Form { of, count, ties }],
        }
    };
    question.requests = (0..claims).map(|claim| wanted(vec![0, 1], vec![claim])).collect();
    question.requests.push(wanted(vec![2], Vec::new()));
    assert_eq!(question.answer(&Steps::new(100_000)), Answer::Fits);
    question.requests.push(wanted(vec![2], Vec::new()));
    assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
}

#[test]
fn more_than_there_are_is_seen_without_steps() {
    let tie = Tie {
        values: vec![Some(0); 8],
        differ: false,
    };
    let one = |tie| Wanted {
        forms: vec![Form {
            of: (0..8).collect(),
            count: 1,
            ties: vec![tie],
        }],
    };
    let mut question = Question {
        devices: vec![Thing::default(); 8],
        requests: (0..9).map(one).collect(),
        ties: vec![tie; 9],
        ..Question::default()
    };
    assert_eq!(question.answer(&Steps::new(0)), Answer::NoRoom);
    question.requests.pop();
    assert_eq!(question.answer(&Steps::new(0)), Answer::TooComplex);
    assert_eq!(question.answer(&Steps::new(1000)), Answer::Fits);
}

#[test]
fn to_compare_devices_takes_steps() {
    let tie = Tie {
        values: vec![None; 56],
        differ: false,
    };
    let form = Form {
        of: (0..56).collect(),
        count: 1,
        ties: (0..256).collect(),
    };
    let question = Question {
        devices: vec![Thing::default(); 56],
        requests: vec![Wanted { forms: vec![form] }],
        ties: vec![tie; 256],
        ..Question::default()
    };
    let steps = Steps::new(1_000_000);
    assert_eq!(question.answer(&steps), Answer::NoRoom);
    assert!(1_000_000 - steps.left() > 56 * 256, "{}", steps.left());
}

#[test]
fn what_can_always_be_had_keeps_no_search_from_its_end() {
    let form = |device| Form {
        of: vec![device],
        count: 1,
        ties: Vec::new(),
    };
    let one_of = |device| Wanted {
        forms: vec![form(device)],
    };
    let shared = Thing {
        is_shared: true,
        ..Thing::default()
    };
    let mut requests = vec![one_of(0); 50_000];
    requests.push(one_of(1));
    let mut question = Question {
        devices: vec![shared, Thing::default()],
        requests,
        ..Question::default()
    };
    assert_eq!(question.answer(&Steps::new(100)), Answer::Fits);
    question.requests.push(one_of(1));
    assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
}

#[test]
fn many_equal_requests_are_judged_in_few_steps() {
    let question = Question {
        devices: vec![Thing::default(); 64],
        requests: vec![
            Wanted {
                forms: vec![Form {
                    of: (0..64).collect(),
                    count: 1,
                    ties: Vec::new()
                }]
            };
            65
        ],
        ..Question::default()
    };
    assert_eq!(question.answer(&Steps::new(100)), Answer::NoRoom);
}
