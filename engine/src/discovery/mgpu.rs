//! Nodes that share their cards through mGPU (docs/rules.md, **mGPU**): how many cards they have, how large, under which policy.

use crds::configuration::ScheduleMode;
use crds::keys::{MGPU_CORE, MGPU_DEVICE_IDS, MGPU_MEMORY, MGPU_POLICY, MGPU_SCHEDULE};
use crds::lean::TextMap;
use crds::mgpu::{CARD_CORE, ComputePolicy};
use crds::quantity;

use super::Problem;

/// More cards than any real node has; a node that claims more counts as having this many.
pub const MAX_CARDS: i64 = 256;
/// More memory than any card has, in MiB (an exbibyte). Up to this, no score overflows.
pub const MAX_CARD_MEMORY: i64 = 1 << 40;

/// The cards of an mGPU node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MgpuCards {
    /// The number of cards, indexed from 0.
    pub count: usize,
    /// The memory of each card, in MiB.
    pub memory: i64,
    /// How the cards' compute is shared; none where the node names an unknown policy, so that no pod can match it.
    pub policy: Option<ComputePolicy>,
    /// The cards' device ids by index, where the node gives them.
    pub device_ids: Option<Box<[Box<str>]>>,
}

/// Whether a node shares its cards through mGPU, so that no whole cards are to be expected.
pub(super) fn is_shared<S: AsRef<str>>(labels: &TextMap<S>) -> bool {
    let (key, value) = MGPU_SCHEDULE;
    labels.get(key) == Some(value)
}

/// Returns how many cards this much compute is; a remainder counts as no card.
pub(super) fn whole_cards(core: i64) -> i64 {
    (core / CARD_CORE).clamp(0, MAX_CARDS)
}

impl MgpuCards {
    /// Reads what a node says. Returns none where the node does not share cards through mGPU, or has no cards.
    pub fn discover<S: AsRef<str>>(
        labels: &TextMap<S>,
        annotations: &TextMap<S>,
        allocatable: &TextMap<S>,
    ) -> (Option<Self>, Vec<Problem>) {
        let mut problems = Vec::new();
        if !is_shared(labels) {
            return (None, problems);
        }
        // Amounts that can't be read are reported by the discovery of whole cards.
        let amount = |resource: &str| {
            let amount = allocatable.get(resource).map(quantity::parse_units);
            amount.and_then(Result::ok).unwrap_or(0).max(0)
        };
        let (core, memory) = (amount(MGPU_CORE), amount(MGPU_MEMORY));
        let cards = whole_cards(core);
        if cards == 0 {
            problems.push(Problem::NoMgpuCards { core });
            return (None, problems);
        }
        let policy = match labels.get(MGPU_POLICY).map(str::parse::<ComputePolicy>) {
            None => Some(ComputePolicy::default()),
            Some(Ok(policy)) => Some(policy),
            Some(Err(error)) => {
                problems.push(Problem::UnknownComputePolicy { policy: error.0 });
                None
            }
        };
        let count = usize::try_from(cards).unwrap_or_default();
        let ids = annotations.get(MGPU_DEVICE_IDS).map(|text| (text, read_ids(text)));
        let device_ids = ids.and_then(|(text, ids)| {
            let complete = ids.filter(|ids| ids.len() == count);
            if complete.is_none() {
                let ids = text.to_owned();
                problems.push(Problem::DeviceIds { ids, cards });
            }
            complete
        });
        let cards = Self {
            count,
            memory: (memory / cards).min(MAX_CARD_MEMORY),
            policy,
            device_ids,
        };
        (Some(cards), problems)
    }

    /// Returns the device id that a result names a card by, where the node gives ids.
    pub(crate) fn device_id(&self, index: u16) -> Option<&str> {
        let ids = self.device_ids.as_ref()?;
        ids.get(usize::from(index)).map(|id| &**id)
    }

    /// Returns the card indexes that a result names, by index or by device id. Names are read in this mode first, since device ids may be
    /// numbers too, and else in the other mode, which may have been set when the result was written. Returns none unless the result names
    /// exactly `cards` different cards of this node.
    pub(crate) fn read_result(&self, result: &str, cards: u32, mode: ScheduleMode) -> Option<Vec<u16>> {
        let by_id = |name: &str| {
            let mut ids = self.device_ids.iter().flatten();
            ids.position(|id| **id == *name)
        };
        let by_index = |name: &str| name.parse().ok().filter(|index| *index < self.count);
        let index = |name: &str| match mode {
            ScheduleMode::Index => by_index(name).or_else(|| by_id(name)),
            ScheduleMode::Id => by_id(name).or_else(|| by_index(name)),
        };
        let mut indexes = Vec::new();
        for name in result.split(',').map(str::trim) {
            let index = u16::try_from(index(name)?).ok()?;
            if indexes.contains(&index) {
                return None;
            }
            indexes.push(index);
        }
        (u32::try_from(indexes.len()) == Ok(cards)).then_some(indexes)
    }
}

