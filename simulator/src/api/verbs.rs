//! What the API server does with each request except a watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use super::asked::{Asked, PatchKind, Verb};
use super::refused::Refused;
use super::texts::Texts;
use super::watch::Answer;
use super::{State, check, merge, policies, say, say_text};
use crate::objects::{Key, Objects, POD_DISRUPTION_BUDGETS, PODS, Refusal, Resource, api_version};

/// The longest page of a list, whatever the client asks for, so that lists have several pages.
const PAGE: u64 = 20;

type Answered = Result<Response<Answer>, Refused>;

/// Answers a request, and carries it out.
pub(super) fn answer(state: &mut State, who: &Arc<str>, asked: &Asked) -> Answered {
    let key = Key::new(&*asked.namespace, &*asked.name);
    policies::leader(&state.objects, who, asked)?;
    match (asked.verb, &*asked.subresource) {
        (Verb::Get, "") => {
            let object = state.objects.get(asked.resource, &key);
            let object = object.ok_or_else(|| Refused::of(Refusal::NotFound, asked.resource, &key))?;
            Ok(say_object(200, &mut state.texts, asked, object))
        }
        (Verb::List, "") => list(state, asked),
        (Verb::Create, "") => create(state, who, asked),
        (Verb::Create, "eviction") => evict(state, who, asked, &key),
        (Verb::Create, "binding") => bind(state, who, asked, &key),
        (Verb::Replace, "" | "status") => {
            let sent: Value = body(asked)?;
            write(state, who, asked, &key, |object| {
                *object = sent;
                Ok(())
            })
        }
        (Verb::Patch, "" | "status") => {
            if asked.patch == PatchKind::Apply && state.objects.get(asked.resource, &key).is_none() {
                return create(state, who, asked);
            }
            write(state, who, asked, &key, |object| {
                merge::apply(asked.patch, object, &asked.body)
            })
        }
        (Verb::Delete, "") => delete(state, who, asked, &key),
        _ => Err(Refused::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )),
    }
}

/// Returns an answer with an object.
fn say_object(code: u16, texts: &mut Texts, asked: &Asked, object: &Value) -> Response<Answer> {
    say_text(code, texts.of(object, asked.only_metadata).to_string())
}

fn body(asked: &Asked) -> Result<Value, Refused> {
    serde_json::from_slice(&asked.body).map_err(|error| Refused::new(400, "BadRequest", error.to_string()))
}

/// Which objects a request selects.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    /// Pointers into the object, whether the values are to be equal, and the value.
    fields: Vec<(String, bool, String)>,
}

impl Selector {
    pub fn read(asked: &Asked) -> Result<Self, Refused> {
        let refused = |what: &str| Refused::new(400, "BadRequest", format!("unable to parse selector: {what}"));
        if !asked.query("labelSelector").is_empty() {
            return Err(refused("labels are not selected here"));
        }
        let terms = asked.query("fieldSelector").split(',').filter(|term| !term.is_empty());
        let fields = terms.map(|term| {
            let (field, is, value) = if let Some((field, value)) = term.split_once("!=") {
                (field, false, value)
            } else {
                let (field, value) = term.split_once('=').ok_or_else(|| refused(term))?;
                (field, true, value)
            };
            Ok((format!("/{}", field.replace('.', "/")), is, value.to_owned()))
        });
        Ok(Self {
            fields: fields.collect::<Result<_, Refused>>()?,
        })
    }

    pub fn selects(&self, object: &Value) -> bool {
        self.fields.iter().all(|(pointer, is, value)| {
            let found = object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (found == value) == *is
        })
    }
}

