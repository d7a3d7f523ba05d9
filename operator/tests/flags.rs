//! Flags and their environment twins, as the program reads them.

#![allow(clippy::unwrap_used, reason = "part of tests")]

use std::process::Command;

/// What the operator says at its start in this environment, without a cluster.
fn says(environment: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_operator"))
        .env_clear()
        .envs([("HEALTH_ADDR", "127.0.0.1:0"), ("METRICS_ADDR", "127.0.0.1:0")])
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
        "EXTENDER_ADDR",
        "LOG_FORMAT",
        "MANAGE_CERTIFICATES",
        "POD_NAME",
        "POD_NAMESPACE",
        "RUST_LOG",
        "TLS_EXTRA_SANS",
    ];
    let said = says(&all.map(|name| (name, "")));
    assert!(said.contains("no access to a Kubernetes API"), "{said}");
}

#[test]
fn what_can_not_be_read_is_named_with_the_remedy() {
    let said = says(&[("TLS_EXTRA_SANS", "webhook.example.com,-")]);
    for part in [
        "'-'",
        "--tls-extra-sans",
        "write such as webhook.example.com or 192.0.2.7",
    ] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
}
