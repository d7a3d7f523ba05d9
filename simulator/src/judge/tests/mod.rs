//! For every rule a history that keeps it, and one that breaks it.

mod cross_quota;
mod gangs;
mod history;
mod leadership;
mod quota;
mod rest;
mod results;
mod shares;
