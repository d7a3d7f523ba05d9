//! Pods that claim devices: which claims they name, and which of those that share one is charged for it (docs/rules.md, **Cards by Dynamic
//! Resource Allocation**).

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::bounds::CLAIMS;
use crds::card_resources::is_extended;
use crds::dra::ResourceClaim;
use crds::keys::{ADMITTED_CONDITION, CROSS_QUOTA_LABEL, TASK_SPEC, is_charged_by};
use crds::managed::requests_any;
use crds::pod::{Metadata, OwnerReference, PodSpec, PodStatus, TextMap};
use crds::pod_bounds::cut_node_terms;
use jiff::Timestamp;

use super::Cluster;
use super::controller::{LONGEST_NAME, cut};
use super::gates;
use super::pod::{self, Pod, Stage};
use crate::devices::{ClaimKey, Devices, Named};
use crate::ids::{PodId, QueueId};
use crate::reason::Reason;
use crate::task::{Claimed, Task};

/// What a pod calls a claim, and what it was when the pod was let in; none once it was another.
type LetInBy = (Box<str>, Option<Arc<ResourceClaim>>);

/// A pod that claims devices.
#[derive(Debug)]
pub(super) struct Claiming {
    pub(super) pod: Box<crds::pod::Pod<Box<str>>>,
    named: Vec<Named>,
    /// The claim that the scheduler made for it.
    provided: Option<ClaimKey>,
    /// Its claims as they were when it was let in; none where nobody here let it in.
    pub(super) let_in_by: Option<Vec<LetInBy>>,
    /// The claims that others may name and that it paid for when it was known last what it claims.
    pub(super) paid: BTreeSet<ClaimKey>,
    /// Its turn to pay for the claims that it shares, as it stands in line for each.
    turn: Option<Turn>,
}

/// How a pod stands that shares a claim: the lower, the rather it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It was let in, and is charged.
    In,
    /// It waits, or no queue is charged for it.
    Waits,
    /// It was let in, and its quota was given back before it was gone.
    Lapsed,
}

/// Of those that share a claim, the least pays.
pub(super) type Turn = (Standing, Timestamp, Arc<str>);

impl Claiming {
    /// The text of an annotation of the pod.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod.metadata.annotations.get(key)
    }

    /// The claims that the pod names, as far as they are known, each with what the pod calls it.
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

    /// Those that the pod pays for, and whether others may name them too.
    pub(super) fn paid_by<'c>(&'c self, uid: &'c str, devices: &'c Devices) -> impl Iterator<Item = (ClaimKey, bool)> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let claims = self.named.iter().filter_map(move |named| {
            let key = (namespace.into(), named.claim.clone()?);
            Some((key, named.shared))
        });
        claims.filter(move |(key, shared)| !shared || devices.pays(key, uid))
    }

    /// Whether the pod was let in by a claim of this name that says this.
    pub(super) fn was_let_in_by(&self, name: &str, claim: &ResourceClaim) -> bool {
        let own = self.named.iter().filter(|named| named.claim.as_deref() == Some(name));
        let let_in_by = || self.let_in_by.iter().flatten();
        own.map(|named| let_in_by().find(|(known, _)| *known == named.name))
            .all(|then| {
                let then = then.and_then(|(_, then)| then.as_ref());
                then.is_some_and(|then| then.spec == claim.spec)
            })
    }

    /// The claim of this name is, or was, another than the one that the pod was let in by, where it does not say what `claim` does.
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

    /// All claims of the pod.
    pub(super) fn keys(&self) -> BTreeSet<ClaimKey> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        keys_of(namespace, &self.named).chain(self.provided.clone()).collect()
    }
}

impl Cluster {
    /// Remembers a pod that claims devices, as it was seen; what it names.
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
        // Where it shares others than before, it takes its place among those when it has been read.
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

