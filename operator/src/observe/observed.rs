//! A lean object as kube's watcher takes it: only what the watcher itself needs of the metadata is kept twice.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use crds::dra::{DeviceClass, ResourceClaim, ResourceSlice};
use crds::job::Job;
use crds::lean::Metadata;
use crds::node::Node;
use crds::pod::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// A lean object `T`, watched as Kubernetes' `K`.
#[derive(Debug, Clone)]
pub struct Observed<K, T> {
    meta: ObjectMeta,
    pub object: T,
    kind: PhantomData<K>,
}

/// A lean object that has metadata.
pub trait HasMetadata {
    fn metadata(&self) -> &Metadata<Box<str>>;
}

impl HasMetadata for Pod<Box<str>> {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl HasMetadata for Job<Box<str>> {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl HasMetadata for Node<Box<str>> {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl HasMetadata for ResourceSlice {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl HasMetadata for DeviceClass {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl HasMetadata for ResourceClaim {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

/// A lean Namespace, which is nothing but metadata.
#[derive(Debug, Clone, Deserialize)]
pub struct Namespace {
    pub metadata: Metadata<Box<str>>,
}

impl HasMetadata for Namespace {
    fn metadata(&self) -> &Metadata<Box<str>> {
        &self.metadata
    }
}

impl<'de, K, T: Deserialize<'de> + HasMetadata> Deserialize<'de> for Observed<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = T::deserialize(deserializer)?;
        let resource_version = object.metadata().resource_version.as_deref().map(ToOwned::to_owned);
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
