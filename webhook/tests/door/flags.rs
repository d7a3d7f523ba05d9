//! Flags and their environment twins, as the program reads them.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::process::Command;

/// What the webhook says at its start in this environment, without a cluster.
fn says(environment: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_webhook"))
        .env_clear()
        .env("KUBECONFIG", "/nowhere")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_variable_that_is_empty_is_like_one_that_is_not_set() {
    let all = [
        "HEALTH_ADDR",
        "LISTEN_ADDR",
        "LOG_FORMAT",
        "METRICS_ADDR",
        "POD_NAMESPACE",
        "REPLACE_SCHEDULER_NAME",
        "RUST_LOG",
        "SHUTDOWN_DELAY",
        "TLS_DIR",
        "WORKERS",
    ];
    let said = says(&all.map(|name| (name, "")));
    assert!(said.contains("no access to a Kubernetes API"), "{said}");
}

#[test]
fn what_can_not_be_read_is_named() {
    let said = says(&[("WORKERS", "some")]);
    for part in ["'some'", "--workers"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}
