//! Brings one object before the door: the webhook's own code and the policies, asked as an API server asks them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use crds::keys::EXEMPT_NAMESPACES;
use crds::spelling;
use programs::configuration;
use serde_json::Value;
use webhook::denial::Denial;
use webhook::door::Verdict;
use webhook::endpoint::Endpoint;
use webhook::warning::Warning;

use super::before::Before;
use super::{Linted, Operation, Refused, claims};
use crate::applied::updated;
use crate::door::{Door, DoorError, write};
use crate::known::{Known, Supposed, is_configuration};
use crate::manifests::Manifest;
use crate::templates::{pod_of, template};

/// What the object was before, its namespace, and its place.
type Asked<'a> = (Option<&'a Value>, &'a str, &'a str);

/// Judges objects.
pub struct Judge<'k> {
    known: &'k Known,
    door: Door,
    /// The objects that exist already of those that are judged.
    before: &'k Before,
    /// The namespace of objects that name none.
    namespace: &'k str,
    /// What had to be assumed about other objects, in words.
    pub unchecked: BTreeSet<String>,
}

impl<'k> Judge<'k> {
    /// A judge with this knowledge.
    pub fn new(known: &'k Arc<Known>, before: &'k Before, namespace: &'k str) -> Result<Self, DoorError> {
        Ok(Self {
            known,
            door: Door::new(known)?,
            before,
            namespace,
            unchecked: known.unchecked.union(&before.unchecked).cloned().collect(),
        })
    }

    /// Returns what would become of an object that is created or changed. `None` if nothing is asked about such objects.
    pub async fn judge(&mut self, manifest: &Manifest) -> Option<Linted> {
        let (_, kind) = manifest.group_and_kind();
        let namespace = manifest
            .is_namespaced()
            .then(|| manifest.namespace().unwrap_or(self.namespace).to_owned());
        let mut linted = Linted {
            file: manifest.file.clone(),
            kind: kind.to_owned(),
            namespace: namespace.clone(),
            name: manifest.name().to_owned(),
            operation: Operation::Create,
            refused: None,
            warnings: Vec::new(),
        };
        if is_configuration(manifest) {
            judge_configuration(manifest, &mut linted);
            return Some(linted);
        }
        let namespace = namespace.unwrap_or_default();
        if EXEMPT_NAMESPACES.contains(&&*namespace) {
            return None;
        }
        let before = self.before.of_manifest(manifest, &namespace);
        if let Some(unchecked) = claims::judge(manifest, before, self.known, &mut linted) {
            self.unchecked.extend(unchecked);
            return Some(linted);
        }
        let mut manifest = manifest.clone();
        if let Some(before) = before {
            linted.operation = Operation::Update;
            manifest.object = updated(before, &manifest.object);
        }
        manifest.write_defaults();
        let before = before.map(|before| &before.object);
        // Perhaps only policies are asked, as about changes of pods.
        let endpoints = self.door.endpoints(&manifest, before);
        if endpoints.is_none() && before.is_none() {
            return None;
        }
        let endpoints = endpoints.unwrap_or_default();
        let place = (before, &*namespace, "");
        self.pass(&endpoints, manifest.clone(), place, &mut linted).await;
        if let Some((place, pod)) = pods(&manifest, &namespace) {
            let place = (None, &*namespace, &*format!("{place}: "));
            self.pass(&[Endpoint::Mutate], pod, place, &mut linted).await;
        }
        Some(linted)
    }

    /// Passes an object to what API servers ask, in their order: webhooks that write on it, policies, webhooks that only
    /// judge it.
    async fn pass(&mut self, endpoints: &[Endpoint], mut manifest: Manifest, asked: Asked<'_>, linted: &mut Linted) {
        let (before, namespace, place) = asked;
        let writes = |endpoint: &&Endpoint| **endpoint == Endpoint::Mutate;
        for endpoint in endpoints.iter().filter(writes) {
            // If the webhook's answer is not known, neither is what it would write for the others to look at.
            if !self.ask(*endpoint, &mut manifest, asked, linted).await {
                return;
            }
        }
        match self.door.forbids(&manifest, before, namespace) {
            Ok(Some(message)) if linted.refused.is_none() => {
                linted.refused = Some(Refused {
                    reason: "Forbidden",
                    message: format!("{place}{message}"),
                });
            }
            Ok(_) => {}
            Err(error) => self.not_asked(linted, &error),
        }
        for endpoint in endpoints.iter().filter(|endpoint| !writes(endpoint)) {
            self.ask(*endpoint, &mut manifest, asked, linted).await;
        }
    }

    fn not_asked(&mut self, linted: &Linted, error: &dyn Display) {
        self.unchecked
            .insert(format!("{} {}: {error}", linted.kind, linted.name));
    }

