//! The rules once more, written to be obviously right and not fast: everything is counted from scratch, every time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::steps::{CARDS, Configuration, Maker, Node, Queue, Spec};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    Blocked,
    Admitting { written: bool },
    Unbound { since: i64, looks: u32 },
    Bound,
}

/// A pod as the operator should see it.
#[derive(Debug, Clone)]
pub struct Pod {
    pub spec: Spec,
    pub stage: Stage,
    pub assigned: Option<usize>,
    /// The node it is bound to or expected on.
    pub room: Option<usize>,
    pub deleted: Option<i64>,
    /// The order in which pods came to wait.
    pub arrival: u64,
    pub returns: u32,
    pub aside_until: Option<i64>,
    pub told: Option<&'static str>,
}

/// Everything as the operator should see it.
#[derive(Debug, Clone)]
pub struct Picture {
    pub now: i64,
    pub configuration: Configuration,
    pub nodes: BTreeMap<usize, Node>,
    pub queues: BTreeMap<usize, Queue>,
    /// Whether each namespace that is there has the label `open`.
    pub namespaces: BTreeMap<usize, bool>,
    pub pods: BTreeMap<String, Pod>,
    /// What a card name stood for last.
    pub makers: BTreeMap<usize, Maker>,
}

/// A share of something where the quota is nothing.
const MORE_THAN_ANYTHING: (i128, i128) = (1 << 50, 1);

/// What a pod is let in with, or the reason why not.
pub type Verdict = Result<Option<usize>, &'static str>;

/// Amounts by name: `cpu`, `memory`, `pods`, resources, and cards as `card A`.
pub type Amounts = BTreeMap<String, i128>;

impl Picture {
    /// The first node by name that has a card says what it means; the last meaning stays.
    pub fn learn_cards(&mut self) {
        for card in 0..CARDS.len() {
            let first = self
                .nodes
                .values()
                .find(|node| node.cards.0 == card && node.cards.2 > 0);
            if let Some(first) = first {
                self.makers.insert(card, first.cards.1);
            }
        }
    }

    fn holds(&self, pod: &Pod) -> bool {
        let stage = !matches!(pod.stage, Stage::Waiting | Stage::Blocked);
        let ended = pod
            .deleted
            .is_some_and(|deleted| deleted + self.configuration.terminating <= self.now);
        pod.spec.managed && stage && !ended
    }

    /// Whether a pod asks for cards without saying which.
    fn is_unnamed(spec: &Spec) -> bool {
        spec.managed && spec.cards.is_empty() && spec.count > 0
    }

    /// The cards that a pod names; where it does not say which, those that its queue has a quota for and that what it requests
    /// stands for, by name.
    pub fn named(&self, spec: &Spec) -> Vec<usize> {
        let quota = self
            .queues
            .get(&spec.queue)
            .filter(|queue| queue.valid)
            .map(|queue| queue.quota);
        if !Self::is_unnamed(spec) {
            return spec.cards.clone();
        }
        let is_chosen = |card: &usize| {
            quota.is_some_and(|quota| quota[*card].is_some()) && self.makers.get(card) == Some(&spec.maker)
        };
        (0..CARDS.len()).filter(is_chosen).collect()
    }

    fn charged_card(&self, pod: &Pod) -> Option<usize> {
        let of_node = || {
            let node = self.nodes.get(&pod.room?).filter(|_| pod.stage == Stage::Bound)?;
            let (card, maker, count) = node.cards;
            let given = (maker == pod.spec.maker && count > 0).then_some(card);
            if Self::is_unnamed(&pod.spec) {
                return given;
            }
            let mut named = pod.spec.cards.iter().copied();
            named.find(|named| given == Some(*named)).or(given)
        };
        pod.assigned
            .or_else(of_node)
            .or_else(|| self.named(&pod.spec).first().copied())
    }

    fn card_count(&self, spec: &Spec, card: usize) -> i64 {
        match self.makers.get(&card) {
            Some(maker) if *maker != spec.maker => 0,
            _ => spec.count,
        }
    }

    /// What a pod has stays counted when the card comes to stand for another maker's resource: by the node that it is on, or by what it was let
    /// in for.
    fn held_count(&self, pod: &Pod, card: usize) -> i64 {
        let node = pod.room.and_then(|node| self.nodes.get(&node));
        let is_there =
            node.is_some_and(|node| node.cards.0 == card && node.cards.1 == pod.spec.maker && node.cards.2 > 0);
        if is_there || pod.assigned == Some(card) {
            pod.spec.count
        } else {
            self.card_count(&pod.spec, card)
        }
    }

    fn request(spec: &Spec) -> Amounts {
        let mut request = Amounts::new();
        request.insert("cpu".into(), i128::from(spec.cpu) * 1000);
        request.insert("memory".into(), 1 << 30);
        request.insert("pods".into(), 1);
        request.insert(spec.maker.resource().into(), spec.count.into());
        request
    }

