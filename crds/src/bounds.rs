//! The bounds of what users may write: generous for people, small for machines.
//!
//! Every parser refuses what is beyond them before it does any work on it, so no input costs more than its size. The
//! policies in `manifests/base/policies` repeat the bounds inside the API server. A text that passes there may still be
//! refused here, but not the other way round (lengths are bytes here and characters there). `docs/reference.md` shows the
//! bounds.

use std::borrow::Cow;

use thiserror::Error;

use crate::keys::{
    CARD_DESERVED, CARD_GUARANTEE, CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, MGPU_CONTAINER_CARDS, MGPU_POLICY,
    QUEUE_NAME, QUEUE_NAMESPACES, SCORING_STRATEGY,
};

/// Alternatives of one card name. Most clusters have fewer cards.
pub const ALTERNATIVES: usize = 32;
/// Length of one card name: a label value of 63 characters, and after a slash what its kind adds, which is a resource name
/// of 63 characters with `-mixed`, or memory and replicas.
pub const CARD_NAME_LENGTH: usize = 160;
/// Cards that one quota names: many times as many as a large cluster has.
pub const QUOTA_ENTRIES: usize = 256;
/// Cards that one workload asks for, counting each alternative. Each name is kept as long as the workload, even if no node
/// has the card.
pub const REQUEST_CARDS: usize = 64;
/// Resources that one list names (a capability, `minResources`), and that one pod requests: nodes offer about ten.
pub const RESOURCES: usize = 64;
/// Length of the name of a resource: a prefix of 253 characters, a slash, and a name of 63.
pub const RESOURCE_NAME_LENGTH: usize = 317;
/// Tasks that one group names: many times as many as real jobs have.
pub const TASKS: usize = 256;
/// Length of the name of a task; pods carry it as a label.
pub const TASK_NAME_LENGTH: usize = 63;
/// Results of an admission that a new pod may carry. A copy of an admitted pod has those of its containers, which are
/// removed.
pub const RESULTS: usize = 64;
/// Containers of a pod that ask for shares of cards. The combinations to choose from multiply with each container.
pub const MGPU_CONTAINERS: usize = 16;
/// What a pod says about nodes: labels of its selector, terms, requirements and values of its affinity, and tolerations,
/// counted together. Each is compared with every node.
pub const NODE_TERMS: usize = 1024;
/// Total length of these texts, which are kept as long as the pod waits.
pub const NODE_TEXTS_LENGTH: usize = 32_768;
/// Containers of a pod, with their requests and limits, entry by entry: Kubernetes bounds neither.
pub const CONTAINER_TERMS: usize = 1024;
/// Length of a label selector on namespaces, which is evaluated for every pod of the queue.
pub const SELECTOR_LENGTH: usize = 4096;
/// Claims that a pod names. Kubernetes allows thousands, and each is looked up whenever the pod is seen.
pub const CLAIMS: usize = 64;
/// Requests, alternatives, selectors, tolerations, constraints and the requests that constraints name, over all claims of a
/// pod. Kubernetes allows thousands in one claim, and each is judged for every kind of device.
pub const CLAIM_TERMS: usize = 512;
/// Total length of the texts in these.
pub const CLAIM_TEXTS_LENGTH: usize = 32_768;
/// Length of the name of an object (RFC 1123 subdomain).
const OBJECT_NAME_LENGTH: usize = 253;
/// Length of an annotation whose value is one of a few words.
const WORD_LENGTH: usize = 64;

/// The longest text of each annotation, in bytes: several times what real uses need.
pub const ANNOTATIONS: [(&str, usize); 11] = [
    (QUEUE_NAME, OBJECT_NAME_LENGTH),
    (GROUP_NAME, OBJECT_NAME_LENGTH),
    (CARD_NAME, 4096),
    (CARD_REQUEST, 16_384),
    (CARD_QUOTA, 32_768),
    (CARD_DESERVED, 32_768),
    (CARD_GUARANTEE, 32_768),
    (QUEUE_NAMESPACES, SELECTOR_LENGTH),
    (SCORING_STRATEGY, WORD_LENGTH),
    (MGPU_POLICY, WORD_LENGTH),
    // One number for each container, including containers without mGPU.
    (MGPU_CONTAINER_CARDS, 1024),
];

/// The longest text of an annotation that Cardgate reads.
pub const fn annotation_length(key: &str) -> usize {
    let mut index = 0;
    while index < ANNOTATIONS.len() {
        if is_same(ANNOTATIONS[index].0.as_bytes(), key.as_bytes()) {
            return ANNOTATIONS[index].1;
        }
        index += 1;
    }
    // An annotation that is not listed is not read.
    0
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// Counts terms and the lengths of their texts, for callers that keep nothing of an input that is too much.
#[derive(Debug)]
pub struct Tally {
    /// How many more terms there may be; `None` once there was one too many.
    terms: Option<usize>,
    /// How much longer their texts may be.
    length: Option<usize>,
}

impl Tally {
    /// A tally that allows so many terms, of so many bytes in all.
    pub const fn of(terms: usize, length: usize) -> Self {
        Self {
            terms: Some(terms),
            length: Some(length),
        }
    }

    /// Whether what was counted is too much.
    pub const fn is_exceeded(&self) -> bool {
        self.terms.is_none() || self.length.is_none()
    }

    /// Counts one more term, with a text of so many bytes. Returns whether the count was still within the bounds before.
    pub fn takes(&mut self, text: usize) -> bool {
        let was_within = !self.is_exceeded();
        self.terms = self.terms.and_then(|left| left.checked_sub(1));
        self.length = self.length.and_then(|left| left.checked_sub(text));
        was_within
    }
}

/// More than a bound allows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} has {found} {of}, and {most} are allowed: {remedy}", what = .0.what, found = .0.found, of = .0.of, most = .0.most, remedy = .0.remedy)]
pub struct BoundError(Box<Excess>);

/// What there is too much of, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excess {
    /// The object that has too many; a long text is cut.
    what: String,
    found: usize,
    of: &'static str,
    most: usize,
    remedy: &'static str,
}

