//! Claims as users write them, and the classes that administrators install for them.

use serde_json::{Value, json};

use super::super::chance::{number, one, percent, weighted};
use super::super::step::Step;
use super::template::Maker;
use super::{ADMIN, TEAMS, USER};
use crate::Dice;
use crate::devices::NVIDIA;
use crate::objects::{CLAIM_TEMPLATES, DEVICE_CLASSES, Objects, PODS, RESOURCE_CLAIMS, Resource};

/// The class of parts of cards.
const MIG: &str = "mig.nvidia.com";
/// The namespace of the cluster's own pods, where no quota applies.
const SYSTEM: &str = "kube-system";

/// Returns what NVIDIA's driver installs, and templates that users wrote beforehand.
pub fn installed(dice: &mut Dice) -> Vec<(&'static Resource, Value)> {
    let class = |name: &str, kind: &str, extended: Option<&str>| {
        let expression = format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'");
        let selectors = json!([{"cel": {"expression": expression}}]);
        let class =
            json!({"metadata": {"name": name}, "spec": {"selectors": selectors, "extendedResourceName": extended}});
        (&DEVICE_CLASSES, class)
    };
    let extended = percent(dice, 80).then_some("nvidia.com/gpu");
    let mut objects = vec![class(NVIDIA, "gpu", extended), class(MIG, "mig", None)];
    for namespace in TEAMS.into_iter().chain([SYSTEM]) {
        for (name, requests) in templates() {
            let spec = json!({"spec": {"devices": {"requests": requests}}});
            let template = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
            objects.push((&CLAIM_TEMPLATES, template));
        }
        if let Some((name, requests)) = one(dice, &templates()).filter(|_| namespace != SYSTEM) {
            let spec = json!({"devices": {"requests": requests}});
            let metadata = json!({"namespace": namespace, "name": format!("shared-{name}")});
            objects.push((
                &RESOURCE_CLAIMS,
                json!({"metadata": metadata, "spec": spec, "status": {}}),
            ));
        }
    }
    objects
}

fn form(class: &str, count: i64, term: Option<&str>) -> Value {
    let selectors: Vec<_> = term.iter().map(|term| json!({"cel": {"expression": term}})).collect();
    json!({"deviceClassName": class, "count": count, "selectors": selectors, "allocationMode": "ExactCount"})
}

fn exactly(class: &str, count: i64, term: Option<&str>) -> Value {
    json!({"name": "gpu", "exactly": form(class, count, term)})
}

/// Returns the requests of each template.
fn templates() -> Vec<(&'static str, Value)> {
    let of = |name: &str, value: &str| format!("device.attributes['{NVIDIA}'].{name} == '{value}'");
    let (a100, h100) = (
        format!("device.attributes['{NVIDIA}'].productName.lowerAscii().matches('^.*a100.*$')"),
        of("productName", "NVIDIA H100 80GB HBM3"),
    );
    let named = |name: &str, term: &str| {
        let mut form = form(NVIDIA, 1, Some(term));
        form["name"] = name.into();
        form
    };
    let another = |name: &str, mut request: Value| {
        request["name"] = name.into();
        request
    };
    vec![
        ("any", json!([exactly(NVIDIA, 1, None)])),
        ("two", json!([exactly(NVIDIA, 2, None)])),
        ("a100", json!([exactly(NVIDIA, 1, Some(&a100))])),
        ("h100", json!([exactly(NVIDIA, 1, Some(&h100))])),
        (
            "either",
            json!([{"name": "gpu", "firstAvailable": [named("large", &h100), named("small", &a100)]}]),
        ),
        ("part", json!([exactly(MIG, 1, Some(&of("profile", "1g.10gb")))])),
        ("parts", json!([exactly(MIG, 3, None)])),
        (
            "twice",
            json!([
                exactly(NVIDIA, 1, Some(&a100)),
                another("more", exactly(NVIDIA, 1, Some(&a100)))
            ]),
        ),
        (
            "both",
            json!([
                exactly(NVIDIA, 1, Some(&a100)),
                another("other", exactly(NVIDIA, 1, Some(&h100)))
            ]),
        ),
        (
            "nothing",
            json!([exactly(NVIDIA, 1, Some(&of("productName", "NVIDIA B200")))]),
        ),
    ]
}

