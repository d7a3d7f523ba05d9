//! The devices that there are: slices, pools that are complete, and what each node has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::dra::{Capacity, DeviceTaint, DeviceTaintRule, ResourceSlice, TaintSelector};
use crds::quantity::parse_milli;

use super::Cards;
use super::card::Drivers;
use super::model::{Attribute, Attributes, Model};
use super::taint_rules::TaintRules;
use crate::texts::TextPool;

/// So much of a counter: its set, its name, and how much.
pub type Counted = (Box<str>, Box<str>, i64);

/// One device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name in its pool.
    pub name: Box<str>,
    /// What it has in common with others.
    pub model: Arc<Model>,
    /// What it has of its own.
    pub own: Attributes,
    /// Taints that keep new pods away from it, be they published with it or put on it by rules.
    pub taints: Box<[DeviceTaint]>,
    /// Those that are published with it.
    published: Box<[DeviceTaint]>,
    /// What it takes of counters.
    pub takes: Box<[Counted]>,
    /// Whether it is allocated to several claims at once.
    pub is_shared: bool,
    /// The node that has it; none where several nodes reach it: those are in no number of cards.
    node: Option<Arc<str>>,
}

impl Device {
    /// An attribute, by its name with the domain.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.model.attributes.get(name).or_else(|| self.own.get(name))
    }
}

/// What a slice says.
#[derive(Debug, PartialEq, Eq)]
struct Slice {
    pool: PoolName,
    generation: i64,
    /// How many slices of its generation the pool has when all are there.
    of: i64,
    devices: Box<[Arc<Device>]>,
    /// How much there is of each counter.
    counters: Box<[Counted]>,
}

impl Slice {
    /// The nodes that have its devices.
    fn nodes(&self) -> BTreeSet<Arc<str>> {
        self.devices.iter().filter_map(|device| device.node.clone()).collect()
    }
}

/// A slice, as it was seen last.
#[derive(Debug)]
struct Known {
    slice: Slice,
    /// The list of all slices in which it was seen last.
    seen: u64,
    /// The number of its first device; the others follow.
    first: u64,
}

/// The devices of one model.
#[derive(Debug, Default)]
struct OfModel {
    /// By number.
    devices: BTreeMap<u64, Arc<Device>>,
    /// How many of them several nodes reach.
    apart: usize,
}

impl OfModel {
    /// Whether any of them is one node's alone, and whether several nodes reach any.
    fn reach(&self) -> (bool, bool) {
        (self.apart < self.devices.len(), self.apart > 0)
    }
}

/// A pool's driver and name.
pub type PoolName = (Arc<str>, Arc<str>);

/// What a change of a slice changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceChange {
    /// The nodes that have other devices than before.
    pub nodes: BTreeSet<Arc<str>>,
    /// Models that were not there before, or are no longer; or of which nodes of their own have devices, or several nodes reach any, as it
    /// was not before.
    pub models: BTreeSet<Arc<Model>>,
    /// Models of which several nodes may reach another number of devices than before.
    pub apart: BTreeSet<Arc<Model>>,
    /// Cards of which a node has a number, beside its others, that no node had before, or that no node has any longer.
    pub numbers: Cards,
    /// The pools that have other devices than before.
    pub pools: BTreeSet<PoolName>,
}

/// The slices, by what they belong to.
#[derive(Debug, Default)]
pub struct Inventory {
    slices: HashMap<Box<str>, Known>,
    /// The names of each pool's slices.
    pools: HashMap<PoolName, BTreeSet<Box<str>>>,
    /// The pools that have devices of each node.
    of_node: HashMap<Arc<str>, BTreeSet<PoolName>>,
    /// The devices of each model, be their pool complete or not.
    models: BTreeMap<Arc<Model>, OfModel>,
    /// How many devices have been seen.
    devices: u64,
    /// Drivers whose devices are cards because the configuration says so.
    drivers: Drivers,
    /// Taints that are put on devices by rules.
    rules: TaintRules,
    /// Those of each card, by the card's name.
    of_card: HashMap<Box<str>, BTreeSet<Arc<Model>>>,
    /// Rises with every change of devices.
    version: u64,
}

