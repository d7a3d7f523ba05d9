//! Running a build tool while looking at what it prints.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How often the caller hears that there is nothing new.
const TICK: Duration = Duration::from_millis(500);
/// How many of the last lines of stderr an error shows.
const TAIL_LINES: usize = 30;

/// What a running command printed since the last look.
pub(crate) enum Line {
    /// A line on stdout.
    Output(String),
    /// A line on stderr.
    Error(String),
    /// Nothing for a while.
    None,
}

/// Runs a command, handing over each line as it comes, and [`Line::None`] while there is none. `missing` is what to do
/// if there is no such program.
pub(crate) fn run(command: &mut Command, missing: &str, mut on_line: impl FnMut(&Line)) -> Result<()> {
    let program = command.get_program().display().to_string();
    let shown = format!(
        "`{program} {}`",
        command.get_args().next().unwrap_or_default().display()
    );
    let mut child = match command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("`{program}` is not installed: {missing}"),
        other => other.with_context(|| format!("cannot run {shown}"))?,
    };
    let (sender, lines) = mpsc::channel();
    forward(child.stdout.take(), sender.clone(), Line::Output);
    forward(child.stderr.take(), sender, Line::Error);
    let mut errors = Vec::new();
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                on_line(&line);
                if let Line::Error(text) = line {
                    errors.push(text);
                }
            }
            Err(RecvTimeoutError::Timeout) => on_line(&Line::None),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {shown}"))?;
    let tail = &errors[errors.len().saturating_sub(TAIL_LINES)..];
    ensure!(status.success(), "{shown} failed ({status}):\n  {}", tail.join("\n  "));
    Ok(())
}

fn forward(stream: Option<impl Read + Send + 'static>, to: mpsc::Sender<Line>, wrap: fn(String) -> Line) {
    std::thread::spawn(move || {
        for line in stream
            .into_iter()
            .flat_map(|stream| BufReader::new(stream).lines())
            .map_while(Result::ok)
        {
            if to.send(wrap(line)).is_err() {
                return;
            }
        }
    });
}
