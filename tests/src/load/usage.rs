//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::param::clock_ticks_per_second;

/// Fields of `/proc/<pid>/stat` behind the command's closing parenthesis: time in user mode, and after it in the kernel.
const UTIME: usize = 11;

/// Says whether this system can tell.
pub(super) fn ensure_supported() -> Result<()> {
    ensure!(
        PathBuf::from("/proc/self/stat").exists(),
        "the load run reads CPU time and memory from /proc: run it on Linux"
    );
    Ok(())
}

/// The CPU time of a process or of a thread of this one.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// Whose time it is.
    pub name: String,
    stat: PathBuf,
}

impl Clock {
    /// The process's, with all of its threads.
    pub fn of_process(name: &str, pid: u32) -> Self {
        Self {
            name: name.to_owned(),
            stat: format!("/proc/{pid}/stat").into(),
        }
    }

    /// The time of the thread that calls this.
    pub fn of_this_thread(name: &str) -> Self {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        Self {
            name: name.to_owned(),
            stat: format!("/proc/self/task/{thread}/stat").into(),
        }
    }

    /// The time so far, in steps of 10 ms on most systems.
    pub fn read(&self) -> Result<Duration> {
        let text = fs::read_to_string(&self.stat)
            .with_context(|| format!("cannot read the CPU time of {}: has it ended?", self.name))?;
        // The command's name may itself hold spaces and parentheses.
        let (_, fields) = text.rsplit_once(')').context("an unknown form of /proc/<pid>/stat")?;
        let ticks = fields.split_ascii_whitespace().skip(UTIME).take(2);
        let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<_, _>>()?;
        Ok(Duration::from_nanos(ticks * 1_000_000_000 / clock_ticks_per_second()))
    }
}

/// The memory that a process holds, in bytes: all of it, and the part that is not files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident, with the program's own code.
    pub resident: u64,
    /// Resident and anonymous: heap and stacks.
    pub anonymous: u64,
}

impl Memory {
    /// What the process holds now.
    pub fn of_process(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let bytes = |key: &str| {
            let kilobytes = text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB"));
            let kilobytes: u64 = kilobytes.with_context(|| format!("{path} has no {key}"))?.parse()?;
            anyhow::Ok(kilobytes * 1024)
        };
        Ok(Self {
            resident: bytes("VmRSS:")?,
            anonymous: bytes("RssAnon:")?,
        })
    }
}

/// The average number of processes that wanted to run, over the last minute.
pub(super) fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    let first = text.split_ascii_whitespace().next().context("/proc/loadavg is empty")?;
    Ok(first.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_while_this_thread_works_and_is_part_of_the_process() {
        let (thread, process) = (
            Clock::of_this_thread("thread"),
            Clock::of_process("process", std::process::id()),
        );
        let before = thread.read().unwrap();
        while thread.read().unwrap() < before + Duration::from_millis(50) {}
        let thread = thread.read().unwrap();
        assert!(process.read().unwrap() + Duration::from_millis(20) >= thread);
        assert!(thread < Duration::from_mins(1));
    }

    #[test]
    fn memory_is_what_was_written_to() {
        let before = Memory::of_process(std::process::id()).unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = Memory::of_process(std::process::id()).unwrap();
        let growth = after.anonymous - before.anonymous;
        assert!((60 << 20..80 << 20).contains(&growth), "{growth}");
        assert!(after.resident > after.anonymous);
        drop(block);
    }
}
