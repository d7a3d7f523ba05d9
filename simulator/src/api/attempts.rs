//! Writing requests that change nothing: they are refused, they are dry runs, or the object is as requested already. No
//! write shows them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::asked::{Asked, PatchKind, Verb};
use crate::objects::{EVENTS, Key, Resource};

/// Such a request.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The author.
    pub who: Arc<str>,
    /// The age of the world.
    pub age: Duration,
    /// What was to be done.
    pub verb: Verb,
    /// The kind of object.
    pub resource: &'static Resource,
    /// The object; for an event, the object that it is about.
    pub key: Key,
    /// The subresource.
    pub subresource: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

/// Returns what a request attempts.
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
