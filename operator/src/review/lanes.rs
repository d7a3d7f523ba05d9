//! Questions that wait for the mind. The questions about each namespace have a lane of their own, and within a lane people take turns. A
//! user who asks without end, or asks for answers that take long, only waits behind their own questions. However many users ask about one
//! namespace, they delay no question about another one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many questions may wait. Further ones are told to come again.
const QUESTIONS_AHEAD: usize = 64;
/// How many of the waiting questions one user may have.
const QUESTIONS_OF_ONE: usize = 8;

/// Why a question can't wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The largest number of questions waits already.
    All,
    /// The largest number of questions of this user waits already.
    Own,
}

/// Entries by name, in the order of their turns.
type Turns<T> = VecDeque<(String, T)>;

/// The waiting questions, by namespace and by user.
#[derive(Debug)]
struct Lanes<T>(Turns<Turns<VecDeque<T>>>);

impl<T> Lanes<T> {
    fn put(&mut self, namespace: &str, user: &str, question: T) -> Result<(), Full> {
        let people = || self.0.iter().flat_map(|(_, people)| people);
        let own = people().filter(|(of, _)| of == user);
        if own.map(|(_, lane)| lane.len()).sum::<usize>() >= QUESTIONS_OF_ONE {
            return Err(Full::Own);
        }
        if people().map(|(_, lane)| lane.len()).sum::<usize>() >= QUESTIONS_AHEAD {
            return Err(Full::All);
        }
        lane_of(lane_of(&mut self.0, namespace), user).push_back(question);
        Ok(())
    }

    /// Returns the next question. Its namespace and its user then go behind all others.
    fn take(&mut self) -> Option<T> {
        let (namespace, mut people) = self.0.pop_front()?;
        let (user, mut lane) = people.pop_front()?;
        let question = lane.pop_front();
        if !lane.is_empty() {
            people.push_back((user, lane));
        }
        if !people.is_empty() {
            self.0.push_back((namespace, people));
        }
        question
    }
}

/// Returns the entry of a name. A new name gets its entry at the end.
fn lane_of<'t, L: Default>(turns: &'t mut Turns<L>, name: &str) -> &'t mut L {
    let index = turns.iter().position(|(of, _)| of == name);
    let index = index.unwrap_or_else(|| {
        turns.push_back((name.to_owned(), L::default()));
        turns.len() - 1
    });
    &mut turns[index].1
}

#[derive(Debug)]
struct Shared<T> {
    lanes: Mutex<Lanes<T>>,
    /// Signalled when a question arrives.
    bell: Notify,
}

impl<T> Shared<T> {
    fn lanes(&self) -> MutexGuard<'_, Lanes<T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end where questions are put. Clones share the lanes.
#[derive(Debug)]
pub(super) struct Entrance<T>(Arc<Shared<T>>);

impl<T> Clone for Entrance<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Entrance<T> {
    /// Puts a question of this user about this namespace into its lane.
    pub fn put(&self, namespace: &str, user: &str, question: T) -> Result<(), Full> {
        self.0.lanes().put(namespace, user, question)?;
        self.0.bell.notify_one();
        Ok(())
    }
}

/// The end where questions are taken. Clones share the lanes.
#[derive(Debug)]
pub struct Exit<T>(Arc<Shared<T>>);

impl<T> Clone for Exit<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Exit<T> {
    /// Takes the next question, if one waits.
    pub fn try_take(&self) -> Option<T> {
        self.0.lanes().take()
    }

    /// Waits for the next question and takes it. No question is lost if the future is dropped.
    pub async fn take(&self) -> T {
        loop {
            if let Some(question) = self.try_take() {
                return question;
            }
            self.0.bell.notified().await;
        }
    }
}

/// Returns both ends of the lanes.
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
            entrance.put("a", "flood", question).unwrap();
        }
        assert_eq!(entrance.put("b", "flood", 99), Err(Full::Own));
        entrance.put("a", "patient", 100).unwrap();
        entrance.put("a", "other", 200).unwrap();
        entrance.put("a", "patient", 101).unwrap();
        let answered: Vec<_> = std::iter::from_fn(|| exit.try_take()).take(6).collect();
        assert_eq!(answered, [0, 100, 200, 1, 101, 2]);
        // Taking questions has made room.
        entrance.put("a", "flood", 8).unwrap();
        assert_eq!(std::iter::from_fn(|| exit.try_take()).count(), 6);
        assert_eq!(exit.try_take(), None);
    }

    #[test]
    fn many_who_ask_about_one_namespace_keep_no_other_waiting() {
        let (entrance, exit) = lanes();
        for user in 0..8 {
            entrance.put("crowded", &format!("user-{user}"), user).unwrap();
        }
        entrance.put("other", "patient", 100).unwrap();
        let answered: Vec<_> = std::iter::from_fn(|| exit.try_take()).take(3).collect();
        assert_eq!(answered, [0, 100, 1]);
    }

    #[test]
    fn no_more_wait_than_may() {
        let (entrance, exit) = lanes();
        for user in 0..QUESTIONS_AHEAD {
            entrance.put("a", &user.to_string(), ()).unwrap();
        }
        assert_eq!(entrance.put("a", "late", ()), Err(Full::All));
        assert!(exit.try_take().is_some());
        assert_eq!(entrance.put("a", "late", ()), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_awaited_and_not_lost_with_whoever_awaited_it() {
        let (entrance, exit) = lanes();
        let taken = exit.clone();
        let waits = tokio::spawn(async move { taken.take().await });
        tokio::task::yield_now().await;
        entrance.put("n", "a", 1).unwrap();
        assert_eq!(waits.await.unwrap(), 1);
        let gone = exit.clone();
        let gone = tokio::spawn(async move { gone.take().await });
        tokio::task::yield_now().await;
        gone.abort();
        entrance.put("n", "a", 2).unwrap();
        assert_eq!(exit.take().await, 2);
    }
}
