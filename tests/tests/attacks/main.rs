//! Attacks: what a tenant who has the role `edit` in one namespace, or who stole a token of Cardgate's, tries in order to stop
//! Cardgate, to use what is not theirs, or to have cards for nothing. Each says what must hold, and that it is Cardgate that
//! holds it: a refusal is compared with the words of the rule that it should come from.

mod bounds;
mod claims;
mod classes;
mod fairness;
mod forged_reviews;
mod found;
mod free_cards;
mod identities;
mod operator_ports;
mod other_cards;
mod ports;
mod questions;
mod queues;
mod slow_clients;
mod stolen_token;
mod stumbling;
mod taken_away;
mod tenant;
mod unclear_claims;
mod unreadable;

type Outcome = anyhow::Result<()>;
