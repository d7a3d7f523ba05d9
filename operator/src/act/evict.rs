//! Evictions: one pod that could not be placed, or all the pods that make room for another one.

use std::sync::Arc;

use engine::Outcome;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Eviction;
use engine::refs::PodRef;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::sleep;

use super::tries::{FIRST_WAIT, LONGEST_WAIT};
use super::{Actor, Failure};
use crate::event::Event;
use crate::metrics::{Verb, Write};

impl Actor {
    /// Takes an admitted pod back that could not be placed.
    pub fn send_back(&self, pod: PodRef) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            match actor.evict(&pod, false).await {
                Ok(()) => {
                    tracing::info!(pod = %pod, "evicted");
                    actor.tell_of_its_end(&pod).await;
                }
                // By an eviction that was not answered, or by somebody else; the watch has yet to tell.
                Err(failure) if failure.is_gone() => actor.tell_of_its_end(&pod).await,
                Err(failure) => {
                    tracing::warn!(pod = %pod, reason = %failure, "not evicted, trying again later");
                    if let Failure::Api(status) = failure {
                        // The mind is gone only when the program ends.
                        let _ = actor.events.send(Event::NotSentBack(pod, status.message)).await;
                    }
                }
            }
        });
    }

    /// Tells the mind that a pod is on its way out, or gone.
    async fn tell_of_its_end(&self, pod: &PodRef) {
        let outcome = Outcome::Eviction(Arc::clone(&pod.uid), EvictionOutcome::Evicted);
        // The mind is gone only when the program ends.
        let _ = self.events.send(Event::FoundOut(outcome)).await;
    }

    /// Takes pods back for a waiting one, all of them or none; the outcome comes as an event.
    pub fn evict_for(&self, eviction: Eviction) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let outcomes = actor.evict_all(&eviction).await;
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::Evictions(Box::new(eviction), outcomes)).await;
        });
    }

    async fn evict_all(&self, eviction: &Eviction) -> Vec<EvictionOutcome> {
        let pods: Vec<_> = eviction.victims.iter().map(|victim| &victim.pod).collect();
        let mut outcomes = vec![EvictionOutcome::NotTried; pods.len()];
        // Whether all of it would be allowed: once one is evicted, the others are needed too.
        for place in self.over_budget(&pods).await {
            outcomes[place] = EvictionOutcome::Refused;
        }
        for (place, pod) in pods.iter().enumerate() {
            if outcomes[place] == EvictionOutcome::NotTried
                && let Err(failure) = self.evict(pod, true).await
                && !failure.is_gone()
            {
                tracing::info!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "may not be evicted");
                outcomes[place] = EvictionOutcome::Refused;
            }
        }
        if outcomes.contains(&EvictionOutcome::Refused) {
            return outcomes;
        }
        for (place, pod) in pods.iter().enumerate() {
            match self.evict(pod, false).await {
                // Neither done nor refused: were it taken for refused, others would be evicted in its place at once. Where nothing comes of
                // it, the pod counts as staying after a minute.
                Err(Failure::Other(failure)) => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "no answer to its eviction");
                    outcomes[place] = EvictionOutcome::Evicted;
                }
                Err(failure) if !failure.is_gone() => {
                    tracing::warn!(pod = %pod, for_pod = %eviction.waiting, reason = %failure, "not evicted");
                    outcomes[place] = EvictionOutcome::Refused;
                    break;
                }
                _ => {
                    tracing::info!(pod = %pod, for_pod = %eviction.waiting, queue = %eviction.queue, "evicted");
                    outcomes[place] = EvictionOutcome::Evicted;
                }
            }
        }
        outcomes
    }

    /// The pods that disruption budgets do not allow to evict together. Asked one by one, the API server would allow each.
    async fn over_budget(&self, pods: &[&PodRef]) -> Vec<usize> {
        let mut labelled = Vec::new();
        for (place, pod) in pods.iter().enumerate() {
            if let Ok(found) = self.in_time(Verb::Get, self.pods(pod).get_metadata(&pod.name)).await {
                labelled.push((place, Arc::clone(&pod.namespace), found.labels().clone()));
            }
        }
        let mut namespaces: Vec<_> = labelled.iter().map(|(_, namespace, _)| Arc::clone(namespace)).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut refused = Vec::new();
        for namespace in namespaces {
            let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &namespace);
            let Ok(budgets) = self.in_time(Verb::List, budgets.list(&ListParams::default())).await else {
                // Whoever can't be asked allows nothing.
                let here = labelled.iter().filter(|(_, of, _)| *of == namespace);
                refused.extend(here.map(|(place, ..)| *place));
                continue;
            };
            for budget in budgets {
                let allowed = budget.status.map_or(0, |status| status.disruptions_allowed);
                let selector = budget.spec.and_then(|spec| spec.selector);
                let members = labelled
                    .iter()
                    .filter(|(_, of, labels)| *of == namespace && selects(selector.as_ref(), |key| labels.get(key)));
                refused.extend(
                    members
                        .map(|(place, ..)| *place)
                        .skip(usize::try_from(allowed).unwrap_or(0)),
                );
            }
        }
        refused
    }

    /// Takes an admitted pod back through the Eviction API, so that its controller can tell it from a failure, and that
    /// disruption budgets are respected.
    async fn evict(&self, pod: &PodRef, only_ask: bool) -> Result<(), Failure> {
        let mut wait = FIRST_WAIT;
        loop {
            match self.evict_once(pod, only_ask).await {
                // Nobody has looked at the pod: to take that for an answer would spare it for minutes.
                Err(Failure::ForWhoAsked(_)) if wait < LONGEST_WAIT => sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
    }

    async fn evict_once(&self, pod: &PodRef, only_ask: bool) -> Result<(), Failure> {
        if !self.leadership.holds() {
            return Err(Failure::NotSent("no longer the leader"));
        }
        // Not by kube's own `evict`: it writes the options under a name that the API server does not read.
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
            "deleteOptions": { "preconditions": { "uid": &*pod.uid } },
        });
        let params = PostParams {
            dry_run: only_ask,
            ..PostParams::default()
        };
        if !only_ask {
            self.metrics.api_write(Write::Eviction);
        }
        let api: Api<Pod> = self.pods(pod);
        let request = api.create_subresource::<_, IgnoredAny>("eviction", &pod.name, &params, &eviction);
        self.in_time(Verb::Create, request).await.map(|_| ())
    }
}

