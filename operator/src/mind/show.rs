//! What the mind shows: what has changed, why pods wait, and what was done to them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crds::keys::{CONFIG_MAP, GPU_NODE_LABEL, NAMESPACE};
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Eviction;
use engine::explain::{Fresh, Notice, Progress, Reminder, got_others, let_in, notices_watched, progress, stand_aside};
use engine::happening::Happening;
use engine::ids::NodeId;
use engine::overview::{self, Shown};
use engine::refs::PodRef;
use engine::trail::ObjectKind;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::Mind;
use crate::metrics::Decision;
use crate::policy_parameters::parameters;
use crate::report::{EventKind, PodReport, Report};

/// How many pods and workloads are told something in one tick, in all: 60 in a second. The reporter writes urgent things no faster, and
/// numbers should be fresh.
const TOLD_PER_TICK: usize = 12;
/// How many waiting pods are told in one tick why they wait, those that stand aside included.
const NOTICES_PER_TICK: usize = 10;
/// How many pods are told in one tick that they stand aside from the beginning: some, however many others are to be told something.
const ASIDE_PER_TICK: usize = 2;
/// How many pods and workloads that were told before are looked at again in one tick, to show current numbers: 1,500 in a minute.
const REFRESHED_PER_TICK: usize = 5;
/// How many workloads are told their progress in one tick. The controller that creates their pods may wait for it.
const PROGRESS_PER_TICK: usize = 8;
/// How long no pod is told anything new while evictions are unanswered. Evictions may be refused, as a rule at once, and then nothing has
/// changed.
const UNANSWERED: Duration = Duration::from_secs(2);
/// How long pods are told nothing at most, however many evictions follow each other. Meanwhile pods wait to be told, and controllers wait
/// for the phase of a group before they create its pods.
const SILENCE: Duration = Duration::from_secs(5);
/// How long after a change the metrics of queues are counted anew. The count covers all queues, whatever has changed, and nobody scrapes
/// the metrics more often.
const FIGURES_AFTER: Duration = Duration::from_secs(1);

