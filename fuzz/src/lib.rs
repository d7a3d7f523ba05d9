//! Hostile input, made to get past the first check: what the fuzz targets below `tests/` have in common.
//!
//! A target is a `#[test]`. It takes every file of its corpus as it is, and then inputs that are made from those files and
//! from the words that Cardgate knows, for a second; `BOLERO_RANDOM_TEST_TIME_MS=600000` makes it ten minutes. `cargo bolero
//! test -p cardgate-fuzz TARGET` has libFuzzer choose them by the code that they reach.

pub mod corpus;
pub mod cost;
pub mod draw;
pub mod objects;
pub mod texts;
mod words;