/// Draws one of the templates; those that ask for existing devices are drawn more often.
fn template(dice: &mut Dice) -> &'static str {
    weighted(
        dice,
        (5, "a100"),
        &[
            (3, "any"),
            (2, "two"),
            (4, "h100"),
            (4, "either"),
            (4, "part"),
            (2, "parts"),
            (2, "twice"),
            (1, "both"),
            (1, "nothing"),
        ],
    )
}

/// Lets a pod claim devices: by a template, or by the name of a claim that other pods may name as well.
pub fn put(dice: &mut Dice, make: &Maker<'_>, annotations: &mut Value, spec: &mut Value) {
    let by_hand: Vec<_> = make
        .objects
        .list(&RESOURCE_CLAIMS)
        .filter(|(key, claim)| key.namespace == make.namespace && claim["metadata"]["ownerReferences"].is_null())
        .map(|(key, _)| key.name.clone())
        .collect();
    let claim = match one(dice, &by_hand).filter(|_| percent(dice, 40)) {
        Some(name) => json!({"name": "gpus", "resourceClaimName": name}),
        None => json!({"name": "gpus", "resourceClaimTemplateName": template(dice)}),
    };
    spec["resourceClaims"] = json!([claim]);
    spec["containers"][0]["resources"]["claims"] = json!([{"name": "gpus"}]);
    if percent(dice, 15) {
        let names = [
            "NVIDIA-H100-80GB-HBM3",
            "NVIDIA-A100-80GB-PCIe",
            "NVIDIA-A100-80GB-PCIe|NVIDIA-H100-80GB-HBM3",
        ];
        annotations["volcano.sh/card.name"] = json!(one(dice, &names));
    }
}

/// A user makes a claim by hand or deletes one, or the cluster runs a pod of its own that claims devices.
pub fn draw(dice: &mut Dice, objects: &Objects) -> Option<Step> {
    let requests = |name: &str| {
        let mut templates = templates().into_iter();
        templates.find(|(of, _)| *of == name).map(|(_, requests)| requests)
    };
    let name = format!("shared-{}", objects.version());
    if percent(dice, 45) {
        let namespace = *one(dice, &TEAMS)?;
        let requests = requests(template(dice))?;
        let claim = json!({
            "metadata": {"namespace": namespace, "name": name}, "spec": {"devices": {"requests": requests}}, "status": {},
        });
        return Some(Step::Create(USER, vec![(&RESOURCE_CLAIMS, claim)]));
    }
    if percent(dice, 40) {
        let by_hand = objects.list(&RESOURCE_CLAIMS);
        let by_hand = by_hand.filter(|(_, claim)| claim["metadata"]["ownerReferences"].is_null());
        let keys: Vec<_> = by_hand.map(|(key, _)| key.clone()).collect();
        return Some(Step::Delete(USER, &RESOURCE_CLAIMS, one(dice, &keys)?.clone()));
    }
    let resources = json!({"cpu": "250m", "memory": "512Mi"});
    let pod = json!({
        "metadata": {"namespace": SYSTEM, "name": format!("monitor-{}", objects.version())},
        "spec": {
            "containers": [{"name": "c0", "image": "busybox:1.37",
                "resources": {"limits": resources, "requests": resources, "claims": [{"name": "gpus"}]}}],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template(dice)}],
            "restartPolicy": if number(dice, 0, 2) == 0 { "Never" } else { "Always" },
            "schedulerName": "default-scheduler", "priority": 0, "tolerations": [],
        },
    });
    Some(Step::Create(ADMIN, vec![(&PODS, pod)]))
}
