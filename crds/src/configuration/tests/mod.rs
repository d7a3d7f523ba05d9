//! The documents' own configuration blocks, and what is refused or warned about.

/// A file of what the documents show.
macro_rules! document {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/documents/", $file))
    };
}

mod accepted;
mod capacity;
mod cross_quota;
mod random;
mod refused;
mod volcano;

/// The value of `volcano-scheduler.conf` in a document's `ConfigMap`.
fn of_config_map(text: &str) -> String {
    let map: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    map["data"][super::SCHEDULER_CONF].as_str().unwrap().to_owned()
}
