//! The policies speak of the same keys, cards and bounds as the programs.

use anyhow::Context as _;
use crds::bounds;
use crds::card_resources::WELL_KNOWN;
use crds::keys;
use serde_json::json;

use super::{INSTALL_FILES, Outcome, objects, read};

#[test]
fn the_policies_know_the_keys_of_the_programs() -> Outcome {
    let managed = [
        keys::QUEUE_NAME,
        keys::GROUP_NAME,
        keys::CARD_NAME,
        keys::MGPU_CORE,
        keys::MGPU_MEMORY,
    ];
    let results = [keys::CARD_ASSIGNED, keys::MGPU_ASSUMED, keys::MGPU_INDEX_PREFIX];
    let requests = [
        keys::QUEUE_NAME,
        keys::GROUP_NAME,
        keys::CARD_NAME,
        keys::SCORING_STRATEGY,
        keys::MGPU_CONTAINER_CARDS,
        keys::MGPU_POLICY,
        keys::QUEUE_LABEL,
    ];
    // By which it is told that a pod may hold quota or cards.
    let may_hold = [
        keys::QUEUE_NAME,
        keys::GROUP_NAME,
        keys::CARD_NAME,
        keys::CARD_ASSIGNED,
        keys::CROSS_QUOTA_LABEL,
    ];
    let expected: [(&str, Vec<&str>); 12] = [
        (
            "policies/pod-create.yaml",
            [
                &managed[..],
                &results,
                &[keys::QUEUE_LABEL, keys::GATE, keys::MIRROR_POD],
            ]
            .concat(),
        ),
        (
            "policies/pod-update.yaml",
            [
                &requests[..],
                &results,
                &[
                    keys::GATE,
                    keys::OPERATOR,
                    keys::CROSS_QUOTA_LABEL,
                    keys::ADMITTED_CONDITION,
                ],
            ]
            .concat(),
        ),
        (
            "policies/pod-binding.yaml",
            [&requests[..], &results, &[keys::CROSS_QUOTA_LABEL, keys::OPERATOR]].concat(),
        ),
        ("policies/operator.yaml", vec![keys::OPERATOR]),
        ("policies/leader.yaml", vec![keys::OPERATOR]),
        (
            "policies/crossquota.yaml",
            [&keys::DAEMON_SET_CONTROLLERS[..], &[keys::GATE, keys::MIRROR_POD]].concat(),
        ),
        ("policies/job.yaml", vec![keys::OPERATOR, keys::JOB_HELD]),
        (
            "policies/pod-resize.yaml",
            [&managed[..], &[keys::CROSS_QUOTA_LABEL]].concat(),
        ),
        ("policies/pod-delete.yaml", may_hold.to_vec()),
        ("policies/pod-debug.yaml", may_hold.to_vec()),
        (
            "admission/mutating.yaml",
            [
                &requests[..],
                &results,
                &managed,
                &keys::DAEMON_SET_CONTROLLERS,
                &[keys::NVIDIA_GPU, keys::NVIDIA_MPS, keys::MIRROR_POD],
            ]
            .concat(),
        ),
        (
            "admission/validating.yaml",
            vec![keys::CARD_QUOTA, keys::QUEUE_NAMESPACES, keys::CARD_REQUEST],
        ),
    ];
    for (file, keys) in expected {
        let text = read(&format!("base/{file}"))?;
        for key in keys {
            assert!(text.contains(&format!("'{key}'")), "{file} has no '{key}'");
        }
    }
    Ok(())
}

/// Neither a policy without its parameters nor a `matchCondition` can read the programs' list, so each repeats it.
#[test]
fn the_policies_repeat_the_list_of_card_resources() -> Outcome {
    let policies = read("base/policies/pod-create.yaml")? + &read("base/policies/pod-resize.yaml")?;
    let defaults: Vec<String> = policies
        .split("params.?data[?'cardResources'].orValue(")
        .skip(1)
        .filter_map(|rest| rest.split_once(").split(','"))
        // Every other piece between quotes is text.
        .map(|(text, _)| text.split('\'').skip(1).step_by(2).collect())
        .collect();
    assert_eq!(defaults.len(), 3);
    for default in defaults {
        assert_eq!(
            default,
            format!("{},{}*", WELL_KNOWN.join(","), keys::RESOURCE_OF_CLASS)
        );
    }
    let webhooks = read("base/admission/mutating.yaml")?;
    let lists = webhooks.split("name.contains('/') && [").skip(1);
    let lists: Vec<Vec<&str>> = lists
        .filter_map(|rest| rest.split_once("].exists(card,"))
        .map(|(text, _)| text.split('\'').skip(1).step_by(2).collect())
        .collect();
    assert_eq!(lists, [WELL_KNOWN; 3]);
    Ok(())
}

