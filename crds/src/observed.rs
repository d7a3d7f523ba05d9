//! Lean objects in the form that kube's client needs for watches and lists. Only the metadata that a watch itself needs is
//! kept twice.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::bounds::json_error;
use crate::dra::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use crate::job::Job;
use crate::lean::{Metadata, lean};
use crate::node::Node;
use crate::pod::Pod;
use crate::volcano::{GroupQueue, WatchedGroup};

/// A lean object `T`, watched as Kubernetes' `K`.
#[derive(Debug, Clone)]
pub struct Observed<K, T> {
    meta: ObjectMeta,
    /// What was read of the object.
    pub object: T,
    kind: PhantomData<K>,
}

/// A lean object that has a version.
pub trait Versioned {
    /// The version of the object, from which a watch continues.
    fn resource_version(&self) -> Option<&str>;
}

macro_rules! versioned {
    ($($lean:ty,)*) => {
        $(impl Versioned for $lean {
            fn resource_version(&self) -> Option<&str> {
                self.metadata.resource_version.as_deref()
            }
        })*
    };
}

versioned! {
    Pod<Box<str>>,
    Job<Box<str>>,
    Node<Box<str>>,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    Namespace,
    GroupQueue<Box<str>>,
    WatchedGroup,
    Identified,
}

lean! {
    /// What identifies an object.
    Identity {
        name: Option<S>,
        namespace: Option<S>,
        uid: Option<S>,
        resource_version: Option<S>,
    }
}

/// An object of which only the identity is read.
#[derive(Debug, Clone, Default, Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Identity<Box<str>>,
}

/// A lean object `T` that may be unreadable, watched as Kubernetes' `K`. Its text is in memory once, beside what is read of
/// it. kube's own `DeserializeGuard` makes a tree of all its contents, and a second one; for a megabyte, which anybody may
/// write, these take a hundred megabytes.
#[derive(Debug, Clone)]
pub struct Guarded<K, T> {
    meta: ObjectMeta,
    /// What was read of the object.
    pub object: Result<T, Unreadable>,
    kind: PhantomData<K>,
}

/// An object that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which object it is.
    pub identity: Identity<Box<str>>,
    /// Why it can't be read.
    pub error: Box<str>,
}

impl<'de, K, T: DeserializeOwned + Versioned> Deserialize<'de> for Guarded<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object = serde_json::from_str::<T>(text.get()).map_err(|error| Unreadable {
            identity: serde_json::from_str::<Identified>(text.get())
                .unwrap_or_default()
                .metadata,
            error: json_error(&error).into(),
        });
        let resource_version = match &object {
            Ok(object) => object.resource_version(),
            Err(unreadable) => unreadable.identity.resource_version.as_deref(),
        };
        Ok(Self {
            meta: ObjectMeta {
                resource_version: resource_version.map(ToOwned::to_owned),
                ..ObjectMeta::default()
            },
            object,
            kind: PhantomData,
        })
    }
}

/// A lean Namespace, which is nothing but metadata.
#[derive(Debug, Clone, Deserialize)]
pub struct Namespace {
    /// Its metadata.
    pub metadata: Metadata<Box<str>>,
}

impl<'de, K, T: Deserialize<'de> + Versioned> Deserialize<'de> for Observed<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = T::deserialize(deserializer)?;
        let resource_version = object.resource_version().map(ToOwned::to_owned);
        Ok(Self {
            meta: ObjectMeta {
                resource_version,
                ..ObjectMeta::default()
            },
            object,
            kind: PhantomData,
        })
    }
}

macro_rules! watched {
    ($($watched:ident,)*) => {
        $(
            impl<K: Resource<DynamicType = ()>, T> Resource for $watched<K, T> {
                type DynamicType = ();
                type Scope = K::Scope;

                fn kind((): &()) -> Cow<'_, str> {
                    K::kind(&())
                }

                fn group((): &()) -> Cow<'_, str> {
                    K::group(&())
                }

                fn version((): &()) -> Cow<'_, str> {
                    K::version(&())
                }

                fn plural((): &()) -> Cow<'_, str> {
                    K::plural(&())
                }

                fn meta(&self) -> &ObjectMeta {
                    &self.meta
                }

                fn meta_mut(&mut self) -> &mut ObjectMeta {
                    &mut self.meta
                }
            }
        )*
    };
}

watched! {
    Observed,
    Guarded,
}
