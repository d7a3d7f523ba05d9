//! Reads the manifests of files, directories and the input, one object each.

use std::fs;
use std::path::{Path, PathBuf};

use crds::bounds::excerpt;
use serde_json::Value;
use thiserror::Error;

use crate::files::{FileError, is_input, read_text, shown};

/// The longest file that is read: some ten thousand manifests.
const LONGEST: u64 = 64 << 20;
/// The most files of a directory.
const MOST_FILES: usize = 10_000;
/// Endings of manifest files, as kubectl knows them.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// API groups whose quantities API servers write as text, whatever the manifest says.
const OWN_GROUPS: [&str; 3] = ["", "apps", "batch"];
/// Fields that hold such quantities.
const QUANTITIES: [&str; 5] = ["limits", "requests", "overhead", "allocatable", "capacity"];

/// The queue of a `PodGroup` that names none. API servers write it, by Volcano's definition and by Cardgate's own.
const QUEUE_OF_GROUPS: &str = "default";

/// API groups of the objects that are read here.
const READ_GROUPS: [&str; 7] = [
    "",
    "apps",
    "batch",
    "batch.volcano.sh",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "scheduling.volcano.sh",
];
/// Fields that must be maps in every object, as API servers insist. Code that writes into them relies on that.
const MAPS: [&str; 3] = ["/metadata", "/metadata/annotations", "/metadata/labels"];
/// The same for the objects that are read here.
const READ_MAPS: [&str; 7] = [
    "/spec",
    "/spec/capability",
    "/spec/nodeSelector",
    "/spec/pool",
    "/status",
    "/status/allocatable",
    "/status/capacity",
];

/// Why manifests can't be read.
#[derive(Debug, Error)]
pub enum ManifestError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0} has more than {MOST_FILES} files")]
    TooManyFiles(String),
    #[error("{0} is no YAML or JSON: {1}")]
    Syntax(String, Box<serde_saphyr::Error>),
    #[error("{0} has something in it that is no manifest: a manifest is an object with apiVersion and kind")]
    NoManifest(String),
    #[error("{file}: {document}: {key} of {what} is no map ({text}): write it as one, or leave it out")]
    NoMap {
        file: String,
        /// Which document of the file, and which item of it.
        document: String,
        key: String,
        what: String,
        text: String,
    },
    #[error("{0} has no manifest in it")]
    Empty(String),
}

/// An object as its author wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file of the object, as the user named it.
    pub file: String,
    /// The content.
    pub object: Value,
}

impl Manifest {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the object's API group and kind.
    pub fn group_and_kind(&self) -> (&str, &str) {
        let version = self.text("/apiVersion");
        (
            version.split_once('/').map_or("", |(group, _)| group),
            self.text("/kind"),
        )
    }

    /// Returns the object's version within the group.
    pub fn version(&self) -> &str {
        let version = self.text("/apiVersion");
        version.split_once('/').map_or(version, |(_, version)| version)
    }

    /// Returns the plural of the object's kind, as API servers use it in paths and rules.
    pub fn plural(&self) -> String {
        let kind = self.text("/kind").to_lowercase();
        let ending = if kind.ends_with('s') { "es" } else { "s" };
        kind + ending
    }

    /// Whether the object is in a namespace. Of what is judged or simulated, all kinds but these are.
    pub fn is_namespaced(&self) -> bool {
        !matches!(
            self.group_and_kind(),
            ("scheduling.volcano.sh", "Queue")
                | ("", "Namespace" | "Node")
                | ("scheduling.k8s.io", "PriorityClass")
                | ("resource.k8s.io", "DeviceClass" | "ResourceSlice")
        )
    }

    /// Returns the object's name, or the prefix from which the API server would generate one.
    pub fn name(&self) -> &str {
        match self.text("/metadata/name") {
            "" => self.text("/metadata/generateName"),
            name => name,
        }
    }

    /// Returns the namespace that the object names.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text("/metadata/namespace")).filter(|namespace| !namespace.is_empty())
    }

    /// Whether this is a `PodGroup` without the field for its queue. API servers fill that in, but do not replace an empty
    /// name.
    pub fn leaves_queue_out(&self) -> bool {
        self.group_and_kind() == ("scheduling.volcano.sh", "PodGroup")
            && self.object["spec"].is_object()
            && self.object["spec"]["queue"].is_null()
    }

    /// Writes the defaults that API servers write, as far as they matter here.
    pub fn write_defaults(&mut self) {
        if self.leaves_queue_out() {
            self.object["spec"]["queue"] = QUEUE_OF_GROUPS.into();
        }
    }
}

