//! The log: text for people or JSON for collectors, on standard error.

use std::error::Error;
use std::io::IsTerminal as _;

use clap::ValueEnum;
use crds::configuration::LogLevel;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FromEnvError, LevelFilter};
use tracing_subscriber::reload::Handle;

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
    /// `RUST_LOG` is no filter.
    #[error("RUST_LOG can't be read: write a level, or levels by module, such as \"info\" or \"info,{program}=debug\"")]
    Filter {
        program: &'static str,
        source: FromEnvError,
    },
    /// There is one already.
    #[error("can't start the log")]
    Started(#[source] Box<dyn Error + Send + Sync>),
}

/// Starts the log of a program, named as its own crate. What is logged is set by the environment variable `RUST_LOG`;
/// without it, what is worth knowing.
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
            log.try_init().map(|()| control)
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let control = LogControl::new(program, log.reload_handle());
            log.try_init().map(|()| control)
        }
    }
    .map_err(LoggingError::Started)
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

/// Changes what is logged while the program runs.
pub struct LogControl {
    program: &'static str,
    reload: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

impl LogControl {
    fn new<S: 'static>(program: &'static str, handle: Handle<EnvFilter, S>) -> Self {
        let reload = Box::new(move |filter| {
            // Only when the log is gone, which ends with the program.
            let _ = handle.reload(filter);
        });
        Self { program, reload }
    }

    /// Logs what the configuration says (the capacity document, section 3, `logLevel`); without it, what the program was
    /// started with.
    pub fn set(&self, level: Option<LogLevel>) {
        let filter = match level {
            // Of other people's code, the steps in detail help nobody.
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
    use std::sync::{Arc, Mutex};

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
