//! Seeds that have found something: worlds in which a mistake of the operator shows, or one that was planted.
//!
//! A seed is a world of the day on which it was written down: who changes what is drawn may have to look for others, by
//! `cargo simulate` and `cargo planted`.

use simulator::run::{Options, simulate};

/// A seed, how many steps are taken, of how many one is a fault, whether the world comes to rest then, and what it found.
type Found = (u64, usize, u32, bool, &'static str);

const GROUPS: [Found; 1] = [(
    85,
    100,
    4,
    true,
    "groups that send no pods take turns in a queue for ever",
)];

const CLUSTER: [Found; 1] = [(
    136,
    100,
    4,
    true,
    "a card that no node has any more is not to be had within a guarantee either",
)];

const CLOCK: [Found; 1] = [(
    7001,
    200,
    4,
    true,
    "what an admission takes that is still being written was given away when the clock on the wall jumped",
)];

const RINGS: [Found; 1] = [(
    8014,
    200,
    4,
    true,
    "the judge counted queues that are above themselves for ever",
)];

const KEPT: [Found; 1] = [(
    8003,
    200,
    4,
    true,
    "more was kept for a Job than there was room for, of which an operator that is started anew knows nothing",
)];

/// Worlds with devices.
const DEVICES: [Found; 5] = [
    (
        5,
        100,
        4,
        false,
        "a pod that was held for its claims was placed as one without GPU",
    ),
    (
        38,
        100,
        4,
        true,
        "a gang in two queues was in its own way, and was told another reason each second",
    ),
    (
        509,
        100,
        4,
        true,
        "the judge took a queue's numbers for repeated, which change as what is kept for workloads ends at longer and longer intervals",
    ),
    (
        9007,
        120,
        4,
        true,
        "the judge knew of no card on a node where a taint keeps pods away from all of its devices",
    ),
    (
        9111,
        110,
        4,
        true,
        "pods of one controller that can't be placed took turns for hours before they stood aside for longer",
    ),
];

/// Worlds with devices, gangs and claims that pods share.
const TOGETHER: [Found; 24] = [
    (
        90_174,
        200,
        4,
        true,
        "the judge let a group have what another queue kept, of what the cluster limits all of them in",
    ),
    (
        90_202,
        200,
        4,
        true,
        "an operator that was started anew charged a shared claim to the first by name of those that run",
    ),
    (
        22_101,
        120,
        4,
        true,
        "pods of a gang of different pods were told the lack of one as that of each",
    ),
    (
        22_263,
        120,
        4,
        true,
        "an operator that was started anew charged a shared claim to a pod that waits, and not to the one that runs",
    ),
    (
        22_275,
        120,
        4,
        true,
        "who had claimed through a class, and was deleted while no slice was there, held its quota for ever",
    ),
    (
        22_426,
        120,
        4,
        true,
        "a gang of several priorities stood back for itself, and who waits behind it was told so each second",
    ),
    (
        22_760,
        120,
        4,
        true,
        "a pod that may not be evicted was asked for every half a minute, and others were told each time that what it has is set aside",
    ),
    (
        22_771,
        120,
        4,
        true,
        "the same, and the numbers of the queue changed with it",
    ),
    (
        115,
        100,
        4,
        true,
        "a pod that was gone already was said to be one that may not be evicted, again and again",
    ),
    (
        2,
        100,
        4,
        true,
        "the judge knew nobody's charge whose namespace names no queue any more",
    ),
    (
        23_131,
        120,
        4,
        true,
        "the judge held evictions against who knew nothing of what was kept beyond the room there is",
    ),
    (
        100,
        100,
        4,
        true,
        "a pod that had devices on a node and was not bound yet held no room there after a restart: others were evicted for it",
    ),
    (
        23_185,
        120,
        4,
        true,
        "the judge knew of no node that a pod was expected on by the operator before, and is bound to no more than pinned",
    ),
    (
        108,
        100,
        4,
        true,
        "who gave back a card was told of the other one that was preferred to it, of which its queue has none",
    ),
    (
        264,
        100,
        4,
        true,
        "room that came free and that nobody heard of: planted",
    ),
    (
        25_069,
        200,
        4,
        true,
        "the judge took pods that claim different cards at once for pods without cards, and held their group to the queue's CPU",
    ),
    (
        25_114,
        200,
        4,
        true,
        "the judge charged a shared claim to an older pod that was let in later",
    ),
    (
        25_372,
        200,
        4,
        true,
        "the judge did not take what was kept in vain for groups for the reason of writes, whose pods wait for something else",
    ),
    (
        25_424,
        200,
        4,
        true,
        "the judge knew nothing of what a pod without a card's name is charged once its node has lost the cards",
    ),
    (
        25_076,
        200,
        4,
        true,
        "who was let in where a device was set aside for another was counted beside it, and one more was shown as free for ever",
    ),
    (
        25_087,
        200,
        4,
        true,
        "the memory of shared cards was taken for their number where no node has them any more",
    ),
    (
        25_379,
        200,
        4,
        true,
        "a group whose pods were gone was told that there is too little for none of them",
    ),
    (
        28_033,
        200,
        4,
        true,
        "a group that stood aside for another of its namespace was told of a queue with room that it can't take it",
    ),
    (
        25_483,
        200,
        4,
        true,
        "an operator that was started anew did not know what a card that no node has any more is requested as, and let in who waited for it",
    ),
];

/// Worlds beside Volcano's controllers, with pods that are in no queue and queues that are gone.
const NO_QUEUE: [Found; 14] = [
    (
        90_310,
        200,
        4,
        true,
        "who shared a card and named no queue waited in the default queue still, when the namespace had come to name one",
    ),
    (
        23_558,
        120,
        4,
        true,
        "the judge knew of a binding that no operator could have heard of",
    ),
    (
        23_581,
        120,
        4,
        true,
        "the judge counted what the pods of a queue that is gone hold for nobody",
    ),
    (
        23_651,
        120,
        4,
        true,
        "pods that came into a group of Volcano's without being let in were evicted for ever",
    ),
    (
        23_691,
        120,
        4,
        true,
        "pods in no queue took what all queues have together",
    ),
    (
        23_979,
        120,
        4,
        true,
        "the judge did not know what who comes to pay for a shared claim asks for",
    ),
    (
        24_030,
        120,
        4,
        true,
        "a pod with cards was evicted for CPU that it is not charged, and the judge took two of one Job for each other's victims",
    ),
    (
        24_317,
        120,
        4,
        true,
        "who waited for cards that came to be nobody's waited on, and an operator that was started anew let it in",
    ),
    (
        24_244,
        120,
        4,
        true,
        "who ran with a claim that others waited for was charged to nobody, though its namespace named a queue",
    ),
    (
        24_718,
        200,
        4,
        true,
        "the judge knew of no CPU that is kept for a group whose pods share a claim for which another pod is charged",
    ),
    (
        24_726,
        200,
        4,
        true,
        "the judge took a node for room that says more device ids than it has cards, where cards are named by their ids",
    ),
    (
        25_034,
        200,
        4,
        true,
        "a group that stood aside was told what its pods ask for, of which there was enough; and the judge saw no end of groups that are kept room in turns",
    ),
    (
        26_080,
        200,
        4,
        true,
        "whose a pod was that came into a group of Volcano's depended on which of two watches was faster",
    ),
    (
        25_335,
        200,
        4,
        true,
        "a pod of a group that names the default queue was charged for no cards, as one whose queue nothing names",
    ),
];

/// Worlds in which writes are refused for a while.
const REFUSALS: [Found; 7] = [
    (
        60_174,
        200,
        4,
        true,
        "the judge had who is gone but for its name be charged for a claim that others have",
    ),
    (
        162,
        100,
        4,
        true,
        "a node whose label is answered by 500 was asked again and again",
    ),
    (
        40_033,
        120,
        4,
        true,
        "a group that stands aside, and lacks something else by now, was told that it lacks what there was",
    ),
    (
        40_034,
        120,
        4,
        true,
        "the same of one that asks for more shares of cards than its queue may have",
    ),
    (
        50_008,
        200,
        4,
        true,
        "a pod whose condition was refused once was never told why it waits",
    ),
    (
        50_027,
        200,
        4,
        true,
        "a pod that may not be evicted was told each half minute that it is evicted, and that it is not",
    ),
    (
        50_046,
        200,
        4,
        true,
        "a group whose phase is refused was told so at each try",
    ),
];

/// Worlds in which users write on what is there.
const EDITS: [Found; 6] = [
    (
        120_023,
        200,
        4,
        true,
        "a gang was evicted for one of its own, who could not be let in without it, for ever",
    ),
    (
        98_049,
        200,
        4,
        true,
        "the judge took who comes first of those that ask for the same for somebody whom nobody was evicted for",
    ),
    (
        97_493,
        200,
        4,
        true,
        "the judge knew of no pods that are beyond the minimum by one that is let in in the same round",
    ),
    (
        61_081,
        200,
        4,
        true,
        "the judge knew as what a card is requested that no node has any more, of which no operator could know",
    ),
    (
        70_040,
        200,
        4,
        true,
        "pods that nobody holds were preempted for ever, since their controller makes others",
    ),
    (
        94_023,
        200,
        4,
        true,
        "while the watch of nodes was silent, a label was written again as soon as it was written",
    ),
];

/// Worlds with crowds, and with keys of the configuration that are seldom written.
const KEYS: [Found; 1] = [(
    97_168,
    200,
    4,
    true,
    "the judge saw no end of pods that no node takes, which come back one after the other",
)];

/// Bugs that were planted.
const PLANTED: [Found; 6] = [
    (94, 100, 4, false, "what is kept for a workload is forgotten"),
    (60, 100, 4, false, "guarantees of siblings are given away"),
    (90, 100, 4, false, "a whole card is given where parts are in use"),
    (131, 100, 4, false, "a share of a card fits beside any compute"),
    (20, 100, 4, false, "an unanswered admission is given back"),
    (39, 100, 4, false, "pinned pods hold no room before they are bound"),
];

/// Bugs that were planted, which show when the world is quiet.
const PLANTED_AT_REST: [Found; 1] = [(17, 100, 4, true, "what mGPU pods held stays counted")];

/// What is drawn in worlds as they were at first.
const AT_FIRST: Options = Options {
    steps: 0,
    faults: 0,
    rests: false,
    devices: false,
    refusals: false,
    edits: false,
    crowded: false,
    keys: false,
    clock: false,
};

/// The same with what came one after the other.
const WITH_DEVICES: Options = Options {
    devices: true,
    ..AT_FIRST
};
const WITH_REFUSALS: Options = Options {
    refusals: true,
    ..WITH_DEVICES
};
const WITH_EDITS: Options = Options {
    edits: true,
    ..WITH_REFUSALS
};
const WITH_KEYS: Options = Options {
    crowded: true,
    keys: true,
    ..WITH_EDITS
};

/// Runs these seeds in worlds as they were at first.
fn run(found: &[Found]) -> anyhow::Result<()> {
    run_with(found, &AT_FIRST)
}

/// Runs these seeds, with what there was when they were found.
fn run_with(found: &[Found], drawn: &Options) -> anyhow::Result<()> {
    let switches = [
        (drawn.devices, " --no-devices"),
        (drawn.refusals, " --no-refusals"),
        (drawn.edits, " --no-edits"),
        (drawn.crowded, " --no-crowded"),
        (drawn.keys, " --no-keys"),
        (drawn.clock, " --no-clock"),
    ];
    let off: String = switches
        .iter()
        .filter(|(is_on, _)| !is_on)
        .map(|(_, off)| *off)
        .collect();
    for (seed, steps, faults, rests, what) in found {
        let options = Options {
            steps: *steps,
            faults: *faults,
            rests: *rests,
            ..drawn.clone()
        };
        if let Some(failure) = simulate(*seed, &options)?.failure {
            anyhow::bail!(
                "{} does not hold: {}\nthis seed has found: {what}\ncargo simulate --seed {seed} --seeds 1 --steps {steps} --faults {faults}{off}",
                failure.rule,
                failure.what,
            );
        }
    }
    Ok(())
}

#[test]
fn groups_that_send_nobody_let_the_world_come_to_rest() -> anyhow::Result<()> {
    run(&GROUPS)
}

#[test]
fn cards_that_the_cluster_has_lost_let_nobody_in() -> anyhow::Result<()> {
    run(&CLUSTER)
}

#[test]
fn a_clock_that_jumps_ends_no_write() -> anyhow::Result<()> {
    run(&CLOCK)
}

#[test]
fn queues_that_are_above_themselves_are_judged() -> anyhow::Result<()> {
    run(&RINGS)
}

#[test]
fn what_was_kept_beyond_the_room_there_is_is_given_to_others_after_a_restart() -> anyhow::Result<()> {
    run(&KEPT)
}

#[test]
fn worlds_with_devices_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&DEVICES, &WITH_DEVICES)
}

#[test]
fn worlds_with_gangs_and_shared_claims_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&TOGETHER, &WITH_DEVICES)
}

#[test]
fn worlds_with_pods_in_no_queue_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&NO_QUEUE, &WITH_DEVICES)
}

#[test]
fn worlds_in_which_writes_are_refused_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&REFUSALS, &WITH_REFUSALS)
}

#[test]
fn worlds_in_which_users_write_on_what_is_there_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&EDITS, &WITH_EDITS)
}

#[test]
fn worlds_with_crowds_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&KEYS, &WITH_KEYS)
}

#[test]
fn worlds_that_find_planted_bugs_pass() -> anyhow::Result<()> {
    run(&PLANTED)
}

#[test]
fn worlds_that_find_planted_bugs_pass_at_rest() -> anyhow::Result<()> {
    run(&PLANTED_AT_REST)
}
