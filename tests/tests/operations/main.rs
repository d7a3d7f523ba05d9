//! Scenarios around the whole of Cardgate, each in a control plane of its own: how it is installed, upgraded and removed, what it may do,
//! and what it writes.

mod certificates;
mod chart;
mod configuration;
mod control_plane;
mod device_outages;
mod installation;
mod logs;
mod permissions;
mod release;
mod removal;
mod rights;
mod upgrade;
mod writes;
