//! The text that Prometheus reads.

use engine::overview::{CardFigures, ResourceFigures, StandingFigures, Unsatisfiable};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::*;

fn value(metrics: &Metrics, series: &str) -> Option<String> {
    let text = metrics.encode().unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.to_owned())
}

fn figures(queue: &str, card: &str, allocated: i64) -> QueueFigures {
    QueueFigures {
        queue: queue.into(),
        cards: vec![CardFigures {
            card: card.into(),
            deserved: 8,
            allocated,
            request: allocated + 3,
            capacity: Some(9),
        }],
        waiting: vec![(Reason::InsufficientScalarQuota, 3)],
        oldest: Some(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000)),
        standing: Some(StandingFigures {
            resources: Vec::new(),
            share: 0.5,
            overused: false,
        }),
        unsatisfiable: Some(Unsatisfiable::DeservedAboveCluster),
    }
}

#[test]
fn resource_monitoring_metrics_under_volcanos_names() {
    let metrics = Metrics::default();
    let of = |resource: &str, allocated| ResourceFigures {
        resource: resource.into(),
        deserved: 10 + allocated,
        allocated,
        request: 20 + allocated,
        inqueue: 50 + allocated,
        capacity: (resource != "nvidia.com/gpu").then_some(30 + allocated),
        real_capacity: Some(40 + allocated),
    };
    let standing = StandingFigures {
        resources: vec![
            of("cpu", 1500),
            of("memory", 1 << 30),
            of("nvidia.com/gpu", 2),
            of("pods", 2),
        ],
        share: 0.75,
        overused: true,
    };
    metrics.show_queues(vec![QueueFigures {
        standing: Some(standing),
        ..figures("team-a", "A", 1)
    }]);
    // All names with their exact labels, because dashboards rely on them.
    let figures_of = [
        ("allocated", 0),
        ("deserved", 10),
        ("request", 20),
        ("capacity", 30),
        ("real_capacity", 40),
        ("inqueue", 50),
    ];
    let gpu = r#"{queue_name="team-a",resource="nvidia.com/gpu"}"#;
    let units = [
        ("milli_cpu", r#"{queue_name="team-a"}"#, 1500),
        ("memory_bytes", r#"{queue_name="team-a"}"#, 1 << 30),
        ("scalar_resources", gpu, 2),
    ];
    for (name, more) in figures_of {
        for (unit, labels, allocated) in units {
            let series = format!("volcano_queue_{name}_{unit}{labels}");
            // As in Volcano's own gauges: "2000" for two GPUs.
            let milli = if unit == "scalar_resources" { 1000 } else { 1 };
            let expected = (name != "capacity" || labels != gpu).then(|| ((allocated + more) * milli).to_string());
            assert_eq!(value(&metrics, &series), expected, "{series}");
        }
    }
    let pods = r#"volcano_queue_allocated_scalar_resources{queue_name="team-a",resource="pods"}"#;
    assert_eq!(value(&metrics, pods).as_deref(), Some("2"), "pods in whole");
    let of_queue = |name: &str| value(&metrics, &format!(r#"volcano_queue_{name}{{queue_name="team-a"}}"#));
    assert_eq!(of_queue("share").as_deref(), Some("0.75"));
    assert_eq!(of_queue("overused").as_deref(), Some("1"));
    let unlimited = r#"volcano_queue_capacity_scalar_resources{queue_name="team-a",resource="nvidia.com/gpu"}"#;
    assert_eq!(value(&metrics, unlimited), None, "no limit is no number");
    // The metrics are switched off (metricsEnabled: false).
    metrics.show_queues(vec![QueueFigures {
        standing: None,
        ..figures("team-a", "A", 1)
    }]);
    let text = metrics.encode().unwrap();
    let volcanos = text.lines().find(|line| line.starts_with("volcano_queue_"));
    assert_eq!(volcanos, None);
    let held = r#"cardgate_queue_held_card_seconds_total{queue="team-a",card="A"}"#;
    assert!(text.contains(held), "bills go on: {text}");
}

#[test]
fn what_can_not_be_had_is_shown_by_reason_while_it_is_so() {
    let metrics = Metrics::default();
    metrics.show_queues(vec![figures("team-a", "A", 1)]);
    let series = r#"cardgate_queue_unsatisfiable{queue="team-a",reason="DeservedAboveCluster"}"#;
    assert_eq!(value(&metrics, series).as_deref(), Some("1"));
    metrics.show_queues(vec![QueueFigures {
        unsatisfiable: None,
        ..figures("team-a", "A", 1)
    }]);
    assert_eq!(value(&metrics, series), None);
}

/// The metrics have base units, as Prometheus recommends.
#[test]
fn what_is_used_of_a_shared_card_is_a_ratio_and_bytes() {
    let metrics = Metrics::default();
    let card = GpuFigures {
        core: 30,
        memory: 2,
        total_memory: 4,
        containers: 3,
    };
    metrics.show_gpus(&"n1".into(), vec![card]);
    for (name, figure) in [
        ("compute_used_ratio", "0.3"),
        ("memory_used_bytes", "2097152.0"),
        ("memory_bytes", "4194304.0"),
        ("containers", "3.0"),
    ] {
        let series = format!(r#"cardgate_mgpu_card_{name}{{node="n1",card="0"}}"#);
        assert_eq!(value(&metrics, &series).as_deref(), Some(figure), "{series}");
    }
}

#[test]
fn metrics_and_observability() {
    let metrics = Metrics::default();
    metrics.show_queues(vec![figures("team-a", "NVIDIA-A100/mps-80g*1/8", 5)]);
    let labels = r#"{queue_name="team-a",card="NVIDIA-A100/mps-80g*1/8"}"#;
    for (name, figure) in [
        ("deserved", "8"),
        ("allocated", "5"),
        ("request", "8"),
        ("capacity", "9"),
    ] {
        let series = format!("volcano_queue_card_{name}{labels}");
        assert_eq!(value(&metrics, &series).as_deref(), Some(figure), "{series}");
    }
    let waiting = r#"cardgate_waiting_pods{queue="team-a",reason="InsufficientScalarQuota"}"#;
    assert_eq!(value(&metrics, waiting).as_deref(), Some("3"));
    let mut unlimited = figures("team-a", "A", 5);
    unlimited.cards[0].capacity = None;
    metrics.show_queues(vec![unlimited]);
    let series = |name: &str| format!(r#"volcano_queue_card_{name}{{queue_name="team-a",card="A"}}"#);
    assert_eq!(value(&metrics, &series("capacity")), None, "no limit is no number");
    assert_eq!(value(&metrics, &series("allocated")).as_deref(), Some("5"));
}

#[test]
fn series_of_queues_and_cards_that_are_gone_disappear() {
    let metrics = Metrics::default();
    metrics.show_queues(vec![figures("team-a", "A100", 5), figures("team-b", "H100", 1)]);
    metrics.show_queues(vec![figures("team-b", "A100", 2)]);
    let text = metrics.encode().unwrap();
    assert!(!text.contains("team-a") && !text.contains("H100"), "{text}");
    assert!(
        text.contains(r#"volcano_queue_card_allocated{queue_name="team-b",card="A100"} 2"#),
        "{text}"
    );
}

#[test]
fn labels_are_escaped() {
    let metrics = Metrics::default();
    metrics.show_queues(vec![figures("q", "a\"b\\c\nd", 1)]);
    let text = metrics.encode().unwrap();
    assert!(text.contains(r#"card="a\"b\\c\nd""#), "{text}");
}

#[test]
fn decisions_are_counted_by_reason_and_start_at_zero() {
    let metrics = Metrics::default();
    let refused = r#"cardgate_decisions_total{decision="refused",reason="QueueNotFound"}"#;
    assert_eq!(value(&metrics, refused).as_deref(), Some("0"));
    metrics.decided(Decision::Refused(Reason::QueueNotFound));
    assert_eq!(value(&metrics, refused).as_deref(), Some("1"));
    metrics.admitted("team-a", Duration::from_millis(15));
    let admitted = r#"cardgate_decisions_total{decision="admitted",reason=""}"#;
    assert_eq!(value(&metrics, admitted).as_deref(), Some("1"));
    let bucket = |le| format!("cardgate_admission_duration_seconds_bucket{{le=\"{le}\"}}");
    assert_eq!(value(&metrics, &bucket("0.01")).as_deref(), Some("0"));
    assert_eq!(value(&metrics, &bucket("0.02")).as_deref(), Some("1"));
    let of_queue = r#"cardgate_queue_admission_duration_seconds_bucket{le="0.1",queue="team-a"}"#;
    let of_queue = |metrics: &Metrics| value(metrics, of_queue);
    assert_eq!(of_queue(&metrics).as_deref(), Some("1"));
    metrics.show_queues(vec![figures("team-a", "A100", 1)]);
    assert_eq!(of_queue(&metrics).as_deref(), Some("1"));
    metrics.show_queues(Vec::new());
    assert_eq!(of_queue(&metrics), None, "a queue that is gone");
}

#[test]
fn cards_are_shown_by_type_while_a_node_has_them() {
    let metrics = Metrics::default();
    let status = CardTypeStatus {
        total: 8,
        used: 5,
        free: 2,
        unaccounted: 1,
        not_counted: 3,
        ..CardTypeStatus::default()
    };
    metrics.show_card("A100", Some(&status));
    let shown = |name: &str| value(&metrics, &format!("{name}{{card=\"A100\"}}"));
    let all = ["cards", "free_cards", "unaccounted_cards", "uncounted_cards"];
    let all = all.map(|name| shown(&format!("cardgate_{name}")));
    assert_eq!(all, ["8", "2", "1", "3"].map(|figure| Some(figure.to_owned())));
    metrics.show_card("A100", None);
    assert_eq!(shown("cardgate_cards"), None);
}

#[test]
fn since_when_the_oldest_waits_and_what_cards_were_held() {
    let metrics = Metrics::default();
    metrics.show_queues(vec![figures("team-a", "A100", 2)]);
    let oldest = r#"cardgate_oldest_waiting_timestamp_seconds{queue="team-a"}"#;
    assert_eq!(value(&metrics, oldest).as_deref(), Some("1800000000"));
    let held = r#"cardgate_queue_held_card_seconds_total{queue="team-a",card="A100"}"#;
    let held: f64 = value(&metrics, held).unwrap().parse().unwrap();
    assert!(held >= 0.0);
}

#[test]
fn errors_and_writes_are_counted() {
    let metrics = Metrics::default();
    let conflict = kube::core::Status::failure("changed meanwhile", "Conflict").with_code(409);
    metrics.api_error(Verb::Update, &kube::Error::Api(conflict.boxed()));
    metrics.api_timeout(Verb::Patch);
    metrics.api_write(Write::Admission);
    for (series, count) in [
        (r#"cardgate_api_errors_total{verb="update",code="409"}"#, "1"),
        (r#"cardgate_api_errors_total{verb="patch",code="timeout"}"#, "1"),
        (r#"cardgate_api_writes_total{kind="admission"}"#, "1"),
        (r#"cardgate_api_writes_total{kind="ca_bundle"}"#, "0"),
    ] {
        assert_eq!(value(&metrics, series).as_deref(), Some(count), "{series}");
    }
}

#[test]
fn configuration_leadership_and_certificates_are_shown() {
    let metrics = Metrics::default();
    metrics.configuration().show(&Ok(42));
    metrics.configuration().show(&Err("no".to_owned()));
    metrics.show_leading(true);
    metrics.certificate_expires(Certificate::Webhook, 1_800_000_000);
    let version = format!("cardgate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    for (series, figure) in [
        ("cardgate_config_generation", "42"),
        ("cardgate_config_valid", "0"),
        ("cardgate_leader", "1"),
        (
            r#"cardgate_certificate_expiry_timestamp_seconds{certificate="webhook"}"#,
            "1800000000",
        ),
        (version.as_str(), "1"),
    ] {
        assert_eq!(value(&metrics, series).as_deref(), Some(figure), "{series}");
    }
}
