use std::sync::Mutex;
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;
use kube::core::Status;
use programs::configuration::Reader;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::knowledge::QueueCondition;

type QueueEvent = watcher::Result<Event<DeserializeGuard<Queue>>>;

fn fed() -> Fed {
    Fed {
        knowledge: Arc::default(),
        metrics: Arc::default(),
    }
}

fn queue(name: &str, selector: &str, more: &Value) -> DeserializeGuard<Queue> {
    let mut object = json!({"metadata": {"name": name, "annotations": {"card.volcano.sh/namespaces": selector}}});
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
    serde_json::from_value(object).unwrap()
}

fn listed(queues: Vec<DeserializeGuard<Queue>>) -> impl Iterator<Item = QueueEvent> {
    let listed = queues.into_iter().map(|queue| Ok(Event::InitApply(queue)));
    [Ok(Event::Init)].into_iter().chain(listed).chain([Ok(Event::InitDone)])
}

/// An error of the API server as a list gives it.
fn refused(code: u16) -> QueueEvent {
    let status = Status::failure("no", "no").with_code(code);
    Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
}

async fn follow_queues(fed: &Fed, events: impl IntoIterator<Item = QueueEvent>) {
    let events = stream::iter(events.into_iter().collect::<Vec<_>>());
    follow("queues", events, fed.clone(), |knowledge| &knowledge.queues, read_queue).await;
}

fn selector(fed: &Fed, name: &str) -> Option<String> {
    fed.knowledge.queues.get(name).map(|facts| facts.selector.to_string())
}

#[tokio::test]
async fn a_store_follows_its_watch() {
    let fed = fed();
    let none = json!({});
    let events = listed(vec![queue("a", "x=1", &none), queue("b", "x=1", &none)]).chain([
        Ok(Event::Apply(queue("a", "x=2", &none))),
        Ok(Event::Apply(queue("c", "x=3", &none))),
        Ok(Event::Delete(queue("b", "x=1", &none))),
    ]);
    follow_queues(&fed, events).await;
    assert_eq!(selector(&fed, "a").as_deref(), Some("x=2"));
    assert_eq!(selector(&fed, "b"), None);
    assert_eq!(selector(&fed, "c").as_deref(), Some("x=3"));
    assert!(fed.knowledge.queues.is_listed());
}

#[tokio::test]
async fn a_relist_forgets_what_is_gone_and_an_interrupted_one_forgets_nothing() {
    let fed = fed();
    let none = json!({});
    follow_queues(&fed, listed(vec![queue("a", "x=1", &none), queue("b", "x=1", &none)])).await;
    follow_queues(&fed, [Ok(Event::Init), Ok(Event::InitApply(queue("c", "x=1", &none)))]).await;
    assert!(
        selector(&fed, "a").is_some() && selector(&fed, "c").is_none(),
        "nothing before the list is complete"
    );
    let interrupted = [Ok(Event::Init), Ok(Event::InitApply(queue("c", "x=1", &none)))];
    follow_queues(
        &fed,
        interrupted.into_iter().chain(listed(vec![queue("b", "x=1", &none)])),
    )
    .await;
    assert_eq!((selector(&fed, "a"), selector(&fed, "c")), (None, None));
    assert!(selector(&fed, "b").is_some());
}

