//! The document's examples, by section.

use serde_json::Value;

use super::*;

/// The content of a file with the documents' examples.
macro_rules! document {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crds/documents/", $file))
    };
}

fn shown(node: &str) -> Discovery {
    let node: Value = serde_saphyr::from_str(node).unwrap();
    discover(
        &texts(&node["metadata"]["labels"]),
        &texts(&node["status"]["allocatable"]),
    )
}

fn texts(object: &Value) -> TextMap<String> {
    let texts = object.as_object().unwrap().iter();
    texts
        .map(|(key, text)| (key.clone(), text.as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn node_label_and_resource_examples() {
    assert_cards(
        &shown(document!("capacity-card/11-node.yaml")),
        &[
            "NVIDIA-A100 = nvidia.com/gpu x8 (Whole)",
            "NVIDIA-A100/mig-1g.5gb-mixed = nvidia.com/mig-1g.5gb x7 (MIG)",
            "NVIDIA-A100/mps-80g*1/8 = nvidia.com/gpu.shared x64 (MPS)",
        ],
    );
}

#[test]
fn mps_shared_cards() {
    let found = shown(document!("capacity-card/12-node-with-mps.yaml"));
    assert_cards(&found, &["NVIDIA-A100/mps-80g*1/8 = nvidia.com/gpu.shared x64 (MPS)"]);
    let labels = [
        ("nvidia.com/gpu.product", "NVIDIA-A100"),
        ("nvidia.com/gpu.memory", "81920"),
        ("nvidia.com/gpu.replicas", "8"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(found.cards[0].labels, labels);
}

#[test]
fn mig_partition_cards() {
    let found = shown(document!("capacity-card/13-node-with-mig.yaml"));
    assert_cards(
        &found,
        &[
            "NVIDIA-A100/mig-1g.5gb-mixed = nvidia.com/mig-1g.5gb x7 (MIG)",
            "NVIDIA-A100/mig-2g.10gb-mixed = nvidia.com/mig-2g.10gb x4 (MIG)",
        ],
    );
    let product = [("nvidia.com/gpu.product".to_owned(), "NVIDIA-A100".to_owned())];
    assert!(found.cards.iter().all(|card| card.labels == product));
}

#[test]
fn whole_cards() {
    let found = shown(document!("capacity-card/14-node-with-whole-cards.yaml"));
    assert_cards(&found, &["NVIDIA-A100 = nvidia.com/gpu x8 (Whole)"]);
    let product = [("nvidia.com/gpu.product".to_owned(), "NVIDIA-A100".to_owned())];
    assert_eq!(found.cards[0].labels, product);
}

#[test]
fn mb_are_converted_to_gb_rounded() {
    for (memory, gigabytes) in [
        ("81559", "80"),
        ("40536", "40"),
        ("15360", "15"),
        ("24064", "24"),
        ("24063", "23"),
        ("511", "0"),
        ("9223372036854775807", "9007199254740992"),
    ] {
        let found = node(
            &[
                ("nvidia.com/gpu.product", "P"),
                ("nvidia.com/gpu.count", "1"),
                ("nvidia.com/gpu.memory", memory),
                ("nvidia.com/gpu.replicas", "2"),
            ],
            &[("nvidia.com/gpu.shared", "2")],
        );
        let expected = format!("P/mps-{gigabytes}g*1/2 = nvidia.com/gpu.shared x2 (MPS)");
        assert_cards(&found, &[&expected]);
    }
}

#[test]
fn labels_match_prefix_type_product() {
    for (key, matches) in [
        ("nvidia.com/gpu.product", true),
        ("huawei.com/ascend_910.product", true),
        ("nvidia.com/gpu.product-name", false),
        ("nvidia.com/gpu-a.product", false),
        ("nvidia.com/a.b.product", false),
        ("nvidia.com/.product", false),
        ("/gpu.product", false),
        ("gpu.product", false),
        (".product", false),
        ("nvidia.com/gpü.product", false),
    ] {
        let labels = map(&[(key, "P")]);
        assert_eq!(product::find(&labels).len(), usize::from(matches), "{key}");
    }
}
