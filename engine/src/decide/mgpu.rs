//! Chooses the node and the cards of an mGPU pod (mGPU, **Filter** and **Allocate**).
//!
//! Nothing is reserved while nodes are looked at: every node is asked what it would give, and only the best one gives it.

mod census;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crds::configuration::{AdmitOn, CardStrategy, Enforcement, Mgpu, ScheduleMode};
use crds::keys::{MGPU_ASSUMED, MGPU_INDEX_PREFIX};
use crds::mgpu::{ContainerRequest, MgpuRequest};

pub(crate) use self::census::census;
pub(super) use self::census::{Ever, ever};
use super::effort::{Effort, OWN};
use super::fit::{self, Answer};
use super::{Grant, cross_quota};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::{Refused, Shape};
use crate::discovery::MgpuCards;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::{self, Allocation, CardLists, CardUse, Cards};
use crate::reason::{About, Cure, Reason};

/// What one mGPU node says to a pod.
enum Says {
    Takes(Rc<Allocation>),
    /// Its cards can't take the pod.
    Refuses(Unfit),
    /// Its cards could take the pod, but its quota for pods without GPU could not, and no pattern of `CrossQuota` makes this a
    /// pod with GPU.
    OverQuota,
    /// The node fails the pod's other needs.
    Unfit(Answer),
}

/// Why the cards of a node can't take a pod (**Filter**).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The cards have no room for the containers now.
    CardsInUse,
    /// The compute policy of the cards is not the pod's.
    OtherPolicy,
    /// A container asks for more cards than there are.
    TooFewCards,
    /// Cards are to be named by their device ids, and the node does not give these.
    NoDeviceIds,
    /// The steps did not last to find out whether the cards have room.
    TooComplex,
}

/// A search for the best node that goes on where the last search for the same shape ended.
pub(super) struct CardSearch {
    earlier: Option<Refused>,
    searched: u64,
    /// Whether some node would do, except for what is in use there.
    would_do: bool,
    /// Whether the search of some node was given up.
    too_complex: bool,
    effort: Effort,
}

impl CardSearch {
    pub(super) fn new(earlier: Option<Refused>, effort: Effort) -> Self {
        let earlier = earlier.filter(|earlier| earlier.reason.about() == About::Mgpu);
        Self {
            earlier,
            searched: 0,
            would_do: false,
            too_complex: false,
            effort,
        }
    }

    /// Returns the node with the best score, and the cards there. Of nodes with the same score, the first by name is taken.
    pub(super) fn find(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        request: &MgpuRequest,
        alternative: Option<&Alternative>,
    ) -> Option<Grant> {
        let arguments = cluster.configuration().mgpu;
        let bit = fit::search_bit(shape, alternative);
        self.searched |= bit;
        let earlier = self.earlier.filter(|earlier| earlier.searched & bit != 0);
        let changed = earlier.and_then(|earlier| {
            let mut changed = cluster.nodes_changed_since(earlier.node_changes)?.to_vec();
            changed.sort_unstable_by_key(|node| &cluster.node(*node).name);
            changed.dedup();
            let shares_cards = |id: NodeId| cluster.node(id).offer().is_some_and(|offer| offer.mgpu.is_some());
            if changed.iter().filter(|node| shares_cards(**node)).count() == cluster.mgpu_nodes().len() {
                return None;
            }
            // This was found of other nodes too. Where all of them are asked, they say it again, if it is still so.
            match earlier.reason.cure() {
                _ if earlier.none_would_do => {}
                Cure::Eviction => self.would_do = true,
                Cure::Search => self.too_complex = true,
                Cure::Release | Cure::Change => {}
            }
            Some(changed)
        });
        let candidates = changed.as_deref().unwrap_or(cluster.mgpu_nodes());
        let mut query = Query::of(cluster, shape, request, self.effort.clone());
        let mut best: Option<(NodeId, Rc<Allocation>)> = None;
        for id in candidates {
            if best.is_some() && self.effort.is_spent() {
                break;
            }
            let Some(says) = query.ask(cluster, shape, alternative, *id) else {
                continue;
            };
            match says {
                Says::Takes(allocation) => {
                    let better = best.as_ref().is_none_or(|(_, best)| match arguments.policy {
                        CardStrategy::Binpack => allocation.score > best.score,
                        CardStrategy::Spread => allocation.score < best.score,
                    });
                    if better {
                        best = Some((*id, allocation));
                    }
                }
                Says::Refuses(Unfit::CardsInUse)
                | Says::OverQuota
                | Says::Unfit(Answer::LacksRoom | Answer::LacksDevices | Answer::Unusable) => self.would_do = true,
                Says::Refuses(Unfit::TooComplex) => self.too_complex = true,
                Says::Refuses(_) | Says::Unfit(_) => {}
            }
        }
        let (node, allocation) = best?;
        grant(cluster, shape, alternative, node, &allocation)
    }

    /// Returns the alternatives that were searched for, as bits.
    pub(super) fn searched(&self) -> u64 {
        self.searched
    }

