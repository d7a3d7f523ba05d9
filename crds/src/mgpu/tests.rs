//! The document's webhook section, case by case, each with its correct neighbours.

use serde_json::{Value, json};

use super::{ContainerRequest as Request, *};

const CORE: &str = MGPU_CORE;
const MEMORY: &str = MGPU_MEMORY;

/// A container that requests amounts of resources.
fn container(name: &str, requests: &[(&str, &str)]) -> Value {
    let requests: serde_json::Map<_, _> = requests
        .iter()
        .map(|(resource, quantity)| ((*resource).to_owned(), json!(quantity)))
        .collect();
    json!({"name": name, "resources": {"requests": requests}})
}

/// What a pod with these containers and this list of card counts asks for.
fn read(list: Option<&str>, containers: &[Value]) -> Result<Option<MgpuRequest>, MgpuError> {
    let annotations: Value = list.map_or(json!({}), |list| json!({MGPU_CONTAINER_CARDS: list}));
    read_pod(&json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}}))
}

fn read_pod(pod: &Value) -> Result<Option<MgpuRequest>, MgpuError> {
    let pod: Pod<Box<str>> = serde_json::from_value(pod.clone()).unwrap();
    MgpuRequest::read(&pod)
}

/// What a pod with one container asks for.
fn one(list: Option<&str>, requests: &[(&str, &str)]) -> Result<Request, MgpuError> {
    read(list, &[container("main", requests)]).map(|request| request.unwrap().containers[0].1)
}

/// The message names the container and all of `parts`.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, MgpuError>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn normal_mgpu_pod_1_requested_core_or_memory_not_positive() {
    // The document's own case.
    refused(
        one(None, &[(CORE, "-20"), (MEMORY, "6k")]),
        &["\"main\"", "-20", CORE, "more than 0"],
    );
    refused(one(None, &[(CORE, "0")]), &["\"main\"", "0 of", CORE]);
    refused(one(None, &[(CORE, "0"), (MEMORY, "6k")]), &["\"main\"", "0 of", CORE]);
    refused(one(None, &[(CORE, "20"), (MEMORY, "0")]), &["\"main\"", "0 of", MEMORY]);
    refused(
        one(None, &[(CORE, "20"), (MEMORY, "-6k")]),
        &["\"main\"", "-6k", MEMORY],
    );
    refused(
        one(None, &[(CORE, "100"), (MEMORY, "0")]),
        &["\"main\"", "0 of", MEMORY],
    );
    // Neighbours.
    assert_eq!(one(None, &[(CORE, "1"), (MEMORY, "6k")]), Ok(Request::part(1, 1, 6000)));
    assert_eq!(
        one(None, &[(CORE, "20"), (MEMORY, "6k")]),
        Ok(Request::part(1, 20, 6000))
    );
}

#[test]
fn schedule_result_a_containers_name_fits_into_the_key() {
    let named = |length: usize| read(None, &[container(&"c".repeat(length), &[(CORE, "100")])]);
    assert!(named(43).is_ok());
    refused(
        named(44),
        &["a name of 44 characters", "gpu-index-container-NAME", "43 at most"],
    );
    assert!(
        read(None, &[container(&"c".repeat(63), &[("cpu", "1")])])
            .unwrap()
            .is_none(),
        "no result is written for it"
    );
}

#[test]
fn normal_mgpu_pod_2_too_little_memory_for_a_part_of_a_card() {
    for memory in ["1", "128", "255"] {
        refused(
            one(None, &[(CORE, "99"), (MEMORY, memory)]),
            &["\"main\"", &format!("{memory} of {MEMORY}"), "99 of", "256 MiB"],
        );
    }
    refused(one(None, &[(CORE, "50")]), &["\"main\"", "0 of", MEMORY, "256 MiB"]);
    assert_eq!(
        one(None, &[(CORE, "99"), (MEMORY, "256")]),
        Ok(Request::part(1, 99, 256))
    );
    assert_eq!(one(None, &[(CORE, "1"), (MEMORY, "257")]), Ok(Request::part(1, 1, 257)));
}

