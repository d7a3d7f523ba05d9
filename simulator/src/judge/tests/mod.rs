//! For every rule a history that keeps it, and one that breaks it.

mod attempts;
mod claims;
mod cross_quota;
mod evictions;
mod expected;
mod gangs;
mod history;
mod kept;
mod lapses;
mod leadership;
mod moved;
mod places;
mod quota;
mod repeats;
mod rest;
mod results;
mod returns;
mod shares;
