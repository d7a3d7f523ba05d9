//! The rules for a Queue among others: its parent, its children, and what they may have together (the capacity document,
//! **Hierarchical processing**; docs/rules.md, **Queues**).

use std::sync::Arc;

use crds::configuration::CapacityCard;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use crds::queue_terms::{Item, Limits, QueueTerms};

use super::Findings;
use crate::denial::{Denial, Excess};
use crate::knowledge::QueueFacts;
use crate::view::{Lookup, PodsOf, View};
use crate::warning::Warning;

/// How many children are looked up, to tell children that exist from children whose removal a watch has not delivered yet.
const CHILDREN_LOOKED_UP: usize = 2;

/// What a queue says of resources in its `spec`, and of cards in annotations.
#[derive(Debug, Clone, Copy)]
enum Term {
    Capability,
    Deserved,
    Guarantee,
}

impl Term {
    /// The field or annotation in which a queue says this of the item.
    fn place(self, item: &Item) -> Box<str> {
        let (field, annotation) = match self {
            Self::Capability => ("spec.capability", CARD_QUOTA),
            Self::Deserved => ("spec.deserved", CARD_DESERVED),
            Self::Guarantee => ("spec.guarantee", CARD_GUARANTEE),
        };
        match item {
            Item::Card(_) => format!("annotation {annotation}").into(),
            Item::Resource(_) => field.into(),
        }
    }
}

/// Checks that a queue is consistent in itself, whatever the other queues are.
pub fn check_alone(terms: &QueueTerms, findings: &mut Findings) {
    for (term, limits) in [(Term::Guarantee, &terms.guarantee), (Term::Deserved, &terms.deserved)] {
        for (item, amount, capability) in exceeding(limits, &terms.capability) {
            findings.denials.push(Denial::AboveCapability {
                place: term.place(item),
                limit: Term::Capability.place(item),
                excess: Excess::new(item, amount, capability),
            });
        }
    }
    for (item, guarantee, deserved) in exceeding(&terms.guarantee, &terms.deserved) {
        findings.warnings.push(Warning::GuaranteeAboveDeserved {
            place: Term::Guarantee.place(item),
            limit: Term::Deserved.place(item),
            guarantee: item.format(guarantee.into()),
            deserved: item.format(deserved.into()),
            item: item.to_string(),
        });
    }
}

/// Warns of guarantees that can't be used: the queue names no quota of the item, and under `capacity-card` an unnamed quota
/// is zero.
pub fn guaranteed_in_vain<'t>(terms: &'t QueueTerms, arguments: &CapacityCard) -> impl Iterator<Item = Warning> + 't {
    // Pods with cards may use guaranteed CPU and memory where these are not limited for them.
    let are_limited = !arguments.card_unlimited_cpu_memory;
    let is_limited = move |item: &Item| match item {
        Item::Card(_) => true,
        Item::Resource(name) => are_limited && matches!(&**name, "cpu" | "memory"),
    };
    let kept = terms.guarantee.iter().filter(|(_, amount)| **amount > 0);
    let unnamed = kept.filter(move |(item, _)| is_limited(item) && !terms.capability.contains_key(*item));
    unnamed.map(|(item, _)| Warning::GuaranteeWithoutQuota {
        place: Term::Guarantee.place(item),
        item: item.to_string(),
        limit: Term::Capability.place(item),
    })
}

/// The items that both name and of which the first has more.
fn exceeding<'l>(limits: &'l Limits, of: &'l Limits) -> impl Iterator<Item = (&'l Item, i64, i64)> {
    limits.iter().filter_map(|(item, amount)| {
        let limit = of.get(item)?;
        (amount > limit).then_some((item, *amount, *limit))
    })
}

/// One queue among the others.
#[derive(Debug, Clone, Copy)]
pub struct Family<'a> {
    /// What is known of the others.
    pub view: View<'a>,
    /// The queue that is judged.
    pub name: &'a str,
}