    /// Returns why no node was found.
    pub(super) fn reason(&self) -> Reason {
        if self.too_complex {
            Reason::TooComplex
        } else if self.would_do {
            Reason::InsufficientMgpu
        } else {
            Reason::NoMgpuNode
        }
    }
}

/// Whether pods are pinned to the cards that they get, rather than placed by a scheduler that asks the operator.
pub(super) fn pins(cluster: &Cluster) -> bool {
    cluster.configuration().cardgate.enforce_mgpu == Enforcement::Gating
}

/// Returns the mGPU request of a pod that is to be placed on cards.
pub(super) fn request<'s>(cluster: &Cluster, shape: &'s Shape) -> Option<&'s MgpuRequest> {
    let request = shape.task.mgpu.as_deref();
    request.filter(|_| cluster.configuration().mgpu.enable)
}

/// Returns the mGPU request of a pod that gets its cards when it is let in: under `admitOn: fit`, and whatever `admitOn` says
/// where pods are pinned to their cards, or this one to its node by `CrossQuota`.
pub(super) fn request_now<'s>(cluster: &Cluster, shape: &'s Shape) -> Option<&'s MgpuRequest> {
    let on_quota = cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
    request(cluster, shape).filter(|_| !on_quota || pins(cluster) || cross_quota::governs(cluster, shape))
}

/// Returns what a pod would get on one node, where the node takes it.
pub(super) fn grant_on(
    cluster: &Cluster,
    shape: &Shape,
    request: &MgpuRequest,
    alternative: Option<&Alternative>,
    node: NodeId,
    effort: Effort,
) -> Option<Grant> {
    match Query::of(cluster, shape, request, effort).ask(cluster, shape, alternative, node)? {
        Says::Takes(allocation) => grant(cluster, shape, alternative, node, &allocation),
        _ => None,
    }
}

fn grant(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: NodeId,
    allocation: &Allocation,
) -> Option<Grant> {
    let cards = cluster.node(node).offer()?.mgpu.as_ref()?;
    Some(Grant {
        // A scheduler that asks about cards does not ask about quotas.
        pinned: pins(cluster) || cross_quota::governs(cluster, shape),
        gpus: Some(results(allocation, cards, cluster.configuration().mgpu)),
        ..Grant::of(alternative, Some(node))
    })
}

/// **Schedule Result**: returns what is written on a pod, keys and values.
pub(super) fn annotations(request: &MgpuRequest, gpus: &CardLists) -> Vec<(String, String)> {
    let lists = request.containers.iter().zip(gpus.iter());
    let lists = lists.filter_map(|((container, _), list)| {
        let list = list.as_deref()?;
        Some((format!("{MGPU_INDEX_PREFIX}{container}"), list.to_owned()))
    });
    let assumed = (MGPU_ASSUMED.to_owned(), "true".to_owned());
    std::iter::once(assumed).chain(lists).collect()
}

/// **Schedule Result**: returns the cards of each container, as they are written on the pod.
pub(super) fn results(allocation: &Allocation, cards: &MgpuCards, arguments: Mgpu) -> CardLists {
    let name = |index: &u16| match arguments.schedule_mode {
        ScheduleMode::Index => index.to_string(),
        ScheduleMode::Id => cards.device_id(*index).unwrap_or_default().to_owned(),
    };
    let lists = allocation.cards.iter().map(|list| {
        let names: Vec<_> = list.iter().map(name).collect();
        Some(names.join(",").into())
    });
    lists.collect()
}

/// What is in use of each card of a node, and the memory of one card.
type InUse<'a> = (Cow<'a, [CardUse]>, i64);

/// One pod's question to many nodes. Nodes whose cards are in use alike have the same answer, so it is worked out once for them.
pub(super) struct Query<'a> {
    request: &'a MgpuRequest,
    containers: Vec<ContainerRequest>,
    arguments: Mgpu,
    asked: HashMap<InUse<'a>, Result<Rc<Allocation>, Unfit>>,
    effort: Effort,
    /// What the pod asks of the quotas of GPU nodes, where `CrossQuota` has a say about it.
    quotas: Option<Vec<i64>>,
}

impl<'a> Query<'a> {
    pub(super) fn new(request: &'a MgpuRequest, arguments: Mgpu, effort: Effort) -> Self {
        Self {
            request,
            containers: request.containers.iter().map(|(_, container)| *container).collect(),
            arguments,
            asked: HashMap::new(),
            effort,
            quotas: None,
        }
    }

    /// Returns the question of a pod of this shape.
    fn of(cluster: &Cluster, shape: &Shape, request: &'a MgpuRequest, effort: Effort) -> Self {
        Self {
            quotas: cross_quota::asked(cluster, shape),
            ..Self::new(request, cluster.configuration().mgpu, effort)
        }
    }

