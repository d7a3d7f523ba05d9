//! Reads times as objects have them.

use crds::pod::Metadata;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Returns a time as objects have it; none where there is none, or none that can be read.
pub(super) fn read_time(text: Option<&str>) -> Option<Timestamp> {
    let text = text?;
    whole_seconds(text).or_else(|| text.parse().ok())
}

/// Returns when an object that is being deleted is to be gone, by its metadata; none where it is not being deleted. API
/// servers and kubelets count in nanoseconds, so grace periods of hundreds of years overflow: the time that an API server
/// writes may have passed long ago, and kubelets never end the pod. So an object that has more than ten years to end counts
/// as there for ever, and so does an object with a time that can't be read.
///
/// A running pod has its `own` grace period at least, where it is deleted with a shorter one: a kubelet that had begun to
/// end it earlier waits for its `preStop` hook as long as it was to wait then.
pub(super) fn end_of_deletion(metadata: &Metadata<Box<str>>, own: Option<i64>) -> Option<Timestamp> {
    /// Ten years, in seconds.
    const LONGEST: i64 = 10 * 365 * 24 * 3600;
    let given = metadata.deletion_grace_period_seconds;
    let longer = own
        .zip(given)
        .map_or(0, |(own, given)| own.saturating_sub(given).max(0));
    let is_for_ever = given.is_some_and(|grace| grace > LONGEST) || longer > LONGEST;
    let end = |text| {
        let end = read_time(Some(text)).filter(|_| !is_for_ever)?;
        end.checked_add(SignedDuration::from_secs(longer)).ok()
    };
    let deleted = metadata.deletion_timestamp.as_deref();
    deleted.map(|text| end(text).unwrap_or(Timestamp::MAX))
}

/// Whether an object is being deleted with no more than the one second of grace that Cardgate gives at least.
pub(super) fn ends_at_once(metadata: &Metadata<Box<str>>) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds.is_none_or(|grace| grace <= 1)
}

/// Reads a time as the API server writes it, `2026-01-31T23:59:59Z`. Every object has such times, and a reader of all
/// forms takes several times as long.
fn whole_seconds(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let is_punctuated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')]
        .iter()
        .all(|(place, sign)| bytes[*place] == *sign);
    let number = |place: usize| {
        let digit = |place: usize| bytes[place].is_ascii_digit().then(|| bytes[place] - b'0');
        Some(i8::try_from(10 * digit(place)? + digit(place + 1)?).unwrap_or(i8::MAX))
    };
    let year = 100 * i16::from(number(0)?) + i16::from(number(2)?);
    let date = Date::new(year, number(5)?, number(8)?).ok()?;
    let time = Time::new(number(11)?, number(14)?, number(17)?, 0).ok()?;
    let at = DateTime::from_parts(date, time);
    Offset::UTC.to_timestamp(at).ok().filter(|_| is_punctuated)
}

/// Returns when a pod that was started then is over at the latest: after the time that it may run and the time that it may
/// take to end.
pub(super) fn latest_end(deadline: Option<i64>, grace: Option<i64>, started: Option<&str>) -> Option<Timestamp> {
    /// The time that Kubernetes gives a pod to end that names none.
    const GRACE: i64 = 30;
    let deadline = deadline.filter(|seconds| *seconds > 0)?;
    let most = deadline.saturating_add(grace.unwrap_or(GRACE).max(0));
    read_time(started)?.checked_add(SignedDuration::from_secs(most)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn leap_seconds_and_what_is_no_time_are_read_as_by_everybody() {
        for text in [
            "2026-01-31T23:59:59Z",
            "2016-12-31T23:59:60Z",
            "2026-02-30T00:00:00Z",
            "2026-01-31t23:59:59z",
            "2026-01-31T23:59:59+",
            "-026-01-31T23:59:59Z",
            "2026-01-31T24:00:00Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2026-01-31 23:59:59Z",
            "2026-01-31T23:59:59.5Z",
            "",
        ] {
            assert_eq!(read_time(Some(text)), text.parse().ok(), "{text:?}");
        }
        assert!(whole_seconds("2026-01-31T23:59:59Z").is_some());
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_by_a_reader_of_all_forms(seconds in -62_135_596_800_i64..253_402_300_800) {
            let text = Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
            prop_assert_eq!(read_time(Some(&text)), text.parse().ok());
        }

        #[test]
        fn what_is_nearly_a_time_is_read_so_too(text in "[0-9]{4}[-/][0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}[Zz]") {
            prop_assert_eq!(read_time(Some(&text)), text.parse().ok());
        }
    }
}
