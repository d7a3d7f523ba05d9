//! `kubectl card top`: what is used of each card, queue and node, as bars; live on a terminal.

mod bar;
mod live;
pub mod state;

use std::io::{self, IsTerminal as _};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::{Answer, DASH, number_or_dash};
use crate::types;
use bar::Part;
use state::State;

/// The width of a bar in a table.
const WIDTH: usize = 20;

/// Shows the state of this moment or, with `watch`, the live view until the user leaves.
pub async fn answer(cluster: &Cluster, watch: bool) -> Result<Answer, Failure> {
    let state = State::read(cluster).await?;
    if watch && io::stdout().is_terminal() {
        live::show(cluster, state).await?;
        return Ok(Answer::default());
    }
    let mut answer = printed(&state)?;
    if watch {
        answer.notes.push("this is no terminal, so it is shown once".to_owned());
    }
    Ok(answer)
}

fn printed(state: &State) -> Result<Answer, Failure> {
    let mut answer = Answer::new(state).map_err(|error| Failure::unprintable(&error))?;
    let cards: Vec<_> = state
        .cards
        .iter()
        .map(|card| {
            [
                card.card.clone(),
                text(&bar::of_card(card, WIDTH)),
                card.free.to_string(),
                card.total.to_string(),
                card.unaccounted.to_string(),
                card.charged.to_string(),
                card.unusable.to_string(),
            ]
        })
        .collect();
    answer.table(
        ["CARD", "USE", "FREE", "TOTAL", "UNACCOUNTED", "CHARGED", "UNUSABLE"],
        2,
        &cards,
    );
    let units = types::units(state.cards.iter().map(|card| (card.card.as_str(), card.kind)));
    let units = units.map_or_else(String::new, |units| format!("({units})\n"));
    answer.line(&format!("({})\n{units}", bar::OF_CARDS));
    let queues: Vec<_> = state
        .queues
        .iter()
        .map(|queue| {
            [
                queue.queue.clone(),
                queue.card.clone(),
                queue
                    .used
                    .map_or_else(|| DASH.to_owned(), |_| text(&bar::of_queue(queue, WIDTH))),
                number_or_dash(queue.used),
                number_or_dash(queue.borrowed),
                queue.guaranteed.to_string(),
                number_or_dash(queue.deserved),
                number_or_dash(queue.quota),
                number_or_dash(queue.waiting),
            ]
        })
        .collect();
    let head = [
        "QUEUE",
        "CARD",
        "USE",
        "USED",
        "BORROWED",
        "GUARANTEED",
        "DESERVED",
        "QUOTA",
        "WAITING",
    ];
    answer.table(head, 0, &queues);
    answer.line(&format!("({})", bar::OF_QUEUES));
    if let Some(nodes) = &state.nodes {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| {
                [
                    node.node.clone(),
                    node.card.clone(),
                    text(&bar::of_node(node, WIDTH)),
                    node.used.to_string(),
                    node.free.to_string(),
                    node.total.to_string(),
                ]
            })
            .collect();
        answer.line("");
        answer.table(["NODE", "CARD", "USE", "USED", "FREE", "TOTAL"], 0, &nodes);
    }
    for unseen in &state.unseen {
        answer.line(&format!("\nnot shown: {unseen}"));
    }
    Ok(answer)
}

fn text(parts: &[Part]) -> String {
    parts.iter().map(|part| part.character()).collect()
}
