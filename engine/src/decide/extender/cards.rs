//! mGPU's filter, score and result, for a scheduler that chooses the node (mGPU, **Filter** and **Allocate**).

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crds::configuration::{CardStrategy, Enforcement};
use crds::keys::{MGPU_DEVICE_IDS, MGPU_SCHEDULE};
use crds::mgpu::{ComputePolicy, MgpuRequest};

use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::decide::effort::Effort;
use crate::decide::mgpu::{self, Query, Unfit};
use crate::discovery::MgpuCards;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::{Allocation, CardLists};

/// The score of the best possible combination of cards; a scheduler gets percent.
const BEST: u8 = 100;

/// What a pod asks for of shared cards.
#[derive(Debug, Clone)]
pub(super) enum Shares {
    /// This much for each container.
    Of(Arc<MgpuRequest>),
    /// The request can't be read, for this reason.
    Unreadable(Box<str>),
}

/// Why the cards of a node can't take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardsRefusal {
    /// The node shares no cards through mGPU.
    NotShared,
    /// A container asks for more cards than there are.
    TooFewCards {
        /// How many cards the container asks for.
        asked: u32,
        /// How many cards there are.
        cards: usize,
    },
    /// The pod and the node do not share cards in the same way.
    OtherPolicy {
        /// The node's policy; none where the node names a policy that does not exist.
        node: Option<ComputePolicy>,
        /// The pod's policy.
        pod: ComputePolicy,
        /// Whether its containers share several cards each.
        multiple: bool,
    },
    /// Cards are to be named by their device ids, and the node does not give these.
    NoDeviceIds,
    /// The cards have no room now.
    CardsInUse,
    /// The steps did not last to find out whether there is room.
    TooComplex,
    /// What the pod asks for is not known.
    Unreadable(Box<str>),
}

impl fmt::Display for CardsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotShared => {
                let (key, value) = MGPU_SCHEDULE;
                write!(
                    f,
                    "no mGPU cards: the node needs the label {key}={value} and mGPU resources"
                )
            }
            Self::TooFewCards { asked, cards } => {
                write!(
                    f,
                    "too few mGPU cards: a container asks for {asked}, the node has {cards}"
                )
            }
            Self::OtherPolicy { node, pod, multiple } => {
                let node = node.map_or("unknown", ComputePolicy::as_str);
                write!(f, "mGPU compute policy is {node}, the pod's is {pod}")?;
                if *multiple && *pod != ComputePolicy::NativeBurstShare {
                    let wanted = ComputePolicy::NativeBurstShare;
                    write!(f, "; containers with several cards need {wanted}")?;
                }
                Ok(())
            }
            Self::NoDeviceIds => write!(
                f,
                "no device id for each card: MGPUScheduleMode id needs annotation {MGPU_DEVICE_IDS}"
            ),
            Self::CardsInUse => write!(f, "no room on the mGPU cards for the pod's containers"),
            Self::TooComplex => write!(
                f,
                "too complex: the shares of the pod's containers can be combined in more ways than are tried: split the pod"
            ),
            Self::Unreadable(reason) => write!(f, "mGPU: {reason}"),
        }
    }
}

impl Shares {
    /// Reads what a pod with this task asks for of shared cards, where these concern it. `known` is the pod as the cluster knows
    /// it, and `asks` says whether it asks for mGPU at all.
    pub(super) fn read(cluster: &Cluster, asks: bool, known: Option<&Pod>, task: &crate::task::Task) -> Option<Self> {
        let configuration = cluster.configuration();
        let is_asked = configuration.cardgate.enforce_mgpu == Enforcement::Extender;
        // A pod that was let in while schedulers were asked has no cards yet, and gets them from nobody else.
        let is_open = |pod: &Pod| {
            matches!(pod.stage, Stage::Unbound { .. }) && !pod.says_its_cards() && !cluster.is_let_in_by_nobody(pod)
        };
        if !asks || !configuration.mgpu.enable || !(is_asked || known.is_some_and(is_open)) {
            return None;
        }
        Some(match &task.mgpu {
            Some(request) => Self::Of(Arc::clone(request)),
            None => Self::Unreadable(task.unreadable.clone().unwrap_or_default()),
        })
    }
}

/// One pod's question to many nodes.
pub(super) struct CardQuery<'a> {
    cluster: &'a Cluster,
    pod: Option<PodId>,
    request: &'a MgpuRequest,
    query: Query<'a>,
}

impl<'a> CardQuery<'a> {
    /// Returns the question of a pod. Where the cluster knows the pod, what it holds itself does not count against it.
    pub(super) fn new(cluster: &'a Cluster, pod: Option<PodId>, request: &'a MgpuRequest) -> Self {
        Self {
            cluster,
            pod,
            request,
            query: Query::new(request, cluster.configuration().mgpu, Effort::of_pod()),
        }
    }

    fn cards(&self, node: NodeId) -> Option<&'a MgpuCards> {
        self.cluster.node(node).offer()?.mgpu.as_ref()
    }

    /// **Filter**: returns why a node can't take the pod; none where it can.
    pub(super) fn refusal(&mut self, node: NodeId) -> Option<CardsRefusal> {
        let Some(cards) = self.cards(node) else {
            return Some(CardsRefusal::NotShared);
        };
        let unfit = match self.query.mismatch(cards) {
            None => match self.used(node, cards) {
                Ok(_) => return None,
                Err(unfit) => unfit,
            },
            Some(unfit) => unfit,
        };
        Some(match unfit {
            Unfit::CardsInUse => CardsRefusal::CardsInUse,
            Unfit::TooComplex => CardsRefusal::TooComplex,
            Unfit::OtherPolicy => CardsRefusal::OtherPolicy {
                node: cards.policy,
                pod: self.request.policy.unwrap_or_default(),
                multiple: self.request.multiple,
            },
            Unfit::TooFewCards => CardsRefusal::TooFewCards {
                asked: self.query.widest(),
                cards: cards.count,
            },
            Unfit::NoDeviceIds => CardsRefusal::NoDeviceIds,
        })
    }

    /// Returns the score of a node's best combination in percent, the higher the better: how full its cards are under binpack,
    /// how empty under spread.
    pub(super) fn score(&mut self, node: NodeId) -> Option<i64> {
        let cards = self.cards(node)?;
        if self.query.mismatch(cards).is_some() {
            return None;
        }
        let full = self.used(node, cards).ok()?.score.percent();
        let full = u8::try_from(full).unwrap_or(BEST).min(BEST);
        Some(i64::from(match self.cluster.configuration().mgpu.policy {
            CardStrategy::Binpack => full,
            CardStrategy::Spread => BEST - full,
        }))
    }

    /// **Allocate**: returns the best cards of a node for each container, as they are written on the pod.
    pub(super) fn results(&mut self, node: NodeId) -> Option<CardLists> {
        let cards = self.cards(node)?;
        let allocation = self.used(node, cards).ok()?;
        Some(mgpu::results(&allocation, cards, self.cluster.configuration().mgpu))
    }

    fn used(&mut self, node: NodeId, cards: &MgpuCards) -> Result<Rc<Allocation>, Unfit> {
        let used: Cow<'a, _> = self.cluster.gpus_without(node, self.pod.as_slice());
        self.query.allocate(cards, used)
    }
}
