//! Questions that wait for the mind, those of each person in a lane of their own: whoever asks without end, or what takes long, waits
//! behind themselves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many questions may wait. More are told to come again.
const QUESTIONS_AHEAD: usize = 64;
/// How many of them one person may ask.
const QUESTIONS_OF_ONE: usize = 8;

/// Why a question can't wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// As many wait as may.
    All,
    /// As many of this person wait as may.
    Own,
}

/// Who waits, by person; first whose turn it is.
#[derive(Debug)]
struct Lanes<T>(VecDeque<(String, VecDeque<T>)>);

impl<T> Lanes<T> {
    fn put(&mut self, user: &str, question: T) -> Result<(), Full> {
        let waiting: usize = self.0.iter().map(|(_, lane)| lane.len()).sum();
        let lane = self.0.iter_mut().find(|(of, _)| of == user);
        if lane.as_ref().is_some_and(|(_, lane)| lane.len() >= QUESTIONS_OF_ONE) {
            return Err(Full::Own);
        }
        if waiting >= QUESTIONS_AHEAD {
            return Err(Full::All);
        }
        match lane {
            Some((_, lane)) => lane.push_back(question),
            None => self.0.push_back((user.to_owned(), [question].into())),
        }
        Ok(())
    }

    /// The next question; whose it is stands behind all others from then on.
    fn take(&mut self) -> Option<T> {
        let (user, mut lane) = self.0.pop_front()?;
        let question = lane.pop_front();
        if !lane.is_empty() {
            self.0.push_back((user, lane));
        }
        question
    }
}

#[derive(Debug)]
struct Shared<T> {
    lanes: Mutex<Lanes<T>>,
    /// Rung when a question comes.
    bell: Notify,
}

impl<T> Shared<T> {
    fn lanes(&self) -> MutexGuard<'_, Lanes<T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where questions are put. Clones are the same.
#[derive(Debug)]
pub(super) struct Entrance<T>(Arc<Shared<T>>);

impl<T> Clone for Entrance<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Entrance<T> {
    /// Has a question of this person wait.
    pub fn put(&self, user: &str, question: T) -> Result<(), Full> {
        self.0.lanes().put(user, question)?;
        self.0.bell.notify_one();
        Ok(())
    }
}

/// Where questions are taken. Clones are the same.
#[derive(Debug)]
pub struct Exit<T>(Arc<Shared<T>>);

impl<T> Clone for Exit<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Exit<T> {
    /// The next question, where one waits.
    pub fn try_take(&self) -> Option<T> {
        self.0.lanes().take()
    }

    /// The next question. Nothing is lost where that is awaited no longer.
    pub async fn take(&self) -> T {
        loop {
            if let Some(question) = self.try_take() {
                return question;
            }
            self.0.bell.notified().await;
        }
    }
}

/// Both ends of the lanes.
pub(super) fn lanes<T>() -> (Entrance<T>, Exit<T>) {
    let shared = Arc::new(Shared {
        lanes: Mutex::new(Lanes(VecDeque::new())),
        bell: Notify::new(),
    });
    (Entrance(Arc::clone(&shared)), Exit(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_without_end_waits_behind_themselves() {
        let (entrance, exit) = lanes();
        for question in 0..QUESTIONS_OF_ONE {
            entrance.put("flood", question).unwrap();
        }
        assert_eq!(entrance.put("flood", 99), Err(Full::Own));
        entrance.put("patient", 100).unwrap();
        entrance.put("other", 200).unwrap();
        entrance.put("patient", 101).unwrap();
        let answered: Vec<_> = std::iter::from_fn(|| exit.try_take()).take(6).collect();
        assert_eq!(answered, [0, 100, 200, 1, 101, 2]);
        // What was taken has left room.
        entrance.put("flood", 8).unwrap();
        assert_eq!(std::iter::from_fn(|| exit.try_take()).count(), 6);
        assert_eq!(exit.try_take(), None);
    }

    #[test]
    fn no_more_wait_than_may() {
        let (entrance, exit) = lanes();
        for user in 0..QUESTIONS_AHEAD {
            entrance.put(&user.to_string(), ()).unwrap();
        }
        assert_eq!(entrance.put("late", ()), Err(Full::All));
        assert!(exit.try_take().is_some());
        assert_eq!(entrance.put("late", ()), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_awaited_and_not_lost_with_whoever_awaited_it() {
        let (entrance, exit) = lanes();
        let taken = exit.clone();
        let waits = tokio::spawn(async move { taken.take().await });
        tokio::task::yield_now().await;
        entrance.put("a", 1).unwrap();
        assert_eq!(waits.await.unwrap(), 1);
        let gone = exit.clone();
        let gone = tokio::spawn(async move { gone.take().await });
        tokio::task::yield_now().await;
        gone.abort();
        entrance.put("a", 2).unwrap();
        assert_eq!(exit.take().await, 2);
    }
}
