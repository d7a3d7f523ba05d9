//! The load run on a small scale: what must hold at any speed.

use cardgate_tests::load::{self, Contender, Plan};

#[tokio::test]
async fn a_load_is_let_in_with_one_write_a_pod_and_nothing_is_oversold() -> anyhow::Result<()> {
    let plan = Plan {
        nodes: 20,
        pods: 60,
        singles: 5,
        creators: 8,
        releases: 5,
        reviews: 5,
        restarts: 1,
        waiting: 60,
        rounds: 1,
        contenders: Contender::ALL.to_vec(),
        at_once: false,
    };
    // An error where a queue is above its quota, or a node has more pods than cards.
    let report = load::run(&plan).await?;
    assert_eq!(report.runs.len(), Contender::ALL.len());
    for run in &report.runs {
        assert_eq!(run.burst.let_in.count(), plan.pods);
        assert!(run.burst.let_in.max() <= run.burst.bound);
        assert!(run.singles.let_in.percentile(50) <= run.singles.bound.percentile(50));
    }
    let figures = report.runs.iter().find_map(|run| run.cardgate.as_ref()).unwrap();
    let (admissions, conditions, refused) = (
        figures.writes.admissions,
        figures.writes.conditions,
        figures.writes.refused,
    );
    assert_eq!(
        (admissions, conditions, refused),
        (plan.pods, 0, 0),
        "{}",
        figures.writes
    );
    let (freed, restarts) = (figures.freed.as_ref().unwrap(), figures.restarts.as_ref().unwrap());
    assert_eq!(freed.reused.count(), plan.releases);
    assert_eq!(freed.needless_writes, 0);
    assert_eq!(restarts.after_termination.count() + restarts.after_kill.count(), 2);
    assert_eq!(restarts.needless_writes, 0);
    let reviews = figures.reviews.as_ref().unwrap();
    assert_eq!(
        (reviews.waiting, reviews.answered.count()),
        (plan.waiting, plan.reviews)
    );

    let text = report.to_string();
    for contender in Contender::ALL {
        assert!(text.contains(&contender.to_string()), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_load_that_the_nodes_can_not_hold_is_refused() {
    let plan = Plan {
        nodes: 1,
        pods: 100,
        singles: 5,
        creators: 8,
        releases: 5,
        reviews: 5,
        restarts: 1,
        waiting: 60,
        rounds: 1,
        contenders: Vec::new(),
        at_once: false,
    };
    let error = load::run(&plan).await.unwrap_err().to_string();
    assert!(error.contains("1 nodes take 100 pods, and 134 may run"), "{error}");
}
