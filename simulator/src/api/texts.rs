//! The JSON of objects in answers, written once for all lists and watches.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// The text of each version, whole or only its metadata.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<(u64, bool), Arc<str>>);

impl Texts {
    /// Returns the text of an object.
    pub fn of(&mut self, object: &Value, only_metadata: bool) -> Arc<str> {
        match version(object) {
            Some(version) => self.as_of(version, object, only_metadata),
            None => shown(object, only_metadata).into(),
        }
    }

    /// Returns the text with another version. An object that is gone, or no longer selected, is sent as it was, but with the
    /// version of that change.
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

/// Returns the version of an object.
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
