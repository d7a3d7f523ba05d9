//! Requests about what tenants write, of whose answers little is read, or nothing.
//!
//! API servers keep `managedFields` as tenants write them: nested deeper than a reader goes, or with a time that none knows. Read as Kubernetes' own
//! types, such an answer is none: what was written would count as unanswered, and be tried and looked at again and again.

use std::fmt::Debug;

use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Writes an object of a namespace, or one that is in none. `name` is the object's, or that and a subresource: `p/status`.
pub async fn patch<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    // The answer, which is not read, is shorter by this.
    let request = requests::<K>(namespace).patch_metadata(name, &PatchParams::default(), patch);
    let request = request.map_err(Error::BuildRequest)?;
    client.request::<IgnoredAny>(request).await.map(drop)
}

/// Writes an object of a namespace, and reads of the answer what `T` reads.
pub async fn patch_and_read<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
    client: &Client,
    namespace: &str,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<T> {
    let request = requests::<K>(Some(namespace)).patch(name, &PatchParams::default(), patch);
    client.request(request.map_err(Error::BuildRequest)?).await
}

/// Gets an object of a namespace, or one that is in none, and reads of it what `T` reads.
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
