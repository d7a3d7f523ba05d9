//! Scenarios around the whole of Cardgate, each in a control plane of its own: how it is installed, upgraded and removed, what it may do,
//! what it writes, what it does under load, and what happens while parts of it are down.
//!
//! They wait more than they compute. All in one executable, they wait at the same time.

mod availability;
mod certificates;
mod chart;
mod configuration;
mod control_plane;
mod device_outages;
mod installation;
mod lease;
mod load;
mod logs;
mod permissions;
mod release;
mod removal;
mod report;
mod rights;
mod upgrade;
mod writes;
