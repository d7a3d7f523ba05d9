//! The door for Bindings, whose annotations and labels the API server copies to the pod, over those that it has.
//!
//! Volcano's scheduler sends the pod's own annotations back with every Binding. The pod has them already, so they are taken off
//! a scheduler's Binding; from anybody else they would move a charge.

use crds::bounds::excerpt;
use crds::keys::{CROSS_QUOTA_LABEL, QUEUE_LABEL, is_charged_by};
use crds::lean::Text;
use crds::pod::Metadata;

use crate::denial::{Denial, few};
use crate::patch::PodPatch;

/// The place of annotations in an object.
const ANNOTATIONS: &str = "/metadata/annotations";
/// The place of labels.
const LABELS: &str = "/metadata/labels";

/// Judges the Binding of a user: what is taken off it, where the user is one of the schedulers.
pub fn judge(binding: &Metadata<Text<'_>>, user: &str, schedulers: &[String]) -> Result<PodPatch, Denial> {
    let annotations = binding.annotations.iter().map(|(key, _)| (ANNOTATIONS, key));
    let labels = binding.labels.iter().map(|(key, _)| (LABELS, key));
    let ours: Vec<_> = annotations
        .filter(|(_, key)| is_charged_by(key))
        .chain(labels.filter(|(_, key)| matches!(*key, QUEUE_LABEL | CROSS_QUOTA_LABEL)))
        .collect();
    if ours.is_empty() || schedulers.iter().any(|scheduler| scheduler == user) {
        return Ok(PodPatch::without(&ours));
    }
    Err(Denial::BindingKeys {
        keys: few(ours.into_iter().map(|(_, key)| excerpt(key))),
        user: user.to_owned(),
    })
}
