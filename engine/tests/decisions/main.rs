//! What is decided on a cluster, step by step, without an API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "part of tests")]

mod capacity;
mod capacity_card;
mod clock;
mod conflicts;
mod controllers;
mod cross_quota;
mod devices;
mod documents;
mod enqueue;
mod explain;
mod fairness;
mod gang_search;
mod gangs;
mod groups;
mod idle;
mod members;
mod mgpu;
mod model;
mod names;
mod ordering;
mod pods;
mod queues;
mod queues_off;
mod reservations;
mod resting;
mod reviews;
mod secrets;
mod several_cards;
mod spread;
mod together;
mod turns;
mod unaccounted;
mod unfinished;
mod world;
