//! The owner that made a pod.

use std::sync::Arc;

/// The longest name that objects have, in bytes.
pub(super) const LONGEST_NAME: usize = 253;

/// The owner that made a pod and will make another in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller(pub Arc<str>);

impl Controller {
    /// The longest kind and the longest name that objects have, in bytes.
    const LONGEST: (usize, usize) = (63, LONGEST_NAME);

    /// Returns the owner of this kind and name. Where a kind or name is longer than any object's, only that it is longer
    /// is kept, and not by how much.
    pub(crate) fn new(namespace: &str, kind: &str, name: &str) -> Self {
        let (of_kind, of_name) = Self::LONGEST;
        let (kind, name) = (cut(kind, of_kind + 1), cut(name, of_name + 1));
        Self([namespace, "/", kind, "/", name].concat().into())
    }

    /// Returns its kind and its name; none where the pod names something that no object can be called: only the pod says
    /// that such an owner exists.
    pub(crate) fn object(&self) -> Option<(&str, &str)> {
        let mut parts = self.0.splitn(3, '/').skip(1);
        let (kind, name) = (parts.next()?, parts.next()?);
        let of_kind = |char: char| char.is_ascii_alphanumeric();
        let of_name = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-.".contains(char);
        let is_kind = !kind.is_empty() && kind.len() <= Self::LONGEST.0 && kind.chars().all(of_kind);
        let is_name = !name.is_empty() && name.len() <= Self::LONGEST.1 && name.chars().all(of_name);
        (is_kind && is_name).then_some((kind, name))
    }
}

/// Returns the first `most` bytes of a text, without a part of a character at the end.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_object_can_be_called_costs_no_more_than_a_name() {
        let called = |kind: &str, name: &str| Controller::new("team", kind, name);
        let (kind, name) = ("K".repeat(63), "n".repeat(253));
        assert_eq!(called(&kind, &name).object(), Some((&*kind, &*name)));
        for (kind, name) in [("Job", "n".repeat(1 << 20)), (&*"K".repeat(1 << 20), "n".to_owned())] {
            let controller = called(kind, &name);
            assert_eq!(controller.object(), None);
            assert!(controller.0.len() < 400, "{}", controller.0.len());
        }
        assert_eq!(
            &*called("Job", &"ü".repeat(200)).0,
            format!("team/Job/{}", "ü".repeat(127))
        );
    }
}
