//! What `kubectl get` shows of Cardgate's kinds fits into a terminal of 120 characters, with names as long as they are on real nodes.

use crds::card_inventory::CardInventory;
use crds::card_type::CardType;
use crds::card_usage::CardUsage;
use crds::slug::slug;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

/// How wide a terminal is.
const TERMINAL: usize = 120;
/// What kubectl puts between two columns.
const GAP: usize = 3;
/// As wide as an age is: `364d`, `23h59m`.
const AGE: usize = 6;
/// Cards as long as a column of them may be: forty characters.
const SUMMARY: &str = "NVIDIA-A100-SXM4-80GB 1280/2560, +2 more";

/// How wide a line is of what `kubectl get` shows of an object, without `-o wide`.
fn width(definition: &CustomResourceDefinition, object: &Value) -> usize {
    let columns = definition.spec.versions[0].additional_printer_columns.iter().flatten();
    let shown = columns.filter(|column| column.priority.unwrap_or(0) == 0);
    let widths = shown.map(|column| {
        let cell = object.pointer(&column.json_path.replace('.', "/"));
        let cell = match cell {
            _ if column.type_ == "date" => AGE,
            Some(Value::String(text)) => text.chars().count(),
            Some(value) => value.to_string().len(),
            None => 0,
        };
        GAP + cell.max(column.name.chars().count())
    });
    let name = object["metadata"]["name"].as_str().unwrap_or_default().len();
    name + widths.sum::<usize>()
}

#[test]
fn a_line_of_kubectl_get_fits_a_terminal() {
    for card in [
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-H100-80GB-HBM3/mgpu",
        "NVIDIA-A100-SXM4-80GB/mig-1g.10gb-mixed",
    ] {
        let object = json!({
            "metadata": { "name": slug(card) },
            "spec": { "cardName": card, "resource": "nvidia.com/gpu", "kind": "Whole" },
            "status": { "nodes": 512, "total": 4096, "used": 4000, "free": 96, "unaccounted": 12 },
        });
        let width = width(&CardType::crd(), &object);
        assert!(width <= TERMINAL, "CardType {card}: {width}");
    }
    let object = json!({
        "metadata": { "name": "gke-research-a100-8f2c" },
        "status": { "summary": SUMMARY, "total": 8, "used": 8, "free": 0, "crossQuotaSummary": "", "problems": "Cordoned" },
    });
    let of_node = width(&CardInventory::crd(), &object);
    assert!(of_node <= TERMINAL, "CardInventory: {of_node}");
    let object = json!({
        "metadata": { "name": "language-models-research" },
        "status": { "summary": SUMMARY, "waiting": 1000, "share": "0.75", "problems": "CapabilityAboveCluster" },
    });
    let of_queue = width(&CardUsage::crd(), &object);
    assert!(of_queue <= TERMINAL, "CardUsage: {of_queue}");
}
