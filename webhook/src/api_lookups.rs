//! Lookups that go to the API server.
//!
//! How many pods a queue has is what the operator last wrote in the queue's `CardUsage`. So the webhook needs no right to
//! read pods, but may be some seconds behind. A queue that is removed, or given queues below it, in these seconds harms
//! nobody: its pods wait, and what they hold stays charged. A user whose queue is kept for that reason can try again.
//! Pods that wait do not count: otherwise a user could create pods that never get in, and so keep the queue as it is for
//! ever.
//!
//! The operator writes a `CardUsage` for every queue. Where there is none, for example since its definition was installed
//! anew, any number of pods may run. Only a queue that was just made has none for certain, and where the kind is not
//! installed nobody will ever say.

use std::sync::Arc;

use crds::card_usage::CardUsage;
use crds::dra::{ClaimSpec, DeviceClass, ResourceClaim, ResourceClaimTemplate};
use crds::volcano::Queue;
use engine::devices::cut_excess;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::resource::v1 as resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use kube::core::{DeserializeGuard, Status};
use kube::{Api, Client};
use programs::lean_requests::get;
use programs::logging::plain;
use programs::{clock, when_it_has_time};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::knowledge::{GroupFacts, NamespaceFacts, QueueFacts, WatchedGroup};
use crate::lookup::{LookupError, Lookups, TIME_LIMIT, TURN_LIMIT};
use crate::view::{Found, Lookup, PodsOf};

/// HTTP status of an object or a kind that does not exist.
const NOT_FOUND: u16 = 404;
/// The reason in a `Status` that says that an object does not exist; where its kind does not, there is no `Status`.
const OBJECT_NOT_FOUND: &str = "NotFound";
/// For how long after its creation a queue without a `CardUsage` has no pods. The operator writes it within seconds.
const NEW: SignedDuration = SignedDuration::from_secs(60);
/// How many questions are asked at once. However many reviews a user sends, the API server is asked no more than that.
const QUESTIONS: usize = 32;
/// How many of these may be about claims, and how many about groups. Tenants write both, as long as objects can be, and each
/// is in memory three times while it is read. A claim that is not found out in time only goes without a warning, so
/// questions about claims wait only briefly for their turn. A pod whose group is not found out is refused, so questions
/// about groups wait longer, and never behind claims. Nobody can fill the queue of groups as the one of claims: groups are
/// watched, so the API server is asked only about groups that do not exist, which leaves nothing to read, or that the watch
/// has not delivered yet.
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
                let usages = Api::<DeserializeGuard<CardUsage>>::all(client.clone());
                let usage = match usages.get(queue).await {
                    Err(kube::Error::Api(status)) if is_of_missing_kind(&status) => {
                        return Ok(Found::PodsOf(PodsOf::Shown(0)));
                    }
                    usage => existing(usage)?,
                };
                Found::PodsOf(match usage.and_then(|usage| usage.0.ok()?.status) {
                    Some(status) => PodsOf::Shown(u64::try_from(status.admitted_pods).unwrap_or(0)),
                    None if is_new(&client, queue).await? => PodsOf::Shown(0),
                    None => PodsOf::NotShown,
                })
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
                // The semaphore is never closed, so this never fails.
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

/// Whether the kind of an object that was not found is not installed.
fn is_of_missing_kind(status: &Status) -> bool {
    status.code == NOT_FOUND && status.reason != OBJECT_NOT_FOUND
}

/// Whether a queue was made so lately that it has no pods, or does not exist.
async fn is_new(client: &Client, queue: &str) -> Result<bool, kube::Error> {
    let queue = existing(Api::<Queue>::all(client.clone()).get_metadata(queue).await)?;
    let made = queue.and_then(|queue| queue.metadata.creation_timestamp);
    Ok(made.is_none_or(|Time(made)| clock::now().duration_since(made) < NEW))
}

/// Keeps of a claim only what is judged. A review holds it until it is answered, and many reviews may be under way.
fn judged(mut spec: ClaimSpec) -> Arc<ClaimSpec> {
    cut_excess(&mut spec);
    Arc::new(spec)
}

/// Returns an object if it exists. A kind that is not installed has no objects. kube's own `get_opt` takes that for a
/// failure, since the API server's answer is then no `Status`.
fn existing<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}