    fn charge(&self, spec: &Spec, card: Option<usize>) -> Amounts {
        self.charge_of(spec, card, |card| self.card_count(spec, card))
    }

    fn charge_of(&self, spec: &Spec, card: Option<usize>, count: impl Fn(usize) -> i64) -> Amounts {
        let mut charge = Self::request(spec);
        if self.configuration.unlimited && (!spec.cards.is_empty() || Self::is_unnamed(spec)) {
            charge.remove("cpu");
            charge.remove("memory");
        }
        if let Some(card) = card {
            charge.insert(format!("card {}", CARDS[card]), count(card).into());
        }
        charge
    }

    fn sum(amounts: impl Iterator<Item = Amounts>) -> Amounts {
        let mut sum = Amounts::new();
        for (name, amount) in amounts.flatten() {
            *sum.entry(name).or_default() += amount;
        }
        sum.retain(|_, amount| *amount != 0);
        sum
    }

    pub fn pods_of(&self, queue: usize) -> impl Iterator<Item = &Pod> {
        self.pods
            .values()
            .filter(move |pod| pod.spec.managed && pod.spec.queue == queue)
    }

    pub fn allocated(&self, queue: usize) -> Amounts {
        let holding = self.pods_of(queue).filter(|pod| self.holds(pod));
        let charge = |pod: &Pod| self.charge_of(&pod.spec, self.charged_card(pod), |card| self.held_count(pod, card));
        Self::sum(holding.map(charge))
    }

    pub fn admitted(&self, queue: usize) -> usize {
        self.pods_of(queue).filter(|pod| self.holds(pod)).count()
    }

    pub fn requested(&self, queue: usize) -> Amounts {
        let waiting = self.pods_of(queue).filter(|pod| pod.is_in_line());
        Self::sum(waiting.map(|pod| self.charge(&pod.spec, self.named(&pod.spec).first().copied())))
    }

    pub fn used(&self, node: usize) -> Amounts {
        let there = self.pods.values().filter(|pod| pod.room == Some(node));
        Self::sum(there.map(|pod| Self::request(&pod.spec)))
    }

    fn limit(queue: &Queue, name: &str) -> i128 {
        let limit = match name {
            "cpu" => queue.cpu.map_or(0, |cpu| cpu * 1000),
            "memory" => queue.cpu.map_or(0, |_| 1 << 40),
            card => {
                let index = CARDS.iter().position(|known| card.strip_prefix("card ") == Some(known));
                index.and_then(|index| queue.quota[index]).unwrap_or(0)
            }
        };
        limit.into()
    }

    fn has_quota(queue: &Queue, allocated: &Amounts, name: &str, asked: i128) -> bool {
        asked == 0 || allocated.get(name).copied().unwrap_or(0) + asked <= Self::limit(queue, name)
    }

    /// The names of what a queue has more of than its quota allows.
    pub fn excess(&self, queue: usize) -> Amounts {
        let Some(says) = self.queues.get(&queue) else {
            return Amounts::new();
        };
        let mut allocated = self.allocated(queue);
        allocated.retain(|name, used| {
            let metered = name == "cpu" || name == "memory" || name.starts_with("card ");
            metered && *used > Self::limit(says, name)
        });
        allocated
    }

    /// What more than everything is used of a node.
    pub fn oversold(&self, node: usize) -> Amounts {
        let Some(says) = self.nodes.get(&node) else {
            return Amounts::new();
        };
        let mut used = self.used(node);
        used.retain(|name, used| *used > Self::allocatable(says, name));
        used
    }

    fn allocatable(node: &Node, name: &str) -> i128 {
        let (_, maker, count) = node.cards;
        match name {
            "cpu" => i128::from(node.cpu) * 1000,
            "memory" => 512 << 30,
            "pods" => node.slots.into(),
            resource if resource == maker.resource() => count.into(),
            _ => 0,
        }
    }

    /// Whether a node can take a pod with this card.
    pub fn takes(&self, node: usize, spec: &Spec, card: Option<usize>) -> bool {
        let Some(says) = self.nodes.get(&node) else {
            return false;
        };
        let (on_node, maker, count) = says.cards;
        let has_card = card.is_none_or(|card| on_node == card && count > 0 && self.makers.get(&card) == Some(&maker));
        let product = spec
            .product
            .is_none_or(|product| maker == Maker::Nvidia && on_node == product);
        let zone = spec.zone.is_none_or(|zone| zone == says.zone);
        let usable = says.ready && !says.cordoned && (spec.tolerates || !says.tainted);
        let used = self.used(node);
        let room = Self::request(spec)
            .iter()
            .all(|(name, asked)| *asked == 0 || used.get(name).unwrap_or(&0) + asked <= Self::allocatable(says, name));
        has_card && product && zone && usable && room
    }

