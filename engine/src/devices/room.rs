//! What devices each node has, and which of them are free: kept up to date as slices and claims change.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crds::dra::ResourceClaim;

use super::card::DeviceCard;
use super::inventory::{Device, Inventory, PoolName};
use super::{Cards, ClaimKey};

/// A device of a node.
#[derive(Debug)]
pub struct Lot {
    /// The device.
    pub device: Arc<Device>,
    /// What the device takes from the node's counters, by the counters' numbers; none where a counter is missing, and then no claim gets the
    /// device.
    takes: Option<Vec<(usize, i64)>>,
    /// The claims that the device is allocated to.
    holders: Box<[ClaimKey]>,
}

/// How many devices of one card a node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCount {
    /// How many there are, including devices that are kept from new pods.
    pub there: i64,
    /// How many there are for new pods, allocated or not.
    pub total: i64,
    /// How many are allocated, including devices that are kept from new pods.
    pub allocated: i64,
    /// How many of `total` could be allocated now, each by itself.
    pub free: i64,
    /// How many there are, of those that are `there`, that any number of claims may have at once.
    pub shared: i64,
}

/// The devices of a node.
#[derive(Debug, Default)]
pub struct Room {
    /// The devices, one by one.
    pub lots: Vec<Lot>,
    /// What is left of the counters that the devices share.
    left: Vec<i64>,
}

impl Room {
    fn of(node: &str, inventory: &Inventory, holders: &Holders) -> Self {
        let mut room = Self::default();
        let mut numbers = HashMap::<(&PoolName, &str, &str), usize>::new();
        let mut pools = BTreeSet::new();
        for (pool, device) in inventory.on_node(node) {
            if pools.insert(pool) {
                room.count(pool, inventory, holders, &mut numbers);
            }
            let takes = device.takes.iter();
            let takes = takes.map(|(set, name, amount)| Some((*numbers.get(&(pool, &**set, &**name))?, *amount)));
            room.lots.push(Lot {
                device: Arc::clone(device),
                takes: takes.collect(),
                holders: holders.of(pool, &device.name).into(),
            });
        }
        room
    }

    /// Counts what is left of a pool's counters, on whichever nodes the pool's devices are.
    fn count<'i>(
        &mut self,
        pool: &'i PoolName,
        inventory: &'i Inventory,
        holders: &Holders,
        numbers: &mut HashMap<(&'i PoolName, &'i str, &'i str), usize>,
    ) {
        for (set, name, amount) in inventory.counters_of(pool) {
            numbers.insert((pool, set, name), self.left.len());
            self.left.push(*amount);
        }
        let allocated = inventory
            .of_pool(pool)
            .filter(|device| !holders.of(pool, &device.name).is_empty());
        for (set, name, amount) in allocated.flat_map(|device| &device.takes) {
            if let Some(number) = numbers.get(&(pool, &**set, &**name)) {
                self.left[*number] = self.left[*number].saturating_sub(*amount);
            }
        }
    }

    /// Returns how many of each card the node has.
    pub fn cards(&self) -> BTreeMap<Arc<DeviceCard>, DeviceCount> {
        let mut cards = BTreeMap::<Arc<DeviceCard>, DeviceCount>::new();
        for lot in &self.lots {
            let Some(card) = &lot.device.model.card else { continue };
            let count = cards.entry(card.clone()).or_default();
            count.there += 1;
            count.allocated += i64::from(!lot.holders.is_empty());
            count.shared += i64::from(lot.device.is_shared);
            if lot.device.taints.is_empty() {
                count.total += 1;
                count.free += i64::from(lot.is_free() && self.suffices_for(lot));
            }
        }
        cards
    }

    /// Returns which cards the node has, and how many of each.
    fn shape(&self) -> Shape {
        let cards = self.cards().into_iter();
        cards.map(|(card, count)| (card, count.total, count.there)).collect()
    }

    fn suffices_for(&self, lot: &Lot) -> bool {
        let takes = lot.would_take(|_| false);
        takes.is_some_and(|takes| takes.iter().all(|(counter, amount)| self.left[*counter] >= *amount))
    }

    /// Returns what would be left of counters, and which lots could be allocated, each by itself, if these claims held nothing.
    pub fn without(&self, freed: &HashSet<ClaimKey>) -> (Vec<i64>, Vec<bool>) {
        let mut left = self.left.clone();
        let is_freed = |lot: &Lot| !lot.holders.is_empty() && lot.holders.iter().all(|claim| freed.contains(claim));
        for lot in self.lots.iter().filter(|lot| is_freed(lot)) {
            for (counter, amount) in lot.takes.iter().flatten() {
                left[*counter] = left[*counter].saturating_add(*amount);
            }
        }
        let could_be = |lot: &Lot| {
            let fits = |takes: &[(usize, i64)]| takes.iter().all(|(counter, amount)| left[*counter] >= *amount);
            (lot.is_free() || is_freed(lot)) && lot.would_take(|claim| freed.contains(claim)).is_some_and(fits)
        };
        let could_be = self.lots.iter().map(could_be).collect();
        (left, could_be)
    }

    /// Returns all claims that hold any of the devices.
    pub fn holders(&self) -> impl Iterator<Item = &ClaimKey> {
        self.lots.iter().flat_map(|lot| &lot.holders)
    }
}

