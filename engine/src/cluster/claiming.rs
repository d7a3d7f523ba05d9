//! Pods that claim devices, and which claims they name (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::bounds::CLAIMS;
use crds::card_resources::is_extended;
use crds::dra::ResourceClaim;
use crds::keys::RESOURCE_OF_CLASS;
use crds::managed::requests_any;
use crds::pod::PodSpec;

use super::Cluster;
use super::paying::{Standing, Turn, shared_keys};
use super::pod::Pod;
use crate::amounts::Amounts;
use crate::devices::{ClaimKey, Devices, Named};

/// What a pod calls a claim, and what the claim said when the pod was let in; none once the claim has been another.
type LetInBy = (Box<str>, Option<Arc<ResourceClaim>>);

/// A pod that claims devices.
#[derive(Debug)]
pub(super) struct Claiming {
    pub(super) pod: Box<crds::pod::Pod<Box<str>>>,
    pub(super) named: Vec<Named>,
    /// The claim that the scheduler made for it.
    provided: Option<ClaimKey>,
    /// Its claims as they were when it was let in; none where this program did not let it in.
    pub(super) let_in_by: Option<Vec<LetInBy>>,
    /// The claims that others may name and that it paid for when what it claims was last known.
    pub(super) paid: BTreeSet<ClaimKey>,
    /// Its turn to pay for the claims that it shares, as it stands in line for each of them.
    pub(super) turn: Option<Turn>,
}

impl Claiming {
    /// Returns the text of an annotation of the pod.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod.metadata.annotations.get(key)
    }

    /// Returns the claims that the pod names, as far as they are known, each with what the pod calls it.
    pub(super) fn claims<'c>(
        &'c self,
        devices: &'c Devices,
    ) -> impl Iterator<Item = (&'c str, &'c Arc<ResourceClaim>)> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        self.named.iter().filter_map(move |named| {
            let key = (namespace.into(), named.claim.clone()?);
            Some((&*named.name, devices.claim(&key)?))
        })
    }

    /// Returns the claims that the pod pays for, and whether others may name them too.
    pub(super) fn paid_by<'c>(&'c self, uid: &'c str, devices: &'c Devices) -> impl Iterator<Item = (ClaimKey, bool)> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let claims = self.named.iter().filter_map(move |named| {
            let key = (namespace.into(), named.claim.clone()?);
            Some((key, named.shared))
        });
        claims.filter(move |(key, shared)| !shared || devices.pays(key, uid))
    }

    /// Whether the pod was let in by a claim of this name that says the same as `claim`.
    pub(super) fn was_let_in_by(&self, name: &str, claim: &ResourceClaim) -> bool {
        let own = self.named.iter().filter(|named| named.claim.as_deref() == Some(name));
        let let_in_by = || self.let_in_by.iter().flatten();
        own.map(|named| let_in_by().find(|(known, _)| *known == named.name))
            .all(|then| {
                let then = then.and_then(|(_, then)| then.as_ref());
                then.is_some_and(|then| then.spec == claim.spec)
            })
    }

    /// Notes that the claim of this name is, or was, another than the claim that the pod was let in by, unless it says the
    /// same as `claim`.
    pub(super) fn give_up(&mut self, name: &str, claim: Option<&ResourceClaim>) {
        for named in self.named.iter().filter(|named| named.claim.as_deref() == Some(name)) {
            let then = self
                .let_in_by
                .iter_mut()
                .flatten()
                .find(|(known, _)| *known == named.name);
            if let Some((_, then)) = then {
                then.take_if(|then| claim.is_none_or(|claim| then.spec != claim.spec));
            }
        }
    }

    /// Returns all claims of the pod.
    pub(super) fn keys(&self) -> BTreeSet<ClaimKey> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        keys_of(namespace, &self.named).chain(self.provided.clone()).collect()
    }
}

impl Cluster {
    /// Whether devices are allocated to a claim that a pod pays for. Of the pods that name the same claim, only one pays.
    pub(super) fn pays_for_devices(&self, pod: &Pod) -> bool {
        let devices = &self.claimed.devices;
        let pays = |named: &Named| {
            let key = named.claim.clone().map(|claim| ((&*pod.namespace).into(), claim));
            let paid = |key: &ClaimKey| !named.shared || devices.payer_of(key) == Some(&pod.uid);
            key.is_some_and(|key| paid(&key) && devices.is_allocated(&key))
        };
        let claiming = self.claimed.pods.get(&pod.uid);
        claiming.is_some_and(|claiming| {
            let mut provided = claiming.provided.iter();
            claiming.named.iter().any(pays) || provided.any(|key| devices.is_allocated(key))
        })
    }

    /// Whether a pod names a claim to which nothing is allocated. What such a claim comes to is whatever somebody writes.
    pub(super) fn names_open_claims(&self, pod: &Pod) -> bool {
        let is_allocated = |named: &Named| {
            let key = named.claim.clone().map(|claim| ((&*pod.namespace).into(), claim));
            key.is_some_and(|key| self.claimed.devices.is_allocated(&key))
        };
        let claiming = self.claimed.pods.get(&pod.uid);
        claiming.is_some_and(|claiming| !claiming.named.iter().all(is_allocated))
    }

    /// Whether any claim that a pod names, and that is known, asks for a device.
    pub(crate) fn asks_for_devices(&self, pod: &crds::pod::Pod<Box<str>>, namespace: &str) -> bool {
        self.claimed.devices.ask_for_any(namespace, &named_by(pod))
    }