impl Family<'_> {
    fn root(&self) -> Box<str> {
        self.view.configuration().capacity.root_queue.as_str().into()
    }

    /// The parent of a queue; `None` for the root.
    fn parent_of(&self, name: &str, terms: &QueueTerms) -> Option<Box<str>> {
        let root = self.root();
        (*name != *root).then(|| terms.parent.clone().unwrap_or(root))
    }

    fn facts(&self, name: &str) -> Option<Arc<QueueFacts>> {
        self.view.queue(name).value
    }

    /// What must be asked of the API server before the queue can be judged: its parent, if no watch has delivered it, and
    /// whether a queue that becomes a parent has pods.
    pub fn lookup(&self, terms: &QueueTerms, before: Option<&QueueTerms>) -> Option<Lookup> {
        let parent = self
            .parent_of(self.name, terms)
            .filter(|parent| **parent != *self.root())?;
        let fact = self.view.queue(&parent);
        if fact.value.is_none() && !fact.fresh {
            return Some(Lookup::Queue(parent.into()));
        }
        let is_new = before.is_none_or(|before| before.parent != terms.parent);
        let becomes_parent = is_new && self.children_of(&parent).is_empty();
        (becomes_parent && self.view.pods_of(&parent).is_none()).then(|| Lookup::PodsOf(parent.into()))
    }

    /// Judges the queue's place.
    pub fn check(&self, terms: &QueueTerms, strict: bool, findings: &mut Findings) {
        let root = self.root();
        let Some(parent) = self.parent_of(self.name, terms) else {
            if let Some(parent) = &terms.parent {
                findings.denials.push(Denial::RootParent {
                    root: root.into(),
                    parent: parent.to_string(),
                });
            }
            self.check_capabilities(terms, findings);
            self.check_children(self.name, terms, None, strict, findings);
            return;
        };
        if let Some(path) = self.cycle(&parent) {
            findings.denials.push(Denial::ParentCycle { path });
            return;
        }
        let facts = self.facts(&parent);
        if facts.is_none() && *parent != *root {
            findings.denials.push(Denial::ParentMissing {
                parent: parent.to_string(),
            });
        }
        let parent_name = || parent.to_string();
        match self.view.pods_of(&parent) {
            Some(PodsOf::Shown(1..)) => findings.denials.push(Denial::ParentHasPods { parent: parent_name() }),
            Some(PodsOf::NotShown) => findings.denials.push(Denial::UsageNotShown { queue: parent_name() }),
            Some(PodsOf::Shown(0)) | None => {}
        }
        self.check_capabilities(terms, findings);
        if let Some(facts) = facts {
            self.check_children(&parent, &facts.terms, Some(terms), strict, findings);
        }
        self.check_children(self.name, terms, None, strict, findings);
    }

    /// The path from the queue over its parent back to itself, if there is such a cycle.
    fn cycle(&self, parent: &str) -> Option<String> {
        let mut path: Vec<Box<str>> = vec![self.name.into()];
        let mut next: Option<Box<str>> = Some(parent.into());
        while let Some(queue) = next {
            let closed = path.contains(&queue);
            path.push(queue.clone());
            if closed {
                // A cycle without the judged queue is not the fault of that queue.
                return (*queue == *self.name).then(|| path.join(" -> "));
            }
            next = self
                .facts(&queue)
                .and_then(|facts| self.parent_of(&queue, &facts.terms));
        }
        None
    }

    /// The children of a queue, without the judged queue.
    fn children_of(&self, parent: &str) -> Vec<(Box<str>, Arc<QueueFacts>)> {
        let mut children: Vec<(Box<str>, Arc<QueueFacts>)> = self.view.knowledge.queues.select(|name, facts| {
            let is_child = *name != *self.name && self.parent_of(name, &facts.terms).as_deref() == Some(parent);
            is_child.then(|| (name.into(), Arc::clone(facts)))
        });
        children.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        children
    }

    /// Judges the capability of the queue and of all queues below it. Each is compared with the nearest queue above it that
    /// names the item. A queue in between that does not name the item does not limit it.
    fn check_capabilities(&self, terms: &QueueTerms, findings: &mut Findings) {
        let mut judged: Vec<(Box<str>, Arc<QueueFacts>)> = self.view.knowledge.queues.select(|name, facts| {
            let names_something = *name != *self.name && !facts.terms.capability.is_empty();
            names_something.then(|| (name.into(), Arc::clone(facts)))
        });
        judged.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let judged = judged.iter().map(|(name, facts)| (&**name, &facts.terms));
        for (name, own) in std::iter::once((self.name, terms)).chain(judged) {
            let above = self.above(name, own, terms);
            let place = above.iter().position(|(above, _)| **above == *self.name);
            if *name != *self.name && place.is_none() {
                continue;
            }
            for (item, amount) in &own.capability {
                let mut saying = above.iter().enumerate().filter_map(|(level, (above, facts))| {
                    let terms = facts.as_ref().map_or(terms, |facts| &facts.terms);
                    Some((level, above, *terms.capability.get(item)?))
                });
                // Between two queues that are both below the judged queue nothing has changed.
                let nearest = saying
                    .next()
                    .filter(|(level, ..)| place.is_none_or(|place| *level >= place));
                if let Some((level, above, limit)) = nearest.filter(|(.., limit)| amount > limit) {
                    findings.denials.push(Denial::ChildAboveParent {
                        place: Term::Capability.place(item),
                        child: name.into(),
                        relation: if level == 0 { "its parent" } else { "the queue above it" },
                        parent: above.clone(),
                        excess: Excess::new(item, *amount, limit),
                    });
                }
            }
        }
    }

    /// The queues above a queue, nearest first. An entry without facts is the judged queue, whose terms are `judged`.
    fn above(&self, name: &str, terms: &QueueTerms, judged: &QueueTerms) -> Vec<(Box<str>, Option<Arc<QueueFacts>>)> {
        let mut above: Vec<(Box<str>, Option<Arc<QueueFacts>>)> = Vec::new();
        let mut next = self.parent_of(name, terms);
        while let Some(queue) = next.filter(|next| **next != *name && above.iter().all(|(known, _)| known != next)) {
            let is_judged = *queue == *self.name;
            let facts = if is_judged { None } else { self.facts(&queue) };
            next = match &facts {
                Some(facts) => self.parent_of(&queue, &facts.terms),
                None if is_judged => self.parent_of(&queue, judged),
                None => None,
            };
            if is_judged || facts.is_some() {
                above.push((queue, facts));
            }
        }
        above
    }

    /// Judges a parent against its children. `child` is the judged queue if it is a child; `None` if the judged queue is the
    /// parent.
    fn check_children(
        &self,
        parent: &str,
        terms: &QueueTerms,
        child: Option<&QueueTerms>,
        strict: bool,
        findings: &mut Findings,
    ) {
        let others = self.children_of(parent);
        let others: Vec<_> = others.iter().map(|(name, facts)| (&**name, &facts.terms)).collect();
        let own = child.map(|child| (self.name, child));
        let all: Vec<_> = others.into_iter().chain(own).collect();
        let is_root = *parent == *self.root();
        for (item, sum) in sums(&all, |terms| &terms.guarantee) {
            let limit = terms.guarantee.get(item).copied();
            // What the root does not name is limited only by what the cluster has.
            if limit.is_none() && is_root {
                continue;
            }
            let limit = i128::from(limit.unwrap_or(0));
            if sum > limit {
                findings.denials.push(Denial::GuaranteesAboveParent {
                    place: Term::Guarantee.place(item),
                    parent: parent.to_owned(),
                    excess: Excess::new(item, sum, limit),
                });
            }
        }
        for (item, sum) in sums(&all, |terms| &terms.capability) {
            let Some(limit) = terms.capability.get(item).copied().map(i128::from) else {
                continue;
            };
            if sum > limit {
                let (place, parent) = (Term::Capability.place(item), parent.to_owned());
                if strict {
                    let excess = Excess::new(item, sum, limit);
                    findings
                        .denials
                        .push(Denial::CapabilitiesAboveParent { place, parent, excess });
                } else {
                    findings.warnings.push(Warning::CapabilitiesAboveParent {
                        place,
                        parent,
                        item: item.to_string(),
                        sum: item.format(sum),
                        limit: item.format(limit),
                    });
                }
            }
        }
    }

    /// What must be asked of the API server before the queue can be removed.
    pub fn lookup_before_removal(&self) -> Option<Lookup> {
        let children = self.children_before_removal();
        let unsure = children.iter().take(CHILDREN_LOOKED_UP).map(|(name, _)| name);
        let unsure = unsure.filter(|name| !self.view.queue(name).fresh);
        let lookup = unsure.map(|name| Lookup::Queue(name.to_string())).next();
        lookup.or_else(|| {
            let is_asked = self.view.pods_of(self.name).is_some();
            (children.is_empty() && !is_asked).then(|| Lookup::PodsOf(self.name.to_owned()))
        })
    }

    fn children_before_removal(&self) -> Vec<(Box<str>, Arc<QueueFacts>)> {
        if !self.view.configuration().capacity.enable_hierarchy {
            return Vec::new();
        }
        let mut children = self.children_of(self.name);
        children.retain(|(name, _)| {
            let fact = self.view.queue(name);
            let is_child = |facts: &Arc<QueueFacts>| self.parent_of(name, &facts.terms).as_deref() == Some(self.name);
            !fact.fresh || fact.value.as_ref().is_some_and(is_child)
        });
        children
    }

    /// Whether the queue may be removed.
    pub fn check_removal(&self) -> Result<(), Denial> {
        let queue = || self.name.to_owned();
        let rules = &self.view.configuration().capacity;
        if *self.name == *self.view.configuration().cardgate.default_queue {
            return Err(Denial::DefaultQueue { queue: queue() });
        }
        if rules.enable_hierarchy && *self.name == *rules.root_queue {
            return Err(Denial::RootQueue { queue: queue() });
        }
        let children = self.children_before_removal();
        if let Some((child, _)) = children.first() {
            return Err(Denial::QueueHasChildren {
                queue: queue(),
                child: child.to_string(),
                count: children.len(),
            });
        }
        match self.view.pods_of(self.name) {
            Some(PodsOf::Shown(1..)) => Err(Denial::QueueHasPods { queue: queue() }),
            Some(PodsOf::NotShown) => Err(Denial::UsageNotShown { queue: queue() }),
            Some(PodsOf::Shown(0)) | None => Ok(()),
        }
    }
}

/// For each item that a queue names, the sum over all queues.
fn sums<'t>(
    queues: &[(&str, &'t QueueTerms)],
    limits: impl Fn(&'t QueueTerms) -> &'t Limits,
) -> std::collections::BTreeMap<&'t Item, i128> {
    let mut sums = std::collections::BTreeMap::new();
    for (item, amount) in queues.iter().flat_map(|(_, terms)| limits(terms)) {
        *sums.entry(item).or_insert(0) += i128::from(*amount);
    }
    sums
}
