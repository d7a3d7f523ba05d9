//! The log: text for people or JSON for collectors, on standard error.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use crds::configuration::LogLevel;
use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{FromEnvError, LevelFilter};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// The log target to which kube writes answers that cannot be read.
const ANSWERS: &str = "kube_client::client";
/// Messages on that target about interrupted watches, which nothing else reports.
const POLLS: [&str; 2] = ["timeout in poll", "eof in poll"];
/// The log target of warnings about single connections.
const TLS_LIBRARY: &str = "rustls";
/// The log target of warnings about each try to watch a kind that may not be read. The code that watches reports that too.
const WATCHES: &str = "kube_runtime::watcher";
/// How many different texts are logged.
const MOST_TEXTS: usize = 64;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The log could not be started.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum LoggingError {
    /// `RUST_LOG` is not a filter.
    #[error("RUST_LOG can't be read: write a level, or levels by module, such as \"info\" or \"info,{program}=debug\"")]
    Filter {
        program: &'static str,
        source: FromEnvError,
    },
    /// A log has been started already.
    #[error("can't start the log")]
    Started(#[source] Box<dyn Error + Send + Sync>),
}

/// Starts the log of a program, named like its crate. The environment variable `RUST_LOG` sets what is logged; without it, everything worth
/// knowing is logged.
pub fn start(program: &'static str, format: LogFormat) -> Result<LogControl, LoggingError> {
    let filter = filter_of_start().map_err(|source| LoggingError::Filter { program, source })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let log = log.with_filter_reloading();
            let control = LogControl::new(program, log.reload_handle());
            log.finish().with(Sparing::default()).try_init().map(|()| control)
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let control = LogControl::new(program, log.reload_handle());
            log.finish().with(Sparing::default()).try_init().map(|()| control)
        }
    }
    .map_err(|error| LoggingError::Started(error.into()))
}

fn filter_of_start() -> Result<EnvFilter, FromEnvError> {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .try_from_env()
        .or_else(|error| match std::env::var_os(EnvFilter::DEFAULT_ENV) {
            None => Ok(EnvFilter::new("info")),
            Some(_) => Err(error),
        })
}

/// Returns an error as the log shows it: with the API server's message, but without the status object that contains it.
pub fn plain(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let mut causes = std::iter::successors(Some(error), |cause: &&(dyn Error + 'static)| (*cause).source());
    let status = causes.find_map(|cause| match cause.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status),
        _ => None,
    });
    match status {
        Some(status) => text.replace(&format!(" ({status:?})"), ""),
        None => text,
    }
}

/// Keeps out messages with which strangers could fill the log. Warnings of the TLS library are logged once for each text: otherwise there
/// would be one line for each connection, and strangers open as many as they like. The same holds for kube's warnings about watches, which
/// are tried again for ever. Answers that cannot be read are not logged: kube writes them whole, with the content of tenants' objects, and
/// the code that sent the request reports its failure.
#[derive(Debug, Default)]
struct Sparing {
    told: Mutex<BTreeSet<String>>,
}

impl<S: Subscriber> Layer<S> for Sparing {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut said = Said::default();
        event.record(&mut said);
        // Messages of the older `log` crate have their target as a field.
        let target = said.target.as_deref().unwrap_or_else(|| event.metadata().target());
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        if target == ANSWERS && !POLLS.iter().any(|known| said.message.starts_with(known)) {
            return false;
        }
        if !target.starts_with(TLS_LIBRARY) && target != WATCHES {
            return true;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST_TEXTS && told.insert(said.message)
    }
}

/// The message of a log event, and its target.
#[derive(Default)]
struct Said {
    target: Option<String>,
    message: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.target = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

/// Changes what is logged while the program runs.
pub struct LogControl {
    program: &'static str,
    reload: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

impl LogControl {
    fn new<S: 'static>(program: &'static str, handle: Handle<EnvFilter, S>) -> Self {
        let reload = Box::new(move |filter| {
            // This only fails when the log is gone, which ends with the program.
            let _ = handle.reload(filter);
        });
        Self { program, reload }
    }