    /// Returns what a node says. None where it is no mGPU node, or does not have the card.
    fn ask(
        &mut self,
        cluster: &'a Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
        id: NodeId,
    ) -> Option<Says> {
        let node = cluster.node(id);
        let cards = node.offer()?.mgpu.as_ref()?;
        self.effort.look_at_node(shape);
        let answer = match fit::ask(cluster, shape, alternative, node) {
            Answer::Unrelated => return None,
            Answer::Excluded | Answer::LeavesChoice | Answer::FailsSelector | Answer::GivesOtherwise => {
                return Some(Says::Unfit(Answer::Excluded));
            }
            answer => answer,
        };
        if let Some(unfit) = self.mismatch(cards) {
            return Some(Says::Refuses(unfit));
        }
        if answer != Answer::Takes {
            return Some(Says::Unfit(answer));
        }
        let allocation = match self.allocate(cards, Cow::Borrowed(&node.gpus)) {
            Ok(allocation) => allocation,
            Err(unfit) => return Some(Says::Refuses(unfit)),
        };
        if !fit::devices_suffice(cluster, shape, alternative, id, &self.effort) {
            return Some(Says::Unfit(Answer::LacksDevices));
        }
        let over = self
            .quotas
            .as_ref()
            .is_some_and(|asked| !cross_quota::has_quota(cluster, asked, id));
        Some(if over { Says::OverQuota } else { Says::Takes(allocation) })
    }

    /// Returns why these cards can't take the pod, whatever is in use of them.
    pub(super) fn mismatch(&self, cards: &MgpuCards) -> Option<Unfit> {
        if usize::try_from(self.widest()).unwrap_or(usize::MAX) > cards.count {
            return Some(Unfit::TooFewCards);
        }
        if !cards.policy.is_some_and(|policy| self.request.accepts(policy)) {
            return Some(Unfit::OtherPolicy);
        }
        let no_ids = self.arguments.schedule_mode == ScheduleMode::Id && cards.device_ids.is_none();
        no_ids.then_some(Unfit::NoDeviceIds)
    }

    /// Returns how many cards the container asks for that asks for most.
    pub(super) fn widest(&self) -> u32 {
        let cards = self.containers.iter().map(|container| container.cards);
        cards.max().unwrap_or(0)
    }

    /// Returns the best combination of these cards, where this much of them is in use; otherwise, why there is none.
    pub(super) fn allocate(&mut self, cards: &MgpuCards, used: Cow<'a, [CardUse]>) -> Result<Rc<Allocation>, Unfit> {
        let memory = cards.memory;
        let (containers, arguments, effort) = (&self.containers, self.arguments, &self.effort);
        let asked = self.asked.entry((used, memory)).or_insert_with_key(|(used, memory)| {
            let cards = Cards { used, memory: *memory };
            match effort.search(|steps| mgpu::best(containers, cards, arguments, steps)) {
                mgpu::Answer::Cards(allocation) => Ok(Rc::new(allocation)),
                mgpu::Answer::NoRoom => Err(Unfit::CardsInUse),
                mgpu::Answer::TooComplex => Err(Unfit::TooComplex),
            }
        });
        asked.clone()
    }

    /// Whether these cards would have room if nothing were in use of them, as far as a search can tell.
    fn could_hold(&mut self, cards: &MgpuCards) -> bool {
        let idle = Cow::Owned(vec![CardUse::default(); cards.count]);
        self.allocate(cards, idle) != Err(Unfit::CardsInUse)
    }
}

/// What mGPU nodes would say to a pod if some of their pods were gone.
pub(super) struct WithoutSome<'a> {
    cluster: &'a Cluster,
    query: RefCell<Query<'a>>,
}

impl<'a> WithoutSome<'a> {
    /// Returns the question of a pod of this shape. None where it asks for no cards now.
    pub(super) fn of(cluster: &'a Cluster, shape: &'a Shape, effort: &Effort) -> Option<Self> {
        let query = Query::of(cluster, shape, request_now(cluster, shape)?, effort.clone());
        Some(Self {
            cluster,
            query: RefCell::new(query),
        })
    }

    /// Whether a node's cards could take the pod if they were free.
    pub(super) fn could_take(&self, id: NodeId) -> bool {
        let query = self.query.borrow();
        self.cards(id).is_some_and(|cards| query.mismatch(cards).is_none())
    }

    /// Whether a node's cards could take the pod if nothing were in use of them, as far as a search can tell.
    pub(super) fn could_hold(&self, id: NodeId) -> bool {
        let could_hold = |cards| self.query.borrow_mut().could_hold(cards);
        self.could_take(id) && self.cards(id).is_some_and(could_hold)
    }

    /// Whether a node's cards have room without these pods. The steps that the node has for itself are also counted among those
    /// that all nodes share: this is asked about one node as often as there are sets of pods on it.
    pub(super) fn fits(&self, id: NodeId, without: &[PodId]) -> bool {
        let mut query = self.query.borrow_mut();
        let before = query.effort.spent();
        let used = self.cluster.gpus_without(id, without);
        let fits = self.cards(id).is_some_and(|cards| query.allocate(cards, used).is_ok());
        let spent = (query.effort.spent() - before).min(OWN);
        query
            .effort
            .common()
            .spend(usize::try_from(spent).unwrap_or(usize::MAX));
        fits
    }

    fn cards(&self, id: NodeId) -> Option<&'a MgpuCards> {
        self.cluster.node(id).offer()?.mgpu.as_ref()
    }
}
