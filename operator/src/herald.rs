//! Tells many listeners, one after the other, what is true from now on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Tells all listeners whether something is true, for example that this process leads or is to end.
///
/// Each listener has a channel of its own, and listeners are told in the order in which they began to listen. A single [`watch`] channel
/// for all would wake them in random order. Then the operator's next action would differ from run to run, and the simulator could not
/// repeat a history.
#[derive(Debug, Default)]
pub struct Herald(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_true: bool,
    has_ended: bool,
    listeners: Vec<watch::Sender<bool>>,
}

impl Herald {
    /// Returns a herald that has told `is_true` before anybody listened.
    pub fn new(is_true: bool) -> Self {
        Self(Mutex::new(State {
            is_true,
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was told last.
    pub fn says(&self) -> bool {
        self.state().is_true
    }

    /// Returns a receiver that is told from now on. If it is true already, the receiver sees that as a change.
    pub fn listen(&self) -> watch::Receiver<bool> {
        let mut state = self.state();
        let (listener, mut receiver) = watch::channel(state.is_true);
        if state.is_true {
            receiver.mark_changed();
        }
        if !state.has_ended {
            state.listeners.retain(|listener| !listener.is_closed());
            state.listeners.push(listener);
        }
        receiver
    }

    /// Tells all listeners. Returns whether that is news.
    pub fn tell(&self, is_true: bool) -> bool {
        let mut state = self.state();
        let is_news = std::mem::replace(&mut state.is_true, is_true) != is_true;
        if is_news {
            for listener in &state.listeners {
                listener.send_replace(is_true);
            }
        }
        is_news
    }

    /// Ends the telling: listeners that wait get an error.
    pub fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.listeners.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_are_told_in_the_order_in_which_they_came() {
        let herald = Herald::default();
        let order = Mutex::new(Vec::new());
        let listen = |number: usize| {
            let (mut receiver, order) = (herald.listen(), &order);
            async move {
                receiver.wait_for(|is_true| *is_true).await.unwrap();
                order.lock().unwrap().push(number);
            }
        };
        let mut listeners: futures::stream::FuturesUnordered<_> = (0..50).map(listen).collect();
        // Every listener has begun to wait.
        assert!(futures::poll!(futures::StreamExt::next(&mut listeners)).is_pending());
        assert!(herald.tell(true));
        while futures::StreamExt::next(&mut listeners).await.is_some() {}
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_true_already_is_news_for_who_comes_later() {
        let herald = Herald::new(true);
        let mut receiver = herald.listen();
        assert!(receiver.changed().await.is_ok() && *receiver.borrow_and_update());
        assert!(!receiver.has_changed().unwrap());
        assert!(!herald.tell(true) && herald.tell(false) && !herald.says());
        assert!(receiver.changed().await.is_ok());
    }

    #[tokio::test]
    async fn after_the_end_nobody_waits_in_vain() {
        let herald = Herald::default();
        let mut before = herald.listen();
        herald.end();
        assert!(before.changed().await.is_err());
        assert!(herald.listen().changed().await.is_err());
    }
}
