//! Scenarios on a real control plane, with Cardgate installed and running as in a cluster. They share one, each in a
//! namespace, a queue and with cards of its own.

mod advice;
mod cards;
mod documents;
mod door;
mod estimates;
mod inventory;
mod queues;
mod quotas;
mod readme;
mod refusals;
mod refused_writes;
mod reviews;
mod telling;
mod users;

use cardgate_tests::tally::Tally;

type Outcome = anyhow::Result<()>;

/// No pods are expected but those added.
fn pods() -> Tally {
    Tally::none()
}

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";
