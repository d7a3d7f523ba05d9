//! Requests to write that change nothing: what is refused, what only asks whether it would be taken, and what is there already. No write tells
//! of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::asked::{Asked, PatchKind, Verb};
use crate::objects::{EVENTS, Key, Resource};

/// One of them.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Who asked.
    pub who: Arc<str>,
    /// How old the world was.
    pub age: Duration,
    /// What was to be done.
    pub verb: Verb,
    /// With what kind of object.
    pub resource: &'static Resource,
    /// With which one; of an event, whom it is about.
    pub key: Key,
    /// With which part of it.
    pub subresource: String,
    /// How it was answered.
    pub code: u16,
}

/// What this asks for.
pub(super) fn attempt(who: &Arc<str>, age: Duration, asked: &Asked, code: u16) -> Attempt {
    let (mut namespace, mut name) = (asked.namespace.clone(), asked.name.clone());
    if asked.verb == Verb::Create && asked.subresource.is_empty() || asked.patch == PatchKind::Apply {
        let sent: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let named = if asked.resource == &EVENTS {
            &sent["regarding"]
        } else {
            &sent["metadata"]
        };
        let text = |field: &str| named[field].as_str().unwrap_or_default().to_owned();
        (namespace, name) = (text("namespace"), text("name"));
    }
    Attempt {
        who: Arc::clone(who),
        age,
        verb: asked.verb,
        resource: asked.resource,
        key: Key::new(namespace, name),
        subresource: asked.subresource.clone(),
        code,
    }
}