#[test]
fn normal_mgpu_pod_3_more_than_a_card_and_not_full_cards() {
    for core in ["101", "120", "150", "199", "250"] {
        refused(one(None, &[(CORE, core)]), &["\"main\"", core, "multiple of 100"]);
    }
    // The document's case of rule 2 is one of this rule too.
    refused(
        one(None, &[(CORE, "120"), (MEMORY, "128")]),
        &["\"main\"", "120", "multiple of 100"],
    );
    assert_eq!(one(None, &[(CORE, "100")]), Ok(Request::full(1)));
    assert_eq!(one(None, &[(CORE, "200")]), Ok(Request::full(2)));
    assert_eq!(one(None, &[(CORE, "1600")]), Ok(Request::full(16)));
}

#[test]
fn normal_mgpu_pod_4_full_cards_with_redundant_memory() {
    refused(
        one(None, &[(CORE, "200"), (MEMORY, "6k")]),
        &["\"main\"", "6000", "200 of", "2 full cards come with"],
    );
    refused(
        one(None, &[(CORE, "100"), (MEMORY, "256")]),
        &["\"main\"", "256", "100 of", "1 full card comes with"],
    );
    assert_eq!(one(None, &[(CORE, "200")]), Ok(Request::full(2)));
}

#[test]
fn multiple_mgpu_pod_1_number_of_gpus_and_containers_not_equal() {
    let container = |name| container(name, &[(CORE, "200"), (MEMORY, "6k")]);
    refused(
        read(Some("3,2"), &[container("main")]),
        &["\"3,2\"", "2 entries", "1 container:"],
    );
    refused(
        read(Some("4"), &[container("a"), container("b")]),
        &["\"4\"", "1 entry", "2 containers"],
    );
    assert_eq!(
        read(Some("4,5"), &[container("a"), container("b")]).unwrap().unwrap(),
        MgpuRequest {
            containers: [
                ("a".into(), Request::part(4, 50, 1500)),
                ("b".into(), Request::part(5, 40, 1200))
            ]
            .into(),
            multiple: true,
            policy: None,
        }
    );
}

#[test]
fn multiple_mgpu_pod_2_number_of_cards_invalid() {
    // The document's own case.
    refused(
        read(Some("-1,2"), &[container("main", &[(CORE, "200"), (MEMORY, "6k")])]),
        &["\"-1\"", "\"-1,2\"", "no number of cards"],
    );
    for list in ["-1", "", " ", " 2", "2 ", "two", "1.5", "+2", "0x2", "99999999999", "²"] {
        refused(
            one(Some(list), &[(CORE, "200")]),
            &[&format!("{list:?}"), "no number of cards"],
        );
    }
    let both = [
        container("a", &[(CORE, "50"), (MEMORY, "512")]),
        container("b", &[(CORE, "50"), (MEMORY, "512")]),
    ];
    for (list, entry) in [
        ("1,", "\"\""),
        (",1", "\"\""),
        ("1, 1", "\" 1\""),
        ("1;1", "\"1;1\""),
        ("1,1,", "\"\""),
    ] {
        refused(read(Some(list), &both), &[entry, &format!("{list:?}")]);
    }
    refused(read(Some("1,0"), &both), &["\"1,0\"", "\"b\"", "0 cards", "at least 1"]);
    // 0 is for containers without mGPU, and for no others.
    let mixed = [both[0].clone(), container("sidecar", &[("cpu", "1")])];
    refused(read(Some("1,1"), &mixed), &["\"1,1\"", "\"sidecar\"", "write 0"]);
    let request = read(Some("1,0"), &mixed).unwrap().unwrap();
    assert_eq!(&*request.containers, [("a".into(), Request::part(1, 50, 512))]);
}

#[test]
fn multiple_mgpu_pod_3_full_cards_with_redundant_memory() {
    refused(
        one(Some("2"), &[(CORE, "200"), (MEMORY, "6k")]),
        &["\"main\"", "6000", "200 of", "2 full cards"],
    );
    assert_eq!(one(Some("2"), &[(CORE, "200")]), Ok(Request::full(2)));
    assert_eq!(one(Some("1"), &[(CORE, "100")]), Ok(Request::full(1)));
}

