//! What is unclear, missing or wrong.

use super::*;

/// Returns the complete labels of one product, with `count` cards.
fn labels<'a>(keys: &'a [String; 3], product: &'a str, count: &'a str) -> [(&'a str, &'a str); 3] {
    [(&keys[0], product), (&keys[1], count), (&keys[2], "1024")]
}

fn keys(stem: &str) -> [String; 3] {
    [PRODUCT, COUNT, MEMORY].map(|suffix| format!("{stem}{suffix}"))
}

fn gpu(more: &[(&str, &str)], allocatable: &[(&str, &str)]) -> Discovery {
    node(
        &[&labels(&keys("nvidia.com/gpu"), "P", "8"), more].concat(),
        allocatable,
    )
}

#[test]
fn the_first_step_that_finds_a_resource_decides() {
    // By the start of the name, then by the prefix.
    assert_cards(
        &gpu(&[], &[("nvidia.com/gpu-a", "8"), ("nvidia.com/x", "9")]),
        &["P = nvidia.com/gpu-a x8 (Whole)"],
    );
    assert_cards(
        &gpu(&[], &[("nvidia.com/a100", "8"), ("other.com/x", "9")]),
        &["P = nvidia.com/a100 x8 (Whole)"],
    );
    // Zeros beside other resources are no cards. A step that finds only zeros does not lead on to the next step.
    assert_cards(
        &gpu(&[], &[("nvidia.com/gpu-a", "8"), ("nvidia.com/gpu-b", "0")]),
        &["P = nvidia.com/gpu-a x8 (Whole)"],
    );
    assert_problem(
        &gpu(&[], &[("nvidia.com/gpu", "0"), ("nvidia.com/gpu-a", "8")]),
        "NoneAllocatable",
        "label nvidia.com/gpu.product=P, but the node allocates 0 nvidia.com/gpu: no card is healthy, check the device \
         plugin's log",
    );
}

#[test]
fn of_several_resources_none_is_taken() {
    assert_problem(
        &gpu(&[], &[("nvidia.com/vgpu", "8"), ("nvidia.com/hostdev", "4")]),
        "AmbiguousResource",
        "label nvidia.com/gpu.product=P could be counted by any of nvidia.com/hostdev, nvidia.com/vgpu: none is taken, \
         name one of them exactly as the label without .product",
    );
}

#[test]
fn every_product_label_yields_its_cards() {
    let (a, b) = (keys("a.com/gpu"), keys("b.com/gpu"));
    let found = node(
        &[labels(&b, "B", "4"), labels(&a, "A", "2")].concat(),
        &[("b.com/gpu", "4"), ("a.com/gpu", "2")],
    );
    assert_cards(&found, &["A = a.com/gpu x2 (Whole)", "B = b.com/gpu x4 (Whole)"]);
}

#[test]
fn one_resource_counts_for_one_label() {
    // An exact name match goes before the first key.
    let (npu, card) = (keys("x.com/npu"), keys("x.com/card"));
    let both = [labels(&card, "Card", "8"), labels(&npu, "Npu", "8")].concat();
    let found = node(&both, &[("x.com/npu", "8")]);
    assert_eq!(cards(&found), ["Npu = x.com/npu x8 (Whole)"]);
    assert_eq!(
        found.problems[0].to_string(),
        "label x.com/card.product=Card could be counted by x.com/npu alone, which counts x.com/npu.product: remove one \
         of the labels"
    );
    // If both match equally, the first key gets the resource.
    let found = node(&both, &[("x.com/y", "8")]);
    assert_eq!(cards(&found), ["Card = x.com/y x8 (Whole)"]);
    assert_eq!(reasons(&found), ["ResourceTaken"]);
}

#[test]
fn one_name_stands_for_one_resource() {
    let (a, b) = (keys("a.com/gpu"), keys("b.com/gpu"));
    let both = [labels(&b, "P", "8"), labels(&a, "P", "8")].concat();
    let found = node(&both, &[("a.com/gpu", "8"), ("b.com/gpu", "8")]);
    assert_eq!(cards(&found), ["P = a.com/gpu x8 (Whole)"]);
    assert_eq!(
        found.problems[0].to_string(),
        "label b.com/gpu.product names b.com/gpu \"P\", as a.com/gpu is named on this node: give the two products \
         different names"
    );
}

#[test]
fn a_card_without_its_required_labels_is_not_published() {
    let complete = keys("nvidia.com/gpu");
    let complete = labels(&complete, "P", "8");
    for missing in 1..3 {
        let mut rest = complete.to_vec();
        let (label, _) = rest.remove(missing);
        for resource in ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"] {
            let found = node(&rest, &[(resource, "8")]);
            assert_eq!((cards(&found).len(), reasons(&found)), (0, vec!["MissingLabel"]));
            assert!(
                found.problems[0]
                    .to_string()
                    .contains(&format!("label {label} is missing"))
            );
        }
    }
    let found = node(
        &[("nvidia.com/gpu.product", ""), complete[1], complete[2]],
        &[("nvidia.com/gpu", "8")],
    );
    assert_problem(
        &found,
        "EmptyProduct",
        "label nvidia.com/gpu.product is empty: set it to the name of the product",
    );
}

