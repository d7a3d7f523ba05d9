//! The devices of the cluster: what slices publish, which pools are complete, and which devices each node has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::dra::{Capacity, DeviceTaint, DeviceTaintRule, ResourceSlice, TaintSelector};
use crds::quantity::parse_milli;

use super::Cards;
use super::card::Drivers;
use super::model::{Attribute, Attributes, Model};
use super::taint_rules::TaintRules;
use crate::texts::TextPool;

/// An amount of a counter: the counter's set, the counter's name, and the amount.
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
    /// Taints that keep new pods away from the device, whether the driver published them or a rule added them.
    pub taints: Box<[DeviceTaint]>,
    /// The taints that are published with the device.
    published: Box<[DeviceTaint]>,
    /// What the device takes from counters.
    pub takes: Box<[Counted]>,
    /// Whether the device can be allocated to several claims at once.
    pub is_shared: bool,
    /// The node that has the device; none where several nodes reach it. Devices that several nodes reach count in no number of cards.
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
    /// How many slices of this generation the complete pool has.
    of: i64,
    devices: Box<[Arc<Device>]>,
    /// How much there is of each counter.
    counters: Box<[Counted]>,
}

impl Slice {
    /// Returns the nodes that have the slice's devices.
    fn nodes(&self) -> BTreeSet<Arc<str>> {
        self.devices.iter().filter_map(|device| device.node.clone()).collect()
    }
}

/// A slice, as it was last seen.
#[derive(Debug)]
struct Known {
    slice: Slice,
    /// The list of all slices in which this slice was last seen.
    seen: u64,
    /// The number of the slice's first device; its other devices have the numbers after that.
    first: u64,
}

/// The devices of one model.
#[derive(Debug, Default)]
struct OfModel {
    /// The devices, by number.
    devices: BTreeMap<u64, Arc<Device>>,
    /// How many of them several nodes reach.
    apart: usize,
}

impl OfModel {
    /// Whether any of the devices belongs to one node alone, and whether several nodes reach any of them.
    fn reach(&self) -> (bool, bool) {
        (self.apart < self.devices.len(), self.apart > 0)
    }
}

/// A pool's driver and name.
pub type PoolName = (Arc<str>, Arc<str>);

/// What changed when a slice changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceChange {
    /// The nodes whose devices changed.
    pub nodes: BTreeSet<Arc<str>>,
    /// Models that are new or gone. Also models for which an answer of [`Inventory::reach_of`] changed: whether nodes of their own have
    /// devices of the model, or whether several nodes reach any of its devices.
    pub models: BTreeSet<Arc<Model>>,
    /// Models of which the number of devices that several nodes reach may have changed.
    pub apart: BTreeSet<Arc<Model>>,
    /// Cards whose number on some node changed the list of shapes: a node has a number of the card, beside its other cards, that no node had
    /// before, or that no node has any longer.
    pub numbers: Cards,
    /// The pools whose devices changed.
    pub pools: BTreeSet<PoolName>,
}

/// The slices, by pool, node and model.
#[derive(Debug, Default)]
pub struct Inventory {
    slices: HashMap<Box<str>, Known>,
    /// The names of each pool's slices.
    pools: HashMap<PoolName, BTreeSet<Box<str>>>,
    /// The pools that have devices of each node.
    of_node: HashMap<Arc<str>, BTreeSet<PoolName>>,
    /// The devices of each model, whether their pool is complete or not.
    models: BTreeMap<Arc<Model>, OfModel>,
    /// How many devices have been seen so far.
    devices: u64,
    /// Drivers whose devices are cards because the configuration says so.
    drivers: Drivers,
    /// Taints that rules put on devices.
    rules: TaintRules,
    /// The models of each card, by the card's name.
    of_card: HashMap<Box<str>, BTreeSet<Arc<Model>>>,
    /// Rises with every change of devices.
    version: u64,
}

impl Inventory {
    /// Takes in what a slice says. Changes nothing where the slice says the same as before.
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
        // The new devices are counted in before the old ones are counted out, so that models that stay keep their identity.
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

    /// Returns the drivers whose devices are cards because the configuration says so.
    pub fn drivers(&self) -> &Drivers {
        &self.drivers
    }

    /// Sets the drivers whose devices are cards because the configuration says so.
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

    /// Takes in what a `DeviceTaintRule` says. Changes nothing where the rule says the same as before.
    pub fn apply_taint_rule(&mut self, rule: DeviceTaintRule, epoch: u64) -> SliceChange {
        let selectors = self.rules.apply(rule, epoch);
        self.taint_again(&selectors)
    }

    /// Forgets a `DeviceTaintRule`.
    pub fn remove_taint_rule(&mut self, name: &str) -> SliceChange {
        let selectors = self.rules.remove(name);
        self.taint_again(selectors.as_slice())
    }

    /// Returns the names of taint rules that were not seen in this list of all rules.
    pub fn taint_rules_missing_in(&self, epoch: u64) -> Vec<Box<str>> {
        self.rules.missing_in(epoch)
    }

