//! File locks between test processes. The operating system lets go of them when a process ends.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// How often a taken lock is tried again; a lock has no event to wait for once there are several to choose from.
const RETRY: Duration = Duration::from_millis(100);

/// Takes the lock on the file, unless someone else has it. The lock lasts as long as the returned file.
pub fn try_lock(path: &Path) -> Result<Option<File>> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let file = File::create(path).with_context(|| format!("cannot open the lock file {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock the file {}", path.display()))
        }
    }
}

/// Waits for the lock on the file, calling `waiting` once if it has to wait at all.
pub fn lock(path: &Path, waiting: impl FnOnce()) -> Result<File> {
    if let Some(file) = try_lock(path)? {
        return Ok(file);
    }
    waiting();
    let file = File::create(path).with_context(|| format!("cannot open the lock file {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock the file {}", path.display()))?;
    Ok(file)
}

/// Waits for one of `count` places, which are lock files in `dir`.
pub async fn one_of(dir: &Path, count: usize) -> Result<File> {
    loop {
        for index in 0..count {
            if let Some(file) = try_lock(&dir.join(index.to_string()))? {
                return Ok(file);
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
