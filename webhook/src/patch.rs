//! The JSON patches (RFC 6902) that the webhook answers with: they hold pods and Jobs back, and strip Bindings.
//!
//! Applied to its own result a patch changes nothing: where everything is in place, it is empty. So it does not matter how
//! often the API server calls again after other webhooks (`reinvocationPolicy: IfNeeded`).

use std::borrow::Cow;

use crds::job::Job;
use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GATE, JOB_HELD, QUEUE_LABEL, QUEUE_NAME, is_operator_result};
use crds::lean::Text;
use crds::names::is_label_value;
use crds::pod::Pod;
use serde::ser::{Serialize, Serializer};

use crate::warning::Warning;

/// What the door does beyond what the documents ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// A scheduler that this cluster does not have. Pods that name it get the default scheduler.
    pub replace_scheduler_name: Option<String>,
}

/// The value of the mark on a suspended Job. Only the presence of the mark counts.
const HELD: &str = "true";
/// The scheduler of every Kubernetes cluster.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What is written on a pod, on a Job or on a Binding.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct ObjectPatch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Operation {
    /// Adds the member, or replaces an existing one.
    Add {
        path: Cow<'static, str>,
        value: Value,
    },
    Remove {
        path: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(Cow<'static, str>),
    /// An object with a single text member.
    Entry(&'static str, String),
    Gate,
    Gates,
    True,
    False,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Entry(key, value) => serializer.collect_map([(key, value)]),
            Self::Gate => serializer.collect_map([("name", GATE)]),
            Self::True => serializer.serialize_bool(true),
            Self::False => serializer.serialize_bool(false),
            Self::Gates => serializer.collect_seq([Self::Gate]),
        }
    }
}

impl ObjectPatch {
    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The part of the patch that every pod gets. It removes the results of an admission, replaces a scheduler that this
    /// cluster does not have, and removes the mark of `CrossQuota` unless `CrossQuota` decides where the pod goes.
    fn correct(pod: &Pod<Text<'_>>, cross_quota: bool, options: &Options, warnings: &mut Vec<Warning>) -> Self {
        let mut operations = Vec::new();
        if !cross_quota && pod.metadata.labels.contains_key(CROSS_QUOTA_LABEL) {
            operations.push(Operation::Remove {
                path: pointer("/metadata/labels", CROSS_QUOTA_LABEL),
            });
        }
        let annotations = pod.metadata.annotations.iter();
        for (key, _) in annotations.filter(|(key, _)| is_operator_result(key)) {
            operations.push(Operation::Remove {
                path: pointer("/metadata/annotations", key),
            });
            warnings.push(Warning::ResultDropped { key: key.to_owned() });
        }
        if let (Some(scheduler), Some(replaced)) = (&pod.spec.scheduler_name, &options.replace_scheduler_name)
            && scheduler.as_ref() == replaced
        {
            operations.push(Operation::Add {
                path: "/spec/schedulerName".into(),
                value: Value::Text(DEFAULT_SCHEDULER.into()),
            });
            warnings.push(Warning::SchedulerReplaced {
                from: replaced.clone(),
                to: DEFAULT_SCHEDULER,
            });
        }
        Self { operations }
    }

    /// The patch of a pod that does not concern Cardgate. Beyond what every pod gets, it removes the gate, which nobody
    /// would take off later.
    pub fn leave(pod: &Pod<Text<'_>>, options: &Options, warnings: &mut Vec<Warning>) -> Self {
        let mut patch = Self::correct(pod, false, options, warnings);
        let gates = pod.spec.scheduling_gates.iter().enumerate();
        let own = gates.filter(|(_, gate)| gate.name.as_ref().is_some_and(|name| name.as_ref() == GATE));
        // The last gate is removed first, since each removal moves those behind it.
        let removed = own.rev().map(|(place, _)| Operation::Remove {
            path: format!("/spec/schedulingGates/{place}"),
        });
        let before = patch.operations.len();
        patch.operations.extend(removed);
        if patch.operations.len() > before {
            warnings.push(Warning::GateDropped);
        }
        patch
    }