    /// Computes the taints again of the devices that any of these selectors select.
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

    /// Returns the names of slices that were not seen in this list of all slices.
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

    /// Counts in one more device of a model.
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

    /// Counts out one device of a model.
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

    /// Returns the nodes that have devices of a pool.
    pub fn nodes_of(&self, pool: &PoolName) -> BTreeSet<Arc<str>> {
        self.slices_of(pool).flat_map(Slice::nodes).collect()
    }

    fn slices_of<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Slice> + use<'i> {
        let names = self.pools.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name)).map(|known| &known.slice)
    }

    /// Returns the slices of a pool's highest generation if all of them are there, and no more. An incomplete pool yields none, as for the
    /// scheduler.
    fn complete<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Slice> + use<'i> {
        let newest = self.slices_of(pool).map(|slice| slice.generation).max();
        let of_newest = move |slice: &&Slice| Some(slice.generation) == newest;
        let found = self.slices_of(pool).filter(of_newest).count();
        let wanted = self.slices_of(pool).find(of_newest).map(|slice| slice.of);
        let is_complete = wanted.is_some_and(|wanted| i64::try_from(found).is_ok_and(|found| found == wanted));
        self.slices_of(pool).filter(of_newest).filter(move |_| is_complete)
    }

    /// Returns the devices that a node has, each with its pool. Incomplete pools contribute none.
    pub fn on_node<'i>(&'i self, node: &'i str) -> impl Iterator<Item = (&'i PoolName, &'i Arc<Device>)> {
        let pools = self.of_node.get(node).into_iter().flatten();
        let slices = pools.flat_map(|pool| self.complete(pool).map(move |slice| (pool, slice)));
        let devices = slices.flat_map(|(pool, slice)| slice.devices.iter().map(move |device| (pool, device)));
        devices.filter(move |(_, device)| device.node.as_deref() == Some(node))
    }

    /// Returns all devices of a pool, if it is complete.
    pub fn of_pool<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Arc<Device>> {
        self.complete(pool).flat_map(|slice| &slice.devices)
    }

    /// Returns how much a pool has of each counter, by the counter's set and name.
    pub fn counters_of<'i>(&'i self, pool: &PoolName) -> impl Iterator<Item = &'i Counted> {
        self.complete(pool).flat_map(|slice| &slice.counters)
    }

    /// Returns all models of which there are devices.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.keys()
    }

    /// Returns the models that are the card of this name.
    pub fn models_of(&self, card: &str) -> impl Iterator<Item = &Arc<Model>> {
        self.of_card.get(card).into_iter().flatten()
    }

    /// Returns the attributes that the devices of a model have of their own.
    pub fn own_of(&self, model: &Arc<Model>) -> impl Iterator<Item = &Attributes> {
        let of_model = self.models.get(model).into_iter();
        of_model.flat_map(|of_model| of_model.devices.values().map(|device| &device.own))
    }

    /// Whether any device of a model belongs to one node alone, and whether several nodes reach any.
    pub fn reach_of(&self, model: &Arc<Model>) -> (bool, bool) {
        self.models.get(model).map(OfModel::reach).unwrap_or_default()
    }

    /// Returns how many devices of this card several nodes reach.
    pub fn apart_of(&self, card: &str) -> usize {
        let models = self.models_of(card).filter_map(|model| self.models.get(model));
        models.map(|of_model| of_model.apart).sum()
    }

    /// Returns the cards of which several nodes reach some device.
    pub fn cards_apart(&self) -> impl Iterator<Item = &str> {
        let cards = self.of_card.keys().map(|card| &**card);
        cards.filter(|card| self.apart_of(card) > 0)
    }

    /// Returns the node that has a device.
    pub fn node_of(&self, driver: &str, pool: &str, device: &str) -> Option<Arc<str>> {
        let pool = (Arc::<str>::from(driver), Arc::<str>::from(pool));
        let mut devices = self.slices_of(&pool).flat_map(|slice| &slice.devices);
        devices.find(|known| *known.name == *device)?.node.clone()
    }

    /// Returns the model of one device.
    pub fn device(&self, driver: &str, pool: &str, device: &str) -> Option<&Arc<Model>> {
        let pool = (Arc::<str>::from(driver), Arc::<str>::from(pool));
        let mut devices = self.slices_of(&pool).flat_map(|slice| &slice.devices);
        devices.find(|known| *known.name == *device).map(|device| &device.model)
    }

    /// Returns the nodes that have devices.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.of_node.keys()
    }

    /// Returns a number that rises with every change of devices.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// Returns the amounts of the counters of a set, in thousandths. An amount that can't be read becomes `unreadable`.
fn amounts_of(set: &str, counters: &BTreeMap<Box<str>, Capacity>, unreadable: i64) -> impl Iterator<Item = Counted> {
    counters.iter().map(move |(name, amount)| {
        let amount = parse_milli(&amount.value).unwrap_or(unreadable);
        (set.into(), name.clone(), amount)
    })
}
