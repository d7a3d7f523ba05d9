//! Seeds of worlds by what is drawn in them besides.

use super::Found;

pub const GROUPS: [Found; 1] = [(
    85,
    100,
    4,
    true,
    "groups that send no pods take turns in a queue for ever",
)];

pub const CLUSTER: [Found; 1] = [(
    136,
    100,
    4,
    true,
    "a card that no node has any more is not to be had within a guarantee either",
)];

pub const CLOCK: [Found; 1] = [(
    7001,
    200,
    4,
    true,
    "what an admission takes that is still being written was given away when the clock on the wall jumped",
)];

pub const RINGS: [Found; 1] = [(
    8014,
    200,
    4,
    true,
    "the judge counted queues that are above themselves for ever",
)];

pub const KEPT: [Found; 1] = [(
    8003,
    200,
    4,
    true,
    "more was kept for a Job than there was room for, of which an operator that is started anew knows nothing",
)];

/// Worlds beside Volcano's controllers, with pods that are in no queue and queues that are gone.
pub const NO_QUEUE: [Found; 14] = [
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
pub const REFUSALS: [Found; 7] = [
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
pub const EDITS: [Found; 6] = [
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
pub const KEYS: [Found; 1] = [(
    97_168,
    200,
    4,
    true,
    "the judge saw no end of pods that no node takes, which come back one after the other",
)];

/// Worlds with all that, and with a clock that runs ahead and is set back.
pub const SET_BACK: [Found; 12] = [
    (
        130_039,
        200,
        4,
        true,
        "the judge charged anew who was gone but for its name by the clock that ran ahead",
    ),
    (
        410_168,
        200,
        4,
        true,
        "the judge had an operator that is started anew know whose evictions were refused",
    ),
    (
        500_118,
        200,
        4,
        true,
        "the judge had room kept free for whom others were evicted from pods that were let in before",
    ),
    (
        600_045,
        200,
        4,
        true,
        "the judge had what is guaranteed kept for a queue whose pod still held it when others were let in",
    ),
    (
        630_362,
        200,
        4,
        true,
        "a pod without shares of cards was told nothing where its group waits for those of another one",
    ),
    (
        640_161,
        200,
        4,
        true,
        "whom others were evicted for was expected on another node each second, and who waits behind it was told so",
    ),
    (
        630_292,
        200,
        4,
        true,
        "who was let in, in a group that Volcano made for it, was charged nothing after a restart",
    ),
    (
        620_134,
        200,
        4,
        true,
        "the judge had those of one namespace alone take turns in a queue",
    ),
    (
        620_579,
        200,
        4,
        true,
        "the judge had a world rest to which an operator that had just begun told everything anew",
    ),
    (
        640_521,
        200,
        4,
        true,
        "who waits was told anew of each eviction that was refused at once",
    ),
    (
        640_197,
        200,
        4,
        true,
        "the judge missed room that goes along with a pod whose node has its card no more",
    ),
    (
        660_356,
        200,
        4,
        true,
        "a gang was looked at anew for who can't be taken back of it, and the others gave what they have twice",
    ),
];

/// Bugs that were planted.
pub const PLANTED: [Found; 6] = [
    (94, 100, 4, false, "what is kept for a workload is forgotten"),
    (60, 100, 4, false, "guarantees of siblings are given away"),
    (90, 100, 4, false, "a whole card is given where parts are in use"),
    (131, 100, 4, false, "a share of a card fits beside any compute"),
    (20, 100, 4, false, "an unanswered admission is given back"),
    (39, 100, 4, false, "pinned pods hold no room before they are bound"),
];

/// Bugs that were planted, which show when the world is quiet.
pub const PLANTED_AT_REST: [Found; 1] = [(17, 100, 4, true, "what mGPU pods held stays counted")];