impl Mind {
    /// Shows what has changed, and tells pods why they wait.
    pub(super) fn show(&mut self, now: Timestamp) {
        let mut changes = self.cluster.take_changes();
        for uid in &changes.unplaced_gpu_pods {
            self.say_unplaced(uid);
        }
        for (uid, was) in &changes.got_others {
            if let Some((pod, message)) = got_others(&self.cluster, uid, was) {
                self.say(&pod, Happening::OtherCardsAllocated, message);
            }
        }
        for uid in &changes.shown_as_waiting {
            self.show_admitted(uid);
        }
        self.label_nodes();
        self.told_of_volcano &= !self.reconfigured;
        if changes.volcano_schedules && self.cluster.configuration().cardgate.enqueue {
            self.tell_of_volcano();
        }
        if self.reconfigured {
            self.told_outside.clear();
        }
        // All nodes are only examined if a changed node has cards that have not been told yet.
        let outside = changes
            .nodes
            .iter()
            .filter_map(|node| overview::node_outside_cross_quota(&self.cluster, *node));
        if self.reconfigured || outside.into_iter().any(|cards| !self.told_outside.contains(&cards)) {
            self.tell_of_nodes_outside();
        }
        for node in &changes.bad_quotas {
            self.tell_bad_quotas(*node);
        }
        if std::mem::take(&mut self.reconfigured) || !changes.cards.is_empty() || changes.resources_of_cards {
            let parameters = Arc::new(parameters(
                self.cluster.configuration(),
                &self.cluster.resources_of_cards(),
            ));
            self.parameters
                .send_if_modified(|told| told.replace(Arc::clone(&parameters)).as_ref() != Some(&parameters));
        }
        let mut queues_changed = !changes.queues.is_empty();
        let entries = |queue| overview::entries_of_usage(&self.cluster, queue);
        changes.queues = self.usages.due(changes.queues, Instant::now(), entries);
        for (node, cards) in overview::gpu_figures(&self.cluster, &changes) {
            self.metrics.show_gpus(&node, cards);
        }
        for shown in overview::changed(&self.cluster, changes) {
            if let Shown::CardType { card, content, .. } = &shown {
                let status = content.as_ref().map(|(_, status)| status);
                self.metrics.show_card(card, status);
                self.unaccounted.card(card, status.map(|status| status.unaccounted));
            }
            // Changes of nodes count too: they can change whether a queue can get all that it declares.
            queues_changed |= matches!(shown, Shown::Usage { .. });
            self.reports.send(Report::Shown(Box::new(shown)));
        }
        self.metrics
            .show_pods_with_resource_claims(self.cluster.pods_with_resource_claims());
        self.show_quarantined();
        if let Some(shown) = self.unaccounted.report(&self.cluster) {
            self.reports.send(Report::Shown(Box::new(shown)));
        }
        if !std::mem::replace(&mut self.reported_all, true) {
            self.reports.send(Report::Synced);
            self.refresher.take_over(&self.cluster, now);
        }
        let mut room = self.told_in_this_tick();
        let aside = self.tell_who_stands_aside(ASIDE_PER_TICK.min(room));
        room -= aside;
        for progress in progress(&mut self.cluster, now, PROGRESS_PER_TICK.min(room)) {
            room -= 1;
            self.refresher.note_progress(&progress, now);
            self.show_progress(progress);
        }
        let for_pods = room.min(NOTICES_PER_TICK - aside);
        let notices = notices_watched(&mut self.cluster, now, for_pods, &*self.pulse);
        if self.actor.is_retired() {
            return;
        }
        if queues_changed || !notices.is_empty() {
            self.figures_due.get_or_insert_with(|| Instant::now() + FIGURES_AFTER);
        }
        if self.figures_due.take_if(|due| *due <= Instant::now()).is_some() {
            self.metrics.show_queues(overview::figures(&self.cluster));
        }
        // New notices come first.
        let limit = REFRESHED_PER_TICK.min(for_pods - notices.len());
        for notice in notices {
            self.refresher.note(&notice, now);
            self.tell(notice);
        }
        for fresh in self.refresher.refresh(&self.cluster, now, limit) {
            match fresh {
                Fresh::Pod(notice) => self.report_waiting(notice, true),
                Fresh::Workload(progress) => self.show_progress(progress),
                Fresh::Again(reminder) => self.remind(*reminder),
            }
        }
    }

    /// Tells a few pods that they stand aside from the beginning. Returns how many.
    fn tell_who_stands_aside(&mut self, limit: usize) -> usize {
        let notices = stand_aside(&mut self.cluster, limit);
        let count = notices.len();
        for notice in notices {
            self.tell(notice);
        }
        count
    }

    /// Returns how many pods and workloads may be told something in this tick.
    fn told_in_this_tick(&mut self) -> usize {
        let is_open = self.evicting_since.is_some_and(|since| since.elapsed() < UNANSWERED);
        // The silence ends one tick after the last answer: the rounds in between find out again what the other pods wait for.
        self.evicting_since = self.evicting_since.filter(|_| self.evictions_under_way > 0);
        if !is_open {
            self.silent_since = None;
            return TOLD_PER_TICK;
        }
        let silent_since = *self.silent_since.get_or_insert_with(Instant::now);
        if silent_since.elapsed() < SILENCE {
            0
        } else {
            TOLD_PER_TICK
        }
    }

    /// Warns, once per configuration, that Volcano's scheduler writes the same phases as Cardgate.
    fn tell_of_volcano(&mut self) {
        if std::mem::replace(&mut self.told_of_volcano, true) {
            return;
        }
        let message = "PodGroups have conditions as Volcano's scheduler writes them. If that scheduler runs, it sets their phases, and so does \
                       Cardgate (enqueue: true), each undoing what the other says: set enqueue: false in cardgate.yaml, or stop that \
                       scheduler. If it does not run, somebody who may edit PodGroups wrote these conditions: leave enqueue as it is";
        self.warn_of_configuration(Happening::EnqueueBesideVolcano, message.to_owned());
    }

