//! YAML values that know their place in the document, so that every refusal can name it.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use serde_saphyr::options::{AliasLimits, NonFiniteFloatPolicy};
use serde_saphyr::{SnippetMode, UserMessageFormatter};

use super::ConfigurationError;
use crate::bounds::{printable, shown};

/// Longer values are cut in messages. Messages end in events, which hold 1 kB.
const MAX_SHOWN: usize = 100;
/// How many values aliases may repeat.
const MAX_REPLAYED: usize = 10_000;

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Field {
    file: &'static str,
    path: String,
    value: Value,
}

/// A mapping, whose entries are taken one by one. The entries left over are unknown.
#[derive(Debug, Clone)]
pub(super) struct Section {
    file: &'static str,
    path: String,
    entries: Map<String, Value>,
}

/// Reads a whole document, which must be a mapping. Empty text, comments and `null` are an empty mapping.
pub(super) fn document(file: &'static str, text: &str) -> Result<Section, ConfigurationError> {
    let options = serde_saphyr::options! {
        // As text, these numbers reach the check that names their key.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        alias_limits: alias_limits(),
    };
    let value = serde_saphyr::from_str_with_options(text, options).map_err(|error| ConfigurationError::Syntax {
        file,
        reason: describe(&error),
    })?;
    let whole = Field {
        file,
        path: String::new(),
        value,
    };
    Ok(whole.section("settings as `key: value`")?.unwrap_or(Section {
        file,
        path: String::new(),
        entries: Map::new(),
    }))
}

/// A few lines with aliases of aliases may expand to gigabytes.
fn alias_limits() -> AliasLimits {
    let mut limits = AliasLimits::default();
    limits.max_total_replayed_events = MAX_REPLAYED;
    limits
}

fn describe(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::MultipleDocuments { .. } => "write one document, without a second `---`".to_owned(),
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            let key = key.as_deref().map_or_else(|| "a key".to_owned(), shown);
            format!("line {}: {key} stands there twice: keep one of them", location.line())
        }
        other => {
            let options = serde_saphyr::render_options! {
                formatter: &UserMessageFormatter,
                snippets: SnippetMode::Off,
            };
            printable(&other.render_with_options(options)).into_owned()
        }
    }
}

impl Section {
    /// Removes and returns an entry. An entry without a value (`key:`) counts as absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Field> {
        let value = self.entries.remove(key).filter(|value| !value.is_null())?;
        Some(Field {
            file: self.file,
            path: self.path_of(key),
            value,
        })
    }

    /// Returns the place of an entry.
    pub(super) fn path_of(&self, key: &str) -> String {
        path_of(&self.path, key)
    }

    /// Returns the keys that were not taken, by name.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Takes over the entries of `other`. Where both have an entry, this mapping's counts, with a warning if they differ.
    pub(super) fn absorb(&mut self, other: Self, warnings: &mut Vec<String>) {
        for (key, value) in other.entries {
            match self.entries.get(&key) {
                Some(own) if is_same(own, &value) => {}
                Some(own) => warnings.push(format!(
                    "{}: {} is {}, and {} is {}: the former counts, keep one of them",
                    self.file,
                    self.path_of(&key),
                    shown(&own.to_string()),
                    path_of(&other.path, &key),
                    shown(&value.to_string()),
                )),
                None => {
                    self.entries.insert(key, value);
                }
            }
        }
    }

    /// Returns an empty mapping at the place of an entry of this one.
    pub(super) fn empty_child(&self, key: &str) -> Self {
        Self {
            file: self.file,
            path: self.path_of(key),
            entries: Map::new(),
        }
    }

    /// Returns the entries that were not taken, by name.
    pub(super) fn fields(self) -> Vec<(String, Field)> {
        let (file, path) = (self.file, self.path);
        let field = |(key, value): (String, Value)| {
            let path = path_of(&path, &key);
            (key, Field { file, path, value })
        };
        self.entries.into_iter().map(field).collect()
    }

    /// Returns a warning about an entry.
    pub(super) fn warning(&self, key: &str, text: &str) -> String {
        format!("{}: {} {text}", self.file, self.path_of(key))
    }

    /// Warns about every entry that was not taken; `of` says what such entries would belong to.
    pub(super) fn warn_unknown(&self, of: &str, known: &[&str], warnings: &mut Vec<String>) {
        let known = known.join(", ");
        warnings.extend(self.keys().map(|key| {
            let (file, path) = (self.file, self.path_of(key));
            format!("{file}: {path} is unknown and has no effect: {of} are {known}")
        }));
    }
}

fn path_of(section: &str, key: &str) -> String {
    let key = shown(key);
    match section {
        "" => key,
        path => format!("{path}.{key}"),
    }
}