impl Inventory {
    /// Takes what a slice says; nothing where it says what it said before.
    pub fn apply(&mut self, slice: &ResourceSlice, epoch: u64, texts: &mut TextPool) -> SliceChange {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let spec = &slice.spec;
        let mut change = SliceChange::default();
        let mut devices = Vec::with_capacity(spec.devices.len());
        let rules = self.rules.of_pool(&spec.driver, &spec.pool.name);
        for device in &spec.devices {
            let (model, own) = Model::of(&spec.driver, &self.drivers, device, texts);
            let node = if spec.per_device_node_selection {
                &device.node_name
            } else {
                &spec.node_name
            };
            let taints = device.taints.iter().filter(|taint| taint.keeps_away());
            let published: Box<[_]> = taints.cloned().collect();
            let sets = device.consumes_counters.iter();
            let takes = sets.flat_map(|set| amounts_of(&set.counter_set, &set.counters, i64::MAX));
            devices.push(Arc::new(Device {
                name: device.name.clone(),
                model: self.model(model, &mut change),
                own,
                taints: rules.beside(&published, &device.name),
                published,
                takes: takes.collect(),
                is_shared: device.allow_multiple_allocations,
                node: (!node.is_empty()).then(|| texts.get(node)),
            }));
        }
        let sets = spec.shared_counters.iter();
        let new = Slice {
            pool: (texts.get(&spec.driver), texts.get(&spec.pool.name)),
            generation: spec.pool.generation,
            of: spec.pool.resource_slice_count,
            devices: devices.into(),
            counters: sets.flat_map(|set| amounts_of(&set.name, &set.counters, 0)).collect(),
        };
        if let Some(known) = self.slices.get_mut(name)
            && known.slice == new
        {
            known.seen = epoch;
            return SliceChange::default();
        }
        let first = self.devices;
        for device in &new.devices {
            self.count_in(self.devices, device, &mut change);
            self.devices += 1;
        }
        // Counted in before what it said is counted out: so models that stay are the same.
        let gone = self.take(name);
        change.nodes.extend(gone.nodes);
        change.models.extend(gone.models);
        change.apart.extend(gone.apart);
        change.pools.extend(gone.pools);
        change.pools.insert(new.pool.clone());
        self.pools.entry(new.pool.clone()).or_default().insert(name.into());
        for node in new.nodes() {
            self.of_node.entry(node).or_default().insert(new.pool.clone());
        }
        change.nodes.extend(self.nodes_of(&new.pool));
        change.nodes.extend(new.nodes());
        let known = Known {
            slice: new,
            seen: epoch,
            first,
        };
        self.slices.insert(name.into(), known);
        self.version += 1;
        change
    }

    /// Drivers whose devices are cards because the configuration says so.
    pub fn drivers(&self) -> &Drivers {
        &self.drivers
    }

    /// The devices of other drivers than before are cards.
    pub fn set_drivers(&mut self, drivers: Drivers) -> SliceChange {
        let mut change = SliceChange::default();
        if drivers == self.drivers {
            return change;
        }
        self.drivers = drivers;
        let names: Vec<_> = self.slices.keys().cloned().collect();
        for name in names {
            let Some(mut known) = self.slices.remove(&name) else {
                continue;
            };
            let mut is_other = false;
            for (device, number) in known.slice.devices.iter_mut().zip(known.first..) {
                if let Some(model) = device.model.with_drivers(&self.drivers, &device.own) {
                    let model = self.model(model, &mut change);
                    let before = Arc::clone(device);
                    Arc::make_mut(device).model = model;
                    self.count_in(number, device, &mut change);
                    self.count_out(number, &before.model, &mut change);
                    is_other = true;
                }
            }
            if is_other {
                change.nodes.extend(known.slice.nodes());
                change.pools.insert(known.slice.pool.clone());
            }
            self.slices.insert(name, known);
        }
        self.version += 1;
        change
    }

    /// Takes what a rule says that taints devices; nothing where it says what it said before.
    pub fn apply_taint_rule(&mut self, rule: DeviceTaintRule, epoch: u64) -> SliceChange {
        let selectors = self.rules.apply(rule, epoch);
        self.taint_again(&selectors)
    }

    /// Forgets such a rule.
    pub fn remove_taint_rule(&mut self, name: &str) -> SliceChange {
        let selectors = self.rules.remove(name);
        self.taint_again(selectors.as_slice())
    }

