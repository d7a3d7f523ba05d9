//! What is known besides the object that is judged: what stands in the same files, and what a cluster says that may be asked.

mod gathered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crds::dra::{ClaimSpec, DeviceClass};
use crds::keys::{CONFIG_MAP, NAMESPACE};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use gathered::Gathered;
use webhook::knowledge::{Knowledge, group_key};
use webhook::lookup::{LookupError, Lookups};
use webhook::view::{Found, Lookup};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests::Manifest;

/// What is known, and what had to be supposed since it is not.
#[derive(Debug)]
pub struct Known {
    /// As the door reads it.
    pub knowledge: Arc<Knowledge>,
    /// Names of cards that queues of the files have a quota for; what is written like one of them may be meant.
    pub named: BTreeSet<String>,
    /// Whether it is known which cards there are.
    pub knows_cards: bool,
    /// Whether all queues are known.
    knows_queues: bool,
    /// Namespaces of which all groups are known.
    knows_groups_of: BTreeSet<String>,
    /// How many pods each queue has, as the cluster says.
    pods_of: BTreeMap<String, u64>,
    claims: BTreeMap<ClaimKey, Arc<ClaimSpec>>,
    /// Namespaces of which all claims, or all that claims are made from, are known.
    knows_claims_of: BTreeSet<(Asks, String)>,
    /// Classes of devices by name.
    classes: BTreeMap<String, Arc<DeviceClass>>,
    /// Whether all classes are known.
    pub knows_classes: bool,
    supposed: Mutex<BTreeSet<Supposed>>,
    /// What could not be learned at all.
    pub unchecked: BTreeSet<String>,
}

/// What had to be supposed to judge one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Supposed {
    /// That the queue is there, open to the namespace.
    Queue(String),
    /// That the group is there, and names no queue.
    Group(String),
    /// That the namespace has no labels and names no queue.
    Namespace(String),
    /// That the queue has no pods.
    PodsOf(String),
    /// That the claim, or what claims are made from, asks for what its pods name.
    Claim {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Whether all of its namespace are known, and it is none of them.
        is_missing: bool,
    },
    /// That the class of devices is there.
    Class(String),
}

/// What says what a pod's claims ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asks {
    Claim,
    Template,
}

/// Whether it is a claim or a template, and its namespace and name.
type ClaimKey = (Asks, String, String);

impl Known {
    /// What stands in the files, and what the cluster says, if one is asked.
    pub async fn of(manifests: &[Manifest], cluster: Option<&Cluster>, namespace: &str) -> Result<Self, Failure> {
        let mut gathered = Gathered::for_user_of(namespace);
        if let Some(cluster) = cluster {
            gathered.ask(cluster, manifests).await?;
        }
        for manifest in manifests {
            gathered.take(manifest);
        }
        Ok(gathered.known())
    }

    /// What had to be supposed since this was asked last.
    pub fn take_supposed(&self) -> BTreeSet<Supposed> {
        std::mem::take(&mut *self.supposed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The classes of devices that are known.
    pub fn classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.classes.values().map(Arc::as_ref)
    }

    fn claim(&self, asks: Asks, namespace: &str, name: &str, kind: &'static str) -> Option<Arc<ClaimSpec>> {
        let found = self.claims.get(&(asks, namespace.to_owned(), name.to_owned())).cloned();
        if found.is_none() {
            self.suppose(Supposed::Claim {
                kind,
                name: name.to_owned(),
                is_missing: self.knows_claims_of.contains(&(asks, namespace.to_owned())),
            });
        }
        found
    }

    fn suppose(&self, supposed: Supposed) {
        let mut all = self.supposed.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(supposed);
    }
}

impl Lookups for Known {
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>> {
        let found = match lookup {
            Lookup::Queue(name) => {
                let queue = self.knowledge.queues.get(name);
                if queue.is_none() && !self.knows_queues {
                    self.suppose(Supposed::Queue(name.clone()));
                }
                Found::Queue(queue)
            }
            Lookup::Group { namespace, name } => {
                let group = self.knowledge.groups.get(&group_key(namespace, name));
                Found::Group(group.or_else(|| {
                    (!self.knows_groups_of.contains(namespace)).then(|| {
                        self.suppose(Supposed::Group(name.clone()));
                        Arc::default()
                    })
                }))
            }
            Lookup::Namespace(name) => {
                let facts = self.knowledge.namespaces.get(name);
                Found::Namespace(Some(facts.unwrap_or_else(|| {
                    self.suppose(Supposed::Namespace(name.clone()));
                    Arc::default()
                })))
            }
            Lookup::PodsOf(queue) => Found::PodsOf(self.pods_of.get(queue).copied().unwrap_or_else(|| {
                self.suppose(Supposed::PodsOf(queue.clone()));
                0
            })),
            Lookup::Claim { namespace, name } => {
                Found::Claim(self.claim(Asks::Claim, namespace, name, "ResourceClaim"))
            }
            Lookup::ClaimTemplate { namespace, name } => {
                Found::Claim(self.claim(Asks::Template, namespace, name, "ResourceClaimTemplate"))
            }
            Lookup::Class(name) => {
                let class = self.classes.get(name).cloned();
                if class.is_none() && !self.knows_classes {
                    self.suppose(Supposed::Class(name.clone()));
                }
                Found::Class(class)
            }
        };
        std::future::ready(Ok(found)).boxed()
    }
}

/// Whether it is Cardgate's own configuration.
pub fn is_configuration(manifest: &Manifest) -> bool {
    manifest.group_and_kind() == ("", "ConfigMap")
        && manifest.name() == CONFIG_MAP
        && manifest.namespace().is_none_or(|namespace| namespace == NAMESPACE)
}
