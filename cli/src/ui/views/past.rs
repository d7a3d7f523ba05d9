//! The last 24 hours: a strip, and its contents in words.

use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

use crate::history::{Entry, History, What};

/// The length of the strip, in its own unit.
const LENGTH: i64 = 1440;
/// How many entries are drawn on the strip; the newest are. Tenants write as many events as they like, and a browser draws each.
const MOST_DRAWN: usize = 2000;
/// How many entries are listed; the newest are.
const MOST_LISTED: usize = 200;

/// Shows what happened in a namespace.
pub fn show(history: &History, now: Timestamp, namespace: &str) -> Markup {
    let young = history.entries.iter().rev();
    html! {
        form action="history" method="get" {
            label for="namespace" { "Namespace, whose pods and queues it tells of" }
            input #namespace name="namespace" value=(namespace) autocomplete="off" spellcheck="false";
            button { "Show" }
        }
        p { "The same in a terminal: " code { "kubectl card history -n " (namespace) } }
        div data-part="strip" {
            svg.strip role="img" aria-label={ (history.entries.len()) " events; the newest are listed below" } viewBox={ "0 0 " (LENGTH) " 40" }
                preserveAspectRatio="none" {
                rect.left x="0" y="0" width=(LENGTH) height="40" {}
                @for entry in young.clone().take(MOST_DRAWN) {
                    @let at = place(entry, history.since, now);
                    line class=(class(entry.what)) x1=(at) x2=(at) y1="4" y2="36" { title { (words(entry)) } }
                }
            }
            ul.legend {
                @for what in [What::Admitted, What::Enqueued, What::Evicted, What::Queue] {
                    li { span class={ "key " (class(what)) } aria-hidden="true" {} (name(what)) }
                }
            }
        }
        div data-part="entries" {
            @if history.entries.is_empty() {
                p { "Nothing is known to have happened." }
            } @else {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Name" } th scope="col" { "By or for" } th scope="col" { "How" } } }
                    tbody {
                        @for entry in young.take(MOST_LISTED) {
                            tr {
                                td { time datetime=(entry.time) { (format!("{:.0}", entry.time)) } }
                                td { (name(entry.what)) }
                                td { (entry.name) }
                                td { @if let Some(by) = &entry.by { (by) } }
                                td { (entry.details) }
                            }
                        }
                    }
                }
            }
            @if history.entries.len() > MOST_LISTED {
                p.note {
                    "Of " (history.entries.len()) " entries, the newest " (MOST_LISTED) " are listed and the newest " (MOST_DRAWN)
                    " drawn: the command above prints all."
                }
            }
            @for note in &history.unknown { p.note { (note) } }
        }
    }
}

/// Returns where on the strip an entry is.
fn place(entry: &Entry, since: Timestamp, now: Timestamp) -> i64 {
    let whole = now.duration_since(since).as_secs().max(1);
    let at = entry.time.duration_since(since).as_secs().clamp(0, whole);
    at * LENGTH / whole
}

fn words(entry: &Entry) -> String {
    format!(
        "{:.0} {} {}: {}",
        entry.time,
        name(entry.what),
        entry.name,
        entry.details
    )
}

fn name(what: What) -> &'static str {
    match what {
        What::Admitted => "let in",
        What::Enqueued => "Job taken",
        What::Evicted => "evicted",
        What::Queue => "queue written",
    }
}

fn class(what: What) -> &'static str {
    match what {
        What::Admitted => "admitted",
        What::Enqueued => "enqueued",
        What::Evicted => "evicted",
        What::Queue => "written",
    }
}