/// Doors that leave out pods with the label of a queue, so that they cost less, stand beside one that takes all of those.
#[test]
fn who_has_the_label_of_a_queue_comes_by_the_first_door() -> Outcome {
    for file in INSTALL_FILES {
        let configurations = objects(file, "MutatingWebhookConfiguration")?;
        let webhooks = configurations[0]["webhooks"].as_array().context("no webhooks")?;
        let (leave_out, take): (Vec<_>, Vec<_>) = webhooks
            .iter()
            .filter(|webhook| webhook["rules"][0]["resources"] == json!(["pods"]))
            .partition(|webhook| webhook.get("objectSelector").is_some());
        let selector = json!({ "matchExpressions": [{ "key": keys::QUEUE_LABEL, "operator": "DoesNotExist" }] });
        assert_eq!(leave_out.len(), 2, "{file}");
        assert!(
            leave_out.iter().all(|webhook| webhook["objectSelector"] == selector),
            "{file}"
        );
        let taken = format!("|| '{}' in object.metadata.?labels.orValue({{}})", keys::QUEUE_LABEL);
        let conditions = take.iter().map(|webhook| webhook["matchConditions"].to_string());
        assert_eq!(
            conditions.filter(|conditions| conditions.contains(&taken)).count(),
            1,
            "{file}"
        );
    }
    Ok(())
}

/// What the webhook refuses as too long or too many, the API server refuses too, by the same numbers.
#[test]
fn the_policies_have_the_bounds_of_the_programs() -> Outcome {
    let files: [(&str, &[&str]); 6] = [
        (
            "pod-create",
            &[
                keys::QUEUE_NAME,
                keys::GROUP_NAME,
                keys::CARD_NAME,
                keys::SCORING_STRATEGY,
                keys::MGPU_POLICY,
                keys::MGPU_CONTAINER_CARDS,
            ],
        ),
        (
            "queue",
            &[
                keys::CARD_QUOTA,
                keys::CARD_DESERVED,
                keys::CARD_GUARANTEE,
                keys::QUEUE_NAMESPACES,
            ],
        ),
        ("pod-group", &[keys::CARD_REQUEST]),
        ("job", &[keys::CARD_REQUEST]),
        ("volcano-job", &[keys::CARD_REQUEST]),
        ("namespace", &[keys::QUEUE_NAME]),
    ];
    for (file, keys) in files {
        let text = read(&format!("base/policies/{file}.yaml"))?;
        for key in keys {
            let most = bounds::annotation_length(key);
            let bound = format!("'{key}': {most}");
            assert!(text.contains(&bound), "{file} has no {bound}");
            // The condition that lets everything else pass has the number too.
            let compared = text.matches(&format!("> {most}")).count();
            assert!(compared > 0, "{file} compares nothing with {most}");
        }
    }
    for (key, _) in bounds::ANNOTATIONS {
        assert!(
            files.iter().any(|(_, keys)| keys.contains(&key)),
            "no policy bounds {key}"
        );
    }
    let pods = read("base/policies/pod-create.yaml")?;
    for bound in [
        format!(
            "'volcano.sh/card.name'].orValue('').split('|')) > {}",
            bounds::ALTERNATIVES
        ),
        format!("variables.alternatives <= {}", bounds::ALTERNATIVES),
        format!("size(object.spec.containers) > {}", bounds::MGPU_CONTAINERS),
        format!("variables.sharing <= {}", bounds::MGPU_CONTAINERS),
    ] {
        assert!(pods.contains(&bound), "pod-create has no {bound}");
    }
    for file in ["queue", "pod-group"] {
        let text = read(&format!("base/policies/{file}.yaml"))?;
        let bound = format!("variables.resources[field] > {}", bounds::RESOURCES);
        assert!(text.contains(&bound), "{file} has no {bound}");
    }
    let group = format!(
        "size(variables.group_after.orValue('')) <= {}",
        bounds::annotation_length(keys::GROUP_NAME)
    );
    assert!(
        read("base/policies/pod-update.yaml")?.contains(&group),
        "pod-update has no {group}"
    );
    Ok(())
}
