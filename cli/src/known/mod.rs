//! What is known besides the object that is judged: the other objects in the files, and what a cluster says, if one may be
//! asked.

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
use webhook::view::{Found, Lookup, PodsOf};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests::Manifest;

/// What is known, and what had to be assumed because it is not known.
#[derive(Debug)]
pub struct Known {
    /// The knowledge in the form that the door reads.
    pub knowledge: Arc<Knowledge>,
    /// Names of cards for which queues of the files have a quota. An unknown name that resembles one of them may be meant as
    /// it.
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
    /// Namespaces of which all claims, or all claim templates, are known.
    knows_claims_of: BTreeSet<(Asks, String)>,
    /// Classes of devices by name.
    classes: BTreeMap<String, Arc<DeviceClass>>,
    /// Whether all classes are known.
    pub knows_classes: bool,
    supposed: Mutex<BTreeSet<Supposed>>,
    /// What could not be found out at all.
    pub unchecked: BTreeSet<String>,
}

/// What had to be assumed to judge one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Supposed {
    /// The queue exists, and is open to the namespace.
    Queue(String),
    /// The group exists, and names no queue.
    Group(String),
    /// The namespace has no labels and names no queue.
    Namespace(String),
    /// The queue has no pods.
    PodsOf(String),
    /// The claim or claim template asks for the cards that its pods name.
    Claim {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Whether all such objects of the namespace are known, and this is none of them.
        is_missing: bool,
    },
    /// The class of devices exists.
    Class(String),
}

/// The object that says what a pod's claims ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asks {
    Claim,
    Template,
}

/// Whether it is a claim or a template, its namespace, and its name.
type ClaimKey = (Asks, String, String);

impl Known {
    /// Gathers what the files contain, and what the cluster says, if one is asked.
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

    /// Returns what had to be assumed since the last call.
    pub fn take_supposed(&self) -> BTreeSet<Supposed> {
        std::mem::take(&mut *self.supposed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the known classes of devices.
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
            Lookup::PodsOf(queue) => {
                Found::PodsOf(PodsOf::Shown(self.pods_of.get(queue).copied().unwrap_or_else(|| {
                    self.suppose(Supposed::PodsOf(queue.clone()));
                    0
                })))
            }
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

/// Whether this is Cardgate's own configuration.
pub fn is_configuration(manifest: &Manifest) -> bool {
    manifest.group_and_kind() == ("", "ConfigMap")
        && manifest.name() == CONFIG_MAP
        && manifest.namespace().is_none_or(|namespace| namespace == NAMESPACE)
}