#[test]
fn multiple_mgpu_pod_4_1_too_little_memory_on_every_card() {
    refused(
        one(Some("2"), &[(CORE, "100"), (MEMORY, "510")]),
        &["\"main\"", "510", "2 cards", "256 MiB"],
    );
    refused(one(Some("2"), &[(CORE, "100")]), &["\"main\"", "0 of", "256 MiB"]);
    assert_eq!(
        one(Some("2"), &[(CORE, "100"), (MEMORY, "512")]),
        Ok(Request::part(2, 50, 256))
    );
}

#[test]
fn multiple_mgpu_pod_4_2_core_and_memory_not_divisible() {
    // The document's own case.
    refused(
        one(Some("3"), &[(CORE, "130"), (MEMORY, "6k")]),
        &["\"main\"", "130 of", CORE, "3 cards", "divided by 3"],
    );
    refused(
        one(Some("3"), &[(CORE, "100"), (MEMORY, "6k")]),
        &["100 of", "divided by 3"],
    );
    refused(one(Some("3"), &[(CORE, "99"), (MEMORY, "1000")]), &["1000 of", MEMORY]);
    assert_eq!(
        one(Some("3"), &[(CORE, "99"), (MEMORY, "6k")]),
        Ok(Request::part(3, 33, 2000))
    );
    assert_eq!(
        one(Some("3"), &[(CORE, "132"), (MEMORY, "6k")]),
        Ok(Request::part(3, 44, 2000))
    );
}

#[test]
fn multiple_mgpu_pod_4_3_more_than_a_card_on_every_card() {
    // Whatever it divides by: 200 a card are no full cards either.
    for (list, core, per_card) in [
        ("2", "202", "101 a card"),
        ("1", "120", "120 a card"),
        ("2", "400", "200 a card"),
    ] {
        for requests in [&[(CORE, core)][..], &[(CORE, core), (MEMORY, "6k")]] {
            refused(
                one(Some(list), requests),
                &["\"main\"", core, per_card, "a card has 100"],
            );
        }
    }
    assert_eq!(
        one(Some("2"), &[(CORE, "198"), (MEMORY, "6k")]),
        Ok(Request::part(2, 99, 3000))
    );
    assert_eq!(
        one(Some("1"), &[(CORE, "99"), (MEMORY, "256")]),
        Ok(Request::part(1, 99, 256))
    );
}

#[test]
fn a_container_shares_multiple_gpu_cards_as_in_the_document() {
    let request = read(
        Some("2,1,3"),
        &[
            container("0", &[(CORE, "100"), (MEMORY, "6k")]),
            container("1", &[(CORE, "100")]),
            container("2", &[(CORE, "99"), (MEMORY, "6k")]),
        ],
    );
    let expected = [
        ("0".into(), Request::part(2, 50, 3000)),
        ("1".into(), Request::full(1)),
        ("2".into(), Request::part(3, 33, 2000)),
    ];
    assert_eq!(&*request.unwrap().unwrap().containers, expected);
}

#[test]
fn every_container_is_judged_in_requests_and_in_limits() {
    let with = |requests: Value, limits: Value| {
        let good = container("good", &[(CORE, "50"), (MEMORY, "512")]);
        let other = json!({"name": "other", "resources": {"requests": requests, "limits": limits}});
        read(None, &[good, other])
    };
    let core = |quantity: &str| json!({CORE: quantity});
    refused(with(core("-1"), json!({})), &["\"other\"", "-1"]);
    refused(with(json!({}), core("-1")), &["\"other\"", "-1"]);
    refused(
        with(core("100"), core("200")),
        &["\"other\"", "requests 100", "limited to 200"],
    );
    refused(with(core("100"), core("-1")), &["\"other\"", "-1"]);
    for (requests, limits) in [
        (core("100"), core("100")),
        (core("1e2"), core("100")),
        (core("100"), json!({})),
        (json!({}), core("100")),
    ] {
        let request = with(requests.clone(), limits.clone()).unwrap().unwrap();
        assert_eq!(
            request.containers[1],
            ("other".into(), Request::full(1)),
            "{requests} {limits}"
        );
    }
    // Each resource where it is written.
    let request = with(core("50"), json!({MEMORY: "1Ki"})).unwrap().unwrap();
    assert_eq!(request.containers[1].1, Request::part(1, 50, 1024));
}

