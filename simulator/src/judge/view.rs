//! All stored objects, as they were read, and which queue is charged for what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::keys::{
    CARD_ASSIGNED, CARD_NAME, CONFIG_MAP, CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GATE, GROUP_NAME, NAMESPACE,
    QUEUE_NAME,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::amounts::{Amounts, What};
use super::cards::{Card, Supply};
use super::claims;
use super::configuration::Configuration;
use super::memo::Memo;
use super::nodes::Node;
use super::pods::Pod;
use super::queues::{Queue, Tree};
use super::stored::{ByKind, OfKind};
use crate::objects::{CONFIG_MAPS, Key, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES};

thread_local! {
    static CONFIGURATIONS: Memo<Option<Configuration>> = Memo::default();
    static QUEUES_READ: Memo<Queue> = Memo::default();
    static NODES_READ: Memo<Node> = Memo::default();
}

/// All stored objects, as they were read.
#[derive(Debug, Clone)]
pub struct View {
    /// The time.
    pub now: Timestamp,
    /// The settings.
    pub configuration: Arc<Configuration>,
    /// By name.
    pub nodes: Arc<Vec<Node>>,
    /// All pods, by key.
    pub pods: Vec<Pod>,
    /// All queues.
    pub tree: Arc<Tree>,
    groups: OfKind,
    namespaces: OfKind,
    /// The resource that each card is counted by, as the first node by name has it.
    resources: BTreeMap<String, String>,
    /// The resources by which pods may ask for devices without a claim.
    provided: BTreeSet<String>,
}

/// What a pod is charged for.
#[derive(Debug)]
pub struct Charge {
    /// The queue that is charged.
    pub queue: String,
    /// The amounts, by item.
    pub amounts: Amounts,
}

impl View {
    /// Reads the stored objects, except these pods. `None` if the configuration is one that can't be put in force: then an
    /// earlier one holds, which the caller has to ask for.
    pub fn read(stored: &ByKind, now: Timestamp, without: &BTreeSet<&Key>) -> Option<Self> {
        Self::read_with(stored, now, without, None)
    }

    /// The same, with one pod as given: the one that is let in just now.
    pub fn read_with(stored: &ByKind, now: Timestamp, without: &BTreeSet<&Key>, pod: Option<&Pod>) -> Option<Self> {
        let objects = |kind| stored.get(kind).into_iter().flatten();
        let key = Key::new(NAMESPACE, CONFIG_MAP);
        let data = stored.get(&CONFIG_MAPS).and_then(|maps| maps.get(&key));
        let read =
            |map: &Arc<Value>| CONFIGURATIONS.with(|memo| memo.get(map, |map| Configuration::read(&map["data"])));
        let configuration = data.map_or_else(|| Arc::new(Configuration::read(&Value::Null)), read);
        let configuration = Arc::new(Option::clone(&configuration)?);
        let read = |node: &Arc<Value>| NODES_READ.with(|memo| memo.get(node, Node::read));
        let nodes = objects(&NODES).map(|(_, node)| Node::clone(&read(node)));
        let mut nodes: Vec<_> = nodes.collect();
        claims::put_on_nodes(stored, &mut nodes);
        let mut resources = BTreeMap::new();
        for card in nodes.iter().flat_map(|node| &node.cards) {
            resources
                .entry(card.name.clone())
                .or_insert_with(|| card.resource.clone());
        }
        let read = |queue: &Arc<Value>| QUEUES_READ.with(|memo| memo.get(queue, Queue::read));
        let queues = objects(&QUEUES).map(|(key, queue)| (key.name.clone(), Queue::clone(&read(queue))));
        let pods = stored.get(&PODS).into_iter().flat_map(OfKind::pods);
        let mut pods: Vec<_> = pods.filter(|pod| !without.contains(&pod.key)).cloned().collect();
        if let Some(pod) = pod {
            match pods.binary_search_by(|other| other.key.cmp(&pod.key)) {
                Ok(place) => pods[place] = pod.clone(),
                Err(place) => pods.insert(place, pod.clone()),
            }
        }
        let is_late = |pod: &Pod| pod.is_gone(configuration.terminating, now);
        claims::put_on_pods(stored, &mut pods, pod.map(|pod| &pod.key), is_late);
        Some(Self {
            now,
            tree: Arc::new(Tree::new(queues.collect(), &configuration)),
            pods,
            provided: claims::provided(stored),
            groups: stored.get(&POD_GROUPS).cloned().unwrap_or_default(),
            namespaces: stored.get(&NAMESPACES).cloned().unwrap_or_default(),
            configuration,
            nodes: Arc::new(nodes),
            resources,
        })
    }

