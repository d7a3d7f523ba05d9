//! The documents' own configuration blocks, and what is refused or warned about.

mod accepted;
mod capacity;
mod cross_quota;
mod random;
mod refused;
mod volcano;
