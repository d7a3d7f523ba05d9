//! The policies that API servers evaluate themselves, evaluated here as they would be for an ordinary user who creates an object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cel::extensions::strings;
use cel::{Context, Env, Program, Value as Evaluated};
use serde_json::{Value, json};
use thiserror::Error;

use crate::manifests::Manifest;

/// A policy that can't be read here.
#[derive(Debug, Error)]
#[error("policy {policy}: {problem}: {expression}")]
pub struct PolicyError {
    policy: String,
    problem: String,
    expression: String,
}

/// All that say something of what is created.
pub struct Policies {
    env: Arc<Env>,
    policies: Vec<Policy>,
}

/// One policy.
struct Policy {
    name: String,
    /// By group and plural.
    concerns: BTreeSet<(String, String)>,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
}

/// What must hold, and what is said where it does not.
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
    /// Those among the objects of manifests.
    pub fn of(objects: &[Value]) -> Result<Self, PolicyError> {
        let mut env = Env::stdlib();
        env.add_extension(strings).map_err(|error| PolicyError {
            policy: "any".to_owned(),
            problem: error.to_string(),
            expression: String::new(),
        })?;
        let policies = objects
            .iter()
            .filter(|object| object["kind"] == "ValidatingAdmissionPolicy")
            .map(|object| Policy::read(object, &env))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            env: Arc::new(env),
            policies,
        })
    }

    /// What is said of an object that nobody may create, in the first policy's words; nothing where they let it in. Its namespace's
    /// annotations are not known here: what a policy forbids only because of these is not found.
    pub fn refusal(&self, manifest: &Manifest, namespace: &str) -> Result<Option<String>, PolicyError> {
        let (group, kind) = manifest.group_and_kind();
        let concerned = (group.to_owned(), format!("{}s", kind.to_lowercase()));
        let mut context = Context::with_env(Arc::clone(&self.env));
        let request = json!({
            "operation": "CREATE", "namespace": namespace, "name": manifest.name(),
            "userInfo": { "username": "somebody", "groups": ["system:authenticated"] },
        });
        for (name, value) in [
            ("object", &manifest.object),
            ("oldObject", &Value::Null),
            ("request", &request),
            ("params", &json!({ "data": {} })),
            ("namespaceObject", &json!({ "metadata": { "name": namespace } })),
        ] {
            context.add_variable_from_value(name, evaluated(value));
        }
        for policy in self
            .policies
            .iter()
            .filter(|policy| policy.concerns.contains(&concerned))
        {
            if let Some(message) = policy.refusal(&context)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
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
        let mut concerns = BTreeSet::new();
        for rule in spec["matchConstraints"]["resourceRules"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if !texts(&rule["operations"]).any(|operation| operation == "CREATE") {
                continue;
            }
            for group in texts(&rule["apiGroups"]) {
                concerns.extend(texts(&rule["resources"]).map(|plural| (group.clone(), plural)));
            }
        }
        // Those of other operations may ask for more than is known here.
        if concerns.is_empty() {
            return Ok(Self {
                name: name.clone(),
                concerns,
                conditions: Vec::new(),
                variables: Vec::new(),
                validations: Vec::new(),
            });
        }
        Ok(Self {
            concerns,
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

/// A value as expressions see it: whole numbers are `int`, as they are in Kubernetes.
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
        let manifests = include_str!("../../manifests/install.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        let file = "f.yaml".to_owned();
        let policies = Policies::of(&objects).unwrap();
        policies.refusal(&Manifest { file, object }, "team").unwrap()
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
}
