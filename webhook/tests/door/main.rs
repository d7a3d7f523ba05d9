//! The door, by the webhook's own code and without a cluster: reviews in, answers out.

mod advice;
mod bindings;
mod bodies;
mod bounds;
mod claims;
mod common;
mod cross_quota;
mod flags;
mod hierarchy;
mod jobs;
mod lookups;
mod messages;
mod mgpu;
mod objects;
mod pods;
mod queues_of_pods;
mod queues_of_workloads;
mod router;
mod tls;
