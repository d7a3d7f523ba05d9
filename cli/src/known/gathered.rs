//! Gathers what is known from files and from a cluster, one object at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use crds::card_type::CardType;
use crds::configuration::Configuration;
use crds::dra::{ClaimSpec, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crds::keys::{CONFIG_MAP, NAMESPACE};
use crds::queue_terms::Item;
use crds::volcano::{PodGroup, Queue};
use engine::Observation;
use engine::cluster::Cluster as Engine;
use engine::overview::{Shown, changed};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::{DeserializeGuard, ObjectMeta};
use programs::configuration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use webhook::knowledge::{CardFacts, GroupFacts, Knowledge, NamespaceFacts, QueueFacts, group_key};

use super::{Asks, ClaimKey, Known, is_configuration};
use crate::cluster::Cluster;
use crate::failure::{Failure, lacks_right, words};
use crate::manifests::Manifest;

/// What has been gathered so far.
#[derive(Default)]
pub(super) struct Gathered {
    /// The namespace of objects that name none.
    namespace: String,
    queues: HashMap<Box<str>, Arc<QueueFacts>>,
    groups: HashMap<Box<str>, Arc<GroupFacts>>,
    namespaces: HashMap<Box<str>, Arc<NamespaceFacts>>,
    cards: HashMap<Box<str>, CardFacts>,
    configuration: Option<Arc<Configuration>>,
    nodes: Vec<crds::node::Node<Box<str>>>,
    slices: Vec<ResourceSlice>,
    claims: BTreeMap<ClaimKey, Arc<ClaimSpec>>,
    knows_claims_of: BTreeSet<(Asks, String)>,
    classes: BTreeMap<String, Arc<DeviceClass>>,
    knows_classes: bool,
    pods_of: BTreeMap<String, u64>,
    knows_cards: bool,
    knows_queues: bool,
    knows_groups_of: BTreeSet<String>,
    unchecked: BTreeSet<String>,
    /// Why the configuration could not be read, in brackets.
    unread_settings: String,
}

impl Gathered {
    /// Begins with nothing. Objects that name no namespace are in the user's.
    pub(super) fn for_user_of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Asks the cluster for what the user may see. What the user may not see is noted.
    pub(super) async fn ask(&mut self, cluster: &Cluster, manifests: &[Manifest]) -> Result<(), Failure> {
        for queue in cluster.queues().await? {
            self.add_queue(queue);
        }
        for card in cluster.card_types().await? {
            self.add_card(card);
        }
        (self.knows_queues, self.knows_cards) = (true, true);
        self.ask_for_claims(cluster, manifests).await;
        match cluster.usages_of_queues().await {
            Ok(usages) => self.pods_of.extend(usages.into_iter().filter_map(|usage| {
                // Only admitted pods count, as for the door. Waiting pods may wait elsewhere, or for ever.
                let pods = usage.status?.admitted_pods;
                Some((usage.spec.queue, u64::try_from(pods).unwrap_or(0)))
            })),
            Err(failure) => {
                self.unchecked.insert(format!("whether queues have pods: {failure}"));
            }
        }
        match cluster
            .get_if_seen::<core::ConfigMap>(Some(NAMESPACE), CONFIG_MAP)
            .await
        {
            Ok(found) => {
                self.configuration = found
                    .and_then(|found| configuration::parse(Some(&found)).ok())
                    .map(|read| read.configuration.into());
            }
            Err(error) => {
                self.unread_settings = format!(" ({error})");
            }
        }
        let namespaces = manifests.iter().filter_map(Manifest::namespace);
        for name in namespaces.chain([&*cluster.namespace]).collect::<BTreeSet<_>>() {
            if let Ok(Some(found)) = cluster.get_if_seen::<core::Namespace>(None, name).await {
                let facts = NamespaceFacts::read(&found.metadata);
                self.namespaces.insert(name.into(), Arc::new(facts));
            }
            let Ok(groups) = cluster.groups(name).await else {
                continue;
            };
            self.knows_groups_of.insert(name.to_owned());
            for group in groups {
                let key = group_key(name, &group.name_any());
                self.groups
                    .insert(key.into(), Arc::new(GroupFacts::naming(group.spec.queue.as_deref())));
            }
        }
        Ok(())
    }

    /// Asks for classes, and for what the pods of these namespaces may claim. If the user may not read these, only the files
    /// count, with a note.
    async fn ask_for_claims(&mut self, cluster: &Cluster, manifests: &[Manifest]) {
        let group = "resource.k8s.io";
        match cluster.everything(group, "v1", "DeviceClass", "deviceclasses").await {
            Ok(classes) => {
                self.knows_classes = true;
                let named = classes.iter().filter_map(|class| {
                    let name = class["metadata"]["name"].as_str()?.to_owned();
                    Some((name, Arc::new(read::<DeviceClass>(class)?)))
                });
                self.classes.extend(named);
            }
            Err(error) => self.not_asked("which classes of devices there are", "deviceclasses", &error),
        }
        let namespaces = manifests.iter().filter_map(Manifest::namespace);
        let namespaces: BTreeSet<_> = namespaces.chain([&*cluster.namespace]).collect();
        for (asks, kind, plural) in [
            (Asks::Claim, "ResourceClaim", "resourceclaims"),
            (Asks::Template, "ResourceClaimTemplate", "resourceclaimtemplates"),
        ] {
            for namespace in &namespaces {
                match cluster.everything_in(Some(namespace), group, "v1", kind, plural).await {
                    Ok(found) => {
                        self.knows_claims_of.insert((asks, (*namespace).to_owned()));
                        for object in found {
                            let file = "the cluster".to_owned();
                            self.take_claim(&Manifest { file, object });
                        }
                    }
                    Err(error) => {
                        let what = format!("what every {kind} of namespace {namespace} asks for");
                        self.not_asked(&what, plural, &error);
                    }
                }
            }
        }
    }

    /// Notes that something could not be listed. A kind that the cluster does not have is not missed.
    fn not_asked(&mut self, what: &str, plural: &str, error: &kube::Error) {
        let why = match error {
            kube::Error::Api(status) if status.code == 404 => return,
            error if lacks_right(error) => format!("you may not list {plural}"),
            error => words(error),
        };
        self.unchecked.insert(format!("{what}: {why}"));
    }

    fn add_card(&mut self, card: CardType) {
        self.cards.insert(card.spec.card_name.as_str().into(), card.into());
    }

    fn add_queue(&mut self, queue: Queue) {
        let name = queue.name_any();
        self.queues.insert(name.into(), Arc::new(QueueFacts::read(&Ok(queue))));
    }

    /// Takes in what an object of the files says about others.
    pub(super) fn take(&mut self, manifest: &Manifest) {
        let name = manifest.name();
        match manifest.group_and_kind() {
            ("scheduling.volcano.sh", "Queue") => {
                if let Some(DeserializeGuard(queue)) = read::<DeserializeGuard<Queue>>(&manifest.object) {
                    self.queues.insert(name.into(), Arc::new(QueueFacts::read(&queue)));
                }
            }
            ("scheduling.volcano.sh", "PodGroup") => self.take_group(manifest),
            ("", "Namespace") => {
                if let Some(metadata) = read::<ObjectMeta>(&manifest.object["metadata"]) {
                    self.namespaces
                        .insert(name.into(), Arc::new(NamespaceFacts::read(&metadata)));
                }
            }
            ("resource.k8s.io", "ResourceSlice") => self.slices.extend(read(&manifest.object)),
            ("resource.k8s.io", "DeviceClass") => {
                if let Some(class) = read::<DeviceClass>(&manifest.object) {
                    self.classes.insert(name.to_owned(), Arc::new(class));
                }
            }
            ("resource.k8s.io", "ResourceClaim" | "ResourceClaimTemplate") => self.take_claim(manifest),
            ("", "Node") => self.nodes.extend(read(&manifest.object)),
            ("", "ConfigMap") if is_configuration(manifest) => {
                let read = read(&manifest.object).and_then(|found| configuration::parse(Some(&found)).ok());
                self.configuration = read.map(|read| read.configuration.into()).or(self.configuration.take());
            }
            ("card.volcano.sh", "CardType") => {
                if let Some(card) = read::<CardType>(&manifest.object) {
                    self.knows_cards = true;
                    self.add_card(card);
                }
            }
            _ => {}
        }
    }

    /// Takes in a group. Without a namespace it is in the user's. Without a queue it keeps the queue that it has in the
    /// cluster.
    fn take_group(&mut self, manifest: &Manifest) {
        let key = group_key(manifest.namespace().unwrap_or(&self.namespace), manifest.name());
        if manifest.leaves_queue_out() && self.groups.contains_key(&*key) {
            return;
        }
        let mut manifest = manifest.clone();
        manifest.write_defaults();
        if let Some(DeserializeGuard(group)) = read::<DeserializeGuard<PodGroup>>(&manifest.object) {
            let queue = group.as_ref().ok().and_then(|group| group.spec.queue.as_deref());
            self.groups.insert(key.into(), Arc::new(GroupFacts::naming(queue)));
        }
    }

    /// Takes in what a claim asks for, or the claims of a template. Without a namespace it is in the user's.
    fn take_claim(&mut self, manifest: &Manifest) {
        let namespace = manifest.namespace().unwrap_or(&self.namespace).to_owned();
        let found = if manifest.group_and_kind().1 == "ResourceClaim" {
            read::<ResourceClaim>(&manifest.object).map(|claim| (Asks::Claim, claim.spec))
        } else {
            read::<ResourceClaimTemplate>(&manifest.object).map(|template| (Asks::Template, template.spec.spec))
        };
        if let Some((asks, spec)) = found {
            let key = (asks, namespace, manifest.name().to_owned());
            self.claims.insert(key, Arc::new(spec));
        }
    }

    pub(super) fn known(mut self) -> Known {
        let configuration = self.configuration.take();
        if configuration.is_none() {
            let why = &self.unread_settings;
            self.unchecked.insert(format!(
                "settings of the cluster{why}: its defaults are taken; name its ConfigMap cardgate-config by -f"
            ));
        }
        let configuration = configuration.unwrap_or_default();
        if !self.nodes.is_empty() || !self.slices.is_empty() {
            self.knows_cards = true;
            let (nodes, slices) = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.slices));
            let (cards, problems) = cards_of(nodes, &slices, &self.classes, &configuration);
            self.cards.extend(cards);
            self.unchecked.extend(problems);
        }
        let named = self.queues.values().flat_map(|queue| queue.terms.capability.keys());
        let named = named.filter_map(|item| match item {
            Item::Card(card) => Some(card.to_string()),
            Item::Resource(_) => None,
        });
        let named = named.collect();
        let knowledge = Knowledge::default();
        knowledge.queues.replace(self.queues);
        knowledge.groups.replace(self.groups);
        knowledge.namespaces.replace(self.namespaces);
        knowledge.card_types.replace(self.cards);
        knowledge.configure(Some(configuration), None);
        Known {
            knowledge: Arc::new(knowledge),
            named,
            knows_cards: self.knows_cards,
            knows_queues: self.knows_queues,
            knows_groups_of: self.knows_groups_of,
            pods_of: self.pods_of,
            claims: self.claims,
            knows_claims_of: self.knows_claims_of,
            classes: self.classes,
            knows_classes: self.knows_classes,
            supposed: Mutex::default(),
            unchecked: self.unchecked,
        }
    }
}