    /// Warns, once per configuration, about cards that `CrossQuota` does not know as GPUs.
    fn tell_of_nodes_outside(&mut self) {
        for (cards, (count, first)) in overview::outside_cross_quota(&self.cluster) {
            if self.told_outside.insert(cards.clone()) {
                let beside = match count - 1 {
                    0 => String::new(),
                    1 => ", or a further node".to_owned(),
                    more => format!(", or {more} further nodes"),
                };
                let message = format!(
                    "gpu-resource-names of crossquota matches none of what {first}{beside} with {cards} can allocate: pods without GPU may \
                     take all of it, as of nodes without GPU. Where their device plugin does not run, or not yet, see to that; where it does, add \
                     a pattern that matches these cards"
                );
                self.warn_of_configuration(Happening::NotAGpuNode, message);
            }
        }
    }

    /// Warns in an event on the configuration's `ConfigMap`, and in the log.
    fn warn_of_configuration(&self, reason: Happening, message: String) {
        tracing::warn!(message);
        self.reports.send(Report::Event {
            regarding: Box::new(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("ConfigMap".to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                name: Some(CONFIG_MAP.to_owned()),
                ..ObjectReference::default()
            }),
            kind: EventKind::Warning,
            reason: reason.into(),
            message,
        });
    }

    /// Tells a pod why it waits.
    pub(super) fn tell(&self, notice: Notice) {
        let reason = notice.reason.as_str();
        let (pod, queue, card) = (&notice.pod, &notice.queue, &notice.card);
        tracing::info!(%pod, %queue, card = card.as_deref(), reason, detail = notice.message, "waits");
        self.metrics.decided(Decision::Refused(notice.reason));
        self.report_waiting(notice, true);
    }

    /// Makes a pod's condition say why it waits.
    fn report_waiting(&self, notice: Notice, event: bool) {
        let condition = PodReport {
            status: false,
            same_status: notice.told_before,
            reason: notice.reason.into(),
            message: notice.message,
        };
        self.reports.send(Report::Pod {
            pod: notice.pod,
            condition,
            event,
        });
    }

    /// Repeats in an event what the object's condition says already.
    fn remind(&self, reminder: Reminder) {
        self.reports.send(Report::Event {
            regarding: Box::new(reminder.regarding),
            kind: EventKind::Warning,
            reason: reminder.reason.into(),
            message: reminder.message,
        });
    }

    /// Shows a workload's progress, and says why it is not further.
    fn show_progress(&self, progress: Progress) {
        let (workload, queue) = (&progress.workload, &progress.queue);
        if let (true, Some((reason, message))) = (progress.news, &progress.refused) {
            tracing::info!(%workload, %queue, reason = reason.as_str(), detail = message, "waits");
            self.reports.send(Report::Event {
                regarding: Box::new(workload.reference()),
                kind: EventKind::Warning,
                reason: (*reason).into(),
                message: message.clone(),
            });
        }
        if let Some(phase) = progress.phase {
            tracing::debug!(%workload, %queue, phase = phase.as_str(), "is");
            self.reports.send(Report::Group {
                group: progress.workload,
                phase,
                refused: progress.refused,
            });
        }
    }

    /// Shows in the metrics how many objects are in quarantine.
    fn show_quarantined(&self) {
        for kind in ObjectKind::ALL {
            let namespaces = if kind == ObjectKind::Namespace {
                self.quarantine.namespaces()
            } else {
                0
            };
            self.metrics
                .set_aside(kind.as_str(), self.quarantine.count(kind) + namespaces);
        }
    }

    /// Corrects the condition of a pod that says that it waits, though the pod has been admitted.
    fn show_admitted(&self, uid: &str) {
        let Some(pod) = self.cluster.pod_with_uid(uid).and_then(|id| self.cluster.pod(id)) else {
            return;
        };
        let condition = PodReport {
            status: true,
            same_status: false,
            reason: Happening::Admitted.into(),
            message: let_in(&self.cluster, pod),
        };
        self.reports.send(Report::Pod {
            pod: pod.to_ref(),
            condition,
            event: true,
        });
    }