    /// Forgets a pod that claimed devices: whoever shares a claim that it paid for pays from now on. `was_in` says whether the pod had
    /// been let in.
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
                // The others wait for somebody, or for nobody, as before.
                self.see_again(next);
            }
        }
    }

    /// Who is to pay for a claim in place of this pod.
    fn next_payer(&self, key: &ClaimKey, uid: &str) -> Option<Turn> {
        let mut turns = self.claimed.in_line.get(key).into_iter().flatten();
        let next = turns.find(|(.., other)| **other != *uid).cloned();
        debug_assert_eq!(
            next,
            self.next_among_all(key, uid),
            "the line for {key:?} is not as those stand who share it"
        );
        next
    }

    /// The same, searched for among all who share the claim.
    fn next_among_all(&self, key: &ClaimKey, uid: &str) -> Option<Turn> {
        let users = self.claimed.users.get(key).into_iter().flatten();
        let others = users.filter(|user| ***user != *uid);
        others.filter_map(|user| self.turn_to_pay(user)).min()
    }

    /// A pod takes its place in the line of those that are to pay for the claims that it shares, or leaves it.
    fn stand_in_line(&mut self, uid: &str, turn: Option<&Turn>) {
        let Some(claiming) = self
            .claimed
            .pods
            .get_mut(uid)
            .filter(|claiming| claiming.turn.as_ref() != turn)
        else {
            return;
        };
        let before = std::mem::replace(&mut claiming.turn, turn.cloned());
        let namespace = claiming.pod.metadata.namespace.as_deref().unwrap_or_default();
        for key in shared_keys(namespace, &claiming.named) {
            let line = self.claimed.in_line.entry(key.clone()).or_default();
            if let Some(before) = &before {
                line.remove(before);
            }
            line.extend(turn.cloned());
            if line.is_empty() {
                self.claimed.in_line.remove(&key);
            }
        }
    }

    /// Whose turn it is to pay for a claim: who was let in already, first, since nobody waits for what another pod of theirs holds or has
    /// given back; and of those that wait the oldest, in whatever order they are seen.
    fn turn_to_pay(&self, uid: &Arc<str>) -> Option<Turn> {
        let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id))?;
        Some((self.standing_of(pod), pod.created, Arc::clone(uid)))
    }

    fn standing_of(&self, pod: &Pod) -> Standing {
        let queue = pod.queue.filter(|queue| !self.queue(*queue).is_nameless());
        match (pod.is_in(), queue, &pod.charge) {
            (true, Some(_), Some(_)) => Standing::In,
            (true, Some(_), None) => Standing::Lapsed,
            (true, None, _) | (false, ..) => Standing::Waits,
        }
    }

    /// A pod has come to be charged, or no longer is: it pays for the claims that it shares where those that pay hold nothing by that,
    /// and its turn is before theirs. Whose quota was given back, while its deletion takes for ever, leaves them to others: those would
    /// have the devices at nobody's cost.
    pub(super) fn settle_payers(&mut self, id: PodId) {
        let Some(pod) = self.pod(id) else { return };
        let Some(claiming) = self.claimed.pods.get(&pod.uid) else {
            return;
        };
        let (uid, namespace) = (Arc::clone(&pod.uid), Arc::clone(&pod.namespace));
        let has_lapsed = self.standing_of(pod) == Standing::Lapsed;
        let shared: Vec<_> = shared_keys(&namespace, &claiming.named).collect();
        let turn = self.turn_to_pay(&uid);
        self.stand_in_line(&uid, turn.as_ref());
        for key in shared {
            let payer = self.claimed.devices.payer(&key, &uid);
            let next = if payer != uid {
                self.takes_over_from(&payer, &uid).then(|| Arc::clone(&uid))
            } else if has_lapsed {
                let next = self.next_payer(&key, &uid);
                next.filter(|(standing, ..)| *standing != Standing::Lapsed)
                    .map(|(.., uid)| uid)
            } else {
                None
            };
            let Some(next) = next else { continue };
            let waits = |uid| {
                self.turn_to_pay(uid)
                    .is_some_and(|(standing, ..)| standing == Standing::Waits)
            };
            let still_waits = waits(&payer) && waits(&next);
            self.claimed.devices.set_payer(&key, Some(Arc::clone(&next)));
            if still_waits {
                // The others wait for somebody, as before.
                self.see_again([payer, next]);
            } else {
                self.claim_changed(&key);
            }
        }
    }

    /// Whether a pod pays in place of another one, which holds nothing by paying.
    fn takes_over_from(&self, payer: &Arc<str>, uid: &Arc<str>) -> bool {
        let pod = self.pod_with_uid(payer).and_then(|id| self.pod(id));
        let turn = self.turn_to_pay(uid);
        let is_charged = turn.as_ref().is_some_and(|(standing, ..)| *standing == Standing::In);
        let holds_nothing = pod.is_some_and(|pod| match self.standing_of(pod) {
            Standing::In => false,
            Standing::Waits => matches!(pod.stage, Stage::Waiting | Stage::Blocked) || pod.is_in() && is_charged,
            Standing::Lapsed => true,
        });
        holds_nothing && turn < self.turn_to_pay(payer)
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

    /// Those that share a claim with a pod which was let in, or no longer is, are looked at again.
    pub(super) fn see_sharers_again(&mut self, id: PodId, named: &[Named]) {
        let Some(pod) = self.pod(id).filter(|_| named.iter().any(|named| named.shared)) else {
            return;
        };
        let (uid, namespace) = (Arc::clone(&pod.uid), Arc::clone(&pod.namespace));
        for key in shared_keys(&namespace, named) {
            if self.claimed.devices.payer(&key, &uid) == uid {
                let users = self.claimed.users.get(&key).into_iter().flatten();
                let others: Vec<_> = users.filter(|user| **user != uid).map(Arc::clone).collect();
                self.see_again(others);
            }
        }
    }

    /// The pod that pays for a claim which several may name, where one does.
    pub(crate) fn payer_of(&self, namespace: &str, claim: &str) -> Option<&Pod> {
        let uid = self.claimed.devices.payer_of(&(namespace.into(), claim.into()))?;
        self.pod_with_uid(uid).and_then(|id| self.pod(id))
    }

    /// Whether a pod that shares a claim has to wait for whoever pays for it: that must be let in, in the same queue.
    pub(super) fn check_payers(
        &self,
        task: &mut Task,
        namespace: &str,
        uid: &str,
        queue: Option<QueueId>,
        named: &[Named],
    ) {
        let Some(claimed) = task.claimed.as_ref() else { return };
        if claimed.refusal != Some(Reason::ResourceClaimShared) {
            return;
        }
        let all_paid = shared_keys(namespace, named).all(|key| {
            let Some(payer) = self.claimed.devices.payer_of(&key).filter(|payer| &***payer != uid) else {
                return true;
            };
            let pod = self.pod_with_uid(payer).and_then(|id| self.pod(id));
            pod.is_some_and(|pod| pod.is_in() && pod.queue == queue && self.standing_of(pod) != Standing::Lapsed)
        });
        if all_paid {
            let mut paid = Claimed::clone(claimed);
            (paid.refusal, paid.refused) = (None, None);
            task.claimed = Some(Arc::new(paid));
        }
    }
}

