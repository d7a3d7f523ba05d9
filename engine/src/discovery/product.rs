//! Product labels: which resource counts the whole cards of each label, and which cards the label names.

use std::collections::BTreeMap;

use crds::card_type::CardKind;
use crds::keys::{MGPU_CORE, NVIDIA_GPU, NVIDIA_MIG_PREFIX, NVIDIA_MPS};
use crds::lean::TextMap;
use crds::mgpu::CARD_CORE;

use super::allocatable::{Allocatable, is_share};
use super::{COUNT, Card, Discovery, MEMORY, PRODUCT, Problem, REPLICAS, counts, label_of, mgpu, positive_integer};

/// Resources that share their prefix with cards and are no cards: network interfaces that are passed through to pods. They are never taken
/// for cards, but still make a guess by prefix ambiguous.
const NOT_CARDS: [&str; 1] = ["nvidia.com/hostdev"];

/// The last part of the resource names by which device plugins of most vendors count whole cards.
const CARD_RESOURCE_TYPE: &str = "gpu";

/// A label that matches `^((.+?)/(\w+))\.product$`.
#[derive(Debug)]
pub(super) struct Product<'a> {
    /// The whole label key, such as `nvidia.com/gpu.product`.
    label: &'a str,
    /// The first group, such as `nvidia.com/gpu`.
    stem: &'a str,
    /// The second group and the slash, such as `nvidia.com/`.
    prefix: &'a str,
    /// The label's value.
    name: &'a str,
}

/// Returns the product labels, ordered by key.
pub(super) fn find<S: AsRef<str>>(labels: &TextMap<S>) -> Vec<Product<'_>> {
    let products = labels.iter().filter_map(|(key, value)| Product::parse(key, value));
    let mut products: Vec<_> = products.collect();
    products.sort_by_key(|product| product.label);
    products
}

/// How the resource of a product label was found, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The resource is named exactly `<prefix>/<type>`.
    Exact,
    /// The resource's name starts with `<prefix>/<type>`.
    Stem,
    /// The resource's name starts with `<prefix>/`.
    Prefix,
}

