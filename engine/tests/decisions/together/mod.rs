//! Everything at once: queues in hierarchies that reclaim, guarantees, cards, shares of cards beside a scheduler that asks or not, quotas
//! of GPU nodes, pods that are let in by quota alone, groups by task, held Jobs, unnamed cards, and configurations that change in the middle. Judged by what must hold whatever the rules say in detail, counted from what
//! the API server has, not by the engine's own sums.

mod checks;
mod found;
mod run;
mod setting;
mod steps;

use proptest::prelude::*;

use run::Run;
use steps::{any_beginning, any_step};

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        max_shrink_iters: 1500,
        ..ProptestConfig::with_cases(asked.unwrap_or(usual))
    }
}

proptest! {
    #![proptest_config(cases(64))]

    /// Nothing that is let in takes a queue, or one above it, beyond what it may have, nor a node's cards twice; gangs start
    /// whole; whoever is evicted is evicted for a pod that gets in; all comes to rest; and whoever starts anew decides nothing
    /// else, for the same reasons.
    #[test]
    fn whatever_is_turned_on_together_keeps_its_promises(
        beginning in any_beginning(),
        steps in prop::collection::vec(any_step(), 1..14),
    ) {
        let mut run = Run::new(beginning);
        for step in steps {
            run.take(step);
        }
    }
}
