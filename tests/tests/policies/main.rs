//! What keeps the gate shut while nothing of Cardgate runs: the admission policies, evaluated by the API server itself, and
//! the `matchConditions` that keep an outage of the webhook from everything that is not Cardgate's business.

#![expect(clippy::panic, reason = "a test that fails panics")]

mod binding;
mod cluster;
mod create;
mod delete;
mod group;
mod leader;
mod outage;
mod parameters;
mod resize;
mod update;

type Outcome = anyhow::Result<()>;