/// Whether two values mean the same; booleans match in upper or lower case.
fn is_same(one: &Value, other: &Value) -> bool {
    let (one, other) = (text_of(one), text_of(other));
    let is_boolean = ["true", "false"].iter().any(|word| one.eq_ignore_ascii_case(word));
    one == other || is_boolean && one.eq_ignore_ascii_case(&other)
}

/// Returns a value as text, quoted or bare.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

impl Field {
    /// Returns the value's place.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the refusal of this value.
    pub(super) fn refuse(&self, expected: &'static str) -> ConfigurationError {
        self.refuse_as(self.value.to_string(), expected)
    }

    /// Returns the refusal of this value because of a part of its text.
    pub(super) fn refuse_part(&self, part: &str, expected: &'static str) -> ConfigurationError {
        self.refuse_as(format!("{part:?}"), expected)
    }

    fn refuse_as(&self, mut found: String, expected: &'static str) -> ConfigurationError {
        if let Some((cut, _)) = found.char_indices().nth(MAX_SHOWN) {
            found.truncate(cut);
            found.push_str("...");
        }
        let found = printable(&found).into_owned();
        let path = match self.path.as_str() {
            "" => "the document",
            path => path,
        };
        ConfigurationError::Value {
            file: self.file,
            path: path.to_owned(),
            found,
            expected,
        }
    }

    /// Returns the value as a mapping; `None` for `null`.
    pub(super) fn section(self, expected: &'static str) -> Result<Option<Section>, ConfigurationError> {
        match self.value {
            Value::Null => Ok(None),
            Value::Object(entries) => Ok(Some(Section {
                file: self.file,
                path: self.path,
                entries,
            })),
            _ => Err(self.refuse(expected)),
        }
    }

    /// Returns the elements of a list; none for `null`.
    pub(super) fn list(self, expected: &'static str) -> Result<Vec<Self>, ConfigurationError> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(values) => Ok(values
                .into_iter()
                .enumerate()
                .map(|(index, value)| Self {
                    file: self.file,
                    path: format!("{}[{index}]", self.path),
                    value,
                })
                .collect()),
            _ => Err(self.refuse(expected)),
        }
    }

    /// Returns text, without the white space around it.
    pub(super) fn text(&self, expected: &'static str) -> Result<&str, ConfigurationError> {
        match &self.value {
            Value::String(text) => Ok(text.trim()),
            _ => Err(self.refuse(expected)),
        }
    }

    /// Returns the value that the text names. `is_name` compares the two, since not every key makes a difference between upper
    /// and lower case.
    pub(super) fn one_of<T, const N: usize>(
        &self,
        named: [(&str, T); N],
        is_name: fn(&str, &str) -> bool,
        expected: &'static str,
    ) -> Result<T, ConfigurationError> {
        let text = self.text(expected)?;
        let found = named.into_iter().find(|(name, _)| is_name(text, name));
        found.map(|(_, value)| value).ok_or_else(|| self.refuse(expected))
    }

    /// Returns text or a number, as text.
    pub(super) fn scalar(&self, expected: &'static str) -> Result<String, ConfigurationError> {
        match &self.value {
            Value::Number(number) => Ok(number.to_string()),
            _ => self.text(expected).map(str::to_owned),
        }
    }

    /// Returns texts separated by commas, or a list of them; none of the texts is empty.
    pub(super) fn texts(&self, expected: &'static str) -> Result<Vec<String>, ConfigurationError> {
        let texts: Vec<_> = match &self.value {
            Value::String(text) => text.split(',').map(|text| text.trim().to_owned()).collect(),
            Value::Array(values) => {
                let texts = values
                    .iter()
                    .map(|value| value.as_str().map(|text| text.trim().to_owned()));
                texts.collect::<Option<_>>().ok_or_else(|| self.refuse(expected))?
            }
            _ => return Err(self.refuse(expected)),
        };
        if texts.is_empty() || texts.iter().any(String::is_empty) {
            return Err(self.refuse(expected));
        }
        Ok(texts)
    }

    /// Returns `true` or `false`, quoted or bare.
    pub(super) fn boolean(&self) -> Result<bool, ConfigurationError> {
        match &self.value {
            Value::Bool(value) => Ok(*value),
            Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Ok(true),
            Value::String(text) if text.trim().eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.refuse("true or false")),
        }
    }

    /// Returns a whole number within a range, quoted or bare.
    pub(super) fn integer<T>(&self, range: RangeInclusive<T>, expected: &'static str) -> Result<T, ConfigurationError>
    where
        T: TryFrom<i64> + PartialOrd,
    {
        let number = match &self.value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .and_then(|number: i64| T::try_from(number).ok())
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.refuse(expected))
    }

    /// Returns a positive, finite number, quoted or bare.
    pub(super) fn positive_number(&self) -> Result<f64, ConfigurationError> {
        let number = match &self.value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .filter(|number: &f64| number.is_finite() && *number > 0.0)
            .ok_or_else(|| self.refuse("a positive number, such as 1.0"))
    }
}