    /// Sets the log level of the configuration (the capacity document, section 3, `logLevel`); without it, the filter with which the
    /// program was started.
    pub fn set(&self, level: Option<LogLevel>) {
        let filter = match level {
            // Detailed steps of other crates help nobody.
            Some(level @ (LogLevel::Trace | LogLevel::Debug)) => {
                let (program, shared, level) = (self.program, env!("CARGO_CRATE_NAME"), level.as_str());
                EnvFilter::new(format!("info,{program}={level},{shared}={level}"))
            }
            Some(level) => EnvFilter::new(level.as_str()),
            None => filter_of_start().unwrap_or_else(|_| EnvFilter::new("info")),
        };
        (self.reload)(filter);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use kube::core::Status;
    use kube::runtime::watcher;

    use super::*;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_of_the_api_server_is_told_in_its_words_alone() {
        let status = || {
            Status::failure("pods \"x\" is forbidden", "Forbidden")
                .with_code(403)
                .boxed()
        };
        for (error, expected) in [
            (
                &kube::Error::Api(status()) as &(dyn Error + 'static),
                "ApiError: pods \"x\" is forbidden",
            ),
            (
                &watcher::Error::InitialListFailed(kube::Error::Api(status())),
                "failed to perform initial object list: ApiError: pods \"x\" is forbidden",
            ),
            (&std::io::Error::other("no route"), "no route"),
        ] {
            let told = plain(error);
            assert!(told.starts_with(expected), "{told}");
            assert!(!told.contains("Status {") && !told.contains("Some("), "{told}");
        }
    }

    #[test]
    fn what_libraries_warn_of_is_told_once() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("info"))
            .with_ansi(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish().with(Sparing::default()), || {
            for _ in 0..3 {
                tracing::warn!(target: "rustls::msgs::handshake", "Illegal SNI extension");
                tracing::warn!(target: "log", { log.target = "rustls::common_state" }, "TLS alert");
                tracing::warn!(target: "kube_runtime::watcher", "watch list error with 403: {:?}", "forbidden");
                tracing::warn!("own warning");
                tracing::warn!(target: "kube_client::client", "eof in poll: {:?}", "cut");
                tracing::warn!(target: "kube_client::client", "{{\"kind\":\"Pod\"}}, Error(\"recursion limit exceeded\")");
            }
            for index in 0..1000 {
                tracing::warn!(target: "rustls", "of stranger {index}");
            }
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let times = |part: &str| text.matches(part).count();
        assert_eq!(
            (
                times("Illegal SNI"),
                times("TLS alert"),
                times("watch list error"),
                times("own warning")
            ),
            (1, 1, 1, 3),
            "{text}"
        );
        assert_eq!(
            (times("of stranger"), times("kind"), times("eof in poll")),
            (MOST_TEXTS - 3, 0, 3)
        );
    }

    #[test]
    fn section_3_log_level_changes_what_is_logged_while_the_program_runs() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("info"))
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .with_filter_reloading();
        let control = LogControl::new(env!("CARGO_CRATE_NAME"), log.reload_handle());
        let logged = || {
            lines.0.lock().unwrap().clear();
            tracing::error!("own error");
            tracing::info!("own info");
            tracing::debug!("own debug");
            tracing::trace!("own trace");
            tracing::debug!(target: "kube", "other debug");
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            let known = ["own error", "own info", "own debug", "own trace", "other debug"];
            known.into_iter().filter(|line| text.contains(line)).collect::<Vec<_>>()
        };
        tracing::subscriber::with_default(log.finish(), || {
            assert_eq!(logged(), ["own error", "own info"]);
            for (level, expected) in [
                (LogLevel::Debug, &["own error", "own info", "own debug"][..]),
                (LogLevel::Trace, &["own error", "own info", "own debug", "own trace"]),
                (LogLevel::Error, &["own error"]),
                (LogLevel::Info, &["own error", "own info"]),
            ] {
                control.set(Some(level));
                assert_eq!(logged(), expected, "{level:?}");
            }
        });
    }
}