fn list(state: &mut State, asked: &Asked) -> Answered {
    let selector = Selector::read(asked)?;
    let (version, after) = match asked.query("continue").split_once('|') {
        Some((version, after)) => (version.parse().unwrap_or_default(), after),
        None => (state.objects.version(), ""),
    };
    if version < state.faults.forgotten {
        return Err(Refused::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
             the continue parameter, or use the continue token in this response to retrieve the remainder of the results.",
        ));
    }
    let mut page = Vec::new();
    let limit = asked.number("limit").unwrap_or(u64::MAX).min(PAGE);
    let mut next = None;
    for (key, object) in at_version(&state.objects, asked.resource, version) {
        let place = key.to_string();
        let in_namespace = asked.namespace.is_empty() || asked.namespace == key.namespace;
        if !in_namespace || *place <= *after || !selector.selects(object) {
            continue;
        }
        if page.len() as u64 == limit && asked.query.contains_key("limit") {
            break;
        }
        page.push(state.texts.of(object, asked.only_metadata));
        next = Some(format!("{version}|{place}"));
        if (page.len() as u64) < limit {
            next = None;
        }
    }
    let (kind, group) = if asked.only_metadata {
        ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
    } else {
        (format!("{}List", asked.resource.kind), api_version(asked.resource))
    };
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(next) = next.filter(|_| asked.query.contains_key("limit")) {
        metadata["continue"] = next.into();
    }
    let items = page.join(",");
    let list = format!(r#"{{"kind":"{kind}","apiVersion":"{group}","metadata":{metadata},"items":[{items}]}}"#);
    Ok(say_text(200, list))
}

/// Returns the objects of a kind as they were at a version.
fn at_version<'o>(
    objects: &'o Objects,
    resource: &'static Resource,
    version: u64,
) -> BTreeMap<&'o Key, &'o Arc<Value>> {
    let mut there: BTreeMap<_, _> = objects.list(resource).collect();
    let since = objects.writes_after(version).iter();
    for write in since.rev().filter(|write| write.resource == resource) {
        match &write.before {
            Some(before) => there.insert(&write.key, before),
            None => there.remove(&write.key),
        };
    }
    there
}

fn create(state: &mut State, who: &Arc<str>, asked: &Asked) -> Answered {
    let mut object: Value = body(asked)?;
    let resource = asked.resource;
    if resource.is_namespaced && object["metadata"].is_object() {
        object["metadata"]["namespace"] = (&*asked.namespace).into();
    }
    if resource.has_status
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let key = Key::new(&*asked.namespace, name);
    let created = state.objects.create(who, resource, object);
    let created = created.map_err(|refusal| Refused::of(refusal, resource, &key))?;
    Ok(say_object(201, &mut state.texts, asked, &created))
}

/// Changes an object, or only its status.
fn write(
    state: &mut State,
    who: &Arc<str>,
    asked: &Asked,
    key: &Key,
    change: impl FnOnce(&mut Value) -> Result<(), Refused>,
) -> Answered {
    let resource = asked.resource;
    let mut refused = None;
    let before = state.objects.get(resource, key).cloned().unwrap_or_default();
    let written = state.objects.change(who, resource, key, |object| {
        if let Err(error) = change(object) {
            refused = Some(error);
            return Err(Refusal::Conflict);
        }
        if asked.subresource == "status" {
            let status = object["status"].take();
            let metadata = object["metadata"].take();
            *object = Value::clone(&before);
            object["status"] = status;
            // So that a version or uid in the request is compared.
            for field in ["resourceVersion", "uid"] {
                object["metadata"][field] = metadata[field].clone();
            }
        } else if resource.has_status {
            match before.get("status") {
                Some(status) => object["status"] = status.clone(),
                None => drop(object.as_object_mut().map(|object| object.remove("status"))),
            }
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = before["metadata"]["uid"].clone();
        }
        check::update(resource, &before, object).map_err(Refusal::Invalid)
    });
    match (written, refused) {
        (Ok(object), _) => Ok(say_object(200, &mut state.texts, asked, &object)),
        (Err(_), Some(refused)) => Err(refused),
        (Err(refusal), None) => Err(Refused::of(refusal, resource, key)),
    }
}