/// Returns the cards of nodes, as the operator discovers them, each with its resource, and what is wrong with nodes.
fn cards_of(
    mut nodes: Vec<crds::node::Node<Box<str>>>,
    slices: &[ResourceSlice],
    classes: &BTreeMap<String, Arc<DeviceClass>>,
    configuration: &Arc<Configuration>,
) -> (HashMap<Box<str>, CardFacts>, Vec<String>) {
    let (mut cluster, now) = (Engine::new(Arc::clone(configuration)), Timestamp::UNIX_EPOCH);
    // Files that contain the slices of nodes need not contain the nodes.
    let named: BTreeSet<_> = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
    let others = slices.iter().map(|slice| &slice.spec.node_name);
    let others: BTreeSet<_> = others
        .filter(|name| !name.is_empty() && !named.contains(*name))
        .collect();
    nodes.extend(others.into_iter().map(|name| {
        let mut node = crds::node::Node::default();
        node.metadata.name = Some(name.clone());
        node
    }));
    for slice in slices {
        cluster.apply(Observation::Slice(Box::new(slice.clone())), now);
    }
    for class in classes.values() {
        cluster.apply(Observation::Class(Box::new(DeviceClass::clone(class))), now);
    }
    for node in nodes {
        cluster.apply(Observation::Node(Box::new(node)), now);
    }
    let changes = cluster.take_changes();
    let (mut cards, mut problems) = (HashMap::new(), Vec::new());
    for shown in changed(&cluster, changes) {
        match shown {
            Shown::CardType {
                card,
                content: Some((spec, status)),
                ..
            } => {
                let mut of_type = CardType::new(&card, spec);
                of_type.status = Some(status);
                cards.insert((&*card).into(), of_type.into());
            }
            Shown::Inventory {
                node,
                status: Some(status),
                ..
            } if !status.problems.is_empty() => {
                problems.push(format!("all cards of node {node}: {}", status.problems));
            }
            _ => {}
        }
    }
    (cards, problems)
}

/// Parses an object as a type; `None` if it can't be parsed, which the object's own verdict reports.
fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    // From text, since a type that borrows from its input can't be read from values.
    serde_json::from_str(&object.to_string()).ok()
}
