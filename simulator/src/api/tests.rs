//! What the API server answers, as `kube` reads it.

use std::pin::pin;

use crds::keys::{NAMESPACE, POLICY_PARAMETERS};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{PartialObjectMeta, Status};
use kube::{Api, Error};
use serde_json::{Value, json};

use super::*;
use crate::api::watch::End;
use crate::objects::{CONFIG_MAPS, Key, POD_DISRUPTION_BUDGETS, PODS};

fn server() -> Server {
    Server::new(Objects::new(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))
}

fn add_pod(server: &Server, name: &str, change: impl FnOnce(&mut Value)) {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}},
        "spec": {"containers": [], "schedulingGates": [{"name": "gate"}]},
    });
    change(&mut pod);
    server.state().objects.create(&"user".into(), &PODS, pod).unwrap();
}

fn refused<T>(answer: Result<T, Error>) -> Status {
    match answer {
        Err(Error::Api(status)) => *status,
        Err(error) => panic!("no answer: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_one_version() {
    let server = server();
    for number in 0..50 {
        add_pod(&server, &format!("p{number:02}"), |_| {});
    }
    let pods: Api<Pod> = Api::all(server.client("operator-0"));
    let first = pods.list(&ListParams::default().limit(500)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    server
        .state()
        .objects
        .delete(&"user".into(), &PODS, &Key::new("team", "p45"))
        .unwrap();
    let mut names: Vec<_> = first.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
    let mut token = Some(token);
    while let Some(next) = token {
        let page = pods
            .list(&ListParams::default().limit(500).continue_token(&next))
            .await
            .unwrap();
        names.extend(page.items.into_iter().filter_map(|pod| pod.metadata.name));
        token = page.metadata.continue_;
    }
    let expected: Vec<_> = (0..50).map(|number| format!("p{number:02}")).collect();
    assert_eq!(names, expected, "as it was when the list began");
}

#[tokio::test(start_paused = true)]
async fn a_patch_whose_test_fails_changes_nothing() {
    let server = server();
    add_pod(&server, "p", |_| {});
    let pods: Api<Pod> = Api::namespaced(server.client("operator-0"), "team");
    let patch = |uid: &str| {
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]);
        Patch::Json::<()>(serde_json::from_value(patch).unwrap())
    };
    let status = refused(
        pods.patch_metadata("p", &PatchParams::default(), &patch("another"))
            .await,
    );
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    let uid = pods.get("p").await.unwrap().metadata.uid.unwrap();
    pods.patch_metadata("p", &PatchParams::default(), &patch(&uid))
        .await
        .unwrap();
    let status = refused(pods.patch_metadata("q", &PatchParams::default(), &patch(&uid)).await);
    assert_eq!((status.code, &*status.message), (404, "pods \"q\" not found"));
}

#[tokio::test(start_paused = true)]
async fn another_uid_is_told_from_another_version() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client("operator-0"), "team");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("m".to_owned());
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(refused(maps.create(&PostParams::default(), &map).await).code, 409);
    let uid = Patch::Merge(json!({"metadata": {"uid": "another"}, "data": {"a": "b"}}));
    let status = refused(maps.patch("m", &PatchParams::default(), &uid).await);
    let field = status.details.unwrap().causes.remove(0).field;
    assert_eq!((status.code, &*field), (422, "metadata.uid"));
    let change = Patch::Merge(json!({"data": {"a": "b"}}));
    maps.patch("m", &PatchParams::default(), &change).await.unwrap();
    let status = refused(maps.replace("m", &PostParams::default(), &created).await);
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_is_selected_and_expires() {
    let server = server();
    add_pod(&server, "p", |_| {});
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(server.client("operator-0"));
    let waiting = WatchParams::default().fields("status.phase=Pending");
    let version = server.state().objects.version().to_string();
    let mut events = pin!(pods.watch(&waiting, &version).await.unwrap());
    {
        let state = &mut *server.state();
        let run = |pod: &mut Value| {
            pod["status"]["phase"] = "Running".into();
            Ok(())
        };
        state
            .objects
            .change(&"kubelet".into(), &PODS, &Key::new("team", "p"), run)
            .unwrap();
        state.wake();
    }
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(event, WatchEvent::Deleted(_)),
        "it is no longer among them: {event:?}"
    );
    server.state().end_watches(None, End::Expired);
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(event, WatchEvent::Error(ref status) if status.code == 410),
        "{event:?}"
    );
    let newest = server.state().objects.version();
    server.state().faults.forget(newest);
    let mut events = pin!(pods.watch(&waiting, &version).await.unwrap());
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(event, WatchEvent::Error(ref status) if status.code == 410),
        "{event:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn disruption_budgets_allow_so_many_evictions() {
    let server = server();
    for name in ["p", "q"] {
        add_pod(&server, name, |pod| pod["status"]["phase"] = "Running".into());
    }
    let budget = json!({
        "metadata": {"name": "b", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": 1},
    });
    server
        .state()
        .objects
        .create(&"user".into(), &POD_DISRUPTION_BUDGETS, budget)
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client("operator-0"), "team");
    let evict = async |name: &str, dry_run| {
        let eviction = json!({"metadata": {"name": name, "namespace": "team"}});
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        pods.create_subresource::<_, Value>("eviction", name, &params, &eviction)
            .await
    };
    evict("p", true).await.unwrap();
    evict("p", false).await.unwrap();
    assert_eq!(refused(evict("q", true).await).code, 429);
    assert_eq!(refused(evict("p", false).await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_done_all_the_same() {
    use faults::{What, Whose};
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client("operator-0"), "team");
    let create = async |name: &str| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        let limit = Duration::from_secs(4);
        tokio::time::timeout(limit, maps.create(&PostParams::default(), &map)).await
    };
    let is_there = |name: &str| {
        server
            .state()
            .objects
            .get(&CONFIG_MAPS, &Key::new("team", name))
            .is_some()
    };
    server.state().faults.plan(Whose::OtherWrite, What::Unanswered);
    assert!(create("lost").await.is_err() && is_there("lost"));
    server
        .state()
        .faults
        .plan(Whose::OtherWrite, What::Late(Duration::from_secs(9)));
    assert!(create("late").await.is_err() && !is_there("late"));
    let state = &mut *server.state();
    state.objects.age += Duration::from_secs(10);
    state.arrive();
    assert!(state.objects.get(&CONFIG_MAPS, &Key::new("team", "late")).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_refused_to_operators_until_it_is_allowed_again() {
    use faults::Forbidden;
    let server = server();
    add_pod(&server, "p", |_| {});
    let condition = Patch::Merge(json!({"status": {"conditions": [{"type": "a", "status": "True"}]}}));
    let write = async |who: &str| {
        let pods: Api<Pod> = Api::namespaced(server.client(who), "team");
        pods.patch_status("p", &PatchParams::default(), &condition).await
    };
    write("kubelet").await.unwrap();
    let until = server.state().objects.age + Duration::from_secs(10);
    server.state().faults.forbid(Forbidden::Conditions, 422, until);
    for _ in 0..2 {
        assert_eq!(refused(write("operator-0").await).code, 422);
    }
    assert_eq!(server.state().attempts.len(), 2, "what is refused is noted");
    server.state().objects.age += Duration::from_secs(10);
    write("operator-0").await.unwrap();
    assert_eq!(server.state().attempts.len(), 3, "and so is what changes nothing");
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_decides_is_refused_while_another_one_leads() {
    let server = server();
    add_pod(&server, "p", |_| {});
    let admission = Patch::Merge(json!({"metadata": {"annotations": {"a": "1"}}}));
    let write = async |who: &str| {
        let pods: Api<Pod> = Api::namespaced(server.client(who), "team");
        pods.patch("p", &PatchParams::default(), &admission).await
    };
    write("operator-0").await.unwrap();
    let parameters =
        json!({"metadata": {"namespace": NAMESPACE, "name": POLICY_PARAMETERS}, "data": {"leader": "operator-1"}});
    let created = server
        .state()
        .objects
        .create(&"operator-1".into(), &CONFIG_MAPS, parameters);
    created.unwrap();
    assert_eq!(refused(write("operator-0").await).code, 403);
    for who in ["operator-1", "user"] {
        write(who).await.unwrap();
    }
    let pods: Api<Pod> = Api::namespaced(server.client("operator-0"), "team");
    assert_eq!(refused(pods.evict("p", &EvictParams::default()).await).code, 403);
}