    /// Whether anything is requested that a class hands devices out for.
    pub(crate) fn requests_devices(&self, request: &Amounts) -> bool {
        let mut names = request.iter().map(|(dimension, _)| dimension.name(&self.names));
        names.any(|name| name.starts_with(RESOURCE_OF_CLASS) || self.is_of_class(name))
    }

    /// Notes whether claims can be seen at all.
    pub(super) fn claims_are_there(&mut self, are_there: bool) {
        if self.claimed.devices.set_claims_there(are_there) {
            let pods: Vec<_> = self.claimed.pods.keys().map(Arc::clone).collect();
            self.see_again(pods);
        }
    }

    /// Remembers a pod that claims devices, as it was seen. Returns the claims that it names.
    pub(super) fn note_claiming(&mut self, pod: crds::pod::Pod<Box<str>>, namespace: &str) -> Vec<Named> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let named = named_by(&pod);
        let uid: Arc<str> = match self.claimed.pods.get_key_value(uid) {
            Some((uid, _)) => Arc::clone(uid),
            None => uid.into(),
        };
        self.note_read(namespace, &uid);
        let provided = provided_claim(&pod).map(|claim| (namespace.into(), claim.into()));
        if requests_any(&pod, is_extended) {
            self.claimed.requesting.insert(Arc::clone(&uid));
        }
        // Where the pod shares other claims than before, it takes its place in their lines when it has been read.
        if let Some(before) = self.claimed.pods.get(&uid)
            && before.named != named
        {
            self.stand_in_line(&uid, None);
        }
        let mut before = self.claimed.pods.remove(&uid);
        let claiming = Claiming {
            pod: Box::new(pod),
            named: named.clone(),
            provided,
            let_in_by: before.as_mut().and_then(|before| before.let_in_by.take()),
            paid: before
                .as_mut()
                .map(|before| std::mem::take(&mut before.paid))
                .unwrap_or_default(),
            turn: before.as_mut().and_then(|before| before.turn.take()),
        };
        let keys = claiming.keys();
        self.claimed.pods.insert(Arc::clone(&uid), claiming);
        let before = before.map(|before| before.keys()).unwrap_or_default();
        for key in before.difference(&keys) {
            self.unname_claim(key, &uid);
        }
        for key in keys {
            self.claimed.users.entry(key).or_default().insert(Arc::clone(&uid));
        }
        for key in shared_keys(namespace, &named) {
            self.claimed.devices.payer(&key, &uid);
        }
        named
    }

    /// Forgets a pod that claimed devices. Where it paid for shared claims, the next pod in line pays from now on.
    /// `was_in` says whether the pod had been let in.
    pub(super) fn forget_claiming(&mut self, uid: &str, was_in: bool) {
        self.stand_in_line(uid, None);
        let Some((uid, claiming)) = self.claimed.pods.remove_entry(uid) else {
            return;
        };
        self.claimed.requesting.remove(&uid);
        let namespace = claiming.pod.metadata.namespace.as_deref().unwrap_or_default();
        for key in claiming.keys() {
            self.unname_claim(&key, &uid);
        }
        for key in shared_keys(namespace, &claiming.named) {
            if !self.claimed.devices.pays(&key, &uid) {
                continue;
            }
            let next = self.next_payer(&key, &uid);
            let next_waits = next.as_ref().is_some_and(|(standing, ..)| *standing != Standing::In);
            let next = next.map(|(.., uid)| uid);
            self.claimed.devices.set_payer(&key, next.clone());
            if was_in == next_waits {
                self.claim_changed(&key);
            } else {
                // The others wait for a paying pod, or for none, as before.
                self.see_again(next);
            }
        }
    }

    fn unname_claim(&mut self, key: &ClaimKey, uid: &Arc<str>) {
        if let Some(users) = self.claimed.users.get_mut(key) {
            users.remove(uid);
            if users.is_empty() {
                self.claimed.users.remove(key);
                self.claimed.given_up.remove(key);
            }
        }
    }
}

/// Returns the complaint about a pod that names more claims than are allowed: an API server accepts thousands.
pub(super) fn claims_excess(spec: &PodSpec<Box<str>>) -> Option<Box<str>> {
    let claims = spec.resource_claims.len();
    (claims > CLAIMS).then(|| format!("spec.resourceClaims names {claims} claims, and {CLAIMS} are allowed").into())
}

/// Returns the claims that a pod names.
pub(super) fn named_by(pod: &crds::pod::Pod<Box<str>>) -> Vec<Named> {
    let made = |name: &str| {
        let mut statuses = pod.status.resource_claim_statuses.iter();
        let status = statuses.find(|status| status.name.as_deref() == Some(name))?;
        status.resource_claim_name.clone()
    };
    let claims = pod.spec.resource_claims.iter().map(|claim| {
        let name = claim.name.clone().unwrap_or_default();
        let by_name = claim.resource_claim_name.clone();
        Named {
            shared: by_name.is_some(),
            claim: by_name.or_else(|| made(&name)),
            name,
        }
    });
    claims.collect()
}

fn keys_of<'n>(namespace: &'n str, named: &'n [Named]) -> impl Iterator<Item = ClaimKey> + 'n {
    let claims = named.iter().filter_map(|named| named.claim.clone());
    claims.map(move |claim| (namespace.into(), claim))
}

/// Returns the claim that the scheduler made for what a pod requests by resources that classes provide.
pub(super) fn provided_claim(pod: &crds::pod::Pod<Box<str>>) -> Option<&str> {
    let status = pod.status.extended_resource_claim_status.as_ref()?;
    status.resource_claim_name.as_deref()
}
