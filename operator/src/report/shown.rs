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
    /// How writes of it are counted.
    const WRITE: Write;
    /// The write about the object of this name.
    const TARGET: fn(Arc<str>) -> Target;
    /// The object, to be created.
    fn object(name: &str, spec: Self::Spec) -> Self;
    /// API version, kind and name of the object that owns it: garbage collection removes it with its owner.
    fn owner(spec: &Self::Spec) -> Option<(&'static str, &'static str, &str)>;
    /// The conditions in a status.
    fn conditions(status: &Self::Status) -> &[Condition];
    /// The conditions in a status.
    fn conditions_mut(status: &mut Self::Status) -> &mut [Condition];
}

/// What objects are made of.
pub(super) trait Content: Debug + Clone + PartialEq + Serialize + Send + Sync + 'static {}

impl<T: Debug + Clone + PartialEq + Serialize + Send + Sync + 'static> Content for T {}

/// The reference to the owner of an object with this specification.
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

/// The unique id of the owner of an object; empty where it has none, or others than it should.
pub(super) fn owner_uid<K: Shown>(object: &K) -> &str {
    match object.meta().owner_references.as_deref() {
        Some([owner]) if owner_reference::<K>(object.spec(), &owner.uid).as_ref() == Some(owner) => &owner.uid,
        _ => "",
    }
}

/// What is the same of all kinds, but for their names.
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

    /// Cards are on many nodes: nobody owns their type.
    fn owner(_: &CardTypeSpec) -> Option<(&'static str, &'static str, &str)> {
        None
    }
}

impl Shown for CardUsage {
    alike!(CardUsage, Usage);

    /// What no queue is charged for is nobody's.
    fn owner(spec: &CardUsageSpec) -> Option<(&'static str, &'static str, &str)> {
        let queue = Some(spec.queue.as_str()).filter(|queue| !queue.is_empty())?;
        Some(("scheduling.volcano.sh/v1beta1", "Queue", queue))
    }
}
