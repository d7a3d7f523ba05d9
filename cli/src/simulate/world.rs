//! The objects that are simulated: those of a cluster, those of files, and the changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::keys::{CONFIG_MAP, NAMESPACE};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use super::claims::Templates;
use super::there::{Named, named, pods_of};
use super::{Refused, volcano_job};
use crate::applied::{Old, updated};
use crate::changes::{self, ChangeError};
use crate::cluster::Cluster;
use crate::door::{Door, write};
use crate::failure::{Failure, words};
use crate::known::Known;
use crate::manifests::Manifest;
use crate::priorities::Priorities;
use crate::templates::{count, owner_references, pod_of, template};

/// The kinds that are read from a cluster: group, version, kind and plural.
const KINDS: [(&str, &str, &str, &str); 12] = [
    ("", "v1", "Node", "nodes"),
    ("scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
    ("", "v1", "Namespace", "namespaces"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    ("batch", "v1", "Job", "jobs"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"),
    ("resource.k8s.io", "v1", "DeviceTaintRule", TAINT_RULES),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    (
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
    ),
    ("", "v1", "Pod", "pods"),
];
/// The kinds that a cluster may lack.
const OPTIONAL: [&str; 7] = [
    "priorityclasses",
    "podgroups",
    "resourceslices",
    "deviceclasses",
    TAINT_RULES,
    "resourceclaims",
    "resourceclaimtemplates",
];
/// Rules that taint devices.
const TAINT_RULES: &str = "devicetaintrules";
/// The prefix of the unique ids of made-up objects.
pub const IMAGINED: &str = "simulated-";
/// The most pods that one object makes in a simulation.
const MOST: u64 = 10_000;

/// Everything that is simulated.
#[derive(Debug, Default)]
pub struct World {
    objects: Vec<Manifest>,
    /// How many of the objects exist in the cluster.
    there: usize,
    /// The existing objects that files or simulated changes modify, as they are in the cluster, by their places.
    changed: BTreeMap<usize, Value>,
    /// How many objects were made up so far.
    imagined: usize,
    /// The cards for which queues were given another quota.
    pub given: Vec<String>,
    /// The claim templates.
    templates: Templates,
    /// The priorities of priority classes.
    pub priorities: Priorities,
    /// What is not simulated, and why.
    pub notes: Vec<String>,
    /// What the door lets nobody create or change.
    pub refused: Vec<Refused>,
    /// The objects that the files contain or make, and that exist already.
    pub named: BTreeSet<Named>,
}

impl World {
    /// A world with these objects of a cluster.
    #[cfg(test)]
    pub fn there(objects: Vec<Manifest>) -> Self {
        Self {
            there: objects.len(),
            objects,
            ..Self::default()
        }
    }

    /// Reads the objects of a cluster.
    pub async fn of_cluster(cluster: &Cluster) -> Result<Self, Failure> {
        let mut world = Self::default();
        for (group, version, kind, plural) in KINDS {
            let listed = cluster.everything(group, version, kind, plural).await;
            let objects = match listed {
                Ok(objects) => objects,
                // Before Kubernetes 1.37 this kind does not exist.
                Err(kube::Error::Api(status)) if plural == TAINT_RULES && status.code == 404 => continue,
                Err(error) if OPTIONAL.contains(&plural) => {
                    if kind == "PriorityClass" {
                        world.priorities.note_unknown(&error);
                    }
                    world.notes.push(format!("{plural} can't be read: {}", words(&error)));
                    continue;
                }
                Err(error) => return Err(Failure::of_everything(plural, &error)),
            };
            world.objects.extend(objects.into_iter().map(|object| Manifest {
                file: "the cluster".to_owned(),
                object,
            }));
        }
        match cluster.get_if_seen::<ConfigMap>(Some(NAMESPACE), CONFIG_MAP).await {
            Ok(found) => world.objects.extend(found.and_then(|found| {
                let mut object = serde_json::to_value(found).ok()?;
                object["apiVersion"] = "v1".into();
                object["kind"] = "ConfigMap".into();
                let file = "the cluster".to_owned();
                Some(Manifest { file, object })
            })),
            Err(error) => world
                .notes
                .push(format!("the defaults are taken for the configuration: {error}")),
        }
        world.there = world.objects.len();
        Ok(world)
    }

    /// Adds the objects of files. An object that exists already is updated as by applying the file. A pod that exists stays
    /// as it is: it has passed the door, and little of a pod can be changed. The existing pods of a controller stay too.
    pub fn add(&mut self, manifests: Vec<Manifest>, namespace: &str) {
        for mut manifest in manifests {
            if manifest.is_namespaced() && manifest.namespace().is_none() {
                manifest.object["metadata"]["namespace"] = namespace.into();
            }
            manifest.write_defaults();
            let same = |old: &Manifest| {
                old.group_and_kind() == manifest.group_and_kind()
                    && old.namespace() == manifest.namespace()
                    && old.name() == manifest.name()
            };
            match self.objects[..self.there].iter().position(same) {
                Some(_) if manifest.group_and_kind() == ("", "Pod") => {
                    let namespace = manifest.namespace().unwrap_or_default();
                    let name = manifest.name();
                    self.named.insert(named(&manifest));
                    self.notes.push(format!(
                        "pod {namespace}/{name} is there already, and simulated as it is there"
                    ));
                }
                Some(place) => {
                    // What others wrote stays, for example that a Job is held.
                    let there = Old::of_cluster(self.objects[place].object.take());
                    self.changed.entry(place).or_insert_with(|| there.object.clone());
                    manifest.object = updated(&there, &manifest.object);
                    for key in ["uid", "creationTimestamp"] {
                        manifest.object["metadata"][key] = there.object["metadata"][key].clone();
                    }
                    self.named.insert(named(&manifest));
                    self.named.extend(pods_of(&self.objects[..self.there], &manifest));
                    self.objects[place] = manifest;
                }
                None => {
                    // A Job of the cluster is read itself, so these would be pods of a deleted Job of the same name.
                    let pods = if manifest.group_and_kind() == ("batch", "Job") {
                        Vec::new()
                    } else {
                        pods_of(&self.objects[..self.there], &manifest)
                    };
                    if pods.is_empty() {
                        self.objects.push(manifest);
                        continue;
                    }
                    let ((_, kind), namespace) = (manifest.group_and_kind(), manifest.namespace().unwrap_or_default());
                    let name = manifest.name();
                    self.notes.push(format!(
                        "{kind} {namespace}/{name} is there already, and its pods are simulated as they are there"
                    ));
                    self.named.extend(pods);
                }
            }
        }
    }

    /// Gives a queue another quota: `QUEUE.CARD=N`.
    pub fn set(&mut self, text: &str) -> Result<(), ChangeError> {
        let (place, before, card) = changes::set(&mut self.objects, text)?;
        if place < self.there {
            self.changed.entry(place).or_insert(before);
        }
        self.given.extend(card.map(str::to_owned));
        Ok(())
    }

    /// Adds nodes like an existing one: `NAME=N`.
    pub fn add_nodes(&mut self, text: &str) -> Result<(), ChangeError> {
        self.objects.extend(changes::more_nodes(&self.objects, text)?);
        Ok(())
    }

    /// Returns the objects at the beginning of the simulation. New objects have passed the door, and are replaced by their
    /// pods. A changed object has passed the door, or it is as it was.
    pub async fn begin(&mut self, now: Timestamp) -> Result<(Arc<Known>, Vec<Manifest>), Failure> {
        let mut known = Arc::new(Known::of(&self.objects, None, "default").await?);
        let mut door = door_that_knows(&known)?;
        for (place, before) in std::mem::take(&mut self.changed) {
            if self.change(place, before, &door).await {
                continue;
            }
            // What the door refused, it does not know.
            known = Arc::new(Known::of(&self.objects, None, "default").await?);
            door = door_that_knows(&known)?;
        }
        let mut objects = std::mem::take(&mut self.objects);
        let new = objects.split_off(self.there);
        self.templates = Templates::of(objects.iter().chain(&new));
        self.priorities.add(objects.iter().chain(&new));
        for manifest in new {
            self.create(manifest, &door, now, &mut objects).await;
        }
        Ok((known, objects))
    }

    /// Changes the object at a place from what it was before. Returns whether the door lets it be changed so; else it is as it was.
    async fn change(&mut self, place: usize, before: Value, door: &Door) -> bool {
        let mut manifest = self.objects[place].clone();
        if manifest.object == before {
            return true;
        }
        let passed = pass(door, &mut manifest, Some(&before)).await;
        self.objects[place].object = if passed.is_ok() { manifest.object.take() } else { before };
        passed.map_err(|message| self.refuse(&manifest, message)).is_ok()
    }

    /// Creates an object, and the pods that its controller would make.
    async fn create(&mut self, mut manifest: Manifest, door: &Door, now: Timestamp, objects: &mut Vec<Manifest>) {
        self.imagine(&mut manifest, now);
        if manifest.group_and_kind() == ("", "Node") {
            make_ready(&mut manifest.object);
        }
        if let Err(message) = self.pass(door, &mut manifest).await {
            self.refuse(&manifest, message);
            return;
        }
        if volcano_job::is_one(&manifest) {
            return self.create_volcano_job(manifest, door, now, objects).await;
        }
        let is_held = manifest.object["spec"]["suspend"] == json!(true);
        match (template(&manifest), count(&manifest)) {
            (Some(_), Some(_)) if is_held => objects.push(manifest),
            (Some(_), Some(_)) => {
                let pods = self.pods_of(&manifest, door, now).await;
                objects.push(manifest);
                objects.extend(pods);
            }
            (Some(_), None) => {
                let ((_, kind), name) = (manifest.group_and_kind(), manifest.name());
                self.notes.push(format!(
                    "{kind} {name} is not simulated: how many pods it makes is for its nodes or for time to say"
                ));
            }
            (None, _) => {
                let claims = self.claims_of(&mut manifest, now);
                objects.extend(claims);
                objects.push(manifest);
            }
        }
    }

    /// Creates a Volcano Job, with its group and all its pods at once. The pods wait anyway until their group may start.
    async fn create_volcano_job(&mut self, job: Manifest, door: &Door, now: Timestamp, objects: &mut Vec<Manifest>) {
        let made = match volcano_job::expand(&job, MOST) {
            Ok(made) => made,
            Err(why) => return self.refuse(&job, format!("Job {} makes no pods: {why}", job.name())),
        };
        let mut group = made.group;
        group.write_defaults();
        self.imagine(&mut group, now);
        if let Err(message) = pass(door, &mut group, None).await {
            return self.refuse(
                &job,
                format!("Job {} makes no pods: its group is refused: {message}", job.name()),
            );
        }
        objects.push(group);
        objects.extend(self.made(&job, made.pods, door, now).await);
        objects.push(job);
    }

    /// Returns the pods that a controller makes, each after it has passed the door.
    pub async fn pods_of(&mut self, owner: &Manifest, door: &Door, now: Timestamp) -> Vec<Manifest> {
        let Some(((_, template), count)) = template(owner).zip(count(owner)) else {
            return Vec::new();
        };
        if count > MOST {
            self.notes
                .push(format!("of {} pods of {}, {MOST} are simulated", count, owner.name()));
        }
        let namespace = owner.namespace().unwrap_or_default();
        let pods = (0..count.min(MOST)).map(|index| {
            let mut pod = pod_of(template, &owner.file, namespace);
            pod.object["metadata"]["name"] = format!("{}-{index}", owner.name()).into();
            pod.object["metadata"]["ownerReferences"] = owner_references(owner);
            pod
        });
        self.made(owner, pods.collect(), door, now).await
    }

    /// Returns those of a controller's pods that the door lets in.
    async fn made(&mut self, owner: &Manifest, pods: Vec<Manifest>, door: &Door, now: Timestamp) -> Vec<Manifest> {
        let mut passed = Vec::new();
        for mut pod in pods {
            self.imagine(&mut pod, now);
            match self.pass(door, &mut pod).await {
                Ok(()) => {
                    passed.extend(self.claims_of(&mut pod, now));
                    passed.push(pod);
                }
                Err(message) => {
                    // The other pods are refused for the same reason.
                    let (_, kind) = owner.group_and_kind();
                    self.refuse(&pod, format!("{kind} {} makes no pods: {message}", owner.name()));
                    return passed;
                }
            }
        }
        passed
    }

    /// Returns the claims that Kubernetes' controller makes for a pod, and names them on the pod.
    fn claims_of(&mut self, pod: &mut Manifest, now: Timestamp) -> Vec<Manifest> {
        if pod.group_and_kind() != ("", "Pod") {
            return Vec::new();
        }
        let mut claims = self.templates.claims_of(pod);
        for claim in &mut claims {
            self.imagine(claim, now);
        }
        claims
    }

    /// Writes what an API server writes on a new object.
    fn imagine(&mut self, manifest: &mut Manifest, now: Timestamp) {
        let metadata = &mut manifest.object["metadata"];
        if metadata["uid"].is_string() {
            return;
        }
        self.imagined += 1;
        metadata["uid"] = format!("{IMAGINED}{:08}", self.imagined).into();
        metadata["creationTimestamp"] = format!("{now:.0}").into();
        if !metadata["name"].is_string() {
            let prefix = metadata["generateName"].as_str().unwrap_or_default();
            metadata["name"] = format!("{prefix}{}", self.imagined).into();
        }
    }

    /// Passes an object to everything that API servers ask. A pod also gets the priority of its class. The error says why it
    /// is refused.
    async fn pass(&mut self, door: &Door, manifest: &mut Manifest) -> Result<(), String> {
        if manifest.group_and_kind() == ("", "Pod") {
            let written = self.priorities.write(&mut manifest.object["spec"], None);
            let note = written.map_err(|error| error.to_string())?;
            self.notes.extend(note.filter(|note| !self.notes.contains(note)));
        }
        pass(door, manifest, None).await
    }

    fn refuse(&mut self, manifest: &Manifest, message: String) {
        self.refused.push(Refused {
            kind: manifest.group_and_kind().1.to_owned(),
            namespace: manifest.namespace().unwrap_or_default().to_owned(),
            name: manifest.name().to_owned(),
            message,
        });
    }
}

fn door_that_knows(known: &Arc<Known>) -> Result<Door, Failure> {
    Door::new(known).map_err(|error| Failure::Unprintable(error.to_string()))
}

/// Has an object pass the door, which writes on it, and the policies; why it does not.
async fn pass(door: &Door, manifest: &mut Manifest, before: Option<&Value>) -> Result<(), String> {
    let namespace = manifest.namespace().unwrap_or_default().to_owned();
    let endpoints = door.endpoints(manifest, before).unwrap_or_default();
    let (writes, looks) = (Endpoint::Mutate, Endpoint::Validate);
    if endpoints.contains(&writes) {
        ask(door, writes, manifest, before, &namespace).await?;
    }
    let forbidden = door
        .forbids(manifest, before, &namespace)
        .map_err(|error| error.to_string())?;
    forbidden.map_or(Ok(()), Err)?;
    if endpoints.contains(&looks) {
        ask(door, looks, manifest, before, &namespace).await?;
    }
    Ok(())
}

async fn ask(
    door: &Door,
    endpoint: Endpoint,
    manifest: &mut Manifest,
    before: Option<&Value>,
    namespace: &str,
) -> Result<(), String> {
    let asked = door.ask(endpoint, manifest, before, namespace).await;
    let verdict = asked.map_err(|error| error.to_string())?;
    if let Some(denial) = &verdict.denial {
        return Err(denial.to_string());
    }
    write(&verdict, manifest).map_err(|error| error.to_string())
}

/// Makes a node ready if its status says nothing of that, and lets it allocate what it has.
fn make_ready(node: &mut Value) {
    let status = &mut node["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    }
    if !status["allocatable"].is_object() {
        status["allocatable"] = status["capacity"].clone();
    }
    // Every kubelet reports this, but few manifests contain it.
    if status["allocatable"]["pods"].is_null() {
        status["allocatable"]["pods"] = "110".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file has of a pod only what its author wrote, not its later state.
    #[test]
    fn what_has_become_of_things_stays() {
        let gated = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "team", "uid": "u" },
            "spec": { "schedulingGates": [{ "name": "card.volcano.sh/quota" }] },
        });
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": { "name": "g", "namespace": "team", "uid": "v" }, "status": { "phase": "Running" },
        });
        let mut world = World::there(vec![Manifest::in_a_file(gated.clone()), Manifest::in_a_file(group)]);
        let pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers": [] } });
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": { "name": "g" }, "spec": { "minMember": 7 }, "status": {},
        });
        world.add(vec![Manifest::in_a_file(pod), Manifest::in_a_file(group)], "team");
        let [pod, group] = world.objects.as_slice() else {
            panic!("{:?}", world.objects)
        };
        assert_eq!(pod.object, gated);
        assert_eq!(
            world.notes,
            ["pod team/p is there already, and simulated as it is there"]
        );
        assert_eq!(
            (&group.object["metadata"]["uid"], &group.object["spec"]["minMember"]),
            (&json!("v"), &json!(7))
        );
        assert_eq!(group.object["status"]["phase"], "Running");
    }
}
