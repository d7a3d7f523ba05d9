//! What the ports of both programs have in common: callers that cannot be told apart get a bounded share of memory and time.
//!
//! Nobody can say beforehand which of two unknown callers is honest, but an honest caller is done within milliseconds. So when a resource
//! runs short, the caller that has kept it unfinished for longest loses it, and newcomers are served.

pub mod body;
pub mod connections;
pub mod refusals;
pub mod server;
