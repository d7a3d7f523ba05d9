//! The objects that the API server stores, by resource, namespace and name, and the record of who wrote what and when.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::door::Door;

/// A resource that this API server knows.
#[expect(missing_docs, reason = "the fields are named as discovery names them")]
#[derive(Debug, Eq)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// In the plural, as paths name it.
    pub plural: &'static str,
    pub kind: &'static str,
    pub is_namespaced: bool,
    /// Whether its status is written separately.
    pub has_status: bool,
}

/// Each resource is one static, so comparing addresses is enough; the comparison is made all the time.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> Ordering {
        let name = |of: &Self| (of.group, of.version, of.plural);
        // The resource looked for usually exists, and is the same static.
        if self == other {
            Ordering::Equal
        } else {
            name(self).cmp(&name(other))
        }
    }
}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Defines the resources, each as a static of its own, and the list of all.
macro_rules! resources {
    ($($name:ident = $group:literal $version:literal $plural:literal $kind:literal $is_namespaced:literal $has_status:literal;)*) => {
        $(
            #[doc = concat!("`", $plural, "`.")]
            pub static $name: Resource = Resource {
                group: $group,
                version: $version,
                plural: $plural,
                kind: $kind,
                is_namespaced: $is_namespaced,
                has_status: $has_status,
            };
        )*
        /// Every resource.
        pub static RESOURCES: &[&Resource] = &[$(&$name),*];
    };
}

resources! {
    PODS = "" "v1" "pods" "Pod" true true;
    NODES = "" "v1" "nodes" "Node" false true;
    NAMESPACES = "" "v1" "namespaces" "Namespace" false true;
    CONFIG_MAPS = "" "v1" "configmaps" "ConfigMap" true false;
    SECRETS = "" "v1" "secrets" "Secret" true false;
    SERVICES = "" "v1" "services" "Service" true true;
    EVENTS = "events.k8s.io" "v1" "events" "Event" true false;
    LEASES = "coordination.k8s.io" "v1" "leases" "Lease" true false;
    JOBS = "batch" "v1" "jobs" "Job" true true;
    REPLICA_SETS = "apps" "v1" "replicasets" "ReplicaSet" true true;
    DEPLOYMENTS = "apps" "v1" "deployments" "Deployment" true true;
    POD_DISRUPTION_BUDGETS = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" true true;
    QUEUES = "scheduling.volcano.sh" "v1beta1" "queues" "Queue" false true;
    POD_GROUPS = "scheduling.volcano.sh" "v1beta1" "podgroups" "PodGroup" true false;
    VOLCANO_JOBS = "batch.volcano.sh" "v1alpha1" "jobs" "Job" true true;
    SLICES = "resource.k8s.io" "v1" "resourceslices" "ResourceSlice" false false;
    DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses" "DeviceClass" false false;
    DEVICE_TAINT_RULES = "resource.k8s.io" "v1" "devicetaintrules" "DeviceTaintRule" false false;
    RESOURCE_CLAIMS = "resource.k8s.io" "v1" "resourceclaims" "ResourceClaim" true true;
    CLAIM_TEMPLATES = "resource.k8s.io" "v1" "resourceclaimtemplates" "ResourceClaimTemplate" true false;
    CARD_INVENTORIES = "card.volcano.sh" "v1alpha1" "cardinventories" "CardInventory" false true;
    CARD_TYPES = "card.volcano.sh" "v1alpha1" "cardtypes" "CardType" false true;
    CARD_USAGES = "card.volcano.sh" "v1alpha1" "cardusages" "CardUsage" false true;
}

/// An object's place within its resource; the namespace is empty where there is none.
#[expect(missing_docs, reason = "one line says it")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// A key with this namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A refusal by the API server, as its HTTP status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 404.
    NotFound,
    /// 409, for an object that exists already.
    AlreadyExists,
    /// 409, for an outdated version, or the uid of another object.
    Conflict,
    /// 422.
    Invalid(String),
    /// 403, for an object that a webhook refuses.
    Denied(String),
}

/// One change of an object, as watches deliver it and the audit log attributes it.
#[derive(Debug, Clone)]
pub struct Write {
    /// The author: a program of this world, such as `operator-0`, `scheduler`, `user`.
    pub who: Arc<str>,
    /// The time in this world.
    pub at: Timestamp,
    /// The same by a clock that nobody sets: the age of the world.
    pub age: Duration,
    /// By the same clock, when the author sent it.
    pub sent: Duration,
    /// The resource version that the write made. Versions grow by one.
    pub version: u64,
    /// The kind of object.
    pub resource: &'static Resource,
    /// Which object.
    pub key: Key,
    /// `None` for a creation.
    pub before: Option<Arc<Value>>,
    /// `None` for a deletion.
    pub after: Option<Arc<Value>>,
}

