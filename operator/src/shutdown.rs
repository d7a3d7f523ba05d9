//! Ending: the first SIGTERM or SIGINT asks everybody to finish, the second ends at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a program that was ended at once, as shells count it for SIGTERM.
const ENDED_AT_ONCE: i32 = 143;

/// Becomes true when the program should end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Whether the program should end.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the program should end.
    pub async fn wait(mut self) {
        // The sender lives as long as the program.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Becomes true when whoever calls this says so.
pub fn on_word() -> (watch::Sender<bool>, Stop) {
    let (stop, stopped) = watch::channel(false);
    (stop, Stop(stopped))
}

/// Listens for signals from now on.
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
            if stop.send_replace(true) {
                std::process::exit(ENDED_AT_ONCE);
            }
        }
    });
    Ok(stopped)
}