/// Reads the manifests of all these paths: files, directories with files in them, and `-` for the input.
pub fn read(paths: &[PathBuf], recursive: bool) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for path in paths {
        let before = manifests.len();
        for file in files(path, recursive)? {
            of_text(&read_text(&file, LONGEST)?, &shown(&file), &mut manifests)?;
        }
        if manifests.len() == before {
            return Err(ManifestError::Empty(shown(path)));
        }
    }
    Ok(manifests)
}

/// Returns the files that a path stands for, in the order of their names.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, ManifestError> {
    if is_input(path) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| FileError::Unreadable(shown(path), error);
    let (mut found, mut directories) = (Vec::new(), vec![path.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Links are not followed, since they may lead in circles.
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() && recursive {
                directories.push(path);
            } else if !kind.is_dir() && has_ending(&path) {
                found.push(path);
            }
        }
        if found.len() + directories.len() > MOST_FILES {
            return Err(ManifestError::TooManyFiles(shown(path)));
        }
    }
    found.sort();
    Ok(found)
}

fn has_ending(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

fn of_text(text: &str, file: &str, manifests: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Syntax(file.to_owned(), Box::new(error)))?;
    let numbered = (1..).zip(documents).filter(|(_, document)| !document.is_null());
    for (number, document) in numbered {
        flatten(document, number, file, manifests)?;
    }
    Ok(())
}

#[cfg(test)]
impl Manifest {
    /// A manifest from some file, for tests.
    pub fn in_a_file(object: Value) -> Self {
        let file = "f.yaml".to_owned();
        Self { file, object }
    }
}

/// Reads the manifests of a text, for tests.
#[cfg(test)]
pub fn read_text_of(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    of_text(text, "f", &mut manifests).map(|()| manifests)
}

/// Splits a list into its items, as kubectl does.
fn flatten(mut document: Value, number: usize, file: &str, manifests: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    let kind = document["kind"].as_str().unwrap_or_default();
    let place = format!("document {number}");
    if kind.ends_with("List") && document["items"].is_array() {
        for (index, item) in (1..).zip(document["items"].as_array_mut().into_iter().flatten()) {
            manifests.push(manifest(item.take(), file, &format!("{place}, item {index}"))?);
        }
    } else {
        manifests.push(manifest(document, file, &place)?);
    }
    Ok(())
}

fn manifest(object: Value, file: &str, document: &str) -> Result<Manifest, ManifestError> {
    if object["kind"].as_str().is_none() || object["apiVersion"].as_str().is_none() {
        return Err(ManifestError::NoManifest(file.to_owned()));
    }
    let mut manifest = Manifest {
        file: file.to_owned(),
        object,
    };
    let group = manifest.group_and_kind().0;
    let of_read = READ_MAPS.into_iter().filter(|_| READ_GROUPS.contains(&group));
    let wrong = MAPS.into_iter().chain(of_read).find_map(|map| {
        let said = manifest.object.pointer(map)?;
        (!said.is_object() && !said.is_null()).then_some((map, said))
    });
    if let Some((map, said)) = wrong {
        let named = format!("{} {}", manifest.group_and_kind().1, manifest.name());
        return Err(ManifestError::NoMap {
            file: manifest.file.clone(),
            document: document.to_owned(),
            key: map[1..].replace('/', "."),
            what: excerpt(named.trim_end()).into_owned(),
            text: excerpt(&said.to_string()).into_owned(),
        });
    }
    if OWN_GROUPS.contains(&group) {
        write_quantities(&mut manifest.object);
    }
    Ok(manifest)
}

