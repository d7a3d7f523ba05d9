//! What a request asks for, read from its path, query and headers.

use std::collections::BTreeMap;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;

use crate::objects::{RESOURCES, Resource};

/// What is to be done.
#[expect(missing_docs, reason = "they are named as the API's own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Replace,
    Patch,
    Delete,
}

impl Verb {
    /// Whether the verb changes something.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// The kind of a patch.
#[expect(missing_docs, reason = "they are named as the API's own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// A request whose path is valid.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What is to be done.
    pub verb: Verb,
    /// The kind of object.
    pub resource: &'static Resource,
    /// The namespace; empty for all namespaces, or for objects without one.
    pub namespace: String,
    /// The object's name; empty for all.
    pub name: String,
    /// The subresource; empty for the whole object.
    pub subresource: String,
    /// The query.
    pub query: BTreeMap<String, String>,
    /// Whether the answer has only the metadata.
    pub only_metadata: bool,
    /// The kind of the patch.
    pub patch: PatchKind,
    /// The body.
    pub body: Vec<u8>,
}

impl Asked {
    /// Reads a request; `None` if no API serves its path.
    pub fn read(parts: &Parts, body: Vec<u8>) -> Option<Self> {
        let query: BTreeMap<_, _> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(pair)
            .collect();
        let tokens: Vec<_> = parts.uri.path().split('/').filter(|token| !token.is_empty()).collect();
        let (group, version, rest) = match tokens.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let plural = *rest.first()?;
        let is_it = |of: &&&Resource| (of.group, of.version, of.plural) == (group, version, plural);
        let resource = *RESOURCES.iter().find(is_it)?;
        let at = |index: usize| rest.get(index).map(|token| decode(token)).unwrap_or_default();
        let (name, subresource) = (at(1), at(2));
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let verb = match (&parts.method, name.is_empty()) {
            (&Method::GET, true) if query.get("watch").is_some_and(|watch| watch == "true") => Verb::Watch,
            (&Method::GET, true) => Verb::List,
            (&Method::GET, false) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Replace,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, _) => Verb::Delete,
            _ => return None,
        };
        Some(Self {
            verb,
            resource,
            namespace: decode(namespace),
            name,
            subresource,
            only_metadata: header(ACCEPT).contains("as=PartialObjectMetadata"),
            patch: match header(CONTENT_TYPE) {
                "application/json-patch+json" => PatchKind::Json,
                "application/strategic-merge-patch+json" => PatchKind::Strategic,
                "application/apply-patch+yaml" => PatchKind::Apply,
                _ => PatchKind::Merge,
            },
            query,
            body,
        })
    }

    /// Returns a value of the query; empty if it is absent.
    pub fn query(&self, key: &str) -> &str {
        self.query.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Returns a number of the query.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.query.get(key)?.parse().ok()
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        !self.query("dryRun").is_empty()
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    Some((decode(key), decode(value)))
}

/// Replaces percent signs and plus signs by what they stand for.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                let hex = std::str::from_utf8(&digits).ok();
                hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or_default()
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> Option<Asked> {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        Asked::read(&request.into_parts().0, Vec::new())
    }

    #[test]
    fn paths_are_read_as_the_api_has_them() {
        let asked = read(
            "GET",
            "/api/v1/pods?&fieldSelector=status.phase%21%3DSucceeded&watch=true",
        )
        .unwrap();
        assert_eq!((asked.verb, asked.resource.plural), (Verb::Watch, "pods"));
        assert_eq!(asked.query("fieldSelector"), "status.phase!=Succeeded");
        let asked = read("PATCH", "/apis/batch/v1/namespaces/a/jobs/j/status?").unwrap();
        assert_eq!(
            (&*asked.namespace, &*asked.name, &*asked.subresource),
            ("a", "j", "status")
        );
        let asked = read("GET", "/api/v1/namespaces/a").unwrap();
        assert_eq!(
            (asked.verb, asked.resource.plural, &*asked.name),
            (Verb::Get, "namespaces", "a")
        );
        assert!(read("GET", "/apis/unknown/v1/things").is_none());
    }
}
