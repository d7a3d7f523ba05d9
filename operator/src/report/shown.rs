//! The kinds of objects that Cardgate shows.

use std::fmt::Debug;
use std::sync::Arc;

use crds::card_inventory::{CardInventory, CardInventorySpec};
use crds::card_type::{CardType, CardTypeSpec};
use crds::card_usage::{CardUsage, CardUsageSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::Resource;
use kube::core::ClusterResourceScope;
use kube::core::object::{HasSpec, HasStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::queue::Target;
use crate::metrics::Write;

/// A kind of object that Cardgate shows.
pub(super) trait Shown:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + HasSpec<Spec: Content>
    + HasStatus<Status: Content>
    + Serialize
    + DeserializeOwned
    + Content
{
    /// How writes of the kind are counted.
    const WRITE: Write;
    /// The target of a write about the object of this name.
    const TARGET: fn(Arc<str>) -> Target;
    /// Returns the object, for its creation.
    fn object(name: &str, spec: Self::Spec) -> Self;
    /// Returns API version, kind and name of the object's owner. Garbage collection removes the object with its owner.
    fn owner(spec: &Self::Spec) -> Option<(&'static str, &'static str, &str)>;
    /// The conditions in a status.
    fn conditions(status: &Self::Status) -> &[Condition];
    /// The conditions in a status.
    fn conditions_mut(status: &mut Self::Status) -> &mut [Condition];
}

/// Bounds for specifications and statuses.
pub(super) trait Content: Debug + Clone + PartialEq + Serialize + Send + Sync + 'static {}

impl<T: Debug + Clone + PartialEq + Serialize + Send + Sync + 'static> Content for T {}

/// Returns the reference to the owner of an object with this specification.
pub(super) fn owner_reference<K: Shown>(spec: &K::Spec, uid: &str) -> Option<OwnerReference> {
    let (api_version, kind, name) = K::owner(spec)?;
    Some(OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    })
}

/// Returns the unique id of an object's owner; empty if it has no owner, or other owners than it should.
pub(super) fn owner_uid<K: Shown>(object: &K) -> &str {
    match object.meta().owner_references.as_deref() {
        Some([owner]) if owner_reference::<K>(object.spec(), &owner.uid).as_ref() == Some(owner) => &owner.uid,
        _ => "",
    }
}

/// The parts of the implementation that only differ by names.
macro_rules! alike {
    ($write:ident, $target:ident) => {
        const WRITE: Write = Write::$write;
        const TARGET: fn(Arc<str>) -> Target = Target::$target;

        fn object(name: &str, spec: <Self as HasSpec>::Spec) -> Self {
            Self::new(name, spec)
        }

        fn conditions(status: &<Self as HasStatus>::Status) -> &[Condition] {
            &status.conditions
        }

        fn conditions_mut(status: &mut <Self as HasStatus>::Status) -> &mut [Condition] {
            &mut status.conditions
        }
    };
}

impl Shown for CardInventory {
    alike!(CardInventory, Inventory);

    fn owner(spec: &CardInventorySpec) -> Option<(&'static str, &'static str, &str)> {
        Some(("v1", "Node", &spec.node_name))
    }
}

impl Shown for CardType {
    alike!(CardType, CardType);

    /// Cards of a type are on many nodes, so no node owns the type.
    fn owner(_: &CardTypeSpec) -> Option<(&'static str, &'static str, &str)> {
        None
    }
}

impl Shown for CardUsage {
    alike!(CardUsage, Usage);

    /// Usage that no queue is charged for has no owner.
    fn owner(spec: &CardUsageSpec) -> Option<(&'static str, &'static str, &str)> {
        let queue = Some(spec.queue.as_str()).filter(|queue| !queue.is_empty())?;
        Some(("scheduling.volcano.sh/v1beta1", "Queue", queue))
    }
}
