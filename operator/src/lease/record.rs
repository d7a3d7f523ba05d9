//! The Lease as Kubernetes keeps it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::LEASE;
use super::election::{Record, Version};

/// Reads the record of a Lease, and its version. Missing or invalid fields count as empty.
pub(super) fn read(lease: &Lease) -> (Record, Version) {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let microseconds = |time: Option<MicroTime>| time.map_or(0, |MicroTime(time)| time.as_microsecond());
    let record = Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: Duration::from_secs(seconds.unwrap_or_default()),
        acquired: microseconds(spec.acquire_time),
        renewed: microseconds(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or_default(),
    };
    (record, lease.metadata.resource_version.clone())
}

/// Returns a Lease with this record, to be written over its `version`.
pub(super) fn write(lease: &Lease, record: &Record, version: Version) -> Lease {
    let mut lease = lease.clone();
    lease.metadata.name = Some(LEASE.to_owned());
    lease.metadata.resource_version = version;
    let time = |microseconds| Timestamp::from_microsecond(microseconds).ok().map(MicroTime);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(record.holder.clone().unwrap_or_default()),
        lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
        acquire_time: time(record.acquired),
        renew_time: time(record.renewed),
        lease_transitions: Some(record.transitions),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for holder in [None, Some("operator-1".to_owned())] {
            let record = Record {
                holder,
                duration: Duration::from_secs(15),
                acquired: 1_750_000_000_123_456,
                renewed: 1_750_000_005_654_321,
                transitions: 7,
            };
            let lease = write(&Lease::default(), &record, Some("41".to_owned()));
            assert_eq!(read(&lease), (record, Some("41".to_owned())));
        }
    }

    #[test]
    fn senseless_leases_are_free_and_do_not_panic() {
        let spec = LeaseSpec {
            lease_duration_seconds: Some(-5),
            holder_identity: Some(String::new()),
            lease_transitions: Some(i32::MAX),
            ..LeaseSpec::default()
        };
        let lease = Lease {
            spec: Some(spec),
            ..Lease::default()
        };
        let (record, version) = read(&lease);
        assert_eq!((record.holder, record.duration, version), (None, Duration::ZERO, None));
    }
}
