//! What can be said of `manifests/` without a cluster: generated files are current, the policies speak of the same keys as
//! the programs, nothing runs with more rights than it needs, and no webhook is called without a condition.

mod example;
mod policies;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use cardgate_tests::assets::{Assets, Program};
use cardgate_tests::{manifests, workspace};
use crds::keys;
use serde_json::{Value, json};

type Outcome = Result<()>;

fn read(file: &str) -> Result<String> {
    let path = manifests::directory().join(file);
    std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))
}

/// The objects of a file, of this kind.
fn objects(file: &str, kind: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(&read(file)?).with_context(|| format!("{file} is not YAML"))?;
    Ok(all.into_iter().filter(|object| object["kind"] == kind).collect())
}

/// What is tried with one minor version is not installed with another.
#[test]
fn the_second_scheduler_is_of_the_version_that_is_tested() -> Outcome {
    let minor = |version: &str| -> Result<String> {
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next(), numbers.next());
        Ok([major.context("no version")?, minor.context("no minor version")?].join("."))
    };
    let module = std::fs::read_to_string(workspace::root().join("tests/controlplane/go.mod"))?;
    let tested = module
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let tested = minor(tested.context("no k8s.io/kubernetes")?)?;

    let deployments = objects("components/scheduler-extender/scheduler.yaml", "Deployment")?;
    let image = deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
    let (name, installed) = image
        .and_then(|image| image.rsplit_once(':'))
        .context("an image without a tag")?;
    assert_eq!(minor(installed)?, tested, "{name}");

    // The page has it changed.
    let page = std::fs::read_to_string(workspace::root().join("docs/operate.md"))?;
    let lines = format!("images:\n  - name: {name}\n    newTag: {installed}\n");
    assert!(page.contains(&lines), "docs/operate.md lacks: {lines}");
    Ok(())
}

/// Both files for `kubectl apply -f`.
const INSTALL_FILES: [&str; 2] = ["install.yaml", "install-without-volcano.yaml"];

#[test]
fn the_definitions_are_current() -> Outcome {
    let generated = manifests::custom_resource_definitions()?.into_iter();
    for file in generated.chain([manifests::rights::document()?]) {
        let diff = file.diff()?;
        assert_eq!(
            diff,
            None,
            "run `cargo manifests`:\n{}",
            diff.as_deref().unwrap_or_default()
        );
    }
    Ok(())
}

#[test]
fn every_webhook_that_refuses_has_conditions_and_fails_closed() -> Outcome {
    for file in INSTALL_FILES {
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configurations = objects(file, kind)?;
            assert_eq!(configurations.len(), 1, "{file}: {kind}");
            let webhooks = configurations[0]["webhooks"].as_array().context("no webhooks")?;
            for webhook in webhooks {
                let name = &webhook["name"];
                let conditions = webhook["matchConditions"].as_array().map_or(0, Vec::len);
                let rules = webhook["rules"].as_array().context("no rules")?;
                // Cardgate's own kinds concern nobody else.
                let is_own = rules.iter().all(|rule| rule["apiGroups"] == json!(["card.volcano.sh"]));
                assert!(is_own || conditions > 0, "{file}: {name} is called for everything");
                // What is a card only by the configuration or the nodes, a policy refuses while the door is down; and advice
                // refuses nothing.
                let opens = ["other-devices.card.volcano.sh", "advice.card.volcano.sh"]
                    .iter()
                    .any(|open| name == open);
                let policy = if opens { "Ignore" } else { "Fail" };
                assert_eq!(webhook["failurePolicy"], policy, "{file}: {name}");
                assert_eq!(webhook["sideEffects"], "None", "{file}: {name}");
                assert!(
                    webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| seconds <= 5),
                    "{file}: {name}"
                );
                let cluster_scoped = webhook["rules"][0]["scope"] == "Cluster";
                assert!(is_own || cluster_scoped || leaves_out(webhook), "{file}: {name}");
            }
        }
    }
    Ok(())
}

