//! The devices that there are: slices, pools that are complete, and what each node has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::dra::{DeviceTaint, ResourceSlice};

use super::card::{DeviceCard, Drivers};
use super::model::{Attributes, Model};
use crate::texts::TextPool;

/// One device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    name: Box<str>,
    model: Arc<Model>,
    own: Attributes,
    /// Whether a taint keeps new pods away from it.
    kept_away: bool,
}

/// What a slice says.
#[derive(Debug, PartialEq, Eq)]
struct Slice {
    pool: PoolName,
    generation: i64,
    /// How many slices of its generation the pool has when all are there.
    of: i64,
    /// The node that has its devices; none where several reach them.
    node: Option<Arc<str>>,
    devices: Box<[Device]>,
}

/// A pool's driver and name.
type PoolName = (Arc<str>, Arc<str>);

/// What a change of a slice changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SliceChange {
    /// The nodes that have other devices than before.
    pub nodes: BTreeSet<Arc<str>>,
    /// Whether there are models that were not there before, or are no longer.
    pub models: bool,
}

/// The slices, by what they belong to.
#[derive(Debug, Default)]
pub struct Inventory {
    slices: HashMap<Box<str>, (Slice, u64)>,
    /// The names of each pool's slices.
    pools: HashMap<PoolName, BTreeSet<Box<str>>>,
    /// The pools that have devices of each node.
    of_node: HashMap<Arc<str>, BTreeSet<PoolName>>,
    /// How many devices in slices there are of each model, be their pool complete or not.
    models: BTreeMap<Arc<Model>, usize>,
    /// Drivers whose devices are cards because the configuration says so.
    drivers: Drivers,
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
        for device in &spec.devices {
            let (model, own) = Model::of(&spec.driver, &self.drivers, device, texts);
            devices.push(Device {
                name: device.name.clone(),
                model: self.model(model, &mut change),
                own,
                kept_away: device.taints.iter().any(DeviceTaint::keeps_away),
            });
        }
        let new = Slice {
            pool: (texts.get(&spec.driver), texts.get(&spec.pool.name)),
            generation: spec.pool.generation,
            of: spec.pool.resource_slice_count,
            node: (!spec.node_name.is_empty()).then(|| texts.get(&spec.node_name)),
            devices: devices.into(),
        };
        if let Some((known, seen)) = self.slices.get_mut(name)
            && *known == new
        {
            *seen = epoch;
            return SliceChange::default();
        }
        for device in &new.devices {
            *self.models.entry(Arc::clone(&device.model)).or_default() += 1;
        }
        // Counted in before what it said is counted out: so models that stay are the same.
        let gone = self.take(name);
        change.nodes.extend(gone.nodes);
        change.models |= gone.models;
        self.pools.entry(new.pool.clone()).or_default().insert(name.into());
        if let Some(node) = &new.node {
            self.of_node
                .entry(Arc::clone(node))
                .or_default()
                .insert(new.pool.clone());
        }
        change.nodes.extend(self.nodes_of(&new.pool));
        change.nodes.extend(new.node.clone());
        self.slices.insert(name.into(), (new, epoch));
        self.version += 1;
        change
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
            let Some((mut slice, seen)) = self.slices.remove(&name) else {
                continue;
            };
            let mut is_other = false;
            for device in &mut slice.devices {
                if let Some(model) = device.model.with_drivers(&self.drivers, &device.own) {
                    let model = self.model(model, &mut change);
                    *self.models.entry(Arc::clone(&model)).or_default() += 1;
                    let before = std::mem::replace(&mut device.model, model);
                    self.count_out(&before, &mut change);
                    is_other = true;
                }
            }
            if is_other {
                change.nodes.extend(slice.node.clone());
            }
            self.slices.insert(name, (slice, seen));
        }
        self.version += 1;
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
        let missing = self.slices.iter().filter(|(_, (_, seen))| *seen < epoch);
        missing.map(|(name, _)| name.clone()).collect()
    }

    fn model(&mut self, model: Model, change: &mut SliceChange) -> Arc<Model> {
        if let Some((known, _)) = self.models.get_key_value(&model) {
            return Arc::clone(known);
        }
        change.models = true;
        let model = Arc::new(model);
        self.models.insert(Arc::clone(&model), 0);
        model
    }

    fn take(&mut self, name: &str) -> SliceChange {
        let mut change = SliceChange::default();
        let Some((slice, _)) = self.slices.remove(name) else {
            return change;
        };
        change.nodes.extend(self.nodes_of(&slice.pool));
        change.nodes.extend(slice.node.clone());
        if let Some(slices) = self.pools.get_mut(&slice.pool) {
            slices.remove(name);
            if slices.is_empty() {
                self.pools.remove(&slice.pool);
            }
        }
        if let Some(node) = &slice.node {
            let slices = self.pools.get(&slice.pool).into_iter().flatten();
            let still = slices
                .filter_map(|slice| self.slices.get(slice))
                .any(|(slice, _)| slice.node.as_ref() == Some(node));
            if !still && let Some(pools) = self.of_node.get_mut(node) {
                pools.remove(&slice.pool);
                if pools.is_empty() {
                    self.of_node.remove(node);
                }
            }
        }
        for device in &slice.devices {
            self.count_out(&device.model, &mut change);
        }
        change
    }

    /// There is one device less of a model.
    fn count_out(&mut self, model: &Arc<Model>, change: &mut SliceChange) {
        if let Some(count) = self.models.get_mut(model) {
            *count -= 1;
            if *count == 0 {
                self.models.remove(model);
                change.models = true;
            }
        }
    }

    fn nodes_of(&self, pool: &PoolName) -> BTreeSet<Arc<str>> {
        self.slices_of(pool).filter_map(|slice| slice.node.clone()).collect()
    }

    fn slices_of(&self, pool: &PoolName) -> impl Iterator<Item = &Slice> {
        let names = self.pools.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name)).map(|(slice, _)| slice)
    }

    /// The slices of a pool's highest generation, where all of them are there; none of an incomplete pool count.
    fn complete(&self, pool: &PoolName) -> impl Iterator<Item = &Slice> {
        let newest = self.slices_of(pool).map(|slice| slice.generation).max();
        let of_newest = move |slice: &&Slice| Some(slice.generation) == newest;
        let found = self.slices_of(pool).filter(of_newest).count();
        let wanted = self.slices_of(pool).find(of_newest).map(|slice| slice.of);
        let is_complete = wanted.is_some_and(|wanted| i64::try_from(found).is_ok_and(|found| found >= wanted));
        self.slices_of(pool).filter(of_newest).filter(move |_| is_complete)
    }

    /// The cards that a node has by devices, and how many of each; those that are kept from new pods are none.
    pub fn cards_of(&self, node: &str) -> BTreeMap<DeviceCard, i64> {
        let pools = self.of_node.get(node).into_iter().flatten();
        let slices = pools.flat_map(|pool| self.complete(pool));
        let slices = slices.filter(|slice| slice.node.as_deref() == Some(node));
        let mut cards = BTreeMap::new();
        for device in slices
            .flat_map(|slice| &slice.devices)
            .filter(|device| !device.kept_away)
        {
            if let Some(card) = &device.model.card {
                *cards.entry(card.clone()).or_default() += 1;
            }
        }
        cards
    }

    /// All models of which there are devices.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.keys()
    }

    /// What the devices of a model have of their own.
    pub fn own_of<'i>(&'i self, model: &'i Arc<Model>) -> impl Iterator<Item = &'i Attributes> {
        let devices = self.slices.values().flat_map(|(slice, _)| &slice.devices);
        devices
            .filter(move |device| Arc::ptr_eq(&device.model, model))
            .map(|device| &device.own)
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
