//! Any sequence of events, against a reference that counts everything from scratch and looks at everybody.

mod checks;
mod reference;
mod run;
mod steps;

use proptest::prelude::*;

use run::Run;
use steps::{any_beginning, any_step};

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// After every step: the ledger is what a recount gives; the actions are the reference's, in its order, and the same
    /// in another process that decides in smaller rounds; no queue and no node has more than before or than it may have;
    /// no pod is lost; nobody waits who could be let in.
    #[test]
    fn decisions_are_those_of_the_reference(
        beginning in any_beginning(),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut run = Run::new();
        for step in beginning.into_iter().chain(steps) {
            run.take(step);
        }
    }
}