#[test]
fn every_policy_is_bound_and_fails_closed() -> Outcome {
    for file in INSTALL_FILES {
        let bindings = objects(file, "ValidatingAdmissionPolicyBinding")?;
        let policies = objects(file, "ValidatingAdmissionPolicy")?;
        assert_eq!(policies.len(), 17, "{file}");
        for policy in policies {
            let name = &policy["metadata"]["name"];
            let bound = bindings.iter().filter(|binding| &binding["spec"]["policyName"] == name);
            let actions: Vec<&Value> = bound.map(|binding| &binding["spec"]["validationActions"]).collect();
            // What reads parameters is apart from what does not.
            let has_two = *name == "cardgate-pod-update";
            assert_eq!(actions.len(), 1 + usize::from(has_two), "{file}: {name}");
            assert!(
                actions.iter().all(|actions| **actions == json!(["Deny"])),
                "{file}: {name}"
            );
            assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{file}: {name}");
            let constraints = &policy["spec"]["matchConstraints"];
            let cluster_scoped = constraints["resourceRules"][0]["scope"] == "Cluster";
            // What holds the operator in those namespaces concerns nobody else there.
            let only_the_operator = policy["spec"]["matchConditions"][0]["expression"]
                == format!("request.userInfo.username == '{}'", keys::OPERATOR);
            assert!(
                cluster_scoped || only_the_operator || leaves_out(constraints),
                "{file}: {name}"
            );
            for validation in policy["spec"]["validations"].as_array().context("no validations")? {
                assert_eq!(validation["reason"], "Forbidden", "{file}: {name}");
                assert!(validation["message"].is_string(), "{file}: {name}");
            }
        }
    }
    Ok(())
}

/// Whether the rule leaves out the namespaces that Cardgate never touches.
fn leaves_out(rule: &Value) -> bool {
    let exempt = json!({
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": keys::EXEMPT_NAMESPACES,
    });
    let expressions = rule["namespaceSelector"]["matchExpressions"].as_array();
    expressions.is_some_and(|expressions| expressions.contains(&exempt))
}

/// As the Pod Security Standard `restricted` asks, which the namespace enforces, and a little more.
#[test]
fn the_programs_run_restricted() -> Outcome {
    for file in INSTALL_FILES {
        let namespaces = objects(file, "Namespace")?;
        let labels = &namespaces[0]["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted", "{file}");
        let deployments = objects(file, "Deployment")?;
        assert_eq!(deployments.len(), 2, "{file}");
        for deployment in deployments {
            let name = &deployment["metadata"]["name"];
            assert_eq!(deployment["spec"]["replicas"], 2, "{file}: {name}");
            let pod = &deployment["spec"]["template"]["spec"];
            assert_eq!(&pod["serviceAccountName"], name, "{file}");
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{file}: {name}");
            assert_eq!(
                pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault",
                "{file}: {name}"
            );
            for container in pod["containers"].as_array().context("no containers")? {
                let expected = json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                });
                assert_eq!(container["securityContext"], expected, "{file}: {name}");
                for probe in ["livenessProbe", "readinessProbe"] {
                    assert!(
                        container[probe]["httpGet"]["path"].is_string(),
                        "{file}: {name} has no {probe}"
                    );
                }
                for amount in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
                    let amount = container["resources"].pointer(amount);
                    assert!(amount.is_some(), "{file}: {name}: {amount:?}");
                }
            }
        }
    }
    Ok(())
}

/// Whoever wants in is named, for each program; but for the door, whose callers have no address that could be.
#[test]
fn only_what_api_servers_ask_is_open_to_all() -> Outcome {
    for file in INSTALL_FILES {
        let policies = objects(file, "NetworkPolicy")?;
        for deployment in objects(file, "Deployment")? {
            let name = &deployment["metadata"]["name"];
            let labels = &deployment["spec"]["template"]["metadata"]["labels"];
            let policy = policies.iter().find(|policy| &policy["metadata"]["name"] == name);
            let spec = &policy.with_context(|| format!("{file}: no policy for {name}"))?["spec"];
            assert_eq!(&spec["podSelector"]["matchLabels"], labels, "{file}: {name}");
            assert_eq!(spec["policyTypes"], json!(["Ingress"]), "{file}: {name}");
            let rules = spec["ingress"].as_array().context("no rules")?;
            let open = rules.iter().filter(|rule| rule["from"].is_null());
            let open: Vec<_> = open.map(|rule| &rule["ports"]).collect();
            let asked = if name == "webhook" { "https" } else { "review" };
            assert_eq!(open, [&json!([{ "port": asked, "protocol": "TCP" }])], "{file}: {name}");
        }
    }
    Ok(())
}

#[test]
fn the_overlay_replaces_volcanos_scheduler() -> Outcome {
    let replaces = |file: &str| -> Result<bool> {
        let deployments = objects(file, "Deployment")?;
        let env = json!({ "name": "REPLACE_SCHEDULER_NAME", "value": "volcano" });
        Ok(deployments.iter().any(|deployment| {
            let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
            deployment["metadata"]["name"] == "webhook"
                && variables.as_array().is_some_and(|variables| variables.contains(&env))
        }))
    };
    assert!(!replaces("install.yaml")?);
    assert!(replaces("install-without-volcano.yaml")?);
    Ok(())
}