#[test]
fn quantities_are_whole_numbers() {
    refused(one(None, &[(CORE, "a lot")]), &["\"main\"", CORE, "\"a lot\""]);
    refused(
        one(None, &[(CORE, "99999999999999999999")]),
        &["\"main\"", CORE, "too large"],
    );
    for fraction in ["99.5", "500m", "0.5"] {
        refused(one(None, &[(CORE, fraction)]), &["\"main\"", fraction, "whole number"]);
    }
    assert_eq!(one(None, &[(CORE, "100.0")]), Ok(Request::full(1)));
    assert_eq!(one(None, &[(CORE, "1e2")]), Ok(Request::full(1)));
    assert_eq!(one(None, &[(CORE, "100k")]), Ok(Request::full(1000)));
    assert_eq!(one(None, &[(CORE, "9223372036854775800")]), Ok(Request::full(u32::MAX)));
}

#[test]
fn memory_in_bytes_is_refused_with_the_mib_that_were_meant() {
    for (written, meant) in [
        ("8Gi", 8192),
        ("1.5Gi", 1536),
        ("0.3Gi", 308),
        ("8192Mi", 8192),
        ("8G", 7630),
        ("8192M", 7813),
        ("8589934592", 8192),
        ("67108864", 64),
    ] {
        refused(
            one(None, &[(CORE, "20"), (MEMORY, written)]),
            &["\"main\"", written, "counts MiB", &format!("write {meant}")],
        );
    }
    // The API server writes 8000 so, and 64 Ki MiB are 64 Gi.
    assert_eq!(
        one(None, &[(CORE, "20"), (MEMORY, "64Ki")]),
        Ok(Request::part(1, 20, 65_536))
    );
    assert_eq!(
        one(None, &[(CORE, "20"), (MEMORY, "8k")]),
        Ok(Request::part(1, 20, 8000))
    );
    let largest = one(None, &[(CORE, "20"), (MEMORY, "67108863")]);
    assert_eq!(largest, Ok(Request::part(1, 20, 67_108_863)));
    refused(one(None, &[(CORE, "20"), (MEMORY, "-8Gi")]), &["more than 0"]);
    refused(one(None, &[(CORE, "1Ki"), (MEMORY, "8000")]), &["1024", "full cards"]);
}

#[test]
fn memory_without_core_is_refused() {
    refused(
        one(None, &[(MEMORY, "6k")]),
        &["\"main\"", "6000", &format!("no {CORE}")],
    );
    refused(
        one(Some("1"), &[(MEMORY, "6k")]),
        &["\"main\"", "6000", &format!("no {CORE}")],
    );
}

#[test]
fn init_containers_and_sidecars_have_no_share() {
    for restart_policy in [json!(null), json!("Always")] {
        let pod = |resources: Value| {
            json!({"spec": {
                "containers": [container("main", &[])],
                "initContainers": [{"name": "init", "restartPolicy": restart_policy, "resources": resources}],
            }})
        };
        refused(read_pod(&pod(json!({"limits": {CORE: "50"}}))), &["\"init\"", CORE]);
        refused(
            read_pod(&pod(json!({"requests": {MEMORY: "512"}}))),
            &["\"init\"", MEMORY],
        );
        assert_eq!(read_pod(&pod(json!({"limits": {"cpu": "1"}}))), Ok(None));
    }
}

#[test]
fn a_pod_that_asks_for_no_mgpu_is_none_whatever_its_annotations_say() {
    for list in ["3,2", "-1", "", "nonsense"] {
        assert_eq!(read(Some(list), &[container("main", &[("cpu", "1")])]), Ok(None));
    }
    let pod = json!({"metadata": {"annotations": {MGPU_POLICY: "nonsense"}}, "spec": {"containers": [container("main", &[])]}});
    assert_eq!(read_pod(&pod), Ok(None));
}

