//! Bars, as pictures that need no style of their own: the browser policy of the pages allows no inline style.

use maud::{Markup, html};

/// The length of a bar, in its own unit.
const LENGTH: i64 = 1000;

/// A part of a bar.
pub struct Part<'t> {
    pub amount: i64,
    /// The CSS class of the part.
    pub class: &'t str,
}

/// Returns a bar of parts, with marks at some amounts. `text` says the same in words.
pub fn bar(parts: &[Part<'_>], marks: &[(i64, &str)], whole: i64, text: &str) -> Markup {
    let whole = i128::from(whole.max(1));
    let place = |amount: i128| amount.clamp(0, whole) * i128::from(LENGTH) / whole;
    let ends = parts.iter().scan(0i128, |end, part| {
        *end += i128::from(part.amount.max(0));
        Some(*end)
    });
    let rectangles: Vec<_> = parts
        .iter()
        .zip(ends)
        .filter(|(part, _)| part.amount > 0)
        .map(|(part, end)| {
            let from = place(end - i128::from(part.amount));
            (part.class, from, place(end) - from)
        })
        .collect();
    html! {
        svg.bar role="img" aria-label=(text) viewBox={ "0 0 " (LENGTH) " 20" } preserveAspectRatio="none" {
            title { (text) }
            rect.left x="0" y="0" width=(LENGTH) height="20" {}
            @for (class, from, length) in rectangles {
                rect class=(class) x=(from) y="0" width=(length) height="20" {}
            }
            @for (amount, class) in marks {
                @let at = place(i128::from(*amount));
                line class={ "mark " (class) } x1=(at) x2=(at) y1="0" y2="20" {}
            }
        }
    }
}

/// How many colours queues have.
const COLOURS: usize = 8;

/// Returns the CSS class of a queue. It is the same in all pictures.
pub fn of_queue(names: &[&str], queue: &str) -> String {
    let place = names.iter().position(|name| *name == queue).unwrap_or(0);
    format!("queue{}", place % COLOURS)
}
