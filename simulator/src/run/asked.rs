//! What reviews (`CardReview`) answer once a world has come to rest.

use std::sync::Arc;

use crds::bounds::printable;
use crds::card_review::{CardReviewStatus, Reviewed};
use crds::made::made_by;
use engine::explain::Asked;
use serde_json::Value;

use super::Run;
use crate::judge::{Broken, broken, why_it_waits};
use crate::objects::{Key, PODS};

/// A review of a waiting pod says what the pod's condition says.
const TOLD: &str = "a review tells of a pod what its condition says";
/// No review promises to admit another pod like one that waits.
const PROMISED: &str = "a review promises nobody what others wait for";
/// The reasons of pods that stand aside for what happened to them, or for another pod. Another pod would not stand aside.
const OF_ITS_OWN: [&str; 4] = [
    "RefusedByAPIServer",
    "InqueueTimeout",
    "ReservationTimeout",
    "PodGroupIncomplete",
];
/// An answer gives a reason, in words that can be shown.
const SAYS_WHY: &str = "a review that says no says why";

impl Run {
    /// Asks the leader about all pods. Without a leader nobody answers.
    pub(super) fn ask(&mut self) -> Option<Broken> {
        let pods: Vec<_> = {
            let state = self.server.state();
            let pods = state.objects.list(&PODS);
            pods.map(|(key, pod)| (key.clone(), Arc::clone(pod))).collect()
        };
        let leader = (0..self.seats.len()).find(|seat| {
            let nobody = Asked::Existing(Reviewed::Pod("nobody".to_owned()));
            self.seats[*seat].ask("default", nobody).is_some()
        })?;
        pods.iter()
            .find_map(|(key, pod)| self.ask_about(leader, key, pod).err())
    }

    fn ask_about(&mut self, leader: usize, key: &Key, pod: &Value) -> Result<(), Broken> {
        let mut ask = |asked| self.seats[leader].ask(&key.namespace, asked).and_then(Result::ok);
        let Some(told) = ask(Asked::Existing(Reviewed::Pod(key.name.clone()))) else {
            return Ok(());
        };
        self.tally.asked += 1;
        says_why(key, &told)?;
        let Some(reason) = why_it_waits(pod) else {
            return Ok(());
        };
        if told.admitted || told.blocks.iter().all(|block| block.reason != reason) {
            return broken(TOLD, format!("{key} waits for {reason}, and is told {told:?}"));
        }
        if OF_ITS_OWN.contains(&reason) {
            return Ok(());
        }
        let mut another = pod.clone();
        another["metadata"]["name"] = "another".into();
        let Ok(made) = made_by(another) else { return Ok(()) };
        let Some(told) = ask(Asked::Imagined(Box::new(made))) else {
            return Ok(());
        };
        says_why(key, &told)?;
        if told.admitted {
            return broken(
                PROMISED,
                format!("another {key} would be let in, while it waits for {reason}: {told:?}"),
            );
        }
        Ok(())
    }
}

fn says_why(key: &Key, told: &CardReviewStatus) -> Result<(), Broken> {
    let has_answer = told.admitted || !told.blocks.is_empty() || told.position.is_some() || told.queue.is_none();
    let texts = told.blocks.iter().map(|block| &block.message).chain([&told.message]);
    let is_shown = |text: &String| !text.is_empty() && printable(text) == text.as_str();
    if has_answer && texts.into_iter().all(is_shown) {
        return Ok(());
    }
    broken(SAYS_WHY, format!("{key}: {told:?}"))
}