/// A pod as it is kept, to be read again: of what may be a megabyte, that which is read.
pub(crate) fn to_keep(pod: &crds::pod::Pod<Box<str>>) -> crds::pod::Pod<Box<str>> {
    let metadata = &pod.metadata;
    let is_read = |(key, text): &(&str, &str)| {
        // A task by a longer name is none.
        is_charged_by(key) || *key == TASK_SPEC && pod::task_spec(metadata) == Some(*text)
    };
    let owned = |(key, text): (&str, &str)| (Box::from(key), Box::from(text));
    let annotations: TextMap<_> = metadata.annotations.iter().filter(is_read).map(owned).collect();
    // Whether there are any is read as well.
    let first = metadata.annotations.iter().take(usize::from(annotations.is_empty()));
    let first: TextMap<_> = first.map(|(key, _)| owned((key, ""))).collect();
    let labels = metadata.labels.iter();
    let labels = labels.filter(|(key, _)| [TASK_SPEC, CROSS_QUOTA_LABEL].contains(key));
    let owners = metadata
        .owner_references
        .iter()
        .filter(|owner| owner.controller == Some(true));
    let short = |text: &Option<Box<str>>| text.as_deref().map(|text| cut(text, LONGEST_NAME + 1).into());
    let owners = owners.take(1).map(|owner| OwnerReference {
        kind: short(&owner.kind),
        name: short(&owner.name),
        uid: short(&owner.uid),
        controller: owner.controller,
    });
    let mut spec = PodSpec {
        scheduling_gates: gates::to_keep(&pod.spec),
        volumes: Vec::new(),
        ..pod.spec.clone()
    };
    cut_node_terms(&mut spec);
    let conditions = pod.status.conditions.iter();
    let told = conditions.filter(|condition| condition.r#type.as_deref() == Some(ADMITTED_CONDITION));
    crds::pod::Pod {
        metadata: Metadata {
            labels: labels.map(owned).collect(),
            annotations: if annotations.is_empty() { first } else { annotations },
            owner_references: owners.collect(),
            name: metadata.name.clone(),
            generate_name: None,
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: None,
            creation_timestamp: metadata.creation_timestamp.clone(),
            deletion_timestamp: metadata.deletion_timestamp.clone(),
        },
        spec,
        status: PodStatus {
            conditions: told.cloned().collect(),
            ..pod.status.clone()
        },
    }
}

/// What is said of a pod that names more claims than any may: an API server takes thousands.
pub(super) fn claims_excess(spec: &PodSpec<Box<str>>) -> Option<Box<str>> {
    let claims = spec.resource_claims.len();
    (claims > CLAIMS).then(|| format!("spec.resourceClaims names {claims} claims, and {CLAIMS} are allowed").into())
}

/// The claims that a pod names.
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

fn shared_keys<'n>(namespace: &'n str, named: &'n [Named]) -> impl Iterator<Item = ClaimKey> + 'n {
    let shared = named.iter().filter(|named| named.shared);
    let claims = shared.filter_map(|named| named.claim.clone());
    claims.map(move |claim| (namespace.into(), claim))
}

/// The claim that the scheduler made for what a pod requests by resources that classes provide.
pub(super) fn provided_claim(pod: &crds::pod::Pod<Box<str>>) -> Option<&str> {
    let status = pod.status.extended_resource_claim_status.as_ref()?;
    status.resource_claim_name.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::pod::read;
    use crate::names::Names;

    fn kept(metadata: &Value) -> (crds::pod::Pod<Box<str>>, crds::pod::Pod<Box<str>>) {
        let pod = json!({ "metadata": metadata, "spec": { "containers": [{ "name": "main" }] } });
        let pod = serde_json::from_value(pod).unwrap();
        (to_keep(&pod), pod)
    }

    #[test]
    fn a_pod_that_is_read_again_costs_no_more_than_what_is_read() {
        let megabyte = "x".repeat(1 << 20);
        let (kept, _) = kept(&json!({
            "name": "p", "labels": { "stuffing": megabyte }, "annotations": { "stuffing": megabyte, TASK_SPEC: megabyte },
            "ownerReferences": [
                { "kind": "Foo", "name": megabyte, "uid": megabyte, "controller": true },
                { "kind": "Bar", "name": megabyte, "uid": "u" },
            ],
        }));
        let length = format!("{kept:?}").len();
        assert!(length < 4_000, "{length}");
        assert_eq!(kept.metadata.annotations.len(), 1, "that there are any is known");
    }

    #[test]
    fn a_pod_that_is_read_again_says_what_it_said() {
        for annotations in [
            json!({}),
            json!({ "a": "b" }),
            json!({ TASK_SPEC: "worker", "scheduling.k8s.io/group-name": "g" }),
        ] {
            let (mut again, mut whole) = kept(&json!({
                "name": "p", "labels": { CROSS_QUOTA_LABEL: "enabled" }, "annotations": annotations,
                "ownerReferences": [{ "kind": "Job", "name": "j", "uid": "u", "controller": true }],
            }));
            assert_eq!(
                again.metadata.annotations.is_empty(),
                whole.metadata.annotations.is_empty()
            );
            assert_eq!(pod::task_spec(&again.metadata), pod::task_spec(&whole.metadata));
            let mut names = Names::default();
            let [again, whole] = [&mut again, &mut whole].map(|pod| read(pod, "team", &mut names));
            assert_eq!(
                (again.managed, again.group, again.cross_quota),
                (whole.managed, whole.group, whole.cross_quota)
            );
            assert_eq!(
                (again.controller, again.controller_uid),
                (whole.controller, whole.controller_uid)
            );
        }
    }
}
