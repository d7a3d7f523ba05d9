//! Who made a pod.

use std::sync::Arc;

/// The owner that made a pod and will make another in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller(pub Arc<str>);

impl Controller {
    /// The longest kind and the longest name that objects have, in bytes.
    const LONGEST: (usize, usize) = (63, 253);

    /// The owner of this kind and name.
    pub(crate) fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self([namespace, "/", kind, "/", name].concat().into())
    }

    /// Its kind and its name; none where the pod names what no object can be called: nobody but the pod says that there is one.
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
