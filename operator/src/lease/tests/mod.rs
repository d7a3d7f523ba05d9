//! Contenders for a Lease that is a register with compare-and-swap.

mod candidates;
mod simulation;