/// What counts the whole cards of a product label.
#[derive(Debug)]
pub(super) enum Whole<'a> {
    Absent,
    /// This resource counts them, and the node allocates none of it.
    Zero(&'a str),
    /// This resource counts them, and the node allocates this amount.
    Counted(Step, &'a str, i64),
    /// Any of these resources could count them.
    Ambiguous(Vec<&'a str>),
    /// The resource (first) could count them, but it counts the cards of another label (second).
    Taken(&'a str, &'a str),
}

/// Returns what counts the whole cards of every product label. A resource counts for one label only: the label that it matches closest, and
/// of equally close ones the first by key.
pub(super) fn whole_cards<'a>(products: &[Product<'a>], allocatable: &Allocatable<'a>) -> Vec<Whole<'a>> {
    let mut wholes: Vec<_> = products.iter().map(|product| product.whole(allocatable)).collect();
    if wholes.len() < 2 {
        return wholes;
    }
    let mut owners: BTreeMap<&str, (Step, &str)> = BTreeMap::new();
    for (product, whole) in products.iter().zip(&wholes) {
        if let Whole::Counted(step, resource, _) = whole {
            let claim = (*step, product.label);
            let owner = owners.entry(resource).or_insert(claim);
            *owner = claim.min(*owner);
        }
    }
    for (product, whole) in products.iter().zip(&mut wholes) {
        if let Whole::Counted(_, resource, _) = *whole
            && let Some((_, owner)) = owners.get(resource)
            && *owner != product.label
        {
            *whole = Whole::Taken(resource, owner);
        }
    }
    wholes
}

/// Returns the product label that `resource` lacks, if the resource counts cards and no label names them. Such resources are an NVIDIA share
/// or slice, a resource called `gpu`, and a resource that other labels describe.
pub(super) fn missing_label<S: AsRef<str>>(
    resource: &str,
    labels: &TextMap<S>,
    products: &[Product<'_>],
) -> Option<String> {
    if is_share(resource) {
        let is_named = products.iter().any(|product| product.stem == NVIDIA_GPU);
        return (!is_named).then(|| format!("{NVIDIA_GPU}{PRODUCT}"));
    }
    let is_named = products.iter().any(|product| resource.starts_with(product.prefix));
    let describes = |key: &str| key.strip_prefix(resource).is_some_and(|rest| rest.starts_with('.'));
    let (prefix, kind) = resource.rsplit_once('/')?;
    let is_card = kind == CARD_RESOURCE_TYPE || labels.iter().any(|(key, _)| describes(key));
    // The label's type is one word: `ascend` for the resource `ascend-910`.
    let word = kind.split(|c| !is_word(c)).next().filter(|word| !word.is_empty())?;
    (is_card && !is_named).then(|| format!("{prefix}/{word}{PRODUCT}"))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Whole<'a> {
    /// Returns which of these resources, found at this step, counts whole cards.
    fn among(step: Step, resources: &[(&'a str, i64)]) -> Self {
        let is_card = |resource: &str| !NOT_CARDS.contains(&resource);
        let mut positive = resources.iter().filter(|(_, amount)| *amount > 0);
        match (positive.next(), positive.next()) {
            (None, _) => {
                let mut zeros = resources.iter().map(|(name, _)| *name).filter(|name| is_card(name));
                zeros.next().map_or(Self::Absent, Self::Zero)
            }
            (Some((name, amount)), None) if is_card(name) => Self::Counted(step, name, *amount),
            (Some(_), None) => Self::Absent,
            (Some(first), Some(second)) => {
                let several = [first, second].into_iter().chain(positive);
                Self::Ambiguous(several.map(|(name, _)| *name).collect())
            }
        }
    }
}

impl<'a> Product<'a> {
    fn parse(label: &'a str, name: &'a str) -> Option<Self> {
        let stem = label.strip_suffix(PRODUCT)?;
        let slash = stem.rfind('/').filter(|slash| *slash > 0)?;
        let kind = &stem[slash + 1..];
        (!kind.is_empty() && kind.chars().all(is_word)).then_some(Self {
            label,
            stem,
            prefix: &stem[..=slash],
            name,
        })
    }

    fn whole(&self, allocatable: &Allocatable<'a>) -> Whole<'a> {
        // The search ends at the first step that finds a resource, even if the node allocates none of it: a node without healthy cards must
        // not offer its network interfaces instead.
        if let Some(exact) = allocatable.get(self.stem) {
            return Whole::among(Step::Exact, &[exact]);
        }
        match allocatable.starting_with(self.stem).as_slice() {
            [] => Whole::among(Step::Prefix, &allocatable.starting_with(self.prefix)),
            by_stem => Whole::among(Step::Stem, by_stem),
        }
    }

    /// Adds the label's cards, and the problems with them, to `found`.
    pub(super) fn discover<S: AsRef<str>>(
        &self,
        labels: &TextMap<S>,
        allocatable: &Allocatable<'a>,
        whole: &Whole<'a>,
        found: &mut Discovery,
    ) {
        // MPS and MIG belong to the label `nvidia.com/gpu.product` (docs/rules.md, **Card discovery**).
        let shares: Vec<_> = if self.stem == NVIDIA_GPU {
            allocatable.shares().collect()
        } else {
            Vec::new()
        };
        let needs_no_whole_card = !shares.is_empty() || mgpu::is_shared(labels);
        found.problems.extend(self.problem_of(whole, needs_no_whole_card));
        if !self.has_required_labels(labels, found) {
            return;
        }
        if let Whole::Counted(step, resource, count) = *whole {
            let published = found.cards.len();
            self.publish(
                self.name.to_owned(),
                CardKind::Whole,
                (resource, count),
                &[PRODUCT],
                labels,
                found,
            );
            if let Some(card) = found.cards.get_mut(published) {
                card.is_guess = matches!(step, Step::Prefix);
            }
            found
                .problems
                .extend(counts::of_whole_cards(self.stem, (resource, count), &shares, labels));
        }
        if self.stem == NVIDIA_GPU
            && mgpu::is_shared(labels)
            && let Some((resource, core)) = allocatable.get(MGPU_CORE)
            && let whole = mgpu::whole_cards(core) * CARD_CORE
            && whole > 0
        {
            let name = format!("{}/mgpu", self.name);
            self.publish(name, CardKind::Mgpu, (resource, whole), &[PRODUCT], labels, found);
        }
        for share in shares {
            if share.0 == NVIDIA_MPS {
                if let Some(name) = self.mps_name(labels, found) {
                    self.publish(name, CardKind::Mps, share, &[PRODUCT, MEMORY, REPLICAS], labels, found);
                    found.problems.extend(counts::of_shares(self.stem, share, labels));
                }
            } else if let Some(profile) = share.0.strip_prefix(NVIDIA_MIG_PREFIX) {
                let name = format!("{}/mig-{profile}-mixed", self.name);
                self.publish(name, CardKind::Mig, share, &[PRODUCT], labels, found);
                found.problems.extend(counts::of_slices(share, labels));
            }
        }
    }

    /// Returns why a label has no whole cards. Returns none where the label has some, or where it needs none because shares or mGPU stand in
    /// for them.
    fn problem_of(&self, whole: &Whole<'_>, needs_no_whole_card: bool) -> Option<Problem> {
        let (label, product) = (self.label.to_owned(), self.name.to_owned());
        match whole {
            Whole::Counted(..) => None,
            Whole::Absent | Whole::Zero(_) if needs_no_whole_card => None,
            Whole::Absent => Some(Problem::MissingResource {
                label,
                product,
                resource: self.stem.to_owned(),
            }),
            Whole::Zero(resource) => Some(Problem::NoneAllocatable {
                label,
                product,
                resource: (*resource).to_owned(),
            }),
            Whole::Ambiguous(resources) => Some(Problem::AmbiguousResource {
                label,
                product,
                resources: resources.join(", "),
            }),
            Whole::Taken(resource, owner) => Some(Problem::ResourceTaken {
                label,
                product,
                resource: (*resource).to_owned(),
                owner: (*owner).to_owned(),
            }),
        }
    }

    /// Whether product, count and memory labels are there. A missing one is reported as a problem.
    fn has_required_labels<S: AsRef<str>>(&self, labels: &TextMap<S>, found: &mut Discovery) -> bool {
        let required = [COUNT, MEMORY].into_iter();
        let missing = required.filter(|suffix| label_of(labels, self.stem, suffix).is_none());
        let missing: Vec<_> = missing.map(|suffix| format!("{}{suffix}", self.stem)).collect();
        let is_complete = missing.is_empty() && !self.name.is_empty();
        if self.name.is_empty() {
            found.problems.push(Problem::EmptyProduct {
                label: self.label.to_owned(),
            });
        }
        found
            .problems
            .extend(missing.into_iter().map(|missing| Problem::MissingLabel {
                label: self.label.to_owned(),
                product: self.name.to_owned(),
                missing,
            }));
        is_complete
    }

    /// Returns `<product>/mps-<memory>g*1/<replicas>`. A label that is missing or wrong is reported as a problem.
    fn mps_name<S: AsRef<str>>(&self, labels: &TextMap<S>, found: &mut Discovery) -> Option<String> {
        let mut read = |suffix: &str| {
            let text = label_of(labels, self.stem, suffix);
            let number = text.and_then(positive_integer);
            let key = || format!("{}{suffix}", self.stem);
            match (text, number) {
                (_, Some(_)) => {}
                (Some(value), None) => found.problems.push(Problem::InvalidLabel {
                    label: key(),
                    value: value.to_owned(),
                    resource: NVIDIA_MPS.to_owned(),
                }),
                (None, None) => found.problems.push(Problem::MissingLabel {
                    label: self.label.to_owned(),
                    product: self.name.to_owned(),
                    missing: key(),
                }),
            }
            number
        };
        // Both labels are read before either is given up, so that one look at the inventory shows everything that has to be fixed.
        let (memory, replicas) = (read(MEMORY), read(REPLICAS));
        Some(format!(
            "{}/mps-{}g*1/{}",
            self.name,
            round_to_gigabytes(memory?),
            replicas?
        ))
    }

    /// Publishes one card, unless the node already yields a card of that name.
    fn publish<S: AsRef<str>>(
        &self,
        name: String,
        kind: CardKind,
        (resource, count): (&str, i64),
        naming: &[&str],
        labels: &TextMap<S>,
        found: &mut Discovery,
    ) {
        if let Some(known) = found.cards.iter().find(|card| card.name == name) {
            found.problems.push(Problem::RepeatedCard {
                label: self.label.to_owned(),
                card: name,
                resource: resource.to_owned(),
                published: known.resource.clone(),
            });
            return;
        }
        let naming = naming.iter().filter_map(|suffix| {
            let value = label_of(labels, self.stem, suffix)?.to_owned();
            Some((format!("{}{suffix}", self.stem), value))
        });
        found.cards.push(Card {
            name,
            resource: resource.to_owned(),
            kind,
            count,
            is_guess: false,
            labels: naming.collect(),
        });
    }
}

/// Converts MB to GB, rounded to nearest (docs/rules.md, **Card discovery**).
fn round_to_gigabytes(megabytes: i64) -> i64 {
    megabytes / 1024 + i64::from(megabytes % 1024 >= 512)
}
