//! The crate by its public names: what users write is read, and what they are shown.

mod bounds;
mod card_counts;
mod columns;
mod no_parser_panics;
mod quantities;
