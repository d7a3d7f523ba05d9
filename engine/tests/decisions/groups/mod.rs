//! Groups and Jobs in any sequence of events: what holds of them after every step, counted from scratch.

mod checks;
mod run;
mod steps;

use proptest::prelude::*;

use run::Run;
use steps::{Ask, NAMES, Owner, Step, any_beginning, any_step};

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

/// Found by [`groups_stay_whole`]: no node has room for one of its pods, so a group is kept out of its queue; without that pod
/// it is not.
#[test]
fn a_group_is_judged_anew_without_the_pod_that_kept_it_out() {
    for limit in [1, usize::MAX] {
        for names in 0..NAMES.len() {
            let ask = |count| Ask { names, count };
            let mut run = Run::new(limit);
            let nodes = (0..4).map(|node| Step::Node(node, 2));
            let steps = [
                Step::Queue([2, 2]),
                Step::Group(0, 3, Some(Ask { names: 0, count: 1 })),
                Step::Pod(6, Owner::Group(0), ask(1)),
                Step::Other([1, 0], true),
                Step::Move(0, 1),
                Step::Pod(0, Owner::Group(0), ask(3)),
                Step::Twin(7, 6),
                Step::Pod(6, Owner::Nobody, ask(1)),
            ];
            for step in nodes.chain(steps) {
                run.take(step);
            }
            run.converge();
        }
    }
}

/// Found by [`groups_stay_whole`]: a node that grows has room for one of a group's pods, whatever keeps the other out.
#[test]
fn a_node_that_grows_lets_a_group_in_that_quota_keeps_in_part() {
    for limit in [1, usize::MAX] {
        let ask = |names, count| Ask { names, count };
        let mut run = Run::new(limit);
        let nodes = (0..4).map(|node| Step::Node(node, 2));
        let steps = [
            Step::Queue([2, 6]),
            Step::Pod(1, Owner::Nobody, ask(0, 1)),
            Step::Pod(6, Owner::Nobody, ask(1, 1)),
            Step::Group(0, 1, None),
            Step::Pod(0, Owner::Group(2), ask(0, 2)),
            Step::Group(2, 1, None),
            Step::Twin(2, 6),
            Step::Pod(3, Owner::Group(2), ask(1, 2)),
            Step::Node(2, 3),
        ];
        for step in nodes.chain(steps) {
            run.take(step);
        }
        run.converge();
    }
}
