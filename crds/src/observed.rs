//! A lean object as kube's client takes it, in a watch as in a list: only what a watch itself needs of the metadata is kept twice.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use crate::dra::{DeviceClass, ResourceClaim, ResourceSlice};
use crate::job::Job;
use crate::lean::Metadata;
use crate::node::Node;
use crate::pod::Pod;
use crate::volcano::GroupQueue;

/// A lean object `T`, watched as Kubernetes' `K`.
#[derive(Debug, Clone)]
pub struct Observed<K, T> {
    meta: ObjectMeta,
    /// What was read of it.
    pub object: T,
    kind: PhantomData<K>,
}

/// A lean object that has a version.
pub trait Versioned {
    /// The version of the object, by which a watch goes on.
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
    ResourceClaim,
    Namespace,
    GroupQueue<Box<str>>,
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

impl<K: Resource<DynamicType = ()>, T> Resource for Observed<K, T> {
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
