//! What is missing where claims come to nothing, in words for the claims' authors.

use crds::dra::{DeviceClass, Selector, SubRequest};

use super::Devices;
use crate::steps::Steps;

/// The most characters of a selector that a message repeats.
const MOST_SHOWN: usize = 200;

impl Devices {
    /// Returns why a form selects no device, in words for the user: the class, or the first of the form's selectors that leaves no device.
    pub(super) fn why_none(&self, class: &DeviceClass, form: &SubRequest, steps: &Steps) -> String {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let of_class = self.select(class, &[], steps).unwrap_or_default();
        if of_class.is_empty() {
            return format!("DeviceClass {name} selects no device that the cluster has");
        }
        let selects_none = |selector: &&Selector| {
            let selected = self.select(class, std::slice::from_ref(*selector), steps);
            selected.is_ok_and(|models| models.is_empty())
        };
        let Some(alone) = form.selectors.iter().find(selects_none) else {
            return format!("no device of DeviceClass {name} satisfies all of its selectors");
        };
        let expression = &*alone.cel.expression;
        let both = self.expressions(class, std::slice::from_ref(alone), steps);
        let fails_on = both.map(|both| self.selections.failing(&both, &self.inventory, steps));
        let why = if fails_on.is_some_and(|fails_on| of_class.is_subset(&fails_on)) {
            ", which asks for an attribute that none of them has"
        } else {
            ""
        };
        let shown: String = expression.chars().take(MOST_SHOWN).collect();
        format!("no device of DeviceClass {name} satisfies selector {shown:?}{why}")
    }
}

/// Returns what a pod is told of a claim that it calls by this name and that is to be made from a template.
pub(super) fn not_made(name: &str) -> String {
    format!("claim {name}: Kubernetes has not made it from its template yet")
}

/// Returns what a pod is told of a claim that it calls by this name and that does not exist.
pub(super) fn not_there(name: &str, claim: &str) -> String {
    format!("claim {name}: there is no ResourceClaim {claim} in the pod's namespace yet")
}
