//! The frame that all pages have around their content.

use maud::{DOCTYPE, Markup, html};

use crate::failure::Failure;

/// A view, each with an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Cards,
    Nodes,
    Queues,
    History,
    Why,
}

impl View {
    const ALL: [Self; 5] = [Self::Cards, Self::Nodes, Self::Queues, Self::History, Self::Why];

    fn title(self) -> &'static str {
        match self {
            Self::Cards => "Cards",
            Self::Nodes => "Nodes",
            Self::Queues => "Queues",
            Self::History => "Last 24 hours",
            Self::Why => "Why does it wait?",
        }
    }

    /// Whether the view updates itself. An answer that the user reads stays as it was given.
    fn is_live(self) -> bool {
        self != Self::Why
    }

    /// The view's address, relative to every view.
    fn address(self) -> &'static str {
        match self {
            Self::Cards => "./",
            Self::Nodes => "nodes",
            Self::Queues => "queues",
            Self::History => "history",
            Self::Why => "why",
        }
    }
}

/// Returns a whole page. Live parts are updated one by one (`assets/live.js`).
pub fn page(view: View, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (view.title()) " · Cardgate" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="style.css";
                script src="live.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    span.name { "Cardgate" }
                    nav aria-label="Views" {
                        @for other in View::ALL {
                            a href=(other.address()) aria-current=[(other == view).then_some("page")] { (other.title()) }
                        }
                    }
                }
                main #content tabindex="-1" data-live=[view.is_live().then_some("")] {
                    h1 { (view.title()) }
                    (content)
                }
                (patterns())
                footer role="status" aria-live="polite" { span #freshness { "As of when the page was opened." } }
            }
        }
    }
}

/// The fillings of bars where a colour is not enough. Bars are stretched, and so are the fillings.
fn patterns() -> Markup {
    html! {
        svg.patterns aria-hidden="true" {
            defs {
                pattern #stripes patternUnits="userSpaceOnUse" width="24" height="20" {
                    rect.stripe-ground width="24" height="20" {}
                    path.stripe d="M0 20 L12 0 H24 L12 20 Z" {}
                }
                pattern #hatch patternUnits="userSpaceOnUse" width="16" height="20" {
                    rect.hatch-ground width="16" height="20" {}
                    path.hatch d="M0 0 L10 20 H16 L6 0 Z" {}
                }
            }
        }
    }
}

/// Shows why there is nothing to show.
pub fn failure(failure: &Failure) -> Markup {
    html! { p.failure data-part="failure" role="alert" { (failure) } }
}
