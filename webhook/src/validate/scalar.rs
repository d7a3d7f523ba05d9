//! Text that may be written without quotes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A string, number or boolean as text.
///
/// In objects of kinds that it knows, the API server writes every quantity as a string. It passes custom resources on as
/// users wrote them, `nvidia.com/gpu: 1` included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar<'a>(Cow<'a, str>);

impl AsRef<str> for Scalar<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, number or boolean")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Owned(text.to_owned())))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Owned(number.to_string())))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Owned(number.to_string())))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Owned(number.to_string())))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Scalar(Cow::Borrowed(if value { "true" } else { "false" })))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}