/// Writes quantities as text, as API servers do before anything judges an object.
fn write_quantities(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_object_mut().filter(|_| QUANTITIES.contains(&&**key)) {
                    Some(quantities) => {
                        for quantity in quantities.values_mut().filter(|quantity| quantity.is_number()) {
                            *quantity = quantity.to_string().into();
                        }
                    }
                    None => write_quantities(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_quantities),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Manifest>, ManifestError> {
        read_text_of(text)
    }

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: team}}\n---\n---\n\
                    {apiVersion: v1, kind: List, items: [{apiVersion: batch/v1, kind: Job, metadata: {generateName: b-}}]}\n";
        let [pod, job] = of(text).unwrap().try_into().unwrap();
        assert_eq!(
            (pod.group_and_kind(), pod.name(), pod.namespace()),
            (("", "Pod"), "a", Some("team"))
        );
        assert_eq!((job.group_and_kind(), job.version()), (("batch", "Job"), "v1"));
        assert_eq!((job.name(), job.namespace()), ("b-", None));
    }

    #[test]
    fn quantities_are_text_as_api_servers_write_them() {
        let text = "{apiVersion: v1, kind: Pod, spec: {priority: 1, containers: [{resources: {limits: {cpu: 0.5, gpu: 1, memory: 1Gi}}}]}}";
        let [pod] = of(text).unwrap().try_into().unwrap();
        let limits = &pod.object["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(
            limits,
            &serde_json::json!({ "cpu": "0.5", "gpu": "1", "memory": "1Gi" })
        );
        assert_eq!(pod.object["spec"]["priority"], 1);
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        let said = |text: &str| of(text).unwrap_err().to_string();
        assert!(said("a: [").contains("f is no YAML"));
        assert!(said("a: b").contains("no manifest"));
        assert!(said("{apiVersion: v1, kind: List, items: [3]}").contains("no manifest"));
        let named = |rest: &str| said(&format!("{{apiVersion: v1, kind: Pod, {rest}}}"));
        assert_eq!(
            named("metadata: {name: p, annotations: text}"),
            "f: document 1: metadata.annotations of Pod p is no map (\"text\"): write it as one, or leave it out"
        );
        for wrong in [
            "metadata: text",
            "metadata: [1]",
            "spec: 3",
            "status: {allocatable: []}",
        ] {
            assert!(named(wrong).contains("is no map"), "{wrong}");
        }
        assert!(of("{apiVersion: v1, kind: Pod, metadata: {name: p, labels: null}}").is_ok());
        assert!(of("{apiVersion: example.com/v1, kind: Text, spec: words}").is_ok());
        let slice = "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {pool: [1, 2]}}";
        let list = format!("{{apiVersion: v1, kind: List, items: [{slice}]}}");
        let place = "spec.pool of ResourceSlice s is no map ([1,2]): write it as one, or leave it out";
        assert_eq!(
            said(&format!("---\n{{apiVersion: v1, kind: Pod}}\n---\n{slice}")),
            format!("f: document 2: {place}")
        );
        assert_eq!(said(&list), format!("f: document 1, item 1: {place}"));
        let long = "x".repeat(10_000);
        let told = said(&format!("{{apiVersion: example.com/v1, kind: Text, metadata: {long}}}"));
        assert!(
            told.contains("metadata of Text is no map") && told.len() < 300,
            "{told}"
        );
    }

    #[test]
    fn a_directory_is_its_files_by_name() {
        let directory = std::env::temp_dir().join(format!("cardgate-manifests-{}", std::process::id()));
        fs::create_dir_all(directory.join("below")).unwrap();
        for (file, name) in [
            ("b.yml", "b"),
            ("a.yaml", "a"),
            ("README.md", "no"),
            ("below/c.json", "c"),
        ] {
            fs::write(
                directory.join(file),
                format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\"}}}}"),
            )
            .unwrap();
        }
        let names = |recursive| {
            let read = read(std::slice::from_ref(&directory), recursive).unwrap();
            read.iter()
                .map(|manifest| manifest.name().to_owned())
                .collect::<Vec<_>>()
        };
        let (flat, deep) = (names(false), names(true));
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(flat, ["a", "b"]);
        assert_eq!(deep, ["a", "b", "c"]);
    }

    /// Every value of a manifest in turn is replaced by another type. What is then read has maps wherever the code writes
    /// into it.
    #[test]
    fn whatever_stands_in_a_manifest_nothing_falls() {
        let kinds = [
            ("v1", "Pod"),
            ("v1", "Node"),
            ("scheduling.volcano.sh/v1beta1", "Queue"),
            ("resource.k8s.io/v1", "ResourceClaim"),
            ("example.com/v1", "Pod"),
            ("example.com/v1", "Queue"),
        ];
        for (version, kind) in kinds {
            let whole = serde_json::json!({
                "apiVersion": version, "kind": kind, "metadata": { "name": "a", "labels": {}, "annotations": {} },
                "spec": { "pool": {}, "capability": {}, "nodeSelector": {} }, "status": { "allocatable": {} },
            });
            for path in [
                "/metadata",
                "/metadata/labels",
                "/metadata/annotations",
                "/spec",
                "/spec/pool",
                "/status",
                "/kind",
                "",
            ] {
                for value in ["null", "3", "true", "text", "[]", "[[1]]", "{}", "{a: 1}"] {
                    let mut object = whole.clone();
                    *object.pointer_mut(path).unwrap() = serde_saphyr::from_str(value).unwrap();
                    let mut read = Vec::new();
                    for manifest in of_text(&object.to_string(), "f", &mut read)
                        .map(|()| read)
                        .into_iter()
                        .flatten()
                    {
                        let mut object = manifest.object;
                        object["metadata"]["labels"]["a"] = "b".into();
                        object["metadata"]["annotations"]["a"] = "b".into();
                    }
                }
            }
        }
    }
}