/// All objects, and the writes that made them.
///
/// It knows what all objects have in common (metadata, versions, deletion). What a single kind requires is up to the API
/// server and the controllers.
#[derive(Debug)]
pub struct Objects {
    by_resource: BTreeMap<&'static Resource, BTreeMap<Key, Arc<Value>>>,
    writes: Vec<Write>,
    version: u64,
    uids: u64,
    /// The webhook that is asked before anything is stored; `None` in worlds where the webhook does not matter.
    door: Option<Door>,
    /// Whether devices and claims for them are served, as of Kubernetes 1.34.
    pub has_devices: bool,
    /// How long this world has existed: unlike [`Self::now`], a clock that does not jump.
    pub age: Duration,
    /// When the current request was sent, if that was earlier.
    pub sent: Option<Duration>,
    /// The time in this world, which is written on objects that are created and deleted.
    pub now: Timestamp,
}

impl Objects {
    /// An API server that stores nothing yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            by_resource: BTreeMap::new(),
            writes: Vec::new(),
            version: 1,
            uids: 0,
            door: None,
            has_devices: false,
            age: Duration::ZERO,
            sent: None,
            now,
        }
    }

    /// The same behind the real webhook, which from now on checks what is created and changed.
    #[must_use]
    pub fn behind_door(mut self) -> Self {
        let mut door = Door::default();
        for (resource, of_kind) in &self.by_resource {
            for (key, object) in of_kind {
                door.see(resource, key, Some(object));
            }
        }
        self.door = Some(door);
        self
    }

    /// Whether objects of this kind are served.
    pub fn serves(&self, resource: &Resource) -> bool {
        self.has_devices || resource.group != SLICES.group
    }

    /// Lets time go on until `now`, if that is later.
    pub fn pass_until(&mut self, now: Timestamp) {
        if now > self.now {
            self.age += now.duration_since(self.now).unsigned_abs();
            self.now = now;
        }
    }

    /// The newest resource version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The writes after this resource version, oldest first.
    pub fn writes_after(&self, version: u64) -> &[Write] {
        &self.writes[self.writes.partition_point(|write| write.version <= version)..]
    }

    /// Returns all writes, and forgets them.
    pub fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// One object.
    pub fn get(&self, resource: &'static Resource, key: &Key) -> Option<&Arc<Value>> {
        self.by_resource.get(resource)?.get(key)
    }

    /// All objects of a resource, by namespace and name.
    pub fn list(&self, resource: &'static Resource) -> impl Iterator<Item = (&Key, &Arc<Value>)> + Clone {
        self.by_resource.get(resource).into_iter().flatten()
    }

    /// Stores a new object, with what the API server adds: uid, creation time, version, and a name made of `generateName`.
    pub fn create(
        &mut self,
        who: &Arc<str>,
        resource: &'static Resource,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let uid = self.uids + 1;
        let metadata = object
            .as_object_mut()
            .and_then(|object| object.entry("metadata").or_insert_with(|| json!({})).as_object_mut())
            .ok_or_else(|| Refusal::Invalid("metadata: not an object".to_owned()))?;
        if !metadata.contains_key("name") {
            let prefix = metadata.get("generateName").and_then(Value::as_str);
            let prefix = prefix.ok_or_else(|| Refusal::Invalid("metadata.name: required".to_owned()))?;
            metadata.insert("name".to_owned(), format!("{prefix}{uid:05}").into());
        }
        let key = Key::new(
            metadata.get("namespace").and_then(Value::as_str).unwrap_or_default(),
            metadata.get("name").and_then(Value::as_str).unwrap_or_default(),
        );
        if self.get(resource, &key).is_some() {
            return Err(Refusal::AlreadyExists);
        }
        self.uids += 1;
        let uid = self.uids;
        metadata.insert("uid".to_owned(), format!("00000000-0000-4000-8000-{uid:012}").into());
        metadata.insert("creationTimestamp".to_owned(), seconds(self.now).into());
        metadata.insert("generation".to_owned(), 1.into());
        object["apiVersion"] = api_version(resource).into();
        object["kind"] = resource.kind.into();
        if let Some(door) = &self.door {
            door.review(who, resource, &key, None, &mut object)?;
        }
        if resource == &PODS && object["status"]["phase"].is_null() {
            object["status"]["phase"] = "Pending".into();
        }
        Ok(self.store(who, resource, key, None, object))
    }

    /// Changes an object: `change` gets the stored one. A change that leaves it as it is writes nothing.
    ///
    /// If `change` alters `metadata.resourceVersion` or `uid`, that is a conflict, as when a client sends an old object.
    pub fn change(
        &mut self,
        who: &Arc<str>,
        resource: &'static Resource,
        key: &Key,
        change: impl FnOnce(&mut Value) -> Result<(), Refusal>,
    ) -> Result<Arc<Value>, Refusal> {
        let before = Arc::clone(self.get(resource, key).ok_or(Refusal::NotFound)?);
        let mut after = Value::clone(&before);
        change(&mut after)?;
        for field in ["resourceVersion", "uid"] {
            if after["metadata"][field] != before["metadata"][field] {
                return Err(Refusal::Conflict);
            }
        }
        if after == *before {
            return Ok(before);
        }
        if let Some(door) = &self.door
            && (after["spec"] != before["spec"] || after["metadata"] != before["metadata"])
        {
            door.review(who, resource, key, Some(&before), &mut after)?;
        }
        if after["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_u64().unwrap_or(0);
            after["metadata"]["generation"] = (generation + 1).into();
        }
        if is_being_deleted(&after) && !has_finalizers(&after) && resource != &PODS {
            self.forget(who, resource, key, &before);
            return Ok(before);
        }
        Ok(self.store(who, resource, key.clone(), Some(before), after))
    }

    /// Requests the deletion of an object. A pod that runs on a node stays until its kubelet has stopped it
    /// ([`Self::finish`]), and an object with finalizers until they are gone. Everything else is removed at once.
    pub fn delete(&mut self, who: &Arc<str>, resource: &'static Resource, key: &Key) -> Result<(), Refusal> {
        let before = Arc::clone(self.get(resource, key).ok_or(Refusal::NotFound)?);
        let runs = resource == &PODS
            && before["spec"]["nodeName"].is_string()
            && !matches!(before["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !runs && !has_finalizers(&before) {
            self.forget(who, resource, key, &before);
        } else if !is_being_deleted(&before) {
            let mut after = Value::clone(&before);
            after["metadata"]["deletionTimestamp"] = seconds(self.now).into();
            self.store(who, resource, key.clone(), Some(before), after);
        }
        Ok(())
    }

    /// Removes an object whatever holds it back, as a kubelet does with a pod that has stopped.
    pub fn finish(&mut self, who: &Arc<str>, resource: &'static Resource, key: &Key) -> Result<(), Refusal> {
        let before = Arc::clone(self.get(resource, key).ok_or(Refusal::NotFound)?);
        self.forget(who, resource, key, &before);
        Ok(())
    }

    fn forget(&mut self, who: &Arc<str>, resource: &'static Resource, key: &Key, before: &Arc<Value>) {
        if let Some(of_kind) = self.by_resource.get_mut(resource) {
            of_kind.remove(key);
        }
        if let Some(door) = &mut self.door {
            door.see(resource, key, None);
        }
        self.note(who, resource, key.clone(), Some(Arc::clone(before)), None);
    }

    fn store(
        &mut self,
        who: &Arc<str>,
        resource: &'static Resource,
        key: Key,
        before: Option<Arc<Value>>,
        mut after: Value,
    ) -> Arc<Value> {
        after["metadata"]["resourceVersion"] = (self.version + 1).to_string().into();
        let after = Arc::new(after);
        if let Some(door) = &mut self.door {
            door.see(resource, &key, Some(&after));
        }
        self.by_resource
            .entry(resource)
            .or_default()
            .insert(key.clone(), Arc::clone(&after));
        self.note(who, resource, key, before, Some(Arc::clone(&after)));
        after
    }

    fn note(
        &mut self,
        who: &Arc<str>,
        resource: &'static Resource,
        key: Key,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
    ) {
        self.version += 1;
        let (who, at, version) = (Arc::clone(who), self.now, self.version);
        self.writes.push(Write {
            who,
            at,
            age: self.age,
            sent: self.sent.unwrap_or(self.age),
            version,
            resource,
            key,
            before,
            after,
        });
    }
}

/// Returns the `apiVersion` of the resource's objects.
pub fn api_version(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.version.to_owned()
    } else {
        format!("{}/{}", resource.group, resource.version)
    }
}

/// Formats a time as `metav1.Time` does: to the second.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

fn is_being_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}
