//! The policies that API servers evaluate themselves. They are evaluated here as for an ordinary user who creates or changes
//! an object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cel::extensions::strings;
use cel::{Context, Env, Program, Value as Evaluated};
use serde_json::{Value, json};
use thiserror::Error;

use crate::manifests::Manifest;
use crate::quantities;

/// Why a policy can't be read here.
#[derive(Debug, Clone, Error)]
#[error("policy {policy}: {problem}: {expression}")]
pub struct PolicyError {
    policy: String,
    problem: String,
    expression: String,
}

/// All policies that apply to objects that are created or changed.
pub struct Policies {
    env: Arc<Env>,
    /// Each policy with what it is asked about. Policies on other kinds may need more than is known here.
    policies: Vec<(Concerns, Result<Policy, PolicyError>)>,
}

/// What a policy is asked about: by operation, group and plural.
type Concerns = BTreeSet<(String, String, String)>;

/// One policy.
struct Policy {
    name: String,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
}

/// A condition that must hold, and the message if it does not.
struct Validation {
    holds: Expression,
    says: Option<Expression>,
    message: String,
}

/// An expression, with its text.
struct Expression {
    program: Program,
    text: String,
}

impl Policies {
    /// The policies among the objects of manifests.
    pub fn of(objects: &[Value]) -> Result<Self, PolicyError> {
        let mut env = Env::stdlib();
        let extended = env
            .add_extension(strings)
            .and_then(|()| env.add_extension(quantities::extension));
        extended.map_err(|error| PolicyError {
            policy: "any".to_owned(),
            problem: error.to_string(),
            expression: String::new(),
        })?;
        let policies = objects
            .iter()
            .filter(|object| object["kind"] == "ValidatingAdmissionPolicy")
            .map(|object| (concerns(object), Policy::read(object, &env)))
            .collect();
        Ok(Self {
            env: Arc::new(env),
            policies,
        })
    }