    /// Asks one endpoint. Returns whether its answer is certain, and rests on nothing that is only assumed.
    async fn ask(
        &mut self,
        endpoint: Endpoint,
        manifest: &mut Manifest,
        (before, namespace, place): Asked<'_>,
        linted: &mut Linted,
    ) -> bool {
        let verdict = match self.door.ask(endpoint, manifest, before, namespace).await {
            Ok(verdict) => verdict,
            Err(failure) => {
                self.not_asked(linted, &failure);
                return false;
            }
        };
        if let Err(error) = write(&verdict, manifest) {
            self.not_asked(linted, &error);
        }
        let supposed = self.known.take_supposed();
        self.note(&supposed);
        let Verdict { denial, warnings, .. } = verdict;
        let is_known = denial.is_none_or(|denial| self.refuse(&denial, &supposed, place, linted));
        for warning in warnings {
            match warning {
                // An object whose pods are refused has made nothing, so it counts as refused.
                Warning::Template { place, denial } => {
                    self.refuse(&denial, &supposed, &format!("{place}: "), linted);
                }
                warning => {
                    let said = self.told(&warning, &supposed).filter(|said| !linted.says(said));
                    linted.warnings.extend(said.map(|said| format!("{place}{said}")));
                }
            }
        }
        is_known
    }

    /// Refuses the object, if the denial rests on facts. Returns whether it does.
    fn refuse(&mut self, denial: &Denial, supposed: &BTreeSet<Supposed>, place: &str, linted: &mut Linted) -> bool {
        // A denial that rests only on an assumption refuses nothing.
        let unknown = match denial {
            Denial::ParentMissing { parent } if supposed.contains(&Supposed::Queue(parent.clone())) => Some(format!(
                "whether queue {parent:?} exists, and has what queues below it say"
            )),
            Denial::QueueAccess { queue, namespace, .. }
                if supposed.contains(&Supposed::Namespace(namespace.clone())) =>
            {
                Some(format!(
                    "whether namespace {namespace:?} may use queue {queue:?}, which its labels say"
                ))
            }
            _ => None,
        };
        let is_known = unknown.is_none();
        self.unchecked.extend(unknown);
        if is_known && linted.refused.is_none() {
            linted.refused = Some(Refused {
                reason: denial.reason(),
                message: format!("{place}{denial}"),
            });
        }
        is_known
    }

    /// Returns the text of a warning; `None` if the warning only says what is not known here.
    fn told(&mut self, warning: &Warning, supposed: &BTreeSet<Supposed>) -> Option<String> {
        match warning {
            Warning::QueueMissing { queue } if supposed.contains(&Supposed::Queue(queue.clone())) => None,
            Warning::DeviceClassMissing { class, .. } if supposed.contains(&Supposed::Class(class.clone())) => None,
            Warning::CardUnknown { card, .. }
            | Warning::AlternativeUnknown { card, .. }
            | Warning::QuotaCardUnknown { card, .. }
                if !self.known.knows_cards =>
            {
                self.unchecked
                    .insert("which cards there are: name nodes or card types by -f, or ask by --cluster".to_owned());
                if self.known.named.contains(card) {
                    return None;
                }
                let named = self.known.named.iter().map(String::as_str);
                let meant = spelling::meant_card(card, named)?;
                Some(format!(
                    "no queue of these files has a quota for the card {card:?} (did you mean {meant:?}?)"
                ))
            }
            warning => Some(warning.to_string()),
        }
    }

    fn note(&mut self, supposed: &BTreeSet<Supposed>) {
        let notes = supposed.iter().map(|supposed| match supposed {
            Supposed::Queue(queue) => format!("whether queue {queue:?} exists, and who may use it"),
            Supposed::Group(group) => format!("which queue PodGroup {group:?} names"),
            Supposed::Namespace(namespace) => format!("which queue namespace {namespace:?} names"),
            Supposed::PodsOf(queue) => {
                format!("whether queue {queue:?} has pods, so that no queue may be put below it")
            }
            Supposed::Claim {
                kind,
                name,
                is_missing: true,
            } => format!("whether {kind} {name:?}, which is not there, asks for the cards that its pods name"),
            Supposed::Claim { kind, name, .. } => format!(
                "whether {kind} {name:?} asks for the cards that its pods name: name it by -f, or ask by --cluster"
            ),
            Supposed::Class(class) => {
                format!("DeviceClass {class:?}, and which cards it has: name it by -f, or ask by --cluster")
            }
        });
        self.unchecked.extend(notes);
    }
}

fn judge_configuration(manifest: &Manifest, linted: &mut Linted) {
    linted.namespace = Some(crds::keys::NAMESPACE.to_owned());
    let refused = |message: String| Refused {
        reason: "ConfigurationInvalid",
        message,
    };
    match serde_json::from_value(manifest.object.clone()) {
        Err(error) => linted.refused = Some(refused(error.to_string())),
        Ok(found) => match configuration::parse(Some(&found)) {
            Ok(parsed) => linted.warnings = parsed.warnings,
            Err(error) => linted.refused = Some(refused(format!("it would not come into force: {error}"))),
        },
    }
}

/// Returns a pod as the object would make it, and the place of its description.
fn pods(manifest: &Manifest, namespace: &str) -> Option<(&'static str, Manifest)> {
    let (place, template) = template(manifest)?;
    let mut pod = pod_of(template, &manifest.file, namespace);
    pod.object["metadata"]["generateName"] = format!("{}-", manifest.name()).into();
    Some((place, pod))
}
