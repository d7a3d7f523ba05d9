//! Ports on the loopback interface that no other test process takes.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

use crate::locks;

/// Below the range that Linux and macOS hand out to outgoing connections, so that nobody gets one of these by accident
/// between now and the moment a server binds it, nor while a server that uses it is being restarted.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that is ours as long as this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a port that is free now.
    pub fn take() -> Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let dir = std::env::temp_dir().join("cardgate-ports");
        let size = RANGE.end - RANGE.start;
        // Processes start at different places, so that they rarely meet.
        let start = u16::try_from(std::process::id().wrapping_mul(61) % u32::from(size)).unwrap_or_default();
        for _ in 0..size {
            let offset = (start + NEXT.fetch_add(1, Ordering::Relaxed) % size) % size;
            let number = RANGE.start + offset;
            let Some(lock) = locks::try_lock(&dir.join(number.to_string()))? else {
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port between {} and {}", RANGE.start, RANGE.end)
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
