//! mGPU requests: how much of which GPU cards each container of a pod asks for (mGPU, **Webhook Admission**).

mod error;
mod policy;
#[cfg(test)]
mod tests;

use crate::bounds::{self, BoundError, cut};
use crate::keys::{MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_MEMORY, MGPU_POLICY};
use crate::pod::{Container, Pod};
use crate::quantity;

pub use error::MgpuError;
pub use policy::{ComputePolicy, ComputePolicyError};

/// The compute of one card, in the unit of `mgpu-core`.
pub const CARD_CORE: i64 = 100;
/// The least memory of a share, in MiB: containerd does not run with less.
pub const MIN_MEMORY: i64 = 256;
const MIB: i64 = 1 << 20;
/// No container needs this many MiB (64 TiB). An amount this large was meant in bytes.
const MORE_THAN_ANY_NODE: i64 = 1 << 26;

/// The longest name of a container that asks for mGPU. With `gpu-index-container-` before it, it has 63 characters.
pub const MAX_CONTAINER_NAME: usize = 43;

/// What a container takes of each of its cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// The whole card: its compute, and its memory however much that is.
    Full,
    /// A part of it.
    Part {
        /// Compute, from 1 to 99.
        core: i64,
        /// Memory in MiB, at least [`MIN_MEMORY`].
        memory: i64,
    },
}

/// What one container asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRequest {
    /// How many cards, at least one; all of them different.
    pub cards: u32,
    /// What the container takes of each card.
    pub share: Share,
}

impl ContainerRequest {
    /// Asks for a part of each of so many cards; memory in MiB.
    pub const fn part(cards: u32, core: i64, memory: i64) -> Self {
        let share = Share::Part { core, memory };
        Self { cards, share }
    }

    /// Asks for so many cards, whole.
    pub const fn full(cards: u32) -> Self {
        let share = Share::Full;
        Self { cards, share }
    }
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MgpuRequest {
    /// The containers that ask for mGPU, by name, in the pod's order.
    pub containers: Box<[(Box<str>, ContainerRequest)]>,
    /// Whether the pod says how many cards each container shares (**Multiple MGPU Pod**).
    pub multiple: bool,
    /// The compute policy that the pod names.
    pub policy: Option<ComputePolicy>,
}

impl MgpuRequest {
    /// Reads what a pod asks for. `None` where no container asks for mGPU, whatever the annotations say.
    pub fn read<S: AsRef<str>>(pod: &Pod<S>) -> Result<Option<Self>, MgpuError> {
        for container in &pod.spec.init_containers {
            if let Some(resource) = requested_resource(container) {
                return Err(MgpuError::InitContainer {
                    container: cut(name(container)),
                    resource,
                });
            }
        }
        let containers = &pod.spec.containers;
        let asking = containers
            .iter()
            .filter(|container| requested_resource(container).is_some());
        let asking = asking.count();
        if asking == 0 {
            return Ok(None);
        }
        let remedy = "split the pod";
        BoundError::count(
            || "the pod".to_owned(),
            "containers that request mGPU",
            asking,
            bounds::MGPU_CONTAINERS,
            remedy,
        )
        .map_err(MgpuError::Containers)?;
        let annotations = &pod.metadata.annotations;
        let policy = annotations.get(MGPU_POLICY).map(str::parse).transpose()?;
        let list = annotations.get(MGPU_CONTAINER_CARDS);
        let counts = list.map(|list| read_counts(list, containers)).transpose()?;
        let mut requests = Vec::with_capacity(asking);
        for (index, container) in containers.iter().enumerate() {
            let Some(asked) = Asked::read(container)? else { continue };
            check_name(asked.container)?;
            let request = match &counts {
                Some(counts) => asked.multiple(counts[index])?,
                None => asked.normal()?,
            };
            requests.push((asked.container.into(), request));
        }
        Ok(Some(Self {
            containers: requests.into(),
            multiple: counts.is_some(),
            policy,
        }))
    }

    /// Whether every container takes whole cards.
    pub fn is_full(&self) -> bool {
        self.containers.iter().all(|(_, request)| request.share == Share::Full)
    }

