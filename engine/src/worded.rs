//! Enums of which each has its word and its meaning: what conditions, events, metrics and documents say.

/// Declares such an enum. What stands before each as its comment is its meaning.
macro_rules! worded {
    ($(#[$attribute:meta])+ pub enum $name:ident { $($(#[doc = $meaning:literal])+ $each:ident = $word:literal,)+ }) => {
        $(#[$attribute])+
        pub enum $name {
            $($(#[doc = $meaning])+ $each,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$each),+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$each => $word,)+
                }
            }

            /// What it means, for documents.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$each => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

pub(crate) use worded;