#[test]
fn mps_needs_memory_and_replicas_as_positive_integers() {
    let shared = [("nvidia.com/gpu.shared", "32")];
    let found = gpu(&[], &shared);
    assert_eq!((cards(&found).len(), reasons(&found)), (0, vec!["MissingLabel"]));
    for replicas in ["", "0", "-8", "+8", "8.0", "x", "9223372036854775808"] {
        assert_problem(
            &gpu(&[("nvidia.com/gpu.replicas", replicas)], &shared),
            "InvalidLabel",
            &format!(
                "label nvidia.com/gpu.replicas={replicas} must be a positive integer, since it is part of the name of \
                 the cards that nvidia.com/gpu.shared counts"
            ),
        );
    }
    // Both labels are named at once, and the whole cards beside are not affected.
    let found = node(
        &[
            ("nvidia.com/gpu.product", "P"),
            ("nvidia.com/gpu.count", "8"),
            ("nvidia.com/gpu.memory", "16 GB"),
        ],
        &[("nvidia.com/gpu", "4"), ("nvidia.com/gpu.shared", "32")],
    );
    assert_eq!(cards(&found), ["P = nvidia.com/gpu x4 (Whole)"]);
    assert_eq!(reasons(&found), ["InvalidLabel", "MissingLabel"]);
}

#[test]
fn what_is_allocatable_counts_and_a_disagreement_is_noted() {
    let found = gpu(&[("nvidia.com/gpu.replicas", "2")], &[("nvidia.com/gpu", "15")]);
    assert_eq!(cards(&found), ["P = nvidia.com/gpu x15 (Whole)"]);
    assert_eq!(found.problems[0].severity(), Severity::Note);
    assert_eq!(
        found.problems[0].to_string(),
        "label nvidia.com/gpu.count=8 and nvidia.com/gpu.replicas=2, but the node allocates 15 nvidia.com/gpu: 15 are \
         published"
    );
    for (more, allocatable, agrees) in [
        (&[][..], &[("nvidia.com/gpu", "7")][..], false),
        (&[("nvidia.com/gpu.replicas", "x")], &[("nvidia.com/gpu", "8")], false),
        (
            &[("nvidia.com/gpu.replicas", "9223372036854775807")],
            &[("nvidia.com/gpu", "8")],
            false,
        ),
        (
            &[("nvidia.com/mig-1g.5gb.count", "6")],
            &[("nvidia.com/mig-1g.5gb", "7")],
            false,
        ),
        (&[], &[("nvidia.com/mig-1g.5gb", "7"), ("nvidia.com/gpu", "9")], false),
        (&[], &[("nvidia.com/mig-1g.5gb", "7"), ("nvidia.com/gpu", "7")], true),
        (
            &[("nvidia.com/gpu.replicas", "4")],
            &[("nvidia.com/gpu.shared", "16"), ("nvidia.com/gpu", "4")],
            false,
        ),
        (
            &[("nvidia.com/gpu.replicas", "4")],
            &[("nvidia.com/gpu.shared", "32"), ("nvidia.com/gpu", "9")],
            false,
        ),
        (
            &[("nvidia.com/gpu.replicas", "4")],
            &[("nvidia.com/gpu.shared", "32"), ("nvidia.com/gpu", "8")],
            true,
        ),
    ] {
        let found = gpu(more, allocatable);
        assert_eq!(
            found.problems.is_empty(),
            agrees,
            "{allocatable:?}: {:?}",
            found.problems
        );
        assert!(
            found
                .problems
                .iter()
                .all(|problem| problem.severity() == Severity::Note)
        );
        assert_eq!(found.cards.len(), allocatable.len());
    }
}

#[test]
fn resources_that_no_label_names() {
    for (resource, label) in [
        ("nvidia.com/gpu.shared", "nvidia.com/gpu.product"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/gpu.product"),
        ("aliyun.com/gpu", "aliyun.com/gpu.product"),
        ("huawei.com/npu-910", "huawei.com/npu.product"),
    ] {
        let found = node(&[("huawei.com/npu-910.driver", "1")], &[(resource, "2")]);
        assert_eq!(reasons(&found), ["UnlabelledResource"], "{resource}");
        assert!(
            found.problems[0]
                .to_string()
                .contains(&format!("has no label {label}:")),
            "{resource}"
        );
    }
    assert_cards(
        &node(&[], &[("example.com/license", "2"), ("aliyun.com/gpu", "0")]),
        &[],
    );
}

#[test]
fn quantities_that_are_none_count_as_zero() {
    for quantity in ["x", "", "-1", "9223372036854775808"] {
        let found = gpu(&[], &[("nvidia.com/gpu", quantity)]);
        assert_eq!(
            (cards(&found).len(), reasons(&found)),
            (0, vec!["UnreadableQuantity", "NoneAllocatable"])
        );
    }
    assert_cards(
        &gpu(&[], &[("nvidia.com/gpu", "8e0")]),
        &["P = nvidia.com/gpu x8 (Whole)"],
    );
}
