//! Worlds that are played in each run of the tests: the first seeds, and those that have found something. `cargo simulate` plays others.

mod first;
mod found;
