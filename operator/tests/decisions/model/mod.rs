//! Any sequence of events, against a reference that counts everything from scratch and looks at everybody.

#![expect(clippy::match_same_arms, reason = "the reference takes every case by itself")]

mod checks;
mod reference;
mod run;
mod steps;

use proptest::prelude::*;

use run::Run;
use steps::any_step;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// After every step: the ledger is what a recount gives; the actions are the reference's, in its order, and the same
    /// in another process that decides in smaller rounds; no queue and no node has more than before or than it may have;
    /// no pod is lost; nobody waits who could be let in.
    #[test]
    fn decisions_are_those_of_the_reference(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut run = Run::new();
        for step in steps {
            run.take(step);
        }
    }
}
