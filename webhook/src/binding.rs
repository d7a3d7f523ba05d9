//! The door for Bindings. The API server copies a Binding's annotations and labels to the pod, and overwrites the pod's own.
//!
//! Volcano's scheduler sends the pod's own annotations back with every Binding. The pod has them already, so they are
//! removed from a scheduler's Binding. From any other user they would move a charge, so the Binding is refused.

use crds::bounds::excerpt;
use crds::keys::{CROSS_QUOTA_LABEL, QUEUE_LABEL, is_charged_by};
use crds::lean::Text;
use crds::pod::Metadata;

use crate::denial::{Denial, few};
use crate::patch::ObjectPatch;

/// The JSON pointer to an object's annotations.
const ANNOTATIONS: &str = "/metadata/annotations";
/// The JSON pointer to an object's labels.
const LABELS: &str = "/metadata/labels";

/// Judges the Binding of a user. Returns what to remove from it if the user is one of the schedulers.
pub fn judge(binding: &Metadata<Text<'_>>, user: &str, schedulers: &[String]) -> Result<ObjectPatch, Denial> {
    let annotations = binding.annotations.iter().map(|(key, _)| (ANNOTATIONS, key));
    let labels = binding.labels.iter().map(|(key, _)| (LABELS, key));
    let ours: Vec<_> = annotations
        .filter(|(_, key)| is_charged_by(key))
        .chain(labels.filter(|(_, key)| matches!(*key, QUEUE_LABEL | CROSS_QUOTA_LABEL)))
        .collect();
    if ours.is_empty() || schedulers.iter().any(|scheduler| scheduler == user) {
        return Ok(ObjectPatch::without(&ours));
    }
    Err(Denial::BindingKeys {
        keys: few(ours.into_iter().map(|(_, key)| excerpt(key))),
        user: excerpt(user).into_owned(),
    })
}