    /// Holds a managed pod. Beyond what every pod gets, it adds the gate, the queue as annotation and as label, and the mark
    /// of `CrossQuota` where `CrossQuota` decides where the pod goes.
    pub fn hold(
        pod: &Pod<Text<'_>>,
        queue: Option<&str>,
        cross_quota: bool,
        options: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Self {
        let mut patch = Self::correct(pod, cross_quota, options, warnings);
        if !pod.spec.has_gate(GATE) {
            patch.add_gate(pod.spec.scheduling_gates.is_empty());
        }
        let labels = &pod.metadata.labels;
        let mut no_labels = labels.is_empty();
        if cross_quota && labels.get(CROSS_QUOTA_LABEL) != Some(CROSS_QUOTA_ENABLED) {
            patch.add_entry("/metadata/labels", no_labels, CROSS_QUOTA_LABEL, CROSS_QUOTA_ENABLED);
            no_labels = false;
        }
        let Some(queue) = queue else {
            if labels.contains_key(QUEUE_LABEL) {
                patch.operations.push(Operation::Remove {
                    path: pointer("/metadata/labels", QUEUE_LABEL),
                });
            }
            return patch;
        };
        let annotations = &pod.metadata.annotations;
        if annotations.get(QUEUE_NAME).is_none_or(str::is_empty) {
            patch.add_entry("/metadata/annotations", annotations.is_empty(), QUEUE_NAME, queue);
        }
        if is_label_value(queue) {
            if labels.get(QUEUE_LABEL) != Some(queue) {
                patch.add_entry("/metadata/labels", no_labels, QUEUE_LABEL, queue);
            }
        } else {
            if labels.contains_key(QUEUE_LABEL) {
                patch.operations.push(Operation::Remove {
                    path: pointer("/metadata/labels", QUEUE_LABEL),
                });
            }
            warnings.push(Warning::QueueNameTooLong {
                queue: queue.to_owned(),
            });
        }
        patch
    }

    /// Removes members, each given as a map of the object and a key in that map.
    pub fn without(members: &[(&str, &str)]) -> Self {
        let remove = |(map, key): &(&str, &str)| Operation::Remove {
            path: pointer(map, key),
        };
        Self {
            operations: members.iter().map(remove).collect(),
        }
    }

    /// Suspends a Job, and marks the suspension as Cardgate's.
    pub fn suspend(job: &Job<Text<'_>>) -> Self {
        let mut patch = Self {
            operations: vec![Operation::Add {
                path: "/spec/suspend".into(),
                value: Value::True,
            }],
        };
        let annotations = &job.metadata.annotations;
        if annotations.get(JOB_HELD) != Some(HELD) {
            patch.add_entry("/metadata/annotations", annotations.is_empty(), JOB_HELD, HELD);
        }
        patch
    }

    /// Removes the mark of a held Job. If the Job is to be resumed, removes the suspension too.
    pub fn let_go(is_resumed: bool) -> Self {
        let mut patch = Self::without(&[("/metadata/annotations", JOB_HELD)]);
        if is_resumed {
            patch.operations.push(Operation::Add {
                path: "/spec/suspend".into(),
                value: Value::False,
            });
        }
        patch
    }

    fn add_gate(&mut self, first: bool) {
        self.operations.push(if first {
            Operation::Add {
                path: "/spec/schedulingGates".into(),
                value: Value::Gates,
            }
        } else {
            Operation::Add {
                path: "/spec/schedulingGates/-".into(),
                value: Value::Gate,
            }
        });
    }

    /// Sets one label or annotation. An empty map may be absent or `null`, so the map is then written as a whole.
    fn add_entry(&mut self, map: &'static str, is_empty: bool, key: &'static str, value: &str) {
        let value = value.to_owned();
        self.operations.push(if is_empty {
            Operation::Add {
                path: map.into(),
                value: Value::Entry(key, value),
            }
        } else {
            Operation::Add {
                path: pointer(map, key).into(),
                value: Value::Text(value.into()),
            }
        });
    }
}

/// The JSON pointer (RFC 6901) to a member of `map`.
fn pointer(map: &str, key: &str) -> String {
    [map, "/", &key.replace('~', "~0").replace('/', "~1")].concat()
}