impl BoundError {
    /// Checks that a text is not too long. The error shows the beginning of one that is.
    pub(crate) fn length(text: &str, most: usize, remedy: &'static str) -> Result<(), Self> {
        Self::count(|| format!("{:?}", excerpt(text)), "bytes", text.len(), most, remedy)
    }

    /// Checks that there is no more of something than is allowed.
    pub(crate) fn count(
        what: impl FnOnce() -> String,
        of: &'static str,
        found: usize,
        most: usize,
        remedy: &'static str,
    ) -> Result<(), Self> {
        if found <= most {
            return Ok(());
        }
        let what = what();
        Err(Self(Box::new(Excess {
            what,
            found,
            of,
            most,
            remedy,
        })))
    }
}

/// Checks that an object has no more tasks than a group may name.
pub fn tasks(found: usize, remedy: &'static str) -> Result<(), BoundError> {
    BoundError::count(|| "it".to_owned(), "tasks", found, TASKS, remedy)
}

/// How much of a text is repeated in a message.
const EXCERPT: usize = 64;
/// How long a message may be. Events and conditions do not show longer messages whole.
const SENTENCE: usize = 4096;

/// Returns the beginning of a text, for messages: nobody reads more, and a message must not be as long as the text it is
/// about.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    if text.len() <= EXCERPT {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(EXCERPT);
    Cow::Owned(format!("{}...", &text[..end]))
}

/// Returns the beginning of a text, for messages that quote it.
pub(crate) fn cut(text: &str) -> String {
    excerpt(text).into_owned()
}

/// Returns the beginning of a text, for messages that show it unquoted.
pub(crate) fn shown(text: &str) -> String {
    printable(&excerpt(text)).into_owned()
}

/// Returns what is wrong with JSON. A long error, which repeats what stands in the text, is cut to what messages quote.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    const LONGEST: usize = 160;
    let error = error.to_string();
    if error.len() <= LONGEST {
        printable(&error).into_owned()
    } else {
        shown(&error)
    }
}

/// Returns a sentence for users, which may contain text that others wrote, printable and no longer than anybody reads.
pub fn told(sentence: String) -> String {
    within(sentence, SENTENCE)
}

/// The same for a sentence with an `end` that must be readable, however long the rest is.
pub fn told_with(said: String, end: String) -> String {
    let end = within(end, SENTENCE / 2);
    let said = within(said, SENTENCE - end.len());
    format!("{said}; {end}")
}

fn within(sentence: String, most: usize) -> String {
    let sentence = ended(sentence, most);
    match printable(&sentence) {
        Cow::Borrowed(_) => sentence,
        // Escaped, the sentence is longer.
        Cow::Owned(printable) => ended(printable, most),
    }
}

/// Cuts a sentence where it gets too long.
fn ended(mut sentence: String, most: usize) -> String {
    if sentence.len() > most {
        sentence.truncate(sentence.floor_char_boundary(most));
        sentence.push_str("...");
    }
    sentence
}

/// Returns a text on one line in which nothing moves the cursor or reverses the direction of what follows.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |char: char| !matches!(char, '"' | '\'' | '\\') && char.escape_debug().len() > 1;
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(2 * text.len());
    for char in text.chars() {
        if is_odd(char) {
            printable.extend(char.escape_debug());
        } else {
            printable.push(char);
        }
    }
    Cow::Owned(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_is_written_out() {
        assert_eq!(printable("{\"a\": 'b\\c'} \u{e9}"), "{\"a\": 'b\\c'} \u{e9}");
        let told = told(format!("queue {}\n", "x".repeat(10_000)));
        assert!(told.len() < 5000 && told.ends_with("x..."), "{told}");
        let told = told_with("x".repeat(10_000), "wait\n".to_owned());
        assert!(told.len() < 5000 && told.ends_with(r"x...; wait\n"), "{told}");
        assert_eq!(printable("a\nb\u{9b}1m\u{202e}"), r"a\nb\u{9b}1m\u{202e}");
    }

    #[test]
    fn every_annotation_that_is_read_has_a_bound() {
        for (key, most) in ANNOTATIONS {
            assert_eq!(annotation_length(key), most, "{key}");
        }
        assert_eq!(annotation_length("volcano.sh/card.nam"), 0);
        assert_eq!(annotation_length(""), 0);
    }

    #[test]
    fn messages_repeat_only_the_beginning_of_a_text() {
        assert_eq!(excerpt("short"), "short");
        let long = "é".repeat(5000);
        let cut = excerpt(&long);
        assert!(cut.len() <= EXCERPT + 3 && cut.ends_with("é..."), "{cut}");
        let error = BoundError::length(&long, 8, "shorten it").unwrap_err().to_string();
        assert!(
            error.ends_with("has 10000 bytes, and 8 are allowed: shorten it") && error.len() < 200,
            "{error}"
        );
    }
}