    /// The same with one pod changed.
    #[must_use]
    pub fn with(&self, pod: &Pod, change: impl FnOnce(&mut Pod)) -> Self {
        let mut view = self.clone();
        if let Some(pod) = view.pods.iter_mut().find(|other| other.key == pod.key) {
            change(pod);
        }
        view
    }

    /// The same without what unusable nodes have free: of these nodes the cluster has only what pods have there.
    #[must_use]
    pub fn with_room(&self) -> Self {
        let mut view = self.clone();
        for node in Arc::make_mut(&mut view.nodes).iter_mut().filter(|node| !node.is_usable) {
            node.allocatable.clear();
            node.cards.iter_mut().for_each(|card| card.count = 0);
        }
        view
    }

    /// Returns a node by its name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&Value> {
        self.namespaces.get(&Key::new("", name)).map(|namespace| &**namespace)
    }

    /// A group.
    pub fn group(&self, key: &Key) -> Option<&Value> {
        self.groups.get(key).map(|group| &**group)
    }

    /// Returns the queue that a namespace names for pods that name none.
    pub fn queue_of_namespace(&self, name: &str) -> Option<String> {
        let queue = self.namespace(name)?["metadata"]["annotations"][QUEUE_NAME].as_str()?;
        (!queue.is_empty()).then(|| queue.to_owned())
    }

    /// Whether a pod asks for cards, whatever it names them.
    pub fn asks_for_cards(&self, pod: &Pod) -> bool {
        let counted = |resource: &String| self.resources.values().any(|by| by == resource);
        let mut request = pod.request.iter();
        pod.claimed.is_for_cards
            || request.any(|(resource, amount)| {
                *amount > 0
                    && resource.contains('/')
                    && (self.configuration.is_card_resource(resource) || counted(resource))
            })
    }

    /// Returns the queue that a pod is charged to: its own, its group's, its namespace's, or the default. `None` if the pod
    /// does not concern Cardgate, or concerns only CrossQuota.
    pub fn queue_of(&self, pod: &Pod) -> Option<String> {
        let named = self.named_queue(pod);
        let asks = || (self.asks_for_cards(pod) || pod.claimed.gets_cards) && pod.is_reachable();
        let is_concerned = pod.is_managed() || (named.is_some() || self.configuration.unqueued == "charge") && asks();
        is_concerned.then(|| named.unwrap_or_else(|| self.configuration.default_queue.clone()))
    }

    /// Returns the queue that a pod, its group, or its namespace names.
    fn named_queue(&self, pod: &Pod) -> Option<String> {
        let own = pod.says(QUEUE_NAME).map(str::to_owned);
        let group = || {
            let key = Key::new(&*pod.key.namespace, pod.says(GROUP_NAME)?);
            let queue = self.group(&key)?["spec"]["queue"].as_str()?;
            (!queue.is_empty()).then(|| queue.to_owned())
        };
        let namespace = || self.queue_of_namespace(&pod.key.namespace);
        own.or_else(group).or_else(namespace)
    }

    /// Whether a pod is charged for cards that it does not name. If nothing names its queue, they may only be counted. Under
    /// `deny` no new pod is let in without a card name, but a running pod is charged as it is (docs/rules.md, **Which pods
    /// are managed**).
    fn is_charged_unnamed(&self, pod: &Pod) -> bool {
        let settings = &self.configuration;
        settings.unnamed != "free" && (settings.unqueued == "charge" || self.named_queue(pod).is_some())
    }

    /// Whether another pod is charged for all cards that a pod has. The pod is then charged as one without cards, whatever
    /// it names (docs/rules.md, **Cards by Dynamic Resource Allocation**).
    fn is_paid_by_another(&self, pod: &Pod) -> bool {
        let has_own = !pod.claimed.cards.is_empty() || self.asks_for_cards(pod) || pod.assigned().is_some();
        pod.claimed.paid_by_another && !has_own
    }

    /// Whether CrossQuota decides where a pod goes.
    pub fn is_under_cross_quota(pod: &Pod) -> bool {
        pod.is_reachable()
            && pod
                .labels
                .get(CROSS_QUOTA_LABEL)
                .is_some_and(|value| value == CROSS_QUOTA_ENABLED)
    }

    /// Returns the card that a pod holds: the card it was given, else the card of its node among those it names, else what
    /// its node has instead.
    pub fn card_of(&self, pod: &Pod) -> Option<String> {
        // If unnamed cards requested as a resource are free, they are so whatever hands them out.
        let is_free = pod.claimed.provided && pod.names().is_empty() && !self.is_charged_unnamed(pod);
        let is_known = pod.claimed.allocated && !is_free || !pod.claimed.counted.is_empty();
        if let Some(card) = pod.claimed.cards.first().filter(|_| is_known) {
            return Some(card.clone());
        }
        if let Some(assigned) = pod.assigned() {
            return Some(assigned.to_owned());
        }
        if self.is_paid_by_another(pod) {
            return None;
        }
        let names = pod.names();
        if let ([name], false) = (&names[..], pod.claimed.cards.is_empty()) {
            return Some((*name).to_owned());
        }
        if names.is_empty() && !self.is_charged_unnamed(pod) {
            return None;
        }
        let Some(node) = pod.node.as_deref().and_then(|node| self.node(node)) else {
            return names.first().map(|name| (*name).to_owned());
        };
        let cards = node.cards.iter();
        let cards = cards.filter(|card| pod.asks(&card.resource) > 0 && self.supplies(pod, card));
        let its = cards.clone().find(|card| names.contains(&card.name.as_str()));
        let is_open = pod.claimed.cards.is_empty() || names.is_empty();
        let of_node = its.or(cards.clone().next().filter(|_| is_open));
        let of_node = of_node.map(|card| card.name.clone());
        of_node.or_else(|| names.first().map(|name| (*name).to_owned()))
    }

    /// Whether a node hands out a card in the way that a pod asks for it.
    pub fn supplies(&self, pod: &Pod, card: &Card) -> bool {
        let by_claims = is_by_claims(pod);
        match card.supply {
            Supply::Both => true,
            Supply::Plugin => !by_claims,
            Supply::Devices if by_claims => pod.claimed.cards.contains(&card.name),
            Supply::Devices => self.provided.contains(&card.resource),
        }
    }

    /// Returns how much of a resource a node has for a pod beside these others. Where the pod requests it, devices count only if a
    /// class provides the resource and no device plugin hands it out there. Where they don't, those that others claim don't
    /// count either.
    pub fn left_for<'a>(&self, pod: &Pod, node: &Node, resource: &str, others: impl Iterator<Item = &'a Pod>) -> i128 {
        let by_plugin = node.by_plugin.get(resource).copied().unwrap_or(0);
        if is_by_claims(pod) || by_plugin == 0 && self.provided.contains(resource) {
            return node.has(resource) - others.map(|other| other.asks(resource)).sum::<i128>();
        }
        let is_device = |card: &&Card| card.resource == resource && card.supply == Supply::Devices;
        let devices: Vec<_> = node.cards.iter().filter(is_device).collect();
        let used = others.map(|other| {
            let claimed = devices.iter().filter_map(|card| other.claimed.counted.get(&card.name));
            other.asks(resource) - claimed.sum::<i128>()
        });
        by_plugin - used.sum::<i128>()
    }

    /// Returns how many more of a card a pod may be charged for. A pod that was let in without a card, and whose node does
    /// not say which card it has, is charged for the card that it would prefer, which its queue decides. That may be a card
    /// that nodes had once.
    pub fn may_hold(&self, pod: &Pod, card: &str) -> i128 {
        let is_open = pod.names().is_empty() && self.is_charged_unnamed(pod) && self.card_of(pod).is_none();
        if is_open && self.holds(pod) {
            self.count_of(pod, card)
        } else {
            0
        }
    }

    /// Returns how many of a card a pod asks for. For a card that no node has: the largest count of any device resource
    /// except memory.
    pub fn count_of(&self, pod: &Pod, card: &str) -> i128 {
        if let Some(resource) = self.resources.get(card) {
            return pod.asks(resource);
        }
        let counts = |resource: &str| resource.contains('/') && !resource.ends_with("memory");
        let devices = pod.request.iter().filter(|(resource, _)| counts(resource));
        devices.map(|(_, amount)| *amount).max().unwrap_or(0)
    }

    /// Returns what a pod with this card adds to its queue's account.
    pub fn amounts(&self, pod: &Pod, card: Option<&str>) -> Amounts {
        let is_unnamed = self.configuration.unnamed == "charge" && self.is_charged_unnamed(pod);
        let names = pod.says(CARD_NAME).is_some() && !self.is_paid_by_another(pod);
        let is_for_cards = card.is_some() || names || is_unnamed && self.asks_for_cards(pod);
        let resources = pod
            .request
            .iter()
            .map(|(name, amount)| (What::Resource(name.clone()), *amount));
        let mut amounts: Amounts = resources
            .filter(|(what, _)| !(self.configuration.card_unlimited && is_for_cards && what.is_cpu_or_memory()))
            .collect();
        if let Some(card) = card {
            amounts.insert(What::Card(card.to_owned()), self.count_of(pod, card));
        }
        amounts
    }

    /// Whether a pod holds anything. It does not while any gate holds it, when it has ended, and when it is gone except for
    /// its name; nor by claims if it is deleted before it has a node; nor before it has a node if nobody has let it in.
    pub fn holds(&self, pod: &Pod) -> bool {
        let is_gone = pod.is_gone(self.configuration.terminating, self.now) || pod.never_runs() && pod.claimed.open;
        let mut gates = pod.spec["schedulingGates"].as_array().into_iter().flatten();
        let is_gated = gates.any(|gate| gate["name"] != GATE);
        !(pod.is_held || is_gated || pod.is_over || is_gone || self.waits_for_volcano(pod))
    }

    /// Whether Volcano's controllers put an existing pod into its group, nothing written on the pod says that it was held,
    /// and it has neither a node yet nor devices that it pays for.
    fn waits_for_volcano(&self, pod: &Pod) -> bool {
        let claims = pod.spec["resourceClaims"].as_array();
        let names_claims = claims.is_some_and(|claims| !claims.is_empty());
        let has_devices = names_claims && !pod.claimed.open && !pod.claimed.paid_by_another || pod.claimed.provided;
        let names_queue = || self.queue_of_namespace(&pod.key.namespace).is_some();
        let is_held_for_cards =
            || self.asks_for_cards(pod) && (self.configuration.unqueued == "charge" || names_queue());
        pod.node.is_none()
            && pod.joined_later()
            && !pod.annotations.contains_key(CARD_ASSIGNED)
            && !Self::is_under_cross_quota(pod)
            && !has_devices
            && !is_held_for_cards()
    }

    /// Returns what a pod is charged for. `None` while it is held, when it has ended, when it is gone except for its name,
    /// or if it does not concern Cardgate.
    pub fn charge(&self, pod: &Pod) -> Option<Charge> {
        self.charge_to(pod, |_| true)
    }

    /// The same, if the pod is on the account of a queue for which `is_meant` holds.
    pub fn charge_to(&self, pod: &Pod, is_meant: impl Fn(&str) -> bool) -> Option<Charge> {
        if !self.holds(pod) {
            return None;
        }
        let queue = self.queue_of(pod).filter(|queue| is_meant(queue))?;
        let mut amounts = self.amounts(pod, self.card_of(pod).as_deref());
        if !pod.claimed.counted.is_empty() {
            amounts.retain(|what, _| what.card().is_none());
            let counted = pod.claimed.counted.iter();
            amounts.extend(counted.map(|(card, count)| (What::Card(card.clone()), *count)));
        }
        Some(Charge { queue, amounts })
    }

    /// Whether a pod that was let in is expected somewhere, and no stored object says where: it has no node, is pinned to
    /// none, and has no device on any.
    pub fn is_expected_unseen(&self) -> bool {
        self.pods.iter().any(|pod| {
            let was_let_in = self.holds(pod) && (self.queue_of(pod).is_some() || Self::is_under_cross_quota(pod));
            was_let_in && !pod.never_runs() && pod.place().is_none() && !pod.claimed.allocated
        })
    }
}

/// Whether a pod claims cards, and does not only request them as a resource.
fn is_by_claims(pod: &Pod) -> bool {
    !pod.claimed.cards.is_empty() && pod.provided_claim.is_none()
}
