//! What is answered of objects, as JSON: written once for all who read or watch.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// What was told of each version, whole or its metadata alone.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<(u64, bool), Arc<str>>);

impl Texts {
    /// What of an object is answered.
    pub fn of(&mut self, object: &Value, only_metadata: bool) -> Arc<str> {
        match version(object) {
            Some(version) => self.as_of(version, object, only_metadata),
            None => shown(object, only_metadata).into(),
        }
    }

    /// The same of this version: what is gone, or is selected no longer, is told as it was, but of the version that says so.
    pub fn as_of(&mut self, told: u64, object: &Value, only_metadata: bool) -> Arc<str> {
        let text = self.0.entry((told, only_metadata)).or_insert_with(|| {
            if version(object) == Some(told) {
                return shown(object, only_metadata).into();
            }
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = told.to_string().into();
            shown(&object, only_metadata).into()
        });
        Arc::clone(text)
    }
}

/// The version that an object is of.
fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn shown(object: &Value, only_metadata: bool) -> String {
    if only_metadata {
        let metadata = &object["metadata"];
        format!(r#"{{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{metadata}}}"#)
    } else {
        object.to_string()
    }
}
