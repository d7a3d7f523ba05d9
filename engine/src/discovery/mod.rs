//! Card discovery: which cards a node's labels and allocatable resources yield (Capacity Card, **Node Card Discovery**).
//!
//! This module is pure: the same labels and resources give the same cards and problems, in whatever order they are listed.

mod allocatable;
mod counts;
mod mgpu;
mod problem;
mod product;
#[cfg(test)]
mod tests;

use crds::card_type::CardKind;
use crds::lean::TextMap;

use allocatable::Allocatable;
pub use mgpu::{MAX_CARD_MEMORY, MAX_CARDS, MgpuCards};
pub use problem::{Problem, Severity};

/// The ending of labels with a card's product.
const PRODUCT: &str = ".product";
/// The ending of labels with the number of physical cards.
const COUNT: &str = ".count";
/// The ending of labels with the memory of a card, in MB.
const MEMORY: &str = ".memory";
/// The ending of labels with the number of shares of a card.
const REPLICAS: &str = ".replicas";

/// One card name on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The card name, as pods and quotas write it.
    pub name: String,
    /// The Kubernetes resource that pods request for it.
    pub resource: String,
    /// What kind of card it is.
    pub kind: CardKind,
    /// How many the node allocates; positive.
    pub count: i64,
    /// Whether the resource is the card's by its prefix alone, for want of one that is called like the label. It may be something else of the
    /// same vendor.
    pub is_guess: bool,
    /// The labels of this node, keys and values, that make up the name. A node selector with these labels leads a pod to such a card if the
    /// pod is charged for it. Another node can yield the same name from other values (81559 and 81920 MB are both 80 GB), so the labels
    /// belong to the node that they come from.
    pub labels: Vec<(String, String)>,
}

/// What one node yields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The cards, by name; no name twice.
    pub cards: Vec<Card>,
    /// What keeps cards from being published, or what does not agree; in a stable order.
    pub problems: Vec<Problem>,
}

/// Returns the cards that a node with these labels and these allocatable resources has.
pub fn discover<S: AsRef<str>>(labels: &TextMap<S>, allocatable: &TextMap<S>) -> Discovery {
    let mut found = Discovery::default();
    let allocatable = Allocatable::read(allocatable, &mut found.problems);
    let products = product::find(labels);
    for (product, whole) in products.iter().zip(product::whole_cards(&products, &allocatable)) {
        product.discover(labels, &allocatable, &whole, &mut found);
    }
    for (resource, amount) in allocatable.positive() {
        if let Some(label) = product::missing_label(resource, labels, &products) {
            found.problems.push(Problem::UnlabelledResource {
                resource: resource.to_owned(),
                amount,
                label,
            });
        }
    }
    found.cards.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Returns the value of the label `<stem><suffix>`. Every heartbeat asks for several labels, so no key is built for it.
fn label_of<'l, S: AsRef<str>>(labels: &'l TextMap<S>, stem: &str, suffix: &str) -> Option<&'l str> {
    let mut labels = labels.iter();
    let found = labels.find(|(key, _)| key.strip_prefix(stem) == Some(suffix));
    found.map(|(_, value)| value)
}

/// Reads a label as a positive integer, written in digits alone.
fn positive_integer(text: &str) -> Option<i64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number > 0)
}
