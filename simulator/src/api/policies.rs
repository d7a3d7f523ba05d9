//! Of the policies that Cardgate installs, the one that says whose decisions are accepted
//! (`manifests/base/policies/leader.yaml`, and for pods `pod-update.yaml`). The leader has written its name, and what
//! another operator sent before is refused.

use crds::keys::{LEADER, NAMESPACE, POLICY_PARAMETERS};

use super::asked::{Asked, Verb};
use super::refused::Refused;
use crate::objects::{CONFIG_MAPS, JOBS, Key, Objects, POD_GROUPS, PODS};

/// Refuses what an operator decides while another one leads.
pub(super) fn leader(objects: &Objects, who: &str, asked: &Asked) -> Result<(), Refused> {
    let parameters = objects.get(&CONFIG_MAPS, &Key::new(NAMESPACE, POLICY_PARAMETERS));
    let leader = parameters.and_then(|map| map["data"][LEADER].as_str());
    let another_leads = leader.is_some_and(|leader| !leader.is_empty() && leader != who);
    if !(another_leads && who.starts_with("operator") && decides(asked)) {
        return Ok(());
    }
    let (plural, name) = (asked.resource.plural, &asked.name);
    let message = format!(
        "{plural} {name:?} is forbidden: ValidatingAdmissionPolicy 'cardgate-leader' with binding 'cardgate-leader' denied request: \
         another operator of Cardgate leads, by key \"leader\" of ConfigMap \"cardgate-policy\": this one decides nothing until it holds the \
         Lease \"operator\" and has written its name there"
    );
    Err(Refused::new(403, "Forbidden", message))
}

/// Whether this is a decision: a pod is let in, bound or evicted, a Job is resumed, or a group is moved.
fn decides(asked: &Asked) -> bool {
    match (asked.verb, &*asked.subresource) {
        (Verb::Create, "eviction" | "binding") => true,
        (Verb::Replace | Verb::Patch, "") => [&PODS, &JOBS, &POD_GROUPS].contains(&asked.resource),
        _ => false,
    }
}
