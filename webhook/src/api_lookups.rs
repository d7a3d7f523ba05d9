//! Lookups that go to the API server.
//!
//! How many pods a queue has is what the operator wrote last in the queue's `CardUsage`: so the webhook needs no right to read pods,
//! and may be some seconds behind. A queue that is removed or given queues below it meanwhile harms nobody: its pods wait, and what
//! they hold stays charged. One that is kept meanwhile can be tried again. Without a `CardUsage` nothing is known of any pods. Those that
//! wait don't count: whoever makes some that never get in would keep the queue as it is for ever.

use std::sync::Arc;

use crds::card_usage::CardUsage;
use crds::dra::{ClaimSpec, DeviceClass, ResourceClaim, ResourceClaimTemplate};
use crds::volcano::Queue;
use engine::devices::cut_excess;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::resource::v1 as resource;
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use programs::lean_requests::get;
use programs::logging::plain;
use programs::when_it_has_time;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::knowledge::{GroupFacts, NamespaceFacts, QueueFacts, WatchedGroup};
use crate::lookup::{LookupError, Lookups, TIME_LIMIT, TURN_LIMIT};
use crate::view::{Found, Lookup};

/// HTTP status of an object or a kind that does not exist.
const NOT_FOUND: u16 = 404;
/// How many questions are asked at once: whoever sends reviews without end makes the API server do no more than that.
const QUESTIONS: usize = 32;
/// How many of them are about claims, and about groups: tenants write these, as long as objects can be, and each is in memory three times
/// while it is read. Of a claim that is not found out in time nothing is said, so nobody waits long for his turn to ask; but whose group is not is
/// refused, so groups wait, and for no claims. Nobody can fill that queue as he could the one of claims: groups are watched, so only those are asked
/// about that are not there, of which there is nothing to read, or that the watch has not delivered yet.
const QUESTIONS_ABOUT_CLAIMS: usize = 4;
const QUESTIONS_ABOUT_GROUPS: usize = 4;

/// Lookups that go to the API server.
pub struct ApiLookups {
    client: Client,
    room: Semaphore,
    room_for_claims: Semaphore,
    room_for_groups: Semaphore,
}

impl ApiLookups {
    /// Lookups by this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            room: Semaphore::new(QUESTIONS - QUESTIONS_ABOUT_CLAIMS - QUESTIONS_ABOUT_GROUPS),
            room_for_claims: Semaphore::new(QUESTIONS_ABOUT_CLAIMS),
            room_for_groups: Semaphore::new(QUESTIONS_ABOUT_GROUPS),
        }
    }

    async fn get(&self, lookup: &Lookup) -> Result<Found, kube::Error> {
        let client = self.client.clone();
        Ok(match lookup {
            Lookup::Queue(name) => {
                let queue = existing(Api::<DeserializeGuard<Queue>>::all(client).get(name).await)?;
                Found::Queue(queue.map(|queue| Arc::new(QueueFacts::read(&queue.0))))
            }
            Lookup::Group { namespace, name } => {
                let groups = Api::<WatchedGroup>::namespaced(client, namespace);
                let group = existing(groups.get(name).await)?;
                Found::Group(group.map(|group| Arc::new(GroupFacts::read(&group))))
            }
            Lookup::Namespace(name) => {
                let namespace = existing(Api::<Namespace>::all(client).get_metadata(name).await)?;
                Found::Namespace(namespace.map(|namespace| Arc::new(NamespaceFacts::read(&namespace.metadata))))
            }
            Lookup::PodsOf(queue) => {
                let usages = Api::<DeserializeGuard<CardUsage>>::all(client);
                let usage = existing(usages.get(queue).await)?;
                let status = usage.and_then(|usage| usage.0.ok()?.status);
                let count = status.map_or(0, |status| status.admitted_pods);
                Found::PodsOf(u64::try_from(count).unwrap_or(0))
            }
            Lookup::Claim { namespace, name } => {
                let claim = get::<resource::ResourceClaim, ResourceClaim>(&client, Some(namespace), name);
                let claim = existing(claim.await)?;
                Found::Claim(claim.map(|claim| judged(claim.spec)))
            }
            Lookup::ClaimTemplate { namespace, name } => {
                let template =
                    get::<resource::ResourceClaimTemplate, ResourceClaimTemplate>(&client, Some(namespace), name);
                let template = existing(template.await)?;
                Found::Claim(template.map(|template| judged(template.spec.spec)))
            }
            Lookup::Class(name) => {
                let class = get::<resource::DeviceClass, DeviceClass>(&client, None, name);
                let class = existing(class.await)?;
                Found::Class(class.map(Arc::new))
            }
        })
    }
}

impl Lookups for ApiLookups {
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>> {
        Box::pin(async move {
            let (room, turn) = match lookup {
                Lookup::Claim { .. } | Lookup::ClaimTemplate { .. } => (&self.room_for_claims, TURN_LIMIT),
                Lookup::Group { .. } => (&self.room_for_groups, TIME_LIMIT),
                Lookup::Queue(_) | Lookup::Namespace(_) | Lookup::PodsOf(_) | Lookup::Class(_) => {
                    (&self.room, TIME_LIMIT)
                }
            };
            let in_turn = async {
                // Never closed, so this fails never.
                let Ok(_room) = timeout(turn, room.acquire()).await else {
                    return Err(LookupError::Crowded);
                };
                let found = when_it_has_time(|| self.get(lookup)).await;
                found.map_err(|error| LookupError::Api(plain(&error)))
            };
            timeout(TIME_LIMIT, in_turn).await.unwrap_or(Err(LookupError::Timeout))
        })
    }
}

/// What is judged of a claim, and no more than that: a review keeps it until it is answered, and many may be under way.
fn judged(mut spec: ClaimSpec) -> Arc<ClaimSpec> {
    cut_excess(&mut spec);
    Arc::new(spec)
}

/// An object that exists. A kind that is not installed has none; kube's own `get_opt` takes that for a failure, since the API
/// server's answer is then no `Status`.
fn existing<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}