#[tokio::test]
async fn a_malformed_queue_is_unreadable_and_not_absent() {
    let fed = fed();
    let malformed = queue("odd", "team=a", &json!({"spec": {"capability": [1]}}));
    follow_queues(
        &fed,
        listed(vec![
            malformed,
            queue("fine", "x", &json!({"status": {"state": "Closed"}})),
        ]),
    )
    .await;
    let odd = fed.knowledge.queues.get("odd").unwrap();
    assert!(matches!(odd.condition, QueueCondition::Unreadable(_)), "{odd:?}");
    assert_eq!(
        (&*odd.selector, odd.terms.access.is_ok()),
        ("team=a", true),
        "who may use it is still known"
    );
    let fine = fed.knowledge.queues.get("fine").unwrap();
    assert_eq!(fine.condition, QueueCondition::NotOpen("Closed".into()));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_has_no_objects_until_it_is() {
    let fed = fed();
    follow_queues(&fed, [refused(404)]).await;
    assert!(fed.knowledge.queues.is_listed(), "readiness does not wait for ever");
    let later = [refused(404)]
        .into_iter()
        .chain(listed(vec![queue("a", "x", &json!({}))]));
    follow_queues(&fed, later.chain([refused(404)])).await;
    assert!(
        selector(&fed, "a").is_some(),
        "and a failure after the list forgets nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_counted_and_nothing_is_taken_for_listed() {
    let fed = fed();
    follow_queues(&fed, [refused(403), refused(500)]).await;
    assert!(!fed.knowledge.queues.is_listed());
    let metrics = fed.metrics.encode().unwrap();
    assert!(
        metrics.contains(r#"cardgate_webhook_watch_errors_total{kind="queues"} 2"#),
        "{metrics}"
    );
}

#[test]
fn facts_are_read_by_the_names_that_pods_use() {
    let read = |object: Value| serde_json::from_value::<DeserializeGuard<CardType>>(object).unwrap();
    let spec = json!({"cardName": "NVIDIA-A100/mps-80g*1/8", "resource": "nvidia.com/gpu.shared", "kind": "MPS"});
    let card_type = read(json!({"metadata": {"name": "nvidia-a100-mps-80g-1-8-1c9f0d3e"}, "spec": spec}));
    let entry = read_card_type(&card_type).unwrap();
    assert_eq!(
        (&*entry.0, &*entry.1.resource),
        ("NVIDIA-A100/mps-80g*1/8", "nvidia.com/gpu.shared")
    );
    assert_eq!(
        read_card_type(&read(json!({"metadata": {"name": "x"}, "spec": {}}))),
        None
    );

    let group = json!({"metadata": {"name": "g", "namespace": "n"}, "spec": {"queue": "team-a", "minMember": 2}});
    let (key, facts) = read_group(&serde_json::from_value(group).unwrap());
    assert_eq!((&*key, facts.queue.as_deref()), ("n/g", Some("team-a")));

    let namespace = json!({"metadata": {"name": "n", "labels": {"team": "a"},
        "annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}});
    let (key, facts) = read_namespace(&serde_json::from_value(namespace).unwrap());
    assert_eq!(
        (&*key, facts.queue.as_deref(), facts.labels["team"].as_str()),
        ("n", Some("team-a"), "a")
    );
}

/// What the webhook lacks before a configuration is in force.
const NO_CONFIGURATION: &str = "a configuration that can be read";

#[tokio::test]
async fn the_configuration_is_as_its_object_and_stays_when_that_is_gone() {
    let (fed, first) = (fed(), fed());
    let config = |text: &str| ConfigMap {
        data: Some([("cardgate.yaml".to_owned(), format!("defaultQueue: {text}"))].into()),
        ..ConfigMap::default()
    };
    let default_queue = || fed.knowledge.configured().configuration.cardgate.default_queue.clone();
    configure(stream::iter(Reader::default().read(None).map(Ok)), first.clone()).await;
    assert!(
        !first.knowledge.missing().contains(&NO_CONFIGURATION),
        "no ConfigMap at the start is a configuration too"
    );
    let mut reader = Reader::default();
    let mut seen =
        |config_map: Option<&ConfigMap>| configure(stream::iter(reader.read(config_map).map(Ok)), fed.clone());
    for unread in [Some(&config("]")), None] {
        seen(unread).await;
        assert!(
            fed.knowledge.missing().contains(&NO_CONFIGURATION),
            "the defaults might let in whom the last good one would hold"
        );
    }
    seen(Some(&config("one"))).await;
    seen(Some(&config("two"))).await;
    assert_eq!(default_queue(), "two");
    seen(Some(&config("]"))).await;
    assert_eq!(default_queue(), "two", "the last good one stays");
    let problem = fed.knowledge.configured().problem.clone().unwrap();
    assert!(problem.contains("cardgate.yaml"), "{problem}");
    seen(None).await;
    assert_eq!(default_queue(), "two", "who deletes it does not let in whom it holds");
    let problem = fed.knowledge.configured().problem.clone().unwrap();
    assert!(problem.contains("missing"), "{problem}");
    seen(Some(&ConfigMap::default())).await;
    assert_eq!(default_queue(), "default");
    assert_eq!(fed.knowledge.configured().problem, None);
}

/// A user who makes five hundred groups as long as objects can be would end every webhook at its list, for want of memory.
#[actix_web::test]
async fn what_tenants_write_is_listed_in_small_pages() {
    let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let server = HttpServer::new({
        let asked = Arc::clone(&asked);
        move || {
            let asked = Arc::clone(&asked);
            let answer = move |request: actix_web::HttpRequest| {
                let asked = Arc::clone(&asked);
                async move {
                    let request = (request.path().to_owned(), request.query_string().to_owned());
                    asked.lock().unwrap().push(request);
                    HttpResponse::Ok().json(json!({"metadata": {"resourceVersion": "1"}, "items": []}))
                }
            };
            App::new().default_service(web::to(answer))
        }
    });
    let server = server.workers(1).bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.addrs()[0]);
    rt::spawn(server.run());
    let _ = programs::certificates::provider().install_default();
    let client = programs::client(Config::new(address.parse().unwrap())).unwrap();
    let fed = fed();
    let _watches = start(&client, "cardgate-system", &fed);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fed.knowledge.is_listed() {
        assert!(Instant::now() < deadline, "not listed: {:?}", fed.knowledge.missing());
        sleep(Duration::from_millis(10)).await;
    }
    let asked = asked.lock().unwrap();
    for kind in ["queues", "podgroups", "namespaces", "cardtypes"] {
        let of_kind = |(path, query): &&(String, String)| path.ends_with(kind) && !query.contains("watch=");
        let list = asked.iter().find(of_kind).unwrap();
        assert!(list.1.split('&').any(|part| part == "limit=20"), "{list:?}");
    }
}

#[test]
fn of_a_long_group_its_queue_is_kept() {
    let megabyte = "x".repeat(1 << 20);
    let group = json!({
        "metadata": {"name": "g", "namespace": "n", "resourceVersion": "7", "annotations": {"stuffing": megabyte}, "labels": {"a": megabyte}},
        "spec": {"queue": "team-a", "minTaskMember": {megabyte.clone(): 1}}, "status": {"conditions": [{"message": megabyte}]},
    });
    let group: WatchedGroup = serde_json::from_value(group).unwrap();
    let kept = format!("{group:?}");
    assert!(kept.len() < 2_000, "{}", kept.len());
    assert_eq!(
        group.resource_version().as_deref(),
        Some("7"),
        "by which its watch goes on"
    );

    let unreadable = json!({"metadata": {"name": "g", "namespace": "n"}, "spec": {"queue": [1]}});
    let (key, facts) = read_group(&serde_json::from_value(unreadable).unwrap());
    assert_eq!((&*key, &facts.queue), ("n/g", &None));
}
