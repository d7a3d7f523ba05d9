use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::tests::{actor, pod};
use super::*;

/// Returns an actor whose API server answers each request for a pod, or for a page of budgets, with what `seen` says of it.
fn actor_of<F>(seen: F) -> Actor
where
    F: Fn(&http::Request<kube::client::Body>, bool) -> Value + Clone + Send + Sync + 'static,
{
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_of_budgets = request.uri().path().ends_with("/poddisruptionbudgets");
        let answer = seen(&request, is_of_budgets);
        let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    actor(kube::Client::new(server, "default")).0
}

/// Returns a pod as the API server has it.
fn pod_with(metadata: &Value, status: &Value) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status})
}

/// Returns the only page of budgets, with one that selects all pods and allows so many evictions.
fn one_budget(allowed: i32) -> Value {
    json!({"metadata": {}, "items": [{"metadata": {}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": allowed}}]})
}

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
        // This selector is longer than any that is read: a tenant's selector with a million values would take a hundred times as much.
        (
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": vec!["a"; 10_000]}]}),
            true,
        ),
    ] {
        let read: BudgetSpec = serde_json::from_str(&json!({ "selector": selector }).to_string()).unwrap();
        let read = Selector::read(read.selector.as_deref());
        assert_eq!(read.selects(&labels), expected, "{selector}");
    }
}

/// Otherwise budgets of a tenant that are as long as objects can be would end the operator, at each eviction of one of the tenant's pods.
#[tokio::test]
async fn budgets_are_read_in_small_pages_and_no_more_than_anybody_needs() {
    // The number of pages, whether the last budget protects the pod, and the expected result.
    for (pages, protects, expected) in [(3, false, vec![]), (3, true, vec![0]), (1_000, false, vec![0])] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let actor = actor_of(move |request, is_of_budgets| {
            if !is_of_budgets {
                return pod_with(&json!({"name": "p"}), &Value::Null);
            }
            let query = request.uri().query().unwrap_or_default();
            assert!(query.split('&').any(|part| part == "limit=10"), "{query}");
            let page = counted.fetch_add(1, Ordering::Relaxed) + 1;
            let mut answer = one_budget(i32::from(page < pages || !protects));
            answer["metadata"]["continue"] = if page < pages { "more" } else { "" }.into();
            answer
        });
        assert_eq!(
            actor.over_budget(&[&pod()]).await.unwrap(),
            expected,
            "{pages} {protects}"
        );
        assert_eq!(asked.load(Ordering::Relaxed), pages.min(PAGES_OF_BUDGETS));
    }
}

/// Kubernetes evicts such pods whatever budgets say.
#[tokio::test]
async fn budgets_protect_nobody_who_does_not_run_or_is_on_its_way_out() {
    for (phase, deleted, expected) in [
        ("Running", Value::Null, vec![0]),
        ("Pending", Value::Null, vec![]),
        ("Failed", Value::Null, vec![]),
        ("Running", json!("2026-01-01T00:00:00Z"), vec![]),
    ] {
        let seen = pod_with(
            &json!({"name": "p", "deletionTimestamp": deleted}),
            &json!({ "phase": phase }),
        );
        let actor = actor_of(move |_, is_of_budgets| if is_of_budgets { one_budget(0) } else { seen.clone() });
        assert_eq!(
            actor.over_budget(&[&pod()]).await.unwrap(),
            expected,
            "{phase} {deleted}"
        );
    }
}

/// Pods whose budgets are slow to read count as protected, and keep nobody waiting for longer, nor again and again.
#[tokio::test(start_paused = true)]
async fn budgets_that_are_slow_to_read_are_not_read_to_their_end() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_of_budgets = request.uri().path().ends_with("/poddisruptionbudgets");
        counted.fetch_add(usize::from(is_of_budgets), Ordering::Relaxed);
        let answer = json!({"metadata": {"continue": "more"}, "items": []});
        let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
        async {
            sleep(Duration::from_secs(3)).await;
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let (actor, _heard) = actor(kube::Client::new(server, "default"));
    for reads in [4, 4, 8] {
        assert_eq!(actor.over_budget(&[&pod()]).await.unwrap(), [0]);
        assert_eq!(asked.load(Ordering::Relaxed), reads);
        sleep(UNREAD_FOR / 2).await;
    }
}

/// Labels are written by tenants, too.
#[tokio::test]
async fn who_has_more_labels_than_are_read_is_taken_for_protected() {
    let labels: BTreeMap<_, _> = (0..=MOST_LABELS).map(|index| (index.to_string(), "")).collect();
    let seen = pod_with(&json!({"name": "p", "labels": labels}), &Value::Null);
    let actor = actor_of(move |_, is_of_budgets| if is_of_budgets { one_budget(1) } else { seen.clone() });
    assert_eq!(actor.over_budget(&[&pod()]).await.unwrap(), [0]);
}

/// A gang goes as a whole, and its labels are in memory at once.
#[tokio::test]
async fn of_pods_with_labels_without_end_most_are_taken_for_protected() {
    let label = |index| (format!("{index:0>317}"), "v".repeat(63));
    let labels: BTreeMap<_, _> = (0..MOST_LABELS).map(label).collect();
    let seen = pod_with(&json!({"name": "p", "labels": labels}), &Value::Null);
    let actor = actor_of(move |_, is_of_budgets| if is_of_budgets { one_budget(100) } else { seen.clone() });
    let gang = vec![pod(); 100];
    let refused = actor.over_budget(&gang.iter().collect::<Vec<_>>()).await.unwrap();
    let fit = MOST_OF_LABELS / (MOST_LABELS * (317 + 63 + OF_EACH_LABEL));
    assert_eq!(refused, (fit..100).collect::<Vec<_>>());
}

/// Evictions that wait one behind the other keep all admissions waiting.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_budgets_of_a_namespace_waits_no_longer_than_they_may_take() {
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_of_budgets = request.uri().path().ends_with("/poddisruptionbudgets");
        let answer = json!({"metadata": {}, "items": []});
        let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
        async move {
            sleep(Duration::from_secs(if is_of_budgets { 3 } else { 0 })).await;
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let (actor, _heard) = actor(kube::Client::new(server, "default"));
    let begin = Instant::now();
    let victim = pod();
    let victim = [&victim];
    let answers = futures::future::join_all((0..20).map(|_| actor.over_budget(&victim))).await;
    assert!(begin.elapsed() <= READING_BUDGETS, "{:?}", begin.elapsed());
    // Each eviction whose budgets were read is allowed; the pods of the others count as protected this time.
    let allowed = answers
        .iter()
        .filter(|refused| refused.as_ref().is_ok_and(Vec::is_empty))
        .count();
    assert_eq!(allowed, 3, "{answers:?}");
    assert!(!actor.budgets.are_unread("team"));
}
