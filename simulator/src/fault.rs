//! Faults, as steps of a history.

use std::time::Duration;

use crds::keys::NAMESPACE;
use k8s_openapi::jiff::Timestamp;
use rand::RngExt as _;
use serde_json::json;

use crate::Dice;
use crate::api::State;
use crate::api::faults::{Forbidden, What, Whose};
use crate::api::watch::End;
use crate::objects::{
    DEVICE_CLASSES, JOBS, Key, LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, RESOURCE_CLAIMS, Resource, SLICES,
};
use crate::seat::Seat;

/// What operators watch.
const WATCHED: [&Resource; 6] = [&PODS, &NODES, &QUEUES, &NAMESPACES, &POD_GROUPS, &JOBS];
/// What they watch besides if there are devices.
const WATCHED_BESIDES: [&Resource; 3] = [&SLICES, &RESOURCE_CLAIMS, &DEVICE_CLASSES];
/// The Lease that operators hold.
const LEASE: &str = "operator";

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A fault of the next request of a kind.
    Request(Whose, What),
    /// Writes of a kind are refused with this HTTP status for this time, as by a policy of another owner.
    Forbid(Forbidden, u16, Duration),
    /// Watches on a kind deliver this much later from now on.
    Lag(&'static Resource, Duration),
    /// The watches on a kind end, or all watches.
    Watch(Option<&'static Resource>, End),
    /// The watches on a kind deliver nothing more, until they are found to be dead.
    Silence(&'static Resource),
    /// The API server forgets the past, and all watches end.
    Forget,
    /// The API server is unreachable for this time.
    Down(Duration),
    /// The operator of this seat is killed, and another one is started after this time.
    Crash(usize, Duration),
    /// The operator of this seat is frozen for this time.
    Freeze(usize, Duration),
    /// The wall clock jumps forward.
    Jump(Duration),
    /// The wall clock is set back.
    SetBack(Duration),
    /// Another client writes another holder into the Lease.
    TakeLease,
}

impl Fault {
    /// Draws a fault. Watches fall silent for minutes only with `patience`.
    pub fn draw(dice: &mut Dice, seats: usize, patience: bool, has_devices: bool) -> Self {
        let besides = if has_devices { &WATCHED_BESIDES[..] } else { &[] };
        let kind = dice.random_range(0..WATCHED.len() + besides.len());
        let kind = *WATCHED.iter().chain(besides).nth(kind).unwrap_or(&WATCHED[0]);
        let seat = dice.random_range(0..seats);
        let millis = |dice: &mut Dice, most: u64| Duration::from_millis(dice.random_range(1..most));
        match dice.random_range(0..24) {
            0..10 => draw_request(dice),
            10..12 => Self::Lag(kind, millis(dice, 3_000)),
            12 => Self::Watch(Some(kind), End::Broken),
            14 => Self::Watch(None, End::Broken),
            15 if patience => Self::Silence(kind),
            13 | 15 => Self::Watch(Some(kind), End::Expired),
            16 => Self::Forget,
            17 => Self::Down(millis(dice, 40_000)),
            18..20 => Self::Crash(seat, millis(dice, 20_000)),
            20 | 21 => Self::Freeze(seat, millis(dice, 40_000)),
            22 => Self::TakeLease,
            _ => Self::Jump(millis(dice, 600_000)),
        }
    }

    /// Draws writes that are refused for a while, up to half an hour: longer than the world takes to come to rest, or
    /// shorter.
    pub fn draw_refusal(dice: &mut Dice) -> Self {
        let kinds = [
            Forbidden::Conditions,
            Forbidden::Groups,
            Forbidden::NodeLabels,
            Forbidden::Evictions,
            Forbidden::Reports,
        ];
        let kind = kinds[dice.random_range(0..kinds.len())];
        let code = [403, 422, 500][dice.random_range(0..3)];
        let most = [60, 600, 1_800][dice.random_range(0..3)];
        Self::Forbid(kind, code, Duration::from_secs(dice.random_range(1..most)))
    }

    /// Draws a clock that runs ahead by more than anything waits for, or that is set back by as much as it runs ahead.
    pub fn draw_clock(dice: &mut Dice, ahead: &mut Option<Duration>) -> Self {
        if let Some(ahead) = ahead.take() {
            return Self::SetBack(ahead);
        }
        let time = Duration::from_secs(dice.random_range(1_200..3_600));
        *ahead = Some(time);
        Self::Jump(time)
    }

    /// Carries the fault out. Returns the time afterwards.
    pub fn take(&self, now: Timestamp, state: &mut State, seats: &mut [Seat]) -> Timestamp {
        let after = |time: Duration| now.checked_add(time).unwrap_or(now);
        match *self {
            Self::Request(whose, what) => state.faults.plan(whose, what),
            Self::Forbid(what, code, time) => {
                let until = state.objects.age + time;
                state.faults.forbid(what, code, until);
            }
            Self::Lag(resource, by) => state.faults.lag(resource, by),
            Self::Watch(resource, end) => state.end_watches(resource, end),
            Self::Silence(resource) => state.silence_watches(resource),
            Self::Forget => {
                let version = state.objects.version();
                state.faults.forget(version);
                state.end_watches(None, End::Broken);
            }
            Self::Down(time) => {
                let until = state.objects.age + time;
                state.faults.go_down(until);
                state.end_watches(None, End::Broken);
            }
            Self::Crash(seat, back_in) => {
                if let Some(seat) = seats.get_mut(seat) {
                    seat.crash(now, back_in);
                }
            }
            Self::Freeze(seat, time) => {
                if let Some(seat) = seats.get_mut(seat) {
                    seat.freeze(now, after(time));
                }
            }
            Self::Jump(time) => return after(time),
            Self::SetBack(time) => return now.checked_sub(time).unwrap_or(now),
            Self::TakeLease => {
                // If there is no Lease, nobody can lose it.
                let _ = state
                    .objects
                    .change(&"user".into(), &LEASES, &Key::new(NAMESPACE, LEASE), |lease| {
                        lease["spec"]["holderIdentity"] = json!("somebody-else");
                        Ok(())
                    });
            }
        }
        now
    }
}

fn draw_request(dice: &mut Dice) -> Fault {
    let whose = match dice.random_range(0..10) {
        0..3 => Whose::Admission,
        3 => Whose::Condition,
        4..6 => Whose::OtherWrite,
        6 => Whose::Eviction,
        7 => Whose::Lease,
        8 => Whose::Read,
        _ => Whose::List,
    };
    let time = Duration::from_millis(dice.random_range(1..20_000));
    let what = match dice.random_range(0..8) {
        0 => What::Refused([429, 500, 503, 504][dice.random_range(0..4)]),
        // A write that is refused for good is rightly missing from what is shown. Only the write that lets a pod in is tried
        // again then.
        1 if whose == Whose::Admission => What::Refused([403, 409, 422][dice.random_range(0..3)]),
        1..4 => What::Unanswered,
        4 => What::Late(time),
        5 => What::SlowThere(time / 5),
        _ => What::SlowBack(time / 5),
    };
    Fault::Request(whose, what)
}