    /// **Filter**, 1 and 2: whether the pod may share cards under the compute policy of a node. A whole card is not shared,
    /// so a pod that asks for whole cards only and names no policy accepts any policy.
    pub fn accepts(&self, node: ComputePolicy) -> bool {
        match self.policy {
            None if self.is_full() => true,
            policy => {
                let policy = policy.unwrap_or_default();
                policy == node && (!self.multiple || policy == ComputePolicy::NativeBurstShare)
            }
        }
    }
}

/// Returns the first mGPU resource that a container requests or is limited in, of whatever amount.
fn requested_resource<S: AsRef<str>>(container: &Container<S>) -> Option<&'static str> {
    let resources = &container.resources;
    [MGPU_CORE, MGPU_MEMORY]
        .into_iter()
        .find(|resource| resources.requests.contains_key(resource) || resources.limits.contains_key(resource))
}

fn name<S: AsRef<str>>(container: &Container<S>) -> &str {
    container.name.as_ref().map_or("", AsRef::as_ref)
}

/// Checks the container's name: a result is written in an annotation whose key ends in it, and the length of a key is
/// limited.
fn check_name(container: &str) -> Result<(), MgpuError> {
    if container.len() <= MAX_CONTAINER_NAME {
        return Ok(());
    }
    Err(MgpuError::ContainerName {
        container: cut(container),
        length: container.len(),
    })
}

/// Reads the list of card counts: one count for each container, 0 for exactly those containers that ask for no mGPU.
fn read_counts<S: AsRef<str>>(list: &str, containers: &[Container<S>]) -> Result<Vec<u32>, MgpuError> {
    let remedy = "write one number of cards for each container";
    BoundError::length(list, bounds::annotation_length(MGPU_CONTAINER_CARDS), remedy).map_err(MgpuError::List)?;
    let read = |entry: &str| {
        let is_number = !entry.is_empty() && entry.bytes().all(|byte| byte.is_ascii_digit());
        let count = entry.parse().ok().filter(|_| is_number);
        count.ok_or_else(|| MgpuError::Count {
            list: cut(list),
            entry: cut(entry),
        })
    };
    let counts: Vec<u32> = list.split(',').map(read).collect::<Result<_, _>>()?;
    if counts.len() != containers.len() {
        return Err(MgpuError::ListLength {
            list: cut(list),
            entries: counts.len(),
            containers: containers.len(),
        });
    }
    for (container, count) in containers.iter().zip(&counts) {
        let asks = requested_resource(container).is_some();
        if asks != (*count > 0) {
            let (list, container, count) = (cut(list), cut(name(container)), *count);
            return Err(if asks {
                MgpuError::NoCards { list, container }
            } else {
                MgpuError::CardsNotAsked { list, container, count }
            });
        }
    }
    Ok(counts)
}

/// What a container asks for, as written.
struct Asked<'a> {
    container: &'a str,
    core: i64,
    memory: Option<i64>,
}

impl<'a> Asked<'a> {
    /// Reads requests and limits; `None` where the container asks for no mGPU (rule 1 for both kinds of pods).
    fn read<S: AsRef<str>>(container: &'a Container<S>) -> Result<Option<Self>, MgpuError> {
        let core = amount(container, MGPU_CORE)?;
        let memory = amount(container, MGPU_MEMORY)?;
        let container = name(container);
        match (core, memory) {
            (None, None) => Ok(None),
            (None, Some(memory)) => Err(MgpuError::CoreMissing {
                container: cut(container),
                memory,
            }),
            (Some(core), memory) => Ok(Some(Self {
                container,
                core,
                memory,
            })),
        }
    }

    /// **Normal MGPU Pod**: a part of one card, or whole cards.
    fn normal(&self) -> Result<ContainerRequest, MgpuError> {
        if self.core < CARD_CORE {
            return Ok(ContainerRequest {
                cards: 1,
                share: self.part(1)?,
            });
        }
        if self.core % CARD_CORE != 0 {
            return Err(MgpuError::NotFullCards {
                container: cut(self.container),
                core: self.core,
            });
        }
        let full_cards = self.core / CARD_CORE;
        self.no_memory(full_cards)?;
        // No node has more cards than a 32-bit number can hold, nor as many as the largest such number.
        Ok(ContainerRequest::full(u32::try_from(full_cards).unwrap_or(u32::MAX)))
    }