    /// The names of such rules that were not seen in this list of all of them.
    pub fn taint_rules_missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        self.rules.missing_in(epoch)
    }

    /// Other taints than before may be on the devices that any of these select.
    fn taint_again(&mut self, selectors: &[TaintSelector]) -> SliceChange {
        let mut change = SliceChange::default();
        let is_selected =
            |(driver, pool): &PoolName| selectors.iter().any(|selector| selector.selects_of(driver, pool));
        let pools = self.pools.iter().filter(|(pool, _)| is_selected(pool));
        for name in pools.flat_map(|(_, slices)| slices) {
            let Some(Known { slice, first, .. }) = self.slices.get_mut(name) else {
                continue;
            };
            let (driver, pool) = &slice.pool;
            let rules = self.rules.of_pool(driver, pool);
            for (device, number) in slice.devices.iter_mut().zip(*first..) {
                let taints = rules.beside(&device.published, &device.name);
                if taints == device.taints {
                    continue;
                }
                Arc::make_mut(device).taints = taints;
                if let Some(of_model) = self.models.get_mut(&device.model) {
                    of_model.devices.insert(number, Arc::clone(device));
                }
                change.nodes.extend(device.node.clone());
                change.pools.insert(slice.pool.clone());
            }
        }
        self.version += u64::from(change != SliceChange::default());
        change
    }

    /// Forgets a slice.
    pub fn remove(&mut self, name: &str) -> SliceChange {
        let change = self.take(name);
        self.version += 1;
        change
    }

    /// The names of slices that were not seen in this list of all of them.
    pub fn missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        let missing = self.slices.iter().filter(|(_, known)| known.seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    fn model(&mut self, model: Model, change: &mut SliceChange) -> Arc<Model> {
        if let Some((known, _)) = self.models.get_key_value(&model) {
            return Arc::clone(known);
        }
        let model = Arc::new(model);
        if let Some(card) = &model.card {
            let of_card = self.of_card.entry(card.name.as_str().into()).or_default();
            of_card.insert(Arc::clone(&model));
        }
        change.models.insert(Arc::clone(&model));
        self.models.insert(Arc::clone(&model), OfModel::default());
        model
    }

    fn take(&mut self, name: &str) -> SliceChange {
        let mut change = SliceChange::default();
        let Some(Known { slice, first, .. }) = self.slices.remove(name) else {
            return change;
        };
        let nodes = slice.nodes();
        change.pools.insert(slice.pool.clone());
        change.nodes.extend(self.nodes_of(&slice.pool));
        change.nodes.extend(nodes.iter().cloned());
        if let Some(slices) = self.pools.get_mut(&slice.pool) {
            slices.remove(name);
            if slices.is_empty() {
                self.pools.remove(&slice.pool);
            }
        }
        let still = self.nodes_of(&slice.pool);
        for node in nodes.difference(&still) {
            if let Some(pools) = self.of_node.get_mut(node) {
                pools.remove(&slice.pool);
                if pools.is_empty() {
                    self.of_node.remove(node);
                }
            }
        }
        for (device, number) in slice.devices.iter().zip(first..) {
            self.count_out(number, &device.model, &mut change);
        }
        change
    }

    /// There is one device more of a model.
    fn count_in(&mut self, number: u64, device: &Arc<Device>, change: &mut SliceChange) {
        let of_model = self.models.entry(Arc::clone(&device.model)).or_default();
        let before = of_model.reach();
        of_model.devices.insert(number, Arc::clone(device));
        if device.node.is_none() {
            of_model.apart += 1;
            change.apart.insert(Arc::clone(&device.model));
        }
        if of_model.reach() != before {
            change.models.insert(Arc::clone(&device.model));
        }
    }

    /// There is one device less of a model.
    fn count_out(&mut self, number: u64, model: &Arc<Model>, change: &mut SliceChange) {
        let Some(of_model) = self.models.get_mut(model) else {
            return;
        };
        let before = of_model.reach();
        let gone = of_model.devices.remove(&number);
        if gone.is_some_and(|device| device.node.is_none()) {
            of_model.apart -= 1;
            change.apart.insert(Arc::clone(model));
        }
        if of_model.reach() != before {
            change.models.insert(Arc::clone(model));
        }
        if of_model.devices.is_empty() {
            self.models.remove(model);
            self.forget_of_card(model);
        }
    }

    fn forget_of_card(&mut self, model: &Arc<Model>) {
        let Some(card) = &model.card else { return };
        if let Some(models) = self.of_card.get_mut(card.name.as_str()) {
            models.remove(model);
            if models.is_empty() {
                self.of_card.remove(card.name.as_str());
            }
        }
    }

    /// The nodes that have devices of a pool.
    pub fn nodes_of(&self, pool: &PoolName) -> BTreeSet<Arc<str>> {
        self.slices_of(pool).flat_map(Slice::nodes).collect()
    }

    fn slices_of<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Slice> + use<'i> {
        let names = self.pools.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name)).map(|known| &known.slice)
    }

    /// The slices of a pool's highest generation, where all of them are there, and no more: none of another pool count, as for the scheduler.
    fn complete<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Slice> + use<'i> {
        let newest = self.slices_of(pool).map(|slice| slice.generation).max();
        let of_newest = move |slice: &&Slice| Some(slice.generation) == newest;
        let found = self.slices_of(pool).filter(of_newest).count();
        let wanted = self.slices_of(pool).find(of_newest).map(|slice| slice.of);
        let is_complete = wanted.is_some_and(|wanted| i64::try_from(found).is_ok_and(|found| found == wanted));
        self.slices_of(pool).filter(of_newest).filter(move |_| is_complete)
    }

    /// The devices that a node has, each with its pool; of incomplete pools none.
    pub fn on_node<'i>(&'i self, node: &'i str) -> impl Iterator<Item = (&'i PoolName, &'i Arc<Device>)> {
        let pools = self.of_node.get(node).into_iter().flatten();
        let slices = pools.flat_map(|pool| self.complete(pool).map(move |slice| (pool, slice)));
        let devices = slices.flat_map(|(pool, slice)| slice.devices.iter().map(move |device| (pool, device)));
        devices.filter(move |(_, device)| device.node.as_deref() == Some(node))
    }

    /// All devices of a pool, where it is complete.
    pub fn of_pool<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Arc<Device>> {
        self.complete(pool).flat_map(|slice| &slice.devices)
    }

    /// How much there is of each counter of a pool, by its set and name.
    pub fn counters_of<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Counted> {
        self.complete(pool).flat_map(|slice| &slice.counters)
    }

    /// All models of which there are devices.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.keys()
    }

    /// The models that are a card of this name.
    pub fn models_of(&self, card: &str) -> impl Iterator<Item = &Arc<Model>> {
        self.of_card.get(card).into_iter().flatten()
    }

    /// What the devices of a model have of their own.
    pub fn own_of(&self, model: &Arc<Model>) -> impl Iterator<Item = &Attributes> {
        let of_model = self.models.get(model).into_iter();
        of_model.flat_map(|of_model| of_model.devices.values().map(|device| &device.own))
    }

    /// Whether any device of a model is one node's alone, and whether several nodes reach any.
    pub fn reach_of(&self, model: &Arc<Model>) -> (bool, bool) {
        self.models.get(model).map(OfModel::reach).unwrap_or_default()
    }

    /// How many devices that are a card several nodes reach.
    pub fn apart_of(&self, card: &str) -> usize {
        let models = self.models_of(card).filter_map(|model| self.models.get(model));
        models.map(|of_model| of_model.apart).sum()
    }

    /// The cards that are any devices which several nodes reach.
    pub fn cards_apart(&self) -> impl Iterator<Item = &str> {
        let cards = self.of_card.keys().map(|card| &**card);
        cards.filter(|card| self.apart_of(card) > 0)
    }

    /// The node that has a device.
    pub fn node_of(&self, driver: &str, pool: &str, device: &str) -> Option<Arc<str>> {
        let pool = (Arc::<str>::from(driver), Arc::<str>::from(pool));
        let mut devices = self.slices_of(&pool).flat_map(|slice| &slice.devices);
        devices.find(|known| *known.name == *device)?.node.clone()
    }

    /// The model of one device.
    pub fn device(&self, driver: &str, pool: &str, device: &str) -> Option<&Arc<Model>> {
        let pool = (Arc::<str>::from(driver), Arc::<str>::from(pool));
        let mut devices = self.slices_of(&pool).flat_map(|slice| &slice.devices);
        devices.find(|known| *known.name == *device).map(|device| &device.model)
    }

    /// The nodes that have devices.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.of_node.keys()
    }

    /// Rises with every change of devices.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// What is said of counters of a set, in thousandths; what can't be read is so much.
fn amounts_of(set: &str, counters: &BTreeMap<Box<str>, Capacity>, unreadable: i64) -> impl Iterator<Item = Counted> {
    counters.iter().map(move |(name, amount)| {
        let amount = parse_milli(&amount.value).unwrap_or(unreadable);
        (set.into(), name.clone(), amount)
    })
}
