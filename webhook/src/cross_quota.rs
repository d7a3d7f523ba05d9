//! Which pods `CrossQuota` decides about (docs/rules.md, **CrossQuota**): pods without GPU in namespaces that opted in.

use crds::configuration::Enforcement;
use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL};
use crds::lean::Text;
use crds::managed::{is_created_for_daemon_set, is_subject_to_cross_quota};
use crds::pod::Pod;

use crate::stop::Stop;
use crate::view::{Lookup, View};

/// Whether `CrossQuota` decides where the pod that this user creates goes. `asked_for_this` says that the API server sent
/// the pod here because of the namespace's label, unless because of the label of a queue set by hand. So the API server has
/// seen the namespace's label, though the watch may not have yet.
pub fn decides(
    pod: &Pod<Text<'_>>,
    user: &str,
    namespace: &str,
    view: View<'_>,
    asked_for_this: bool,
) -> Result<bool, Stop> {
    if asked_for_this && !view.is_complete() {
        return Err(Stop::NotReady);
    }
    let Some(arguments) = &view.configuration().cross_quota else {
        return Ok(false);
    };
    let is_gating = view.configuration().cardgate.enforce_cross_quota == Enforcement::Gating;
    if !is_gating || is_created_for_daemon_set(pod, user) || !is_subject_to_cross_quota(pod, arguments) {
        return Ok(false);
    }
    let facts = view.namespace(namespace);
    let labels = facts.value.as_ref().map(|facts| &facts.labels);
    let label = labels.and_then(|labels| labels.get(CROSS_QUOTA_LABEL));
    let opted_in = label.is_some_and(|value| value == CROSS_QUOTA_ENABLED);
    // A namespace that was created a moment ago may have had the label from the beginning. A namespace that got the label
    // only later is handled by policy cardgate-crossquota.
    let may_be_behind = asked_for_this || facts.value.is_none();
    if !opted_in && may_be_behind && !facts.fresh {
        return Err(Stop::Ask(Lookup::Namespace(namespace.to_owned())));
    }
    Ok(opted_in)
}