/// What Volcano's own definitions refuse, fill in and drop, those refuse, fill in and drop that stand in for them: an object that was
/// made without Volcano is read by it as it is.
#[test]
fn the_overlays_definitions_say_what_volcanos_do() -> Outcome {
    let count = json!({ "minimum": 0 });
    let name = json!({
        "maxLength": 253,
        "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"
    });
    let phases = json!({ "enum": ["Pending", "Inqueue", "Running", "Unknown", "Completed"] });
    let queue: &[(&str, Value)] = &[
        (
            "/spec/properties/weight",
            json!({ "default": 1, "minimum": 1, "maximum": 65535 }),
        ),
        ("/spec/properties/parent", name.clone()),
        ("/spec/properties/priority", count.clone()),
        (
            "/spec/properties/dequeueStrategy",
            json!({ "enum": ["fifo", "traverse"], "default": "traverse" }),
        ),
        (
            "/status/properties/state",
            json!({ "enum": ["Open", "Closed", "Closing", "Unknown"] }),
        ),
        ("/status/properties/inqueue", count.clone()),
    ];
    let group: &[(&str, Value)] = &[
        ("/spec/properties/minMember", count.clone()),
        ("/spec/properties/minTaskMember/additionalProperties", count.clone()),
        ("/spec/properties/queue", name),
        ("/spec/properties/queue", json!({ "default": "default" })),
        ("/status/properties/phase", phases),
        ("/status/properties/succeeded", count),
    ];
    for (file, expected) in [("queues.yaml", queue), ("podgroups.yaml", group)] {
        let file = format!("overlays/without-volcano/{file}");
        for definition in objects(&file, "CustomResourceDefinition")? {
            for version in definition["spec"]["versions"].as_array().context("no versions")? {
                let schema = &version["schema"]["openAPIV3Schema"];
                for (path, expected) in expected {
                    let field = schema.pointer(&format!("/properties{path}"));
                    let field = field.with_context(|| format!("{file} has no {path}"))?;
                    for (key, value) in expected.as_object().into_iter().flatten() {
                        assert_eq!(&field[key], value, "{key} of {path} in {file}");
                    }
                }
                // Amounts are quantities, whole numbers too; and what nobody knows is dropped.
                let text = schema.to_string();
                assert!(text.contains("\"x-kubernetes-int-or-string\":true"), "{file}");
                assert!(!text.contains("x-kubernetes-preserve-unknown-fields"), "{file}");
            }
        }
    }
    Ok(())
}

/// What stands outside Cardgate's namespace does not go with it: the removal knows each by name, and may delete nothing else.
#[test]
fn the_removal_knows_everything_outside_the_namespace() -> Outcome {
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    let known = removal::objects::all(keys::NAMESPACE);
    let mut installed = BTreeSet::new();
    let overlays = manifests::directory().join("overlays");
    for kustomization in [
        manifests::directory().join("base"),
        overlays.join("without-volcano"),
        overlays.join("cert-manager"),
        overlays.join("scheduler-extender"),
        overlays.join("scheduler-extender-cert-manager"),
    ] {
        let text = manifests::render(&kubectl, &kustomization)?;
        for object in serde_saphyr::from_multiple::<Value>(&text)? {
            let text = |path: &str| {
                object
                    .pointer(path)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            if kind != "Namespace" && text("/metadata/namespace") != keys::NAMESPACE {
                installed.insert((kind, name));
            }
        }
    }
    let outside = known
        .iter()
        .filter(|object| object.namespace.as_deref() != Some(keys::NAMESPACE));
    let outside: BTreeSet<_> = outside
        .map(|object| (object.kind().to_owned(), object.name.to_owned()))
        .collect();
    assert_eq!(installed, outside);

    let mut allowed = BTreeSet::new();
    let roles = ["ClusterRole", "Role"].map(|kind| objects("uninstall.yaml", kind));
    for role in roles.into_iter().collect::<Result<Vec<_>>>()?.concat() {
        for rule in role["rules"].as_array().context("no rules")? {
            let texts = |field: &str| -> Vec<String> {
                let list = rule[field].as_array().into_iter().flatten();
                list.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            if texts("verbs").contains(&"delete".to_owned()) {
                let names = texts("resourceNames");
                assert!(!names.is_empty(), "{rule}");
                let pairs = |resource: &String| {
                    names
                        .iter()
                        .map(move |name| (resource.clone(), name.clone()))
                        .collect::<Vec<_>>()
                };
                allowed.extend(texts("resources").iter().flat_map(|resource| pairs(&resource.clone())));
            }
        }
    }
    let mut needed: BTreeSet<_> = known
        .iter()
        .map(|object| (object.plural().to_owned(), object.name.to_owned()))
        .collect();
    needed.insert(("namespaces".to_owned(), keys::NAMESPACE.to_owned()));
    assert_eq!(allowed, needed);
    Ok(())
}