impl Lot {
    fn is_free(&self) -> bool {
        self.holders.is_empty() || self.device.is_shared
    }

    /// Returns what one more claim would take from counters, by their numbers, if the claims that are `freed` held nothing; none where no
    /// claim gets the device. A device that several claims may have takes it for the first of them, once.
    pub fn would_take(&self, freed: impl Fn(&ClaimKey) -> bool) -> Option<&[(usize, i64)]> {
        let is_given = self.device.is_shared && !self.holders.iter().all(freed);
        self.takes.as_deref().map(|takes| if is_given { &[] } else { takes })
    }
}

/// The claims that each device is allocated to.
#[derive(Debug, Default)]
struct Holders(HashMap<PoolName, HashMap<Box<str>, Vec<ClaimKey>>>);

impl Holders {
    fn of(&self, pool: &PoolName, device: &str) -> &[ClaimKey] {
        let claims = self.0.get(pool).and_then(|devices| devices.get(device));
        claims.map_or(&[], Vec::as_slice)
    }

    fn set(&mut self, key: &ClaimKey, pool: PoolName, device: &str, is_held: bool) {
        let devices = self.0.entry(pool).or_default();
        let claims = devices.entry(device.into()).or_default();
        claims.retain(|claim| claim != key);
        if is_held {
            claims.push(key.clone());
        }
        if claims.is_empty() {
            devices.remove(device);
        }
    }
}

/// The cards that a node has as devices, in order: for each, how many there are for new pods, and how many including those kept from new
/// pods.
pub type Shape = Box<[(Arc<DeviceCard>, i64, i64)]>;

/// The devices of every node, and the claims that hold them.
#[derive(Debug, Default)]
pub struct Rooms {
    by_node: HashMap<Arc<str>, Room>,
    holders: Holders,
    /// For each shape, how many nodes have it. Even among many nodes there are few different shapes.
    shapes: HashMap<Shape, usize>,
    /// Rises when a shape is new or gone.
    version: u64,
}

impl Rooms {
    /// Returns the devices of a node.
    pub fn at(&self, node: &str) -> Option<&Room> {
        self.by_node.get(node)
    }

    /// Returns the claims that devices of a pool are allocated to.
    pub fn holders_of(&self, pool: &PoolName) -> impl Iterator<Item = &ClaimKey> {
        let devices = self.holders.0.get(pool).into_iter();
        devices.flat_map(HashMap::values).flatten()
    }

    /// Returns what nodes have of cards: each shape once.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.shapes.keys()
    }

    /// Returns a number that rises when a shape is new or gone.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Reads a node's devices again. Returns the cards of the shapes that are new by that, or that no node has any longer.
    pub fn renew(&mut self, node: &Arc<str>, inventory: &Inventory) -> Cards {
        let room = Room::of(node, inventory, &self.holders);
        let (before, after) = (self.by_node.get(node).map(Room::shape), room.shape());
        let before = before.unwrap_or_default();
        if room.lots.is_empty() {
            self.by_node.remove(node);
        } else {
            self.by_node.insert(Arc::clone(node), room);
        }
        let mut cards = Cards::new();
        if before == after {
            return cards;
        }
        if let Some(nodes) = self.shapes.get_mut(&before) {
            *nodes -= 1;
            if *nodes == 0 {
                self.shapes.remove(&before);
                cards.extend(before.iter().map(|(card, ..)| card.clone()));
            }
        }
        if !after.is_empty() {
            let nodes = self.shapes.entry(after).or_insert_with_key(|shape| {
                cards.extend(shape.iter().map(|(card, ..)| card.clone()));
                0
            });
            *nodes += 1;
        }
        self.version += u64::from(!cards.is_empty());
        cards
    }

    /// Notes that a claim's allocation has changed from `before` to `now`. Returns the nodes that have the affected devices.
    pub fn allocate(
        &mut self,
        key: &ClaimKey,
        before: Option<&ResourceClaim>,
        now: Option<&ResourceClaim>,
        inventory: &Inventory,
    ) -> BTreeSet<Arc<str>> {
        let (before, now) = (held_by(before), held_by(now));
        let mut pools = BTreeSet::new();
        for ((pool, device), is_held) in before
            .difference(&now)
            .map(|held| (held, false))
            .chain(now.difference(&before).map(|held| (held, true)))
        {
            self.holders.set(key, pool.clone(), device, is_held);
            pools.insert(pool.clone());
        }
        let nodes: BTreeSet<_> = pools.iter().flat_map(|pool| inventory.nodes_of(pool)).collect();
        for node in &nodes {
            self.renew(node, inventory);
        }
        nodes
    }
}

/// Returns the devices that a claim holds, without devices that it only looks at (admin access).
fn held_by(claim: Option<&ResourceClaim>) -> BTreeSet<(PoolName, Box<str>)> {
    let allocation = claim.and_then(|claim| claim.status.allocation.as_ref());
    let results = allocation
        .into_iter()
        .flat_map(|allocation| &allocation.devices.results);
    let held = results.filter(|result| !result.admin_access);
    held.map(|result| {
        (
            ((&*result.driver).into(), (&*result.pool).into()),
            result.device.clone(),
        )
    })
    .collect()
}