    /// Tells each evicted pod in an event which pod needed what it held.
    pub(super) fn tell_victims(&self, eviction: Eviction, outcomes: &[EvictionOutcome]) {
        for (victim, outcome) in eviction.victims.into_iter().zip(outcomes) {
            if *outcome == EvictionOutcome::Evicted {
                self.metrics.decided(Decision::Evicted);
                tracing::info!(pod = %victim.pod, reason = victim.reason.as_str(), detail = victim.message, "evicted");
                self.reports.send(Report::Event {
                    regarding: Box::new(victim.pod.reference()),
                    kind: EventKind::Warning,
                    reason: victim.reason.into(),
                    message: victim.message,
                });
            }
        }
    }

    /// Makes sure that GPU nodes, and no other nodes, carry the GPU node label, and that nodes with cards by devices carry the labels of
    /// these cards.
    fn label_nodes(&mut self) {
        let mut wrong = BTreeMap::<NodeId, Vec<(String, bool)>>::new();
        for (id, is_gpu_node) in self.cluster.gpu_nodes().to_label() {
            wrong
                .entry(id)
                .or_default()
                .push((GPU_NODE_LABEL.to_owned(), is_gpu_node));
        }
        for (id, labels) in self.cluster.device_labels_to_set() {
            wrong.entry(id).or_default().extend(labels);
        }
        // A write whose labels are no longer wanted, or are right by now, is aborted and forgotten. Its node is examined again at once, and
        // no outdated label is written.
        self.labelling.retain(|(node, _), (labels, writing)| {
            let wanted = self.cluster.node_named(node).and_then(|id| wrong.get(&id));
            let is_wanted = wanted == Some(labels);
            if !is_wanted {
                writing.abort();
            }
            is_wanted
        });
        for (id, labels) in wrong {
            let node = self.cluster.node(id);
            let Some(offer) = node.offer() else { continue };
            let (node, uid) = (Arc::clone(&node.name), offer.uid.clone());
            let Entry::Vacant(free) = self.labelling.entry((Arc::clone(&node), uid.clone())) else {
                continue;
            };
            let writing = self.actor.label_node(node, uid, labels.clone());
            free.insert((labels, writing));
        }
    }

    /// Says in an event on a node which of its quota annotations cannot be read.
    fn tell_bad_quotas(&self, id: NodeId) {
        let node = self.cluster.node(id);
        let Some(offer) = node.offer() else { return };
        for bad in self.cluster.gpu_nodes().bad_annotations(id) {
            tracing::warn!(node = %node.name, "{bad}");
            self.say_of_node(&node.name, &offer.uid, Happening::InvalidCrossQuota, bad.to_string());
        }
    }

    pub(super) fn say_of_node(&self, node: &str, uid: &str, reason: Happening, message: String) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        self.reports.send(Report::Event {
            regarding: Box::new(regarding),
            kind: EventKind::Warning,
            reason: reason.into(),
            message,
        });
    }

    /// Says on a bound mGPU pod which cards it is assumed to hold, since nothing on the pod names them.
    fn say_unplaced(&self, uid: &str) {
        let Some((pod, message)) = overview::first_fit(&self.cluster, uid) else {
            return;
        };
        tracing::warn!(pod = %pod, detail = message, "mGPU pod without card indexes");
        self.reports.send(Report::Event {
            regarding: Box::new(pod.reference()),
            kind: EventKind::Warning,
            reason: Happening::MgpuCardsUnknown.into(),
            message,
        });
    }

    pub(super) fn say(&self, pod: &PodRef, reason: Happening, message: String) {
        tracing::warn!(pod = %pod, reason = reason.as_str(), detail = message, "not as decided");
        self.reports.send(Report::Event {
            regarding: Box::new(pod.reference()),
            kind: EventKind::Warning,
            reason: reason.into(),
            message,
        });
    }
}

#[cfg(test)]
mod tests;
