//! Questions of schedulers: which are answered at once, and which wait for a better answer.

use std::time::Duration;

use engine::decide::extender::{self, PodQuery, Wish};
use engine::refs::PodRef;
use engine::trail::{Object, ObjectKind, Trail as _, Work};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Mind;
use crate::extender::{Asked, Question};

/// How long a scheduler's question may wait for pods that are being placed; they are bound within milliseconds. After that, the question is
/// answered as if these pods went everywhere they may go. A question may wait equally long for an object that the scheduler has seen and
/// the operator has not.
const SETTLING: Duration = Duration::from_millis(800);

/// A question that waits for an answer.
pub(super) struct Pending {
    what: What,
    /// Until when a better answer is waited for. Changes of the wall clock do not move this time.
    until: Instant,
}

enum What {
    Nodes(PodQuery, Vec<Box<str>>, Asked),
    Bind(PodRef, Box<str>, oneshot::Sender<Result<(), String>>),
}

impl Mind {
    /// Takes a scheduler's question. While the cluster is not fully known, the question ends without an answer.
    pub(super) fn hear_question(&mut self, question: Question) {
        if !self.unlisted.is_empty() {
            return;
        }
        if let Question::Nodes { pod, .. } = &question
            && let Some(uid) = pod.metadata.uid.as_deref()
        {
            if self.quarantine.has_pod(uid) {
                return;
            }
            self.pulse.at(Work {
                doing: "answering about",
                object: Object {
                    kind: ObjectKind::Pod,
                    namespace: pod.metadata.namespace.as_deref().unwrap_or_default().into(),
                    name: pod.metadata.name.as_deref().unwrap_or_default().into(),
                    uid: uid.into(),
                },
                queue: None,
            });
        }
        let what = match question {
            Question::Nodes { pod, nodes, asked } => What::Nodes(extender::read(&mut self.cluster, *pod), nodes, asked),
            Question::Bind { pod, node, answer } => What::Bind(pod, node, answer),
        };
        let until = Instant::now() + SETTLING;
        self.questions.push(Pending { what, until });
    }

    /// Answers the questions that can be answered now.
    pub(super) fn answer_questions(&mut self, now: Timestamp) {
        self.cluster.expire_assumed(now);
        for Pending { what, until } in std::mem::take(&mut self.questions) {
            let left = self.answer(what, Instant::now() < until, now);
            self.questions.extend(left.map(|what| Pending { what, until }));
        }
    }

    /// Answers a question, or returns it if it `may_wait` for a better answer. If the scheduler no longer waits for the answer, its
    /// question changes nothing.
    fn answer(&mut self, what: What, may_wait: bool, now: Timestamp) -> Option<What> {
        let cluster = &mut self.cluster;
        match what {
            What::Nodes(pod, nodes, Asked::Prioritize(answer)) => {
                let _ = answer.send(extender::prioritize(cluster, &pod, &nodes));
            }
            What::Nodes(pod, nodes, Asked::Look(answer)) => {
                let _ = answer.send(extender::look(cluster, &pod, &nodes).refused);
            }
            What::Nodes(_, _, Asked::Filter(answer)) if answer.is_closed() => {}
            What::Nodes(pod, nodes, Asked::Filter(answer)) => {
                let mut filtered = extender::filter(cluster, &pod, &nodes);
                if filtered.unsettled && may_wait {
                    return Some(What::Nodes(pod, nodes, Asked::Filter(answer)));
                }
                if answer.send(std::mem::take(&mut filtered.refused)).is_ok() {
                    extender::assume(cluster, &pod, filtered, now);
                }
            }
            What::Bind(_, _, answer) if answer.is_closed() => {}
            What::Bind(pod, node, answer) => match extender::bind(cluster, &pod, &node) {
                Wish::Granted(binding) => {
                    self.under_way += 1;
                    self.actor.bind(binding, answer);
                }
                Wish::NotYet(_) if may_wait => return Some(What::Bind(pod, node, answer)),
                Wish::Done => {
                    let _ = answer.send(Ok(()));
                }
                Wish::NotYet(reason) | Wish::Refused(reason) => {
                    tracing::info!(pod = %pod, node, reason, "not bound");
                    let _ = answer.send(Err(reason));
                }
            },
        }
        None
    }
}