/// A pod that names a policy, or none.
fn with_policy(policy: Option<&str>, list: Option<&str>, requests: &[(&str, &str)]) -> Result<MgpuRequest, MgpuError> {
    let annotations = [(MGPU_POLICY, policy), (MGPU_CONTAINER_CARDS, list)];
    let annotations: serde_json::Map<_, _> = annotations
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), json!(value?))))
        .collect();
    let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container("main", requests)]}});
    read_pod(&pod).map(Option::unwrap)
}

#[test]
fn filter_1_and_2_compute_policies_of_pod_and_node() {
    use ComputePolicy::{FixedShare, GuaranteedBurstShare, NativeBurstShare};
    const FIXED: Option<&str> = Some("fixed-share");
    const GUARANTEED: Option<&str> = Some("guaranteed-burst-share");
    const NATIVE: Option<&str> = Some("native-burst-share");
    let part = &[(CORE, "50"), (MEMORY, "512")][..];
    let full = &[(CORE, "100")][..];
    for (policy, list, requests, accepted) in [
        (None, None, part, &[FixedShare][..]),
        (FIXED, None, part, &[FixedShare]),
        (GUARANTEED, None, part, &[GuaranteedBurstShare]),
        (NATIVE, None, part, &[NativeBurstShare]),
        // Only full cards: any policy, unless one is named.
        (None, None, full, &[FixedShare, GuaranteedBurstShare, NativeBurstShare]),
        (
            None,
            Some("1"),
            full,
            &[FixedShare, GuaranteedBurstShare, NativeBurstShare],
        ),
        (GUARANTEED, None, full, &[GuaranteedBurstShare]),
        // Several cards: native-burst-share on both.
        (NATIVE, Some("2"), &[(CORE, "50"), (MEMORY, "512")], &[NativeBurstShare]),
        (None, Some("2"), &[(CORE, "50"), (MEMORY, "512")], &[]),
        (FIXED, Some("2"), &[(CORE, "50"), (MEMORY, "512")], &[]),
        (GUARANTEED, Some("1"), full, &[]),
        (NATIVE, Some("1"), full, &[NativeBurstShare]),
    ] {
        let request = with_policy(policy, list, requests).unwrap();
        let accepting = ComputePolicy::ALL.into_iter().filter(|node| request.accepts(*node));
        assert_eq!(
            accepting.collect::<Vec<_>>(),
            accepted,
            "{policy:?} {list:?} {requests:?}"
        );
    }
}

#[test]
fn a_policy_that_is_none_is_refused() {
    refused(
        with_policy(Some("burst"), None, &[(CORE, "100")]),
        &[MGPU_POLICY, "\"burst\"", "native-burst-share"],
    );
}

proptest::proptest! {
    /// What is accepted is what the document's rules say, put the other way round.
    #[test]
    fn accepted_requests_are_those_that_the_rules_allow(
        core in -50i64..450, memory in proptest::option::of(-300i64..2000), count in proptest::option::of(1u32..5),
    ) {
        let (core_text, memory_text) = (core.to_string(), memory.map(|memory| memory.to_string()));
        let mut requests = vec![(CORE, core_text.as_str())];
        requests.extend(memory_text.iter().map(|memory| (MEMORY, memory.as_str())));
        let list = count.map(|count| count.to_string());
        let result = one(list.as_deref(), &requests);
        let cards = count.map_or(if core > 100 { core / 100 } else { 1 }, i64::from);
        let is_full = core > 0 && core == cards * 100;
        let whole_parts = core % cards == 0 && memory.unwrap_or(0) % cards == 0;
        let allowed = if is_full {
            memory.is_none()
        } else {
            core > 0 && core < cards * 100 && whole_parts && memory.unwrap_or(0) / cards >= 256
                && (count.is_some() || cards == 1)
        };
        proptest::prop_assert_eq!(result.is_ok(), allowed, "{:?}", result);
        if let Ok(request) = result {
            proptest::prop_assert_eq!(i64::from(request.cards), cards);
            match request.share {
                Share::Full => proptest::prop_assert!(is_full),
                Share::Part { core: each, memory: each_memory } => {
                    proptest::prop_assert_eq!((each * cards, each_memory * cards), (core, memory.unwrap_or(0)));
                }
            }
        }
    }
}
