//! Shutdown: the first SIGTERM or SIGINT asks all parts to finish, the second one ends the program at once.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::herald::Herald;

/// The exit code of a program that was ended at once; shells count it for SIGTERM.
const ENDED_AT_ONCE: i32 = 143;

/// Becomes true when the program should end.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Herald>);

impl Stop {
    /// Whether the program should end.
    pub fn is_set(&self) -> bool {
        self.0.says()
    }

    /// Waits until the program should end.
    pub async fn wait(self) {
        // A waiting task holds the herald, so the channel stays open.
        let _ = self.0.listen().wait_for(|stop| *stop).await;
    }
}

/// Returns a stop that becomes true when the caller tells the herald.
pub fn on_word() -> (Arc<Herald>, Stop) {
    let herald = Arc::<Herald>::default();
    (Arc::clone(&herald), Stop(herald))
}

/// Returns a stop that listens for signals from now on.
pub fn on_signal() -> std::io::Result<Stop> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = on_word();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !stop.tell(true) {
                std::process::exit(ENDED_AT_ONCE);
            }
        }
    });
    Ok(stopped)
}
