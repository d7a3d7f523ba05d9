//! A write that gets no answer is neither done nor refused: what it took stays taken until the pod has been read again, and the pod is let
//! in once. The writes of some pods are held back by a proxy between the operator and the API server.

use std::time::Duration;

use anyhow::ensure;
use cardgate_tests::api_proxy::{ApiProxy, Held};
use cardgate_tests::cardgate::{Cardgate, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::{NO_QUOTA, Outcome};

/// Longer than the operator waits for what it does not know: the time of its tries, and of the latest write after the last.
const FOUND_OUT: Duration = Duration::from_secs(30 + 65 + 30);

/// A queue with one card of the two that are there, a pod whose writes are held back, and another one that wants the card.
struct Contest<'a> {
    scenario: Scenario<'a>,
    card: String,
    held: String,
}

impl<'a> Contest<'a> {
    async fn begin(world: &'a World, proxy: &'a ApiProxy, name: &str, held: Held) -> anyhow::Result<Self> {
        let scenario = Scenario::begin(world, name).await?;
        let card = scenario.card("NVIDIA-A100");
        scenario.nodes(&[nodes::nvidia(name, &card, 2, 81_920)]).await?;
        scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
        let contest = Self {
            held: format!("{name}-held"),
            scenario,
            card,
        };
        proxy.hold(&contest.held, held);
        contest.create(&contest.held).await?;
        wait::eventually("the first write to be held back", wait::PATIENCE, async || {
            Ok(Seen::when(proxy.held(&contest.held).0 > 0, "none so far"))
        })
        .await?;
        contest.create("rival").await?;
        contest.scenario.waits("rival", NO_QUOTA).await?;
        Ok(contest)
    }

    async fn create(&self, name: &str) -> Outcome {
        self.scenario
            .create(&self.scenario.gpu_pod(name, &self.card, 1).build())
            .await?;
        Ok(())
    }

    /// Waits until a pod has been let in; and at no time have more pods been than there is quota.
    async fn is_let_in(&self, expected: &str, patience: Duration) -> Outcome {
        let api = self.scenario.api::<Pod>();
        wait::eventually(format!("{expected} to be let in"), patience, async || {
            let found = api.list(&ListParams::default()).await?;
            let is_in = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_none());
            let admitted: Vec<_> = found.iter().filter(is_in).map(ResourceExt::name_any).collect();
            // An error would be tried again.
            assert!(admitted.len() <= 1, "a quota of 1, and let in are {admitted:?}");
            Ok(Seen::when(admitted == [expected], format!("{admitted:?}")))
        })
        .await
    }

    async fn runs(&self, name: &str) -> Outcome {
        self.scenario.expect(name, &Tally::none().running(&self.card, 1)).await
    }
}

/// Carried out long after the operator has given up: until then the card stays taken, and then it is the pod's.
async fn a_late_write_books_no_card_twice(world: &World, proxy: &ApiProxy) -> Outcome {
    let contest = Contest::begin(world, proxy, "late", Held::Late).await?;
    wait::eventually("the operator to give up", FOUND_OUT, async || {
        let log = world.cardgate.operator().log()?;
        let unknown = |line: &str| line.contains("perhaps admitted") && line.contains("late-held");
        Ok(Seen::when(log.lines().any(unknown), "it still tries"))
    })
    .await?;
    contest.scenario.waits("rival", NO_QUOTA).await?;
    proxy.release(&contest.held);
    contest.is_let_in(&contest.held, wait::PATIENCE).await?;
    contest.runs(&contest.held).await?;
    let (_, codes) = proxy.held(&contest.held);
    let done = codes.iter().filter(|code| **code == 200).count();
    ensure!(
        done == 1 && codes.len() > 1,
        "one write is carried out, and the others are refused: {codes:?}"
    );
    // The card is the pod's, and goes to the other one after it.
    contest.scenario.waits("rival", NO_QUOTA).await?;
    contest.scenario.delete::<Pod>(&contest.held).await?;
    contest.is_let_in("rival", wait::PATIENCE).await?;
    contest.runs("rival").await
}

/// Never carried out: the card is given back when that is certain, and not before.
async fn what_a_lost_write_took_is_given_back(world: &World, proxy: &ApiProxy) -> Outcome {
    let contest = Contest::begin(world, proxy, "lost", Held::Lost).await?;
    let begin = tokio::time::Instant::now();
    contest.is_let_in("rival", FOUND_OUT).await?;
    let waited = begin.elapsed();
    ensure!(
        waited > Duration::from_mins(1),
        "given back after {waited:?}, when the write might still come"
    );
    contest.runs("rival").await?;
    proxy.release(&contest.held);
    contest.scenario.delete::<Pod>("rival").await?;
    contest.is_let_in(&contest.held, FOUND_OUT).await?;
    contest.runs(&contest.held).await
}

/// Carried out at once, without an answer: the pod is let in, and the operator finds that out.
async fn a_write_whose_answer_is_lost_is_done(world: &World, proxy: &ApiProxy) -> Outcome {
    let contest = Contest::begin(world, proxy, "unanswered", Held::Unanswered).await?;
    contest.is_let_in(&contest.held, wait::PATIENCE).await?;
    contest.runs(&contest.held).await?;
    let (_, codes) = proxy.held(&contest.held);
    ensure!(codes.iter().filter(|code| **code == 200).count() == 1, "{codes:?}");
    proxy.release(&contest.held);
    contest.scenario.delete::<Pod>(&contest.held).await?;
    contest.is_let_in("rival", FOUND_OUT).await?;
    contest.runs("rival").await
}

#[tokio::test]
async fn a_write_without_an_answer_holds_what_it_took_and_lets_a_pod_in_once() -> Outcome {
    let plane = ControlPlane::start(Options::default()).await?;
    let settings = Settings::default();
    Cardgate::install(&plane, &settings).await?;
    let account = Cardgate::operator_account();
    let proxy = ApiProxy::start(&plane.kubeconfig_of_account(&account).await?).await?;
    let through_proxy = ("KUBECONFIG".to_owned(), proxy.kubeconfig().display().to_string());
    let settings = Settings {
        operator_env: vec![through_proxy],
        ..settings
    };
    let cardgate = Cardgate::run(&plane, &settings).await?;
    let world = World { cardgate, plane };
    futures::try_join!(
        a_late_write_books_no_card_twice(&world, &proxy),
        what_a_lost_write_took_is_given_back(&world, &proxy),
        a_write_whose_answer_is_lost_is_done(&world, &proxy),
    )?;
    Ok(())
}
