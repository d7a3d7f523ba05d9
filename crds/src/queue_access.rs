//! Who may use a queue: `card.volcano.sh/namespaces`, a label selector on namespaces.

use thiserror::Error;

use crate::label_selector::{LabelSelector, LabelSelectorError};

/// A selector that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueAccessError {
    /// Nothing but white space.
    #[error(
        "the selector is empty: remove the annotation to let every namespace use the queue, or write a selector such as team=a"
    )]
    Empty,
    /// Not a label selector as Kubernetes reads them.
    #[error("{0}")]
    Selector(#[from] LabelSelectorError),
}

/// Which namespaces may use a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueAccess(LabelSelector);

impl QueueAccess {
    /// Reads the annotation; without it every namespace may use the queue.
    pub fn parse(annotation: Option<&str>) -> Result<Self, QueueAccessError> {
        match annotation.map(LabelSelector::parse) {
            None => Ok(Self::default()),
            Some(Err(LabelSelectorError::Empty)) => Err(QueueAccessError::Empty),
            Some(selector) => Ok(Self(selector?)),
        }
    }

    /// Whether a namespace may use the queue; `label` gives the values of the namespace's labels.
    pub fn allows<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.selects(label)
    }

    /// Whether every namespace may use the queue.
    pub fn allows_all(&self) -> bool {
        self.0.selects_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_annotation_every_namespace_may_use_the_queue() {
        let access = QueueAccess::parse(None).unwrap();
        assert!(access.allows(|_| None) && access.allows_all());
    }

    #[test]
    fn an_annotation_selects_namespaces_or_is_refused() {
        let access = QueueAccess::parse(Some("team=a")).unwrap();
        assert!(access.allows(|_| Some("a")) && !access.allows(|_| Some("b")) && !access.allows_all());
        let empty = QueueAccess::parse(Some(" ")).unwrap_err().to_string();
        assert!(empty.contains("remove the annotation"), "{empty}");
        assert!(QueueAccess::parse(Some("team in (")).is_err());
    }
}