    /// Returns, in the words of the first policy that forbids it, why nobody may create an object or change it to this from
    /// `before`. `None` if all policies allow it. The annotations of the namespace are not known here, so what a policy
    /// forbids only because of these is not found.
    pub fn refusal(
        &self,
        manifest: &Manifest,
        before: Option<&Value>,
        namespace: &str,
    ) -> Result<Option<String>, PolicyError> {
        let (group, _) = manifest.group_and_kind();
        let operation = operation(before);
        let concerned = (operation.to_owned(), group.to_owned(), manifest.plural());
        let mut context = Context::with_env(Arc::clone(&self.env));
        let request = json!({
            "operation": operation, "namespace": namespace, "name": manifest.name(),
            "userInfo": { "username": "somebody", "groups": ["system:authenticated"] },
        });
        for (name, value) in [
            ("object", &manifest.object),
            ("oldObject", before.unwrap_or(&Value::Null)),
            ("request", &request),
            ("params", &json!({ "data": {} })),
            ("namespaceObject", &json!({ "metadata": { "name": namespace } })),
        ] {
            context.add_variable_from_value(name, evaluated(value));
        }
        let asked = self
            .policies
            .iter()
            .filter(|(concerns, _)| concerns.contains(&concerned));
        for (_, policy) in asked {
            let policy = policy.as_ref().map_err(Clone::clone)?;
            if let Some(message) = policy.refusal(&context)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

/// Returns the operation by which an API server asks, given what the object was before.
pub fn operation(before: Option<&Value>) -> &'static str {
    match before {
        None => "CREATE",
        Some(_) => "UPDATE",
    }
}

/// Returns what a policy is asked about.
fn concerns(object: &Value) -> Concerns {
    let rules = &object["spec"]["matchConstraints"]["resourceRules"];
    let mut concerns = Concerns::new();
    for rule in rules.as_array().into_iter().flatten() {
        for operation in texts(&rule["operations"]) {
            for group in texts(&rule["apiGroups"]) {
                let plurals = texts(&rule["resources"]);
                concerns.extend(plurals.map(|plural| (operation.clone(), group.clone(), plural)));
            }
        }
    }
    concerns
}

impl Policy {
    fn read(object: &Value, env: &Env) -> Result<Self, PolicyError> {
        let name = text(&object["metadata"]["name"]);
        let spec = &object["spec"];
        let expression = |value: &Value| {
            let text = text(value);
            match env.compile(&text) {
                Ok(program) => Ok(Expression { program, text }),
                Err(error) => Err(PolicyError {
                    policy: name.clone(),
                    problem: error.to_string(),
                    expression: text,
                }),
            }
        };
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        Ok(Self {
            conditions: list("matchConditions")
                .map(|of| expression(&of["expression"]))
                .collect::<Result<_, _>>()?,
            variables: list("variables")
                .map(|of| Ok((text(&of["name"]), expression(&of["expression"])?)))
                .collect::<Result<_, _>>()?,
            validations: list("validations")
                .map(|of| {
                    let says = &of["messageExpression"];
                    Ok(Validation {
                        holds: expression(&of["expression"])?,
                        says: says.is_string().then(|| expression(says)).transpose()?,
                        message: text(&of["message"]),
                    })
                })
                .collect::<Result<_, _>>()?,
            name: name.clone(),
        })
    }

    fn refusal(&self, context: &Context<'_, '_>) -> Result<Option<String>, PolicyError> {
        for condition in &self.conditions {
            if self.evaluate(condition, context)? != Evaluated::Bool(true) {
                return Ok(None);
            }
        }
        let mut context = context.new_inner_scope();
        let mut variables = HashMap::<String, Evaluated>::new();
        for (name, expression) in &self.variables {
            context.add_variable_from_value("variables", variables.clone());
            variables.insert(name.clone(), self.evaluate(expression, &context)?);
        }
        context.add_variable_from_value("variables", variables);
        for validation in &self.validations {
            if self.evaluate(&validation.holds, &context)? == Evaluated::Bool(true) {
                continue;
            }
            let said = validation.says.as_ref().map(|says| self.evaluate(says, &context));
            return Ok(Some(match said {
                Some(Ok(Evaluated::String(said))) => said.to_string(),
                _ => validation.message.clone(),
            }));
        }
        Ok(None)
    }

    fn evaluate(&self, expression: &Expression, context: &Context<'_, '_>) -> Result<Evaluated, PolicyError> {
        expression.program.execute(context).map_err(|error| PolicyError {
            policy: self.name.clone(),
            problem: error.to_string(),
            expression: expression.text.clone(),
        })
    }
}

/// Converts a value to the form that expressions see. Whole numbers are `int`, as in Kubernetes.
fn evaluated(value: &Value) -> Evaluated {
    match value {
        Value::Null => Evaluated::Null,
        Value::Bool(bool) => Evaluated::Bool(*bool),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Evaluated::Float(number.as_f64().unwrap_or(f64::NAN)), Evaluated::Int),
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().map(evaluated).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.as_str(), evaluated(value)));
            fields.collect::<HashMap<_, _>>().into()
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: &str = "card.volcano.sh/quota";

    fn refusal(object: Value) -> Option<String> {
        changed(None, object)
    }