/// Reads device ids; all must be different and none empty.
fn read_ids(text: &str) -> Option<Box<[Box<str>]>> {
    let ids: Vec<Box<str>> = text.split(',').map(|id| id.trim().into()).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == ids.len() && ids.iter().all(|id| !id.is_empty())).then(|| ids.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> TextMap<String> {
        entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn discover(
        labels: &[(&str, &str)],
        ids: Option<&str>,
        resources: &[(&str, &str)],
    ) -> (Option<MgpuCards>, Vec<&'static str>) {
        let labels: Vec<_> = [MGPU_SCHEDULE].iter().chain(labels).copied().collect();
        let annotations: Vec<_> = ids.iter().map(|ids| (MGPU_DEVICE_IDS, *ids)).collect();
        let (cards, problems) = MgpuCards::discover(&map(&labels), &map(&annotations), &map(resources));
        (cards, problems.iter().map(Problem::reason).collect())
    }

    const EIGHT: [(&str, &str); 2] = [(MGPU_CORE, "800"), (MGPU_MEMORY, "652472")];

    #[test]
    fn cards_are_hundreds_of_core_and_share_the_memory() {
        let cards = |count, memory| MgpuCards {
            count,
            memory,
            policy: Some(ComputePolicy::FixedShare),
            device_ids: None,
        };
        assert_eq!(discover(&[], None, &EIGHT), (Some(cards(8, 81_559)), vec![]));
        let odd = [(MGPU_CORE, "199"), (MGPU_MEMORY, "1001")];
        assert_eq!(discover(&[], None, &odd), (Some(cards(1, 1001)), vec![]));
        assert_eq!(discover(&[], None, &[(MGPU_CORE, "100")]), (Some(cards(1, 0)), vec![]));
        let absurd = [(MGPU_CORE, "9223372036854775807"), (MGPU_MEMORY, "9223372036854775807")];
        assert_eq!(discover(&[], None, &absurd), (Some(cards(256, 1 << 40)), vec![]));
    }

    #[test]
    fn a_node_that_says_mgpu_and_has_no_cards_is_a_problem() {
        for resources in [
            &[][..],
            &[(MGPU_CORE, "99")],
            &[(MGPU_CORE, "x")],
            &[(MGPU_CORE, "-800")],
        ] {
            assert_eq!(discover(&[], None, resources), (None, vec!["NoMGPUCards"]));
        }
        let other = MgpuCards::discover(&map(&[(MGPU_SCHEDULE.0, "nvidia")]), &map(&[]), &map(&EIGHT));
        assert_eq!(other, (None, vec![]));
    }

    #[test]
    fn a_policy_that_is_none_matches_no_pod() {
        let (cards, problems) = discover(&[(MGPU_POLICY, "native-burst-share")], None, &EIGHT);
        assert_eq!(cards.unwrap().policy, Some(ComputePolicy::NativeBurstShare));
        assert!(problems.is_empty());
        let (cards, problems) = discover(&[(MGPU_POLICY, "burst")], None, &EIGHT);
        assert_eq!((cards.unwrap().policy, problems), (None, vec!["UnknownComputePolicy"]));
    }

    #[test]
    fn device_ids_are_one_for_each_card() {
        let two = [(MGPU_CORE, "200"), (MGPU_MEMORY, "2000")];
        let ids = |text| {
            let (cards, problems) = discover(&[], Some(text), &two);
            (cards.unwrap().device_ids.is_some(), problems)
        };
        assert_eq!(ids("GPU-a,GPU-b"), (true, vec![]));
        assert_eq!(ids("GPU-a, GPU-b"), (true, vec![]));
        for text in ["GPU-a", "GPU-a,GPU-b,GPU-c", "GPU-a,GPU-a", "GPU-a,", ""] {
            assert_eq!(ids(text), (false, vec!["DeviceIdsIncomplete"]), "{text:?}");
        }
    }

    #[test]
    fn results_are_read_by_index_and_by_id() {
        let (cards, _) = discover(&[], Some("GPU-a,1,GPU-c"), &[(MGPU_CORE, "300")]);
        let read = |text: &str, count| {
            let [by_index, by_id] = [ScheduleMode::Index, ScheduleMode::Id]
                .map(|mode| cards.as_ref().unwrap().read_result(text, count, mode));
            assert_eq!(by_index, by_id, "{text:?}");
            by_id
        };
        assert_eq!(read("1,0", 2), Some(vec![1, 0]));
        assert_eq!(read("GPU-c", 1), Some(vec![2]));
        assert_eq!(read("GPU-a,2", 2), Some(vec![0, 2]));
        for (text, count) in [
            ("", 1),
            ("3", 1),
            ("0", 2),
            ("0,1", 1),
            ("0,0", 2),
            ("-1", 1),
            ("GPU-x", 1),
        ] {
            assert_eq!(read(text, count), None, "{text:?}");
        }
    }
}
