//! The log: text for people or JSON for collectors, on standard error.

use std::error::Error;
use std::io::IsTerminal as _;

use clap::ValueEnum;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The log could not be started.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// `RUST_LOG` is no filter.
    #[error("RUST_LOG can't be read: write a level, or levels by module, such as \"info\" or \"info,webhook=debug\"")]
    Filter(#[source] tracing_subscriber::filter::FromEnvError),
    /// There is one already.
    #[error("can't start the log")]
    Started(#[source] Box<dyn Error + Send + Sync>),
}

/// Starts the log. What is logged is set by the environment variable `RUST_LOG`; without it, what is worth knowing.
pub fn start(format: LogFormat) -> Result<(), LoggingError> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .try_from_env()
        .or_else(|error| match std::env::var_os(EnvFilter::DEFAULT_ENV) {
            None => Ok(EnvFilter::new("info")),
            Some(_) => Err(LoggingError::Filter(error)),
        })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    }
    .map_err(LoggingError::Started)
}
