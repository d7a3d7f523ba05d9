//! Groups and Jobs in any sequence of events: what holds of them after every step, counted from scratch.

mod checks;
mod run;
mod steps;

use proptest::prelude::*;

use run::Run;
use steps::{any_beginning, any_step};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// After every step: no quota is exceeded and no node oversold; no gang is let in in part; a gang that is on its way is
    /// completed before anything else gets what it needs; what is kept for groups and Jobs, and what of their pods is
    /// elastic, is what a recount gives; nobody waits who could be let in. In the end every group gets in, wherever the
    /// operator was killed.
    #[test]
    fn groups_stay_whole(
        beginning in any_beginning(),
        steps in prop::collection::vec(any_step(), 1..60),
        limit in prop_oneof![Just(1), Just(usize::MAX)],
    ) {
        let mut run = Run::new(limit);
        for step in beginning.into_iter().chain(steps) {
            run.take(step);
        }
        run.converge();
    }
}
