//! What the ports of both programs have in common: callers who can't be told apart get a bounded share of memory and time.
//!
//! Nobody can say beforehand which of two unknown callers is honest, but an honest one is done within milliseconds. So where
//! something runs short, whoever has kept it for longest without an end loses it, and newcomers are served.

pub mod body;
pub mod connections;
pub mod refusals;
pub mod server;
