use crds::card_type::CardKind;
use crds::card_usage::OwnCards;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{cards, nodes, past, queues, why};
use crate::failure::Failure;
use crate::history::{Entry, History, Source, What};
use crate::top::state::{CardRow, QueueRow, State};

/// Text that a user may put into names or messages.
const HOSTILE: &str = r#"<script>alert(1)</script>"'&"#;

fn state(name: &str) -> State {
    State {
        cards: vec![CardRow {
            card: name.to_owned(),
            kind: CardKind::Whole,
            total: 10,
            charged: 6,
            unaccounted: 1,
            free: 2,
            unusable: 1,
        }],
        queues: vec![QueueRow {
            queue: name.to_owned(),
            card: name.to_owned(),
            guaranteed: 1,
            deserved: Some(4),
            quota: Some(8),
            used: Some(6),
            borrowed: Some(2),
            waiting: Some(3),
            own: Some(OwnCards {
                allocated: 6,
                waiting: 3,
            }),
        }],
        nodes: None,
        unseen: vec![name.to_owned()],
    }
}

fn assert_harmless(page: &str) {
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn what_others_call_their_things_is_text() {
    let state = state(HOSTILE);
    assert_harmless(&cards::show(&state).into_string());
    assert_harmless(&queues::show(&state).into_string());
    let status = serde_json::from_value(json!({
        "firstWaiting": [{ "position": 1, "kind": "Pod", "name": HOSTILE, "reason": HOSTILE, "missing": HOSTILE }],
        "conditions": [{ "type": HOSTILE, "status": "False", "reason": HOSTILE, "message": HOSTILE, "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    }))
    .unwrap();
    assert_harmless(&queues::show_one(&state, HOSTILE, Some(&status)).into_string());
    let inventory = serde_json::from_value(json!({
        "metadata": { "name": "n" }, "spec": { "nodeName": HOSTILE },
        "status": { "problems": HOSTILE },
    }))
    .unwrap();
    assert_harmless(&nodes::show(&[inventory], &nodes::Asked::default()).into_string());
    assert_harmless(&why::show(HOSTILE, HOSTILE, &[], Some(Ok(vec![HOSTILE.to_owned()]))).into_string());
    let refused = Err(Failure::QueueUnknown(HOSTILE.to_owned()));
    assert_harmless(&why::show("", "", &[], Some(refused)).into_string());
    let time = "2026-11-23T12:00:00Z".parse().unwrap();
    let entry = Entry {
        time,
        what: What::Evicted,
        namespace: None,
        name: HOSTILE.to_owned(),
        by: None,
        details: HOSTILE.to_owned(),
        source: Source::Event,
    };
    let history = History {
        since: "2026-11-22T12:00:00Z".parse().unwrap(),
        entries: vec![entry],
        oldest_event: None,
        unknown: vec![HOSTILE.to_owned()],
    };
    assert_harmless(&past::show(&history, time, HOSTILE).into_string());
}

/// Whoever may write events in a namespace writes as many as they like.
#[test]
fn of_many_events_the_newest_are_drawn() {
    let time = |at: i64| Timestamp::from_second(at).unwrap();
    let entries = (0..3000).map(|at| Entry {
        time: time(at),
        what: What::Evicted,
        namespace: None,
        name: format!("pod/p{at}"),
        by: None,
        details: String::new(),
        source: Source::Event,
    });
    let history = History {
        since: time(0),
        entries: entries.collect(),
        oldest_event: None,
        unknown: Vec::new(),
    };
    let page = past::show(&history, time(3000), "n").into_string();
    assert_eq!(page.matches("<line").count(), 2000);
    assert!(page.contains("pod/p2999:") && !page.contains("pod/p0:"), "{page}");
}

#[test]
fn a_tile_says_in_words_what_its_bar_shows() {
    let page = cards::show(&state("A100")).into_string();
    assert!(
        page.contains(
            r#"aria-label="2 of 10 free, 6 charged to queues, 1 charged to nobody, 1 on nodes that take no pods""#
        ),
        "{page}"
    );
    // 6, then 1, then 1 of 10, each beginning where the one before ends.
    for part in [
        r#"<rect class="queue0" x="0" y="0" width="600" height="20">"#,
        r#"<rect class="unaccounted" x="600" y="0" width="100" height="20">"#,
        r#"<rect class="unusable" x="700" y="0" width="100" height="20">"#,
        r#"href="queue?name=A100""#,
        "A100</a> 6, 3 waiting",
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
}

#[test]
fn what_queues_below_another_hold_is_shown_once() {
    let mut state = state("team");
    let team = state.queues.pop().unwrap();
    let department = QueueRow {
        queue: "department".to_owned(),
        card: team.card.clone(),
        own: Some(OwnCards::default()),
        ..team
    };
    state.queues = vec![department, team];
    let page = cards::show(&state).into_string();
    assert!(
        page.contains("queue?name=team") && !page.contains("queue?name=department"),
        "{page}"
    );
    assert!(!page.contains("charged to queues "), "all of it is told of: {page}");
}

#[test]
fn a_tile_of_a_card_that_is_counted_in_parts_says_in_which() {
    let mut state = state("A100/mgpu");
    state.cards[0].kind = CardKind::Mgpu;
    let page = cards::show(&state).into_string();
    assert!(page.contains("</strong> of 10 hundredths of a card free"), "{page}");
}

#[test]
fn a_queue_shows_what_it_borrows_and_its_marks() {
    let page = queues::show(&state("A100")).into_string();
    for part in [
        r#"<rect class="held" x="0" y="0" width="500" height="20">"#,
        r#"<rect class="borrowed" x="500" y="0" width="250" height="20">"#,
        r#"<line class="mark guarantee" x1="125" x2="125""#,
        r#"<line class="mark deserved" x1="500" x2="500""#,
        r#"<line class="mark quota" x1="1000" x2="1000""#,
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
}

#[test]
fn a_card_that_a_queue_does_not_name_is_not_borrowed() {
    let mut state = state("A100");
    let row = &mut state.queues[0];
    (row.deserved, row.quota, row.borrowed) = (None, None, None);
    let page = queues::show(&state).into_string();
    for part in [
        "A100 of A100: 6 held; guaranteed 1, deserved not named, quota not named",
        r#"<rect class="held" x="0" y="0" width="1000" height="20">"#,
        r#"<td class="amount">1</td><td class="amount">–</td><td class="amount">–</td>"#,
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    assert!(!page.contains(r#"<rect class="borrowed""#), "{page}");
}

#[test]
fn a_job_that_waits_is_one_line_with_its_pods_and_cards() {
    let status = serde_json::from_value(json!({
        "waiting": 9, "waitingPods": 9, "waitingWorkloads": 2,
        "firstWaiting": [
            { "position": 1, "kind": "Job", "name": "team/train", "pods": 8, "cards": { "A100": 16 }, "reason": "R", "missing": "M" },
            { "position": 2, "kind": "Notebook", "name": "team/nb", "pods": 1, "cards": {}, "reason": "", "missing": "" },
        ],
    }))
    .unwrap();
    let page = queues::show_one(&state("A100"), "A100", Some(&status)).into_string();
    for part in [
        "2 of 2 that wait (9 pods in all), first to go first",
        r#"href="why?namespace=team&amp;what=job/train">Job team/train</a></td><td class="amount">8</td><td>A100 x16</td><td>R: M</td>"#,
        // A controller of a kind unknown to Kubernetes is asked about as its pods name it.
        "what=Notebook/nb",
    ] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
}

#[test]
fn the_command_to_copy_does_nothing_else() {
    let page = why::show("p; rm -rf ~", "team", &[], Some(Ok(Vec::new()))).into_string();
    assert!(page.contains("kubectl card why 'p; rm -rf ~' -n team"), "{page}");
    let options = ["--context", "the lab", "--as", "jane"].map(str::to_owned);
    let page = why::show("job/train", "team", &options, Some(Ok(Vec::new()))).into_string();
    // The command asks the same cluster as the page, and as the same user.
    assert!(
        page.contains("kubectl card why job/train -n team --context 'the lab' --as jane<"),
        "{page}"
    );
}

/// Parses the query in the address of a page of nodes.
fn asked(query: &str) -> nodes::Asked {
    actix_web::web::Query::<nodes::Asked>::from_query(query)
        .unwrap()
        .into_inner()
}

#[test]
fn more_nodes_than_a_page_holds_have_several_each_with_an_address() {
    let inventory = |index: usize| {
        serde_json::from_value(
            json!({ "metadata": { "name": "n" }, "spec": { "nodeName": format!("gpu-{index:04}") } }),
        )
        .unwrap()
    };
    let all: Vec<_> = (0..1_200).rev().map(inventory).collect();
    let page = |query: &str| nodes::show(&all, &asked(query)).into_string();
    let tiles = |page: &str| page.matches("data-part=\"node ").count();
    let mut seen = 0;
    for (number, range, first, last) in [
        (1, "1 to 500 of 1200 nodes, by name.", "gpu-0000", "gpu-0499"),
        (2, "501 to 1000 of 1200 nodes, by name.", "gpu-0500", "gpu-0999"),
        (3, "1001 to 1200 of 1200 nodes, by name.", "gpu-1000", "gpu-1199"),
    ] {
        let page = page(&format!("page={number}"));
        seen += tiles(&page);
        assert!(page.contains(range), "{page}");
        for name in [first, last] {
            assert!(page.contains(&format!("<h2>{name}</h2>")), "{name}");
        }
        let links = page.matches("href=\"nodes?page=").count();
        assert_eq!(links, 3);
        let current = format!("href=\"nodes?page={number}&amp;name=\" aria-current=\"page\"");
        assert!(page.contains(&current), "{page}");
    }
    assert_eq!(seen, 1_200);
    // Nodes that disappeared since the address was made, and page numbers that never existed.
    assert!(page("page=9").contains("<h2>gpu-1199</h2>") && page("page=0").contains("<h2>gpu-0000</h2>"));
    let some = page("name=gpu-07");
    assert_eq!(tiles(&some), 100);
    assert!(
        some.contains("100 nodes with such names, 1200 in all.") && !some.contains("Pages of nodes"),
        "{some}"
    );
    let none = page("name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(
        tiles(&none) == 0 && none.contains("0 nodes with such names") && !none.contains("<script>"),
        "{none}"
    );
}

#[test]
fn what_is_not_seen_of_a_queue_is_not_told_as_nothing() {
    let mut state = state("A100");
    let row = &mut state.queues[0];
    (row.used, row.borrowed, row.waiting, row.own) = (None, None, None, None);
    let page = queues::show(&state).into_string();
    assert!(
        page.contains("A100 of A100: what is held is not shown; guaranteed 1"),
        "{page}"
    );
    assert!(!page.contains("0 held"), "{page}");
}
