//! Lean objects: the fields of a Kubernetes object that Cardgate reads, and no others.
//!
//! The text type is a parameter: the webhook borrows from the request's bytes ([`Text`]), the operator owns what it keeps
//! (`Box<str>`). Never serialise a lean object back: the fields that it does not know would be lost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Text that borrows from the JSON it is read from, and is copied only where the JSON escapes a character.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A JSON object of texts (labels, annotations, resource lists), in the order it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextMap<S>(Vec<(S, S)>);

impl<S> Default for TextMap<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: AsRef<str>> TextMap<S> {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Whether the map has `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the value of `key`, or adds an entry.
    pub fn insert(&mut self, key: S, value: S) {
        match self.0.iter_mut().find(|(known, _)| known.as_ref() == key.as_ref()) {
            Some((_, known)) => *known = value,
            None => self.0.push((key, value)),
        }
    }

    /// Keeps the first entries only, as many as `most`.
    pub fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
        self.0.shrink_to_fit();
    }

    /// Keeps only the entries whose key `keep` accepts.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key.as_ref()));
        self.0.shrink_to_fit();
    }
}

impl<S> FromIterator<(S, S)> for TextMap<S> {
    fn from_iter<I: IntoIterator<Item = (S, S)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<'de, S: Deserialize<'de>> Deserialize<'de> for TextMap<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextMapVisitor<S>(PhantomData<S>);
        impl<'de, S: Deserialize<'de>> Visitor<'de> for TextMapVisitor<S> {
            type Value = TextMap<S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TextMap(entries))
            }
        }
        deserializer.deserialize_map(TextMapVisitor(PhantomData))
    }
}

/// The first elements of a JSON array, as many as `MOST`; the others are skipped. Anybody may write such an object, and an
/// element of two bytes can take a hundred in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AtMost<T, const MOST: usize>(Vec<T>);

impl<T, const MOST: usize> AtMost<T, MOST> {
    /// The elements.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MOST: usize> Default for AtMost<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MOST: usize> Deref for AtMost<T, MOST> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T, const MOST: usize> DerefMut for AtMost<T, MOST> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Serialize, const MOST: usize> Serialize for AtMost<T, MOST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for AtMost<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArrayVisitor<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ArrayVisitor<T, MOST> {
            type Value = AtMost<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < MOST {
                    let Some(element) = array.next_element()? else {
                        return Ok(AtMost(first));
                    };
                    first.push(element);
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(AtMost(first))
            }
        }
        deserializer.deserialize_seq(ArrayVisitor(PhantomData))
    }
}

/// The most entries that are read of a map that users may fill up to the size of an object: far more than any useful map
/// has.
const MOST_ENTRIES: usize = 4096;

/// Reads a map that may be absent, and refuses a map with more entries than that.
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    struct Bounded<T>(BTreeMap<String, T>);

    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct EntriesVisitor<T>(PhantomData<T>);
            impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
                type Value = Bounded<T>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut entries = BTreeMap::new();
                    while let Some((key, value)) = map.next_entry()? {
                        if entries.len() == MOST_ENTRIES {
                            let error = format!("a map has more than {MOST_ENTRIES} entries: name those that matter");
                            return Err(de::Error::custom(error));
                        }
                        entries.insert(key, value);
                    }
                    Ok(Bounded(entries))
                }
            }
            deserializer.deserialize_map(EntriesVisitor(PhantomData))
        }
    }

    let read = Option::<Bounded<T>>::deserialize(deserializer)?;
    Ok(read.map(|read| read.0))
}

/// Reads `null` as the default, as Go's JSON does.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Defines a lean object: a struct over the text type `S`, every field of it optional in the JSON, `null` included.
///
/// A type or field without comment is Kubernetes' own of that name.
macro_rules! lean {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "objects and fields are named as in Kubernetes' API")]
        #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "S: serde::Deserialize<'de>"))]
        pub struct $name<S> {
            $($(#[$field_meta])* #[serde(default, deserialize_with = "crate::lean::nullable")] pub $field: $type,)*
        }

        impl<S> Default for $name<S> {
            fn default() -> Self {
                Self { $($field: Default::default(),)* }
            }
        }
    };
}

pub(crate) use lean;

lean! {
    /// What Cardgate reads of an object's metadata.
    Metadata {
        /// Name; empty while the API server has not generated it yet.
        name: Option<S>,
        /// Prefix of the name to be generated.
        generate_name: Option<S>,
        namespace: Option<S>,
        uid: Option<S>,
        /// Version of the object, from which a watch continues.
        resource_version: Option<S>,
        labels: TextMap<S>,
        annotations: TextMap<S>,
        /// Time of creation, RFC 3339.
        creation_timestamp: Option<S>,
        /// Time by which a deleted object should be gone, RFC 3339; the grace period is included.
        deletion_timestamp: Option<S>,
        /// Grace period of a deleted object, in seconds.
        deletion_grace_period_seconds: Option<i64>,
        owner_references: Vec<OwnerReference<S>>,
    }
}

lean! {
    OwnerReference {
        /// Kind of the owner, such as `DaemonSet`.
        kind: Option<S>,
        name: Option<S>,
        /// Tells the owner from an earlier object of the same name.
        uid: Option<S>,
        /// Whether the owner is the managing controller.
        controller: Option<bool>,
    }
}
