//! Finds the queue that a pod belongs to, and checks whether the pod may use it (docs/rules.md, **Which pods are managed**).

use crds::keys::{GROUP_NAME, QUEUE_NAME};
use crds::lean::Text;
use crds::names::is_object_name;
use crds::pod::Pod;

use crate::denial::Denial;
use crate::knowledge::QueueCondition;
use crate::queue_source::QueueSource;
use crate::stop::Stop;
use crate::view::{Lookup, View};
use crate::warning::Warning;

/// A pod's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub queue: Box<str>,
    /// Where the name comes from.
    pub source: QueueSource,
}

/// How an object names its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming<'a> {
    /// The queue that the object itself names, and where it names it.
    pub own: Option<(&'a str, QueueSource)>,
    /// The group that the object belongs to.
    pub group: Option<&'a str>,
}

/// Finds the pod's queue: its annotation, else its `PodGroup`'s queue, else its namespace's annotation, else the default
/// queue. The result is written on the pod for good. So no step is skipped because a watch has not delivered the object yet.
/// A change to an object that the watch has delivered counts only once the watch delivers the change (docs/security.md,
/// **Lag**).
pub fn resolve(
    pod: &Pod<Text<'_>>,
    namespace: &str,
    view: View<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Resolved, Stop> {
    let annotation = |key| pod.metadata.annotations.get(key).filter(|value| !value.is_empty());
    let naming = Naming {
        own: annotation(QUEUE_NAME).map(|queue| (queue, QueueSource::Pod)),
        group: annotation(GROUP_NAME),
    };
    find(&naming, namespace, view, warnings)
}

/// Finds the queue of any object that names its queue as `naming` says.
pub fn find(
    naming: &Naming<'_>,
    namespace: &str,
    view: View<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Resolved, Stop> {
    if let Some((queue, source)) = &naming.own {
        return named((*queue).into(), source.clone());
    }
    let group = naming.group;
    let mut group_exists = false;
    if let Some(name) = group.filter(|name| is_object_name(name)) {
        let lookup = || Lookup::Group {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if let Some(facts) = view.group(namespace, name).known(lookup)? {
            if let Some(queue) = &facts.queue {
                return named(queue.clone(), QueueSource::Group(name.to_owned()));
            }
            group_exists = true;
        }
    }
    let lookup = || Lookup::Namespace(namespace.to_owned());
    let facts = view.namespace(namespace).known(lookup)?;
    let resolved = match facts.and_then(|facts| facts.queue.clone()) {
        Some(queue) => named(queue, QueueSource::Namespace(namespace.to_owned())),
        None => named(
            view.configuration().cardgate.default_queue.as_str().into(),
            QueueSource::Default,
        ),
    }?;
    if let Some(group) = group.filter(|_| !group_exists) {
        warnings.push(Warning::GroupMissing {
            group: group.to_owned(),
            queue: resolved.queue.to_string(),
        });
    }
    Ok(resolved)
}

/// Refuses a name that no queue can have: it would hold the pod for ever, and it must not become part of a request's path.
fn named(queue: Box<str>, source: QueueSource) -> Result<Resolved, Stop> {
    if is_object_name(&queue) {
        Ok(Resolved { queue, source })
    } else {
        let queue = queue.into();
        Err(Denial::QueueName {
            named_by: source,
            queue,
        }
        .into())
    }
}

/// Checks that the namespace may use the queue. A queue that does not exist, or takes no pods, causes only a warning: the
/// pod waits for it.
pub fn check_access(
    resolved: &Resolved,
    namespace: &str,
    view: View<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), Stop> {
    let name = &*resolved.queue;
    let lookup = || Lookup::Queue(name.to_owned());
    let fact = view.queue(name);
    let fresh = fact.fresh;
    let Some(queue) = fact.known(lookup)? else {
        warnings.push(Warning::QueueMissing { queue: name.to_owned() });
        return Ok(());
    };
    // From here on only an answer of the API server itself can be a reason to refuse the pod.
    let access = match &queue.terms.access {
        Ok(access) => access,
        Err(_) if !fresh => return Err(lookup().into()),
        Err(error) => {
            return Err(Denial::QueueAccessUnreadable {
                named_by: resolved.source.clone(),
                queue: name.to_owned(),
                error: error.clone(),
            }
            .into());
        }
    };
    if !access.allows_all() {
        let lookup_namespace = || Lookup::Namespace(namespace.to_owned());
        let fact = view.namespace(namespace);
        let namespace_fresh = fact.fresh;
        let facts = fact.known(lookup_namespace)?;
        let label = |key: &str| facts.as_ref()?.labels.get(key).map(String::as_str);
        if !access.allows(label) {
            if !fresh {
                return Err(lookup().into());
            }
            if !namespace_fresh {
                return Err(lookup_namespace().into());
            }
            return Err(Denial::QueueAccess {
                named_by: resolved.source.clone(),
                queue: name.to_owned(),
                selector: queue.selector.to_string(),
                namespace: namespace.to_owned(),
            }
            .into());
        }
    }
    if queue.condition != QueueCondition::Open {
        warnings.push(Warning::QueueNotOpen {
            queue: name.to_owned(),
            condition: queue.condition.clone(),
        });
    }
    Ok(())
}
