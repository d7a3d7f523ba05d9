//! All that is stored, as it was read: who is charged for what.

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

/// What is stored, as it was read.
#[derive(Debug, Clone)]
pub struct View {
    /// The time.
    pub now: Timestamp,
    /// The switches.
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
    /// Whose account it is on.
    pub queue: String,
    /// How much of what.
    pub amounts: Amounts,
}

impl View {
    /// Reads what is stored, but for these pods. None where the configuration is none that is put in force: then another one
    /// holds that was there before, and whoever asks has to ask for that.
    pub fn read(stored: &ByKind, now: Timestamp, without: &BTreeSet<&Key>) -> Option<Self> {
        Self::read_with(stored, now, without, None)
    }

    /// The same, where a pod is this: one that is let in just now.
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

    /// The same, of nodes that take nobody nothing: the cluster has what pods have of them, and no more.
    #[must_use]
    pub fn with_room(&self) -> Self {
        let mut view = self.clone();
        for node in Arc::make_mut(&mut view.nodes).iter_mut().filter(|node| !node.is_usable) {
            node.allocatable.clear();
            node.cards.iter_mut().for_each(|card| card.count = 0);
        }
        view
    }

    /// A node by its name.
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

    /// The queue that a namespace names for what names none itself.
    pub fn queue_of_namespace(&self, name: &str) -> Option<String> {
        let queue = self.namespace(name)?["metadata"]["annotations"][QUEUE_NAME].as_str()?;
        (!queue.is_empty()).then(|| queue.to_owned())
    }

    /// Whether a pod asks for cards, whatever it calls them.
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

    /// The queue that a pod is charged to: its own, its group's, its namespace's, the default. None where it is none of
    /// Cardgate's pods, or is there for CrossQuota alone.
    pub fn queue_of(&self, pod: &Pod) -> Option<String> {
        let named = self.named_queue(pod);
        let asks = || (self.asks_for_cards(pod) || pod.claimed.gets_cards) && pod.is_reachable();
        let is_concerned = pod.is_managed() || (named.is_some() || self.configuration.unqueued == "charge") && asks();
        is_concerned.then(|| named.unwrap_or_else(|| self.configuration.default_queue.clone()))
    }

    /// The queue that a pod names, or its group, or its namespace.
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

    /// Whether a pod is charged for cards that it does not name: where nothing names its queue, they may only be counted. Under `deny`
    /// nobody else is let in so, but who runs already is charged as it is (docs/rules.md, **Which pods are managed**).
    fn is_charged_unnamed(&self, pod: &Pod) -> bool {
        let settings = &self.configuration;
        settings.unnamed != "free" && (settings.unqueued == "charge" || self.named_queue(pod).is_some())
    }

    /// Whether another pod is charged for all cards that a pod has: it is charged as one without cards, whatever it names (docs/rules.md,
    /// **Cards by Dynamic Resource Allocation**).
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

    /// The card that a pod holds: the one it was given, else of those that it names the one of its node, else what its node has in their place.
    pub fn card_of(&self, pod: &Pod) -> Option<String> {
        // What is requested as a resource by nobody who names it is free where that is so, whoever hands it out.
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

    /// Whether a pod may get a card of a node in the way that it asks for it.
    pub fn supplies(&self, pod: &Pod, card: &Card) -> bool {
        let claims = &pod.claimed.cards;
        let by_claims = !claims.is_empty() && pod.provided_claim.is_none();
        match card.supply {
            Supply::Both => true,
            Supply::Plugin => !by_claims,
            Supply::Devices if by_claims => claims.contains(&card.name),
            Supply::Devices => self.provided.contains(&card.resource),
        }
    }

    /// How many of a card a pod may be charged for besides: one that was let in without a card, and is on no node that says which
    /// it has, is charged for the one that it would prefer, and that is its queue's business. It may be one that nodes had once.
    pub fn may_hold(&self, pod: &Pod, card: &str) -> i128 {
        let is_open = pod.names().is_empty() && self.is_charged_unnamed(pod) && self.card_of(pod).is_none();
        if is_open && self.holds(pod) {
            self.count_of(pod, card)
        } else {
            0
        }
    }

    /// How many of a card a pod asks for. Of a card that no node has: the most that it asks for of any device, but for how much memory.
    pub fn count_of(&self, pod: &Pod, card: &str) -> i128 {
        if let Some(resource) = self.resources.get(card) {
            return pod.asks(resource);
        }
        let counts = |resource: &str| resource.contains('/') && !resource.ends_with("memory");
        let devices = pod.request.iter().filter(|(resource, _)| counts(resource));
        devices.map(|(_, amount)| *amount).max().unwrap_or(0)
    }

    /// What a pod comes to on its queue's account, with this card.
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

    /// Whether a pod holds anything: it does not while a gate holds it, anybody's, when it is over, and when it is gone but for its
    /// name; nor by claims where it is deleted before it has a node; nor before it has one where nobody has let it in.
    pub fn holds(&self, pod: &Pod) -> bool {
        let is_gone = pod.is_gone(self.configuration.terminating, self.now) || pod.never_runs() && pod.claimed.open;
        let mut gates = pod.spec["schedulingGates"].as_array().into_iter().flatten();
        let is_gated = gates.any(|gate| gate["name"] != GATE);
        !(pod.is_held || is_gated || pod.is_over || is_gone || self.waits_for_volcano(pod))
    }

    /// Whether a pod came into its group when it was there already, by Volcano's controllers, was held by nobody, as far as that is written on
    /// it, and has neither a node yet nor devices that it pays for.
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

    /// What a pod is charged for; none while it is held, when it is over, when it is gone but for its name, or where it is
    /// none of Cardgate's.
    pub fn charge(&self, pod: &Pod) -> Option<Charge> {
        self.charge_to(pod, |_| true)
    }

    /// The same, where it is on the account of one of these queues.
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

    /// Whether a pod that was let in is expected somewhere, and nothing that is stored says where: on no node yet, pinned to none, and
    /// without a device on any.
    pub fn is_expected_unseen(&self) -> bool {
        self.pods.iter().any(|pod| {
            let was_let_in = self.holds(pod) && (self.queue_of(pod).is_some() || Self::is_under_cross_quota(pod));
            was_let_in && !pod.never_runs() && pod.place().is_none() && !pod.claimed.allocated
        })
    }
}