    /// **Multiple MGPU Pod**: the same part of several cards.
    fn multiple(&self, cards: u32) -> Result<ContainerRequest, MgpuError> {
        let count = i64::from(cards);
        self.divides(MGPU_CORE, self.core, cards)?;
        let share = match self.core / count {
            CARD_CORE => {
                self.no_memory(count)?;
                Share::Full
            }
            ..CARD_CORE => {
                self.divides(MGPU_MEMORY, self.memory.unwrap_or_default(), cards)?;
                self.part(cards)?
            }
            core => {
                return Err(MgpuError::MoreThanACard {
                    container: cut(self.container),
                    core: self.core,
                    cards,
                    per_card: core,
                });
            }
        };
        Ok(ContainerRequest { cards, share })
    }

    fn part(&self, cards: u32) -> Result<Share, MgpuError> {
        let count = i64::from(cards);
        let memory = self.memory.unwrap_or_default() / count;
        if memory < MIN_MEMORY {
            return Err(MgpuError::MemoryTooSmall {
                container: cut(self.container),
                core: self.core,
                memory: self.memory,
                cards,
            });
        }
        Ok(Share::Part {
            core: self.core / count,
            memory,
        })
    }

    fn no_memory(&self, full_cards: i64) -> Result<(), MgpuError> {
        match self.memory {
            None => Ok(()),
            Some(memory) => Err(MgpuError::RedundantMemory {
                container: cut(self.container),
                core: self.core,
                memory,
                full_cards,
            }),
        }
    }

    fn divides(&self, resource: &'static str, amount: i64, cards: u32) -> Result<(), MgpuError> {
        if amount % i64::from(cards) == 0 {
            return Ok(());
        }
        Err(MgpuError::NotDivisible {
            container: cut(self.container),
            resource,
            amount,
            cards,
        })
    }
}

/// Returns the MiB of an amount of memory that was meant in bytes, as other memory is: `8Gi`, or more than any node has.
fn meant_in_bytes(text: &str, amount: i64) -> Option<i64> {
    let is_meant = text.ends_with('i') && amount >= MIB || amount >= MORE_THAN_ANY_NODE;
    is_meant.then(|| amount / MIB + i64::from(amount % MIB > 0))
}

/// Returns how much of a resource a container asks for. Request and limit must be the same where both are set.
fn amount<S: AsRef<str>>(container: &Container<S>, resource: &'static str) -> Result<Option<i64>, MgpuError> {
    let read = |text: &str| {
        let amount = quantity::parse_units(text).map_err(|source| MgpuError::Quantity {
            container: cut(name(container)),
            resource,
            source,
        })?;
        if resource == MGPU_MEMORY
            && amount > 0
            && let Some(meant) = meant_in_bytes(text, amount)
        {
            return Err(MgpuError::MemoryInBytes {
                container: cut(name(container)),
                quantity: cut(text),
                meant,
            });
        }
        // Rounding up would turn 99.5 into a whole card. A number whose thousandths do not fit has no fraction.
        if quantity::parse_milli(text).is_ok_and(|milli| milli % 1000 != 0) {
            return Err(MgpuError::Fraction {
                container: cut(name(container)),
                resource,
                quantity: cut(text),
            });
        }
        if amount <= 0 {
            return Err(MgpuError::NotPositive {
                container: cut(name(container)),
                resource,
                quantity: cut(text),
            });
        }
        Ok(amount)
    };
    let (requests, limits) = (&container.resources.requests, &container.resources.limits);
    let (request, limit) = (requests.get(resource), limits.get(resource));
    let amounts = (request.map(read).transpose()?, limit.map(read).transpose()?);
    match amounts {
        (Some(requested), Some(limited)) if requested != limited => Err(MgpuError::Disagree {
            container: cut(name(container)),
            resource,
            request: requested,
            limit: limited,
        }),
        (requested, limited) => Ok(requested.or(limited)),
    }
}
