//! Enums whose variants each have a word and a meaning, for conditions, events, metrics and documents.

/// Declares such an enum. The doc comment of each variant is its meaning.
macro_rules! worded {
    ($(#[$attribute:meta])+ pub enum $name:ident { $($(#[doc = $meaning:literal])+ $each:ident = $word:literal,)+ }) => {
        $(#[$attribute])+
        pub enum $name {
            $($(#[doc = $meaning])+ $each,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$each),+];

            /// Returns the word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$each => $word,)+
                }
            }

            /// Returns what it means, for documents.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$each => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

pub(crate) use worded;
