//! Queues as bars, and one queue with what waits in it.

use crds::card_usage::CardUsageStatus;
use maud::{Markup, html};

use super::bars::{Part, bar};
use crate::queue::in_one_line;
use crate::subject::typed;
use crate::top::state::{QueueRow, State};

/// Returns all queues, card by card.
pub fn show(state: &State) -> Markup {
    html! {
        @if state.queues.is_empty() {
            p data-part="none" { "No queue may have cards yet: the annotation volcano.sh/card.quota of a Queue says which." }
        } @else {
            (legend())
            (table(state.queues.iter(), true))
        }
        (super::unseen(state))
    }
}

/// Returns one queue: its cards, and what waits, the next to go first.
pub fn show_one(state: &State, name: &str, status: Option<&CardUsageStatus>) -> Markup {
    html! {
        h2 { "Queue " (name) }
        (legend())
        (table(state.queues.iter().filter(|queue| queue.queue == name), false))
        @if let Some(status) = status {
            @for condition in status.conditions.iter().filter(|condition| condition.status == "False") {
                p.note data-part={ "condition " (condition.type_) } { (condition.reason) ": " (condition.message) }
            }
            div data-part="waiting" {
                @if status.first_waiting.is_empty() {
                    p { (status.none_waiting()) }
                } @else {
                    h3 { (status.title_of_waiting()) }
                    table {
                        thead {
                            tr {
                                th scope="col" { "Place" }
                                th scope="col" { "What" }
                                th.amount scope="col" { "Pods" }
                                th scope="col" { "Cards" }
                                th scope="col" { "Why" }
                            }
                        }
                        tbody {
                            @for waiting in &status.first_waiting {
                                @let (namespace, name) = waiting.name.split_once('/').unwrap_or(("", &waiting.name));
                                @let what = format!("{}/{name}", typed(&waiting.kind));
                                tr {
                                    td { (waiting.position) }
                                    td {
                                        a id={ "waits-" (waiting.kind) "-" (waiting.name) }
                                            href={ "why?namespace=" (namespace) "&what=" (what) } { (waiting.kind) " " (waiting.name) }
                                    }
                                    td.amount { (waiting.pods) }
                                    td { (in_one_line(&waiting.cards)) }
                                    td { (waiting.reason) @if !waiting.missing.is_empty() { ": " (waiting.missing) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        (super::unseen(state))
    }
}

fn legend() -> Markup {
    html! {
        ul.legend {
            li { span.key.held aria-hidden="true" {} "held" }
            li { span.key.borrowed aria-hidden="true" {} "borrowed: beyond what it deserves" }
            li { span.key.guarantee aria-hidden="true" {} "guaranteed" }
            li { span.key.deserved aria-hidden="true" {} "deserved" }
            li { span.key.quota aria-hidden="true" {} "quota" }
        }
    }
}

fn table<'q>(queues: impl Iterator<Item = &'q QueueRow>, links: bool) -> Markup {
    html! {
        table.queues {
            thead {
                tr {
                    @for title in ["Queue", "Card", "Use"] { th scope="col" { (title) } }
                    @for title in ["Held", "Waiting", "Guaranteed", "Deserved", "Quota"] { th.amount scope="col" { (title) } }
                }
            }
            tbody {
                @for queue in queues {
                    tr data-part={ "queue " (queue.queue) " " (queue.card) } {
                        td {
                            @if links {
                                a id={ "queue-" (queue.queue) "-" (queue.card) } href={ "queue?name=" (queue.queue) } { (queue.queue) }
                            } @else {
                                (queue.queue)
                            }
                        }
                        td { (queue.card) }
                        td.use { (of_queue(queue)) }
                        @for amount in [queue.used, queue.waiting, Some(queue.guaranteed), queue.deserved, queue.quota] {
                            td.amount { @if let Some(amount) = amount { (amount) } @else { "–" } }
                        }
                    }
                }
            }
        }
    }
}

fn of_queue(queue: &QueueRow) -> Markup {
    let (used, borrowed) = (queue.used.unwrap_or(0), queue.borrowed.unwrap_or(0));
    let parts = [
        Part {
            amount: used - borrowed,
            class: "held",
        },
        Part {
            amount: borrowed,
            class: "borrowed",
        },
    ];
    let (deserved, quota) = (queue.deserved.unwrap_or(0), queue.quota.unwrap_or(0));
    let marks = [
        (queue.guaranteed, "guarantee"),
        (deserved, "deserved"),
        (quota, "quota"),
    ];
    let marks: Vec<_> = marks.into_iter().filter(|(amount, _)| *amount > 0).collect();
    let whole = used.max(quota).max(deserved).max(queue.guaranteed);
    let held = match (queue.used, queue.borrowed) {
        (Some(used), Some(borrowed)) => format!("{used} held, of which {borrowed} borrowed"),
        (Some(used), None) => format!("{used} held"),
        (None, _) => "what is held is not shown".to_owned(),
    };
    let named = |amount: Option<i64>| amount.map_or_else(|| "not named".to_owned(), |amount| amount.to_string());
    let text = format!(
        "{} of {}: {held}; guaranteed {}, deserved {}, quota {}",
        queue.queue,
        queue.card,
        queue.guaranteed,
        named(queue.deserved),
        named(queue.quota)
    );
    bar(&parts, &marks, whole, &text)
}
