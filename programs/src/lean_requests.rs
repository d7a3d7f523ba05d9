//! Requests about objects that tenants write. Little or nothing of the answers is read.
//!
//! API servers keep `managedFields` as tenants write them: nested deeper than a reader goes, or with an unknown time format. An answer with
//! such fields cannot be read as Kubernetes' own types. Then a write that succeeded would count as unanswered, and would be tried and
//! looked at again and again.

use std::fmt::Debug;

use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Patches an object, in a namespace or without one. `name` is the object's name, or the name and a subresource: `p/status`.
pub async fn patch<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    // Asking for metadata makes the answer, which is not read, shorter.
    let request = requests::<K>(namespace).patch_metadata(name, &PatchParams::default(), patch);
    let request = request.map_err(Error::BuildRequest)?;
    client.request::<IgnoredAny>(request).await.map(drop)
}

/// Patches an object of a namespace, and reads the fields of the answer that `T` has.
pub async fn patch_and_read<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
    client: &Client,
    namespace: &str,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<T> {
    let request = requests::<K>(Some(namespace)).patch(name, &PatchParams::default(), patch);
    client.request(request.map_err(Error::BuildRequest)?).await
}

/// Gets an object, in a namespace or without one, and reads the fields that `T` has.
pub async fn get<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> kube::Result<T> {
    let request = requests::<K>(namespace).get(name, &GetParams::default());
    client.request(request.map_err(Error::BuildRequest)?).await
}

fn requests<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> Request {
    Request::new(K::url_path(&(), namespace))
}
