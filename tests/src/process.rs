//! Child processes that log into a file and never outlive us.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{self, Seen};

/// How many of a log's last lines an error shows.
const TAIL_LINES: usize = 25;

/// Kills the registered process groups and removes a directory as soon as this process has ended, also by SIGKILL.
///
/// It is a shell that reads from a pipe whose other end only we hold: the pipe ends when we do. Parent-death signals are
/// no substitute: they are sent when the starting *thread* ends, which for tests is long before the process.
#[derive(Debug)]
pub struct Reaper {
    shell: Mutex<Child>,
}

impl Reaper {
    const SCRIPT: &'static str = r#"
        trap '' HUP INT TERM
        groups=
        while read -r change group; do
            case $change in
                +) groups="$groups $group " ;;
                -) groups="${groups%% $group *} ${groups#* $group }" ;;
            esac
        done
        for group in $groups; do kill -s KILL -- "-$group"; done
        [ -z "$1" ] || rm -rf -- "$1"
    "#;

    /// Starts the shell. `remove` is the directory that goes when we are gone.
    pub fn start(remove: Option<&Path>) -> Result<Arc<Self>> {
        let shell = Command::new("/bin/sh")
            .args(["-c", Self::SCRIPT, "reaper"])
            .arg(remove.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh, which ends the child processes when this one ends")?;
        Ok(Arc::new(Self {
            shell: Mutex::new(shell),
        }))
    }

    fn tell(&self, change: char, group: u32) -> Result<()> {
        let mut shell = lock(&self.shell);
        let pipe = shell.stdin.as_mut().context("the reaper's pipe is closed")?;
        writeln!(pipe, "{change} {group}").context("the reaper does not listen")
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let mut shell = lock(&self.shell);
        drop(shell.stdin.take());
        // It ends by itself once the pipe is closed; waiting only avoids a zombie.
        let _ = shell.wait();
    }
}

/// A running child process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    pid: u32,
    log: PathBuf,
    reaper: Arc<Reaper>,
}

impl Process {
    /// Starts the command with its output appended to the file `log`. `name` is for messages.
    pub fn start(name: impl Into<String>, command: &mut Command, log: &Path, reaper: &Arc<Reaper>) -> Result<Self> {
        let name = name.into();
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open the log file {}", log.display()))?;
        let errors = output.try_clone().context("cannot share the log file")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C in the terminal is for us; we end the children in our own order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", command.get_program().display()))?;
        let pid = child.id();
        let process = Self {
            name,
            child: Mutex::new(child),
            pid,
            log: log.to_owned(),
            reaper: Arc::clone(reaper),
        };
        process.reaper.tell('+', pid)?;
        Ok(process)
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The log file.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Everything that the process has logged, including earlier processes with the same log file.
    pub fn log(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The log's last lines, indented, for messages.
    pub fn log_tail(&self) -> String {
        let log = self.log().unwrap_or_else(|error| format!("{error:#}"));
        let lines: Vec<&str> = log.lines().collect();
        let mut tail = format!("  the last lines of {}:", self.log.display());
        for line in lines.iter().skip(lines.len().saturating_sub(TAIL_LINES)) {
            let _ = write!(tail, "\n  | {line}");
        }
        tail
    }

    /// How the process ended, if it has.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        let status = lock(&self.child)
            .try_wait()
            .with_context(|| format!("cannot ask about {}", self.name))?;
        Ok(status)
    }

    /// An error with the last lines of the log, if the process has ended.
    pub fn ensure_running(&self) -> Result<()> {
        match self.exit_status()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status})\n{}", self.name, self.log_tail()),
        }
    }

    /// Asks the process to end (SIGTERM) and waits until it has.
    pub async fn terminate(&self, limit: Duration) -> Result<ExitStatus> {
        {
            let mut child = lock(&self.child);
            if child.try_wait()?.is_none() {
                kill_process(Pid::from_child(&child), Signal::TERM)
                    .with_context(|| format!("cannot send SIGTERM to {}", self.name))?;
            }
        }
        wait::eventually(format!("{} to end after SIGTERM", self.name), limit, async || {
            Ok(self
                .exit_status()?
                .map_or_else(|| Seen::NotYet("still running".into()), Seen::Done))
        })
        .await
    }

    /// Stops the process where it is (SIGSTOP), until [`Process::go_on`].
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a process that was paused go on (SIGCONT).
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = lock(&self.child);
        kill_process(Pid::from_child(&child), signal)
            .with_context(|| format!("cannot send signal {} to {}", signal.as_raw(), self.name))
    }

    /// Ends the process at once (SIGKILL), as a crash would.
    pub fn kill(&self) -> Result<()> {
        let mut child = lock(&self.child);
        child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing what has ended already is no error; a kill that fails is left to the reaper.
        if self.kill().is_ok() {
            let _ = self.reaper.tell('-', self.pid);
        }
    }
}

/// A poisoned lock guards nothing worse than a child process.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