    /// **Task Allocatable Check**, and then the nodes.
    pub fn judge(&self, spec: &Spec) -> Verdict {
        let queue = self.queues.get(&spec.queue).ok_or("QueueNotFound")?;
        if !queue.open {
            return Err("QueueNotOpen");
        }
        if !queue.valid {
            return Err("QueueInvalid");
        }
        if queue.restricted && self.namespaces.get(&spec.namespace) != Some(&true) {
            return Err("NamespaceNotAllowed");
        }
        let known = |card: &usize| self.makers.contains_key(card) && self.card_count(spec, *card) > 0;
        let named = self.named(spec);
        let mut known: Vec<_> = named.iter().copied().filter(known).collect();
        if known.is_empty() && !spec.cards.is_empty() {
            return Err("GetTaskRequestResourceFailed");
        }
        if queue.cpu.is_none() && queue.quota.iter().all(Option::is_none) {
            return Err("EmptyQueueCapability");
        }
        let allocated = self.allocated(spec.queue);
        let charge = self.charge(spec, None);
        for (name, reason) in [("cpu", "InsufficientCPUQuota"), ("memory", "InsufficientMemoryQuota")] {
            if !Self::has_quota(queue, &allocated, name, charge.get(name).copied().unwrap_or(0)) {
                return Err(reason);
            }
        }
        if Self::is_unnamed(spec) {
            if known.is_empty() {
                return Err("NoCardQuota");
            }
            // The pod's own selector chooses where it leaves any; then most free quota goes first.
            if known.iter().any(|card| self.may_select(spec, Some(*card))) {
                known.retain(|card| self.may_select(spec, Some(*card)));
            }
            let free = |card: usize| {
                let name = format!("card {}", CARDS[card]);
                Self::limit(queue, &name) - allocated.get(&name).copied().unwrap_or(0)
            };
            known.sort_by_key(|card| (Reverse(free(*card)), *card));
        }
        let with_quota = |card: &usize| {
            let count = self.card_count(spec, *card).into();
            Self::has_quota(queue, &allocated, &format!("card {}", CARDS[*card]), count)
        };
        let mut choices: Vec<_> = known.into_iter().filter(with_quota).map(Some).collect();
        if spec.cards.is_empty() && !Self::is_unnamed(spec) {
            choices.push(None);
        }
        if choices.is_empty() {
            return Err("InsufficientScalarQuota");
        }
        let possible = |card: Option<usize>| {
            if self.configuration.on_quota {
                self.may_select(spec, card)
            } else {
                self.nodes.keys().any(|node| self.takes(*node, spec, card))
            }
        };
        choices.into_iter().find(|card| possible(*card)).ok_or("no node")
    }

    /// Whether the pod's own selector leaves the card possible.
    fn may_select(&self, spec: &Spec, card: Option<usize>) -> bool {
        let (Some(card), Some(product)) = (card, spec.product) else {
            return true;
        };
        card == product || self.makers.get(&card) != Some(&Maker::Nvidia)
    }

    /// The pod that is to be let in next, and its card.
    pub fn next_admission(&self) -> Option<(String, Option<usize>)> {
        let mut queues: Vec<_> = self.queues.iter().collect();
        queues.sort_by(|(a_index, a), (b_index, b)| {
            let by_share = || {
                let ((a_used, a_limit), (b_used, b_limit)) = (self.share(**a_index, a), self.share(**b_index, b));
                (a_used * b_limit).cmp(&(b_used * a_limit))
            };
            b.priority
                .cmp(&a.priority)
                .then_with(by_share)
                .then(a.created.cmp(&b.created))
                .then(a_index.cmp(b_index))
        });
        queues.into_iter().find_map(|(index, _)| {
            let waiting = self
                .pods
                .iter()
                .filter(|(_, pod)| pod.spec.managed && pod.spec.queue == *index);
            let mut waiting: Vec<_> = waiting.filter(|(_, pod)| pod.is_in_line()).collect();
            waiting.sort_by_key(|(_, pod)| (Reverse(pod.spec.priority), pod.returns, pod.spec.created, pod.arrival));
            waiting
                .into_iter()
                .find_map(|(uid, pod)| Some((uid.clone(), self.judge(&pod.spec).ok()?)))
        })
    }

    /// The largest part of any quota in use; something of nothing is more than anything.
    fn share(&self, index: usize, queue: &Queue) -> (i128, i128) {
        if !queue.valid {
            return (0, 1);
        }
        let metered = self
            .allocated(index)
            .into_iter()
            .filter(|(name, _)| name == "cpu" || name == "memory" || name.starts_with("card "));
        let shares = metered.map(|(name, used)| match Self::limit(queue, &name) {
            0 => MORE_THAN_ANYTHING,
            limit => (used, limit),
        });
        shares.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap_or((0, 1))
    }
}

impl Pod {
    /// Whether it waits and does not stand aside.
    pub fn is_in_line(&self) -> bool {
        self.spec.managed && self.stage == Stage::Waiting && self.aside_until.is_none()
    }

    /// Whether nothing but the gate holds it that its maker wrote, and that nobody else would take off.
    pub fn is_held_by_nothing(&self) -> bool {
        !self.spec.managed && self.stage == Stage::Waiting && self.aside_until.is_none()
    }
}