    fn changed(before: Option<&Value>, object: Value) -> Option<String> {
        let manifests = include_str!("../../manifests/install.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        let file = "f.yaml".to_owned();
        let policies = Policies::of(&objects).unwrap();
        policies.refusal(&Manifest { file, object }, before, "team").unwrap()
    }

    fn pod(annotations: &Value, spec: &Value) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "annotations": annotations }, "spec": spec,
        });
        object["spec"]["containers"] = json!([{ "name": "main" }]);
        object
    }

    #[test]
    fn pods_past_the_webhook_are_let_in_and_others_are_not() {
        let gated = json!({ "schedulingGates": [{ "name": GATE }] });
        let named = json!({ "volcano.sh/card.name": "A100" });
        assert_eq!(refusal(pod(&json!({}), &json!({}))), None);
        assert_eq!(refusal(pod(&named, &gated)), None);
        for (annotations, spec, says) in [
            (&named, &json!({}), GATE),
            (
                &named,
                &json!({ "schedulingGates": [{ "name": GATE }], "nodeName": "n" }),
                "spec.nodeName: \"n\" passes",
            ),
            (
                &json!({ "volcano.sh/card.name": "A|".repeat(40) }),
                &gated,
                "has 41 alternatives, and 32 are allowed",
            ),
            (
                &json!({ "volcano.sh/card.assigned": "X" }),
                &gated,
                "which only Cardgate's operator writes",
            ),
        ] {
            let said = refusal(pod(annotations, spec)).unwrap_or_default();
            assert!(said.contains(says), "{annotations}: {said:?}");
        }
    }

    /// The message is about what the author wrote, not that Cardgate's webhook is missing.
    #[test]
    fn who_marks_a_pod_for_cross_quota_by_itself_is_told_to_leave_that_out() {
        let marked = |spec: &Value| {
            let mut object = pod(&json!({}), spec);
            object["metadata"]["labels"] = json!({ "card.volcano.sh/crossquota": "enabled" });
            refusal(object).unwrap_or_default()
        };
        let gated = json!({ "schedulingGates": [{ "name": GATE }] });
        assert_eq!(marked(&gated), "");
        for spec in [json!({}), json!({ "nodeName": "n" })] {
            let said = marked(&spec);
            assert!(
                said.contains("leave it out") && said.contains("namespace team"),
                "{said:?}"
            );
        }
    }

    /// **Webhook Admission** of the mGPU document: no impact on other pods. The value was too long for other pods, too.
    #[test]
    fn how_containers_share_cards_is_limited_for_those_alone_that_ask_for_shares() {
        let long = json!({ "vke.volcengine.com/container-multiple-gpu": "1,".repeat(600) });
        let asking = |resource: &str| {
            let resources = json!({ "requests": { resource: "100" } });
            let mut object = pod(&long, &json!({ "schedulingGates": [{ "name": GATE }] }));
            object["spec"]["containers"][0]["resources"] = resources;
            refusal(object)
        };
        let said = asking("vke.volcengine.com/mgpu-core").unwrap_or_default();
        assert!(said.contains("has 1200 characters, and 1024 are allowed"), "{said:?}");
        assert_eq!(asking("cpu"), None);
    }

    #[test]
    fn other_kinds_are_judged_by_their_own_policies() {
        let queue = |annotations: Value| {
            refusal(json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": { "name": "q", "annotations": annotations }, "spec": { "capability": { "cpu": 3 } },
            }))
        };
        assert_eq!(queue(json!({})), None);
        let said = queue(json!({ "volcano.sh/card.quota": " ".repeat(40_000) })).unwrap_or_default();
        assert!(said.contains("has 40000 characters, and 32768 are allowed"), "{said}");
        assert_eq!(
            refusal(json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" } })),
            None
        );
    }

    #[test]
    fn what_a_group_needs_at_least_is_read_as_quantities() {
        let group = |memory: Value| {
            refusal(json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": { "name": "g" },
                "spec": { "minMember": 1, "minResources": { "cpu": 2, "memory": memory } },
            }))
        };
        for memory in [json!("4Gi"), json!(0), json!("900E")] {
            assert_eq!(group(memory), None);
        }
        for (memory, says) in [
            ("-1", "memory: -1 is negative"),
            ("4 GB", "is not a Kubernetes quantity"),
        ] {
            let said = group(json!(memory)).unwrap_or_default();
            assert!(said.contains(says), "{said:?}");
        }
    }

    #[test]
    fn a_change_is_judged_from_what_there_was() {
        let named = |card: &str| {
            pod(
                &json!({ "volcano.sh/card.name": card }),
                &json!({ "schedulingGates": [{ "name": GATE }] }),
            )
        };
        let mut labelled = named("A100");
        labelled["metadata"]["labels"] = json!({ "stage": "test" });
        assert_eq!(changed(Some(&named("A100")), labelled), None);
        let said = changed(Some(&named("A100")), named("H100")).unwrap_or_default();
        assert!(
            said.contains("never added, changed or removed after the pod's creation"),
            "{said}"
        );
        let ungated = pod(&json!({ "volcano.sh/card.name": "A100" }), &json!({}));
        let said = changed(Some(&named("A100")), ungated).unwrap_or_default();
        assert!(said.contains("is removed by Cardgate's operator only"), "{said}");
        // A value that was too long before the change is no reason to refuse the change.
        let long = |state: &str| {
            json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": { "reclaimable": state == "new" },
                "metadata": { "name": "q", "annotations": { "volcano.sh/card.quota": " ".repeat(40_000) } },
            })
        };
        assert_eq!(changed(Some(&long("old")), long("new")), None);
        assert!(refusal(long("new")).is_some());
    }
}