/// Whether a label selector selects; none selects nothing, as in Kubernetes.
fn selects<'l>(selector: Option<&LabelSelector>, label: impl Fn(&str) -> Option<&'l String>) -> bool {
    let Some(selector) = selector else { return false };
    let mut labels = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    labels.all(|(key, value)| label(key) == Some(value)) && expressions.all(|one| matches(one, label(&one.key)))
}

fn matches(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let is_listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // What a later Kubernetes may add protects rather than not.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use engine::decide::Victim;
    use engine::happening::Happening;
    use kube::Config;
    use programs::certificates::provider;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::super::WRITE_LIMIT;
    use super::*;
    use crate::herald::Herald;
    use crate::lease::Leadership;

    #[test]
    fn budgets_select_as_in_kubernetes() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for (selector, expected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                true,
            ),
        ] {
            let read: Option<LabelSelector> = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(selects(read.as_ref(), |key| labels.get(key)), expected, "{selector}");
        }
    }

    /// An API server that answers evictions like this, one after the other, and takes them from then on; how many it was asked for.
    async fn evict(answers: Vec<(u16, &'static str)>) -> (Result<(), Failure>, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let (code, message) = *answers
                .get(counted.fetch_add(1, Ordering::Relaxed))
                .unwrap_or(&(201, ""));
            let status = if code < 400 { "Success" } else { "Failure" };
            let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "message": message, "code": code});
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            let answer = http::Response::builder().status(code).body(body);
            async { answer }
        });
        let (actor, _heard) = actor(kube::Client::new(server, "default"));
        (actor.evict(&pod(), false).await, asked.load(Ordering::Relaxed))
    }

    /// An actor that leads, and what it tells the mind.
    fn actor(client: kube::Client) -> (Actor, mpsc::Receiver<Event>) {
        let (events, heard) = mpsc::channel(1);
        let leadership = Leadership::told(Arc::new(Herald::new(true)));
        (Actor::new(client, events, leadership, Arc::default()), heard)
    }

    fn pod() -> PodRef {
        PodRef {
            namespace: "team".into(),
            name: "p".into(),
            uid: "1".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_taken_for_a_former_leader_asks_again() {
        const FORMER: &str = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: another operator \
                              of Cardgate leads, by key \"leader\" of ConfigMap \"cardgate-policy\"";
        let (answer, asked) = evict(vec![(403, FORMER), (422, FORMER)]).await;
        assert!(answer.is_ok() && asked == 3, "{answer:?} {asked}");
        // Not for ever: somebody else may lead indeed.
        let (answer, asked) = evict(vec![(403, FORMER); 100]).await;
        assert!(
            matches!(answer, Err(Failure::ForWhoAsked(_))) && asked < 10,
            "{answer:?} {asked}"
        );
        // What is refused for the pod's own sake is an answer.
        for code in [403, 429] {
            let (answer, asked) = evict(vec![(code, "a budget")]).await;
            assert!(
                matches!(answer, Err(Failure::Api(_))) && asked == 1,
                "{answer:?} {asked}"
            );
        }
    }
    /// An API server that a disruption budget keeps from evicting anybody; its address, and how many requests it has got.
    fn protected() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).unwrap() > 2 {
                    let header = line.to_ascii_lowercase();
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                stream.read_exact(&mut vec![0; length]).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a budget",
                    "reason": "TooManyRequests", "code": 429});
                let status = status.to_string();
                let answer = format!(
                    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
                     close\r\n\r\n{status}",
                    status.len()
                );
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        (address, asked)
    }

    #[tokio::test]
    async fn a_disruption_budget_is_heard_at_once() {
        // An error means that there is one already, and any does.
        let _ = provider().install_default();
        let (address, asked) = protected();
        let client = programs::client(Config::new(address.parse().unwrap())).unwrap();
        let (actor, mut heard) = actor(client);
        actor.send_back(pod());
        // Where it asked again and again, there would be no event: what is not answered in time is told nobody.
        let event = timeout(WRITE_LIMIT * 2, heard.recv()).await;
        assert!(
            matches!(&event, Ok(Some(Event::NotSentBack(_, why))) if why == "a budget"),
            "{event:?}"
        );
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    /// A dry run of what a budget forbids says nothing new, and costs a request.
    #[tokio::test]
    async fn nobody_is_asked_of_whom_budgets_protect() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path();
            let answer = if path.ends_with("/eviction") {
                counted.fetch_add(1, Ordering::Relaxed);
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
            } else if path.ends_with("/poddisruptionbudgets") {
                json!({"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {}, "items": [{"metadata": {},
                    "spec": {"selector": {}}, "status": {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
                    "disruptionsAllowed": 1}}]})
            } else {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p"}})
            };
            let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
            async { Ok::<_, std::convert::Infallible>(answer) }
        });
        let victim = || Victim {
            pod: pod(),
            reason: Happening::Reclaimed,
            message: String::new(),
        };
        let eviction = Eviction {
            victims: vec![victim(), victim()],
            waiting: pod(),
            queue: "q".into(),
        };
        let outcomes = actor(kube::Client::new(server, "default")).0.evict_all(&eviction).await;
        assert_eq!(outcomes, [EvictionOutcome::NotTried, EvictionOutcome::Refused]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