fn delete(state: &mut State, who: &Arc<str>, asked: &Asked, key: &Key) -> Answered {
    if !asked.body.is_empty() {
        meant(state, asked.resource, key, &body(asked)?["preconditions"])?;
    }
    let deleted = state.objects.delete(who, asked.resource, key);
    deleted.map_err(|refusal| Refused::of(refusal, asked.resource, key))?;
    Ok(success(200))
}

/// Refuses unless the object is the one that the preconditions mean.
fn meant(state: &State, resource: &'static Resource, key: &Key, preconditions: &Value) -> Result<(), Refused> {
    let object = state.objects.get(resource, key);
    let object = object.ok_or_else(|| Refused::of(Refusal::NotFound, resource, key))?;
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (meant, is) = (&preconditions[field], &object["metadata"][field]);
        if !meant.is_null() && meant != is {
            let message = format!(
                "Operation cannot be fulfilled on {} {:?}: Precondition failed: {name} in precondition: {}, {name} in object meta: {}",
                resource.plural,
                key.name,
                meant.as_str().unwrap_or_default(),
                is.as_str().unwrap_or_default()
            );
            return Err(Refused::new(409, "Conflict", message));
        }
    }
    Ok(())
}

/// Evicts a pod, if the disruption budgets that select it allow that.
fn evict(state: &mut State, who: &Arc<str>, asked: &Asked, key: &Key) -> Answered {
    let options = body(asked)?;
    meant(state, &PODS, key, &options["deleteOptions"]["preconditions"])?;
    let pod = state.objects.get(&PODS, key).cloned().unwrap_or_default();
    let is_running = pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    if is_running {
        let selects = |budget: &Value| {
            let mut labels = budget["spec"]["selector"]["matchLabels"]
                .as_object()
                .into_iter()
                .flatten();
            labels.all(|(label, value)| pod["metadata"]["labels"][label] == *value)
        };
        let budgets = state.objects.list(&POD_DISRUPTION_BUDGETS);
        let found = budgets.filter(|(of, budget)| of.namespace == key.namespace && selects(budget));
        let found: Vec<_> = found.map(|(of, _)| of.clone()).collect();
        if found.len() > 1 {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Refused::new(500, "InternalError", message));
        }
        for of in found {
            let budget = state
                .objects
                .get(&POD_DISRUPTION_BUDGETS, &of)
                .cloned()
                .unwrap_or_default();
            let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            if allowed <= 0 {
                let message = "Cannot evict pod as it would violate the pod's disruption budget.";
                return Err(Refused::new(429, "TooManyRequests", message));
            }
            if !asked.is_dry_run() {
                let count = |budget: &mut Value| {
                    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
                    Ok(())
                };
                let counted = state.objects.change(who, &POD_DISRUPTION_BUDGETS, &of, count);
                counted.map_err(|refusal| Refused::of(refusal, &POD_DISRUPTION_BUDGETS, &of))?;
            }
        }
    }
    if !asked.is_dry_run() {
        let deleted = state.objects.delete(who, &PODS, key);
        deleted.map_err(|refusal| Refused::of(refusal, &PODS, key))?;
    }
    Ok(success(201))
}

/// Binds a pod to a node. The annotations of the Binding become the pod's.
fn bind(state: &mut State, who: &Arc<str>, asked: &Asked, key: &Key) -> Answered {
    let binding = body(asked)?;
    meant(state, &PODS, key, &json!({"uid": binding["metadata"]["uid"]}))?;
    let mut taken = None;
    let bound = state.objects.change(who, &PODS, key, |pod| {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            taken = Some(node.to_owned());
            return Err(Refusal::Conflict);
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        for (annotation, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            pod["metadata"]["annotations"][annotation] = value.clone();
        }
        Ok(())
    });
    let name = &key.name;
    bound.map_err(|refusal| match taken {
        Some(node) => Refused::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on pods/binding {name:?}: pod {name} is already assigned to node {node:?}"),
        ),
        None => Refused::of(refusal, &PODS, key),
    })?;
    Ok(success(201))
}

fn success(code: u16) -> Response<Answer> {
    say(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}),
    )
}
