//! The live view: the same on a terminal, redrawn as it changes. Only cells that differ are drawn, so nothing flickers.

use std::io;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::bar::{self, Part};
use super::state::State;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::number_or_dash;
use crate::terminal::safe_line;

/// How often the cluster is asked.
const REFRESH: Duration = Duration::from_secs(2);
/// The narrowest and the widest bar.
const WIDTHS: (usize, usize) = (10, 60);
/// The width of the numbers behind a bar.
const NUMBERS: usize = 44;
/// The longest name that is shown whole.
const LONGEST: usize = 32;
/// The keys that move the view, and the key that ends it.
const KEYS: &str = "q leaves, arrows and page keys move";

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Leave,
    /// Move down, or up, by so many lines.
    Move(i32),
    Draw,
}

/// Shows the state until the user leaves. Whatever happens, the terminal is restored.
pub async fn show(cluster: &Cluster, state: State) -> Result<(), Failure> {
    let wrong = |error: &io::Error| Failure::Unprintable(error.to_string());
    let mut terminal = ratatui::try_init().map_err(|error| wrong(&error))?;
    let shown = watch(&mut terminal, cluster, state).await;
    ratatui::restore();
    shown.map_err(|error| wrong(&error))
}

async fn watch(terminal: &mut DefaultTerminal, cluster: &Cluster, state: State) -> io::Result<()> {
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let read = async || {
        ticks.tick().await;
        State::read(cluster).await
    };
    let draw = |state: &State, top: &mut u16, said: &str| draw(terminal, state, top, said);
    follow(wishes(), state, read, draw).await
}

/// Reads and draws again and again, until the user leaves.
async fn follow(
    mut wishes: mpsc::Receiver<Wish>,
    mut state: State,
    mut read: impl AsyncFnMut() -> Result<State, Failure>,
    mut draw: impl FnMut(&State, &mut u16, &str) -> io::Result<()>,
) -> io::Result<()> {
    let (mut top, mut said) = (0_u16, String::new());
    loop {
        // The reading goes on whatever keys the user presses. Begun anew with each key, it would not end while keys are
        // pressed.
        let mut reading = pin!(read());
        let read = loop {
            draw(&state, &mut top, &said)?;
            tokio::select! {
                wish = wishes.recv() => match wish {
                    None | Some(Wish::Leave) => return Ok(()),
                    Some(Wish::Move(lines)) => top = top.saturating_add_signed(i16::try_from(lines).unwrap_or(0)),
                    Some(Wish::Draw) => {}
                },
                read = &mut reading => break read,
            }
        };
        match read {
            Ok(read) => (state, said) = (read, String::new()),
            // What is shown stays while the cluster can't be asked.
            Err(failure) => said = format!("{}: {failure}", Timestamp::now().strftime("%H:%M:%SZ")),
        }
    }
}

/// Returns what the user wishes. A thread of its own waits for keys, and ends with the program.
fn wishes() -> mpsc::Receiver<Wish> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Some(wish) = wish(&event)
                && sender.blocking_send(wish).is_err()
            {
                return;
            }
        }
    });
    receiver
}

fn wish(event: &Event) -> Option<Wish> {
    let Event::Key(KeyEvent {
        code, modifiers, kind, ..
    }) = event
    else {
        return matches!(event, Event::Resize(..)).then_some(Wish::Draw);
    };
    if *kind == KeyEventKind::Release {
        return None;
    }
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Leave),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Leave),
        KeyCode::Down | KeyCode::Char('j') => Some(Wish::Move(1)),
        KeyCode::Up | KeyCode::Char('k') => Some(Wish::Move(-1)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Wish::Move(10)),
        KeyCode::PageUp => Some(Wish::Move(-10)),
        KeyCode::Home => Some(Wish::Move(i32::from(i16::MIN))),
        KeyCode::End => Some(Wish::Move(i32::from(i16::MAX))),
        _ => None,
    }
}

fn draw(terminal: &mut DefaultTerminal, state: &State, top: &mut u16, said: &str) -> io::Result<()> {
    terminal.draw(|frame| {
        let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
        let lines = lines(state, usize::from(body.width));
        let last = u16::try_from(lines.len())
            .unwrap_or(u16::MAX)
            .saturating_sub(body.height);
        *top = (*top).min(last);
        frame.render_widget(Paragraph::new(lines).scroll((*top, 0)), body);
        let foot_line = if said.is_empty() {
            Line::from(KEYS).style(Style::new().add_modifier(Modifier::DIM))
        } else {
            Line::from(safe_line(said).into_owned()).style(Style::new().fg(Color::Red))
        };
        frame.render_widget(foot_line, foot);
    })?;
    Ok(())
}

/// Returns all lines, for a terminal of this width.
fn lines(state: &State, width: usize) -> Vec<Line<'static>> {
    let cards = state.cards.iter().map(|card| card.card.clone());
    let queues = state
        .queues
        .iter()
        .map(|queue| format!("{}  {}", queue.queue, queue.card));
    let nodes = state
        .nodes
        .iter()
        .flatten()
        .map(|node| format!("{}  {}", node.node, node.card));
    let names: Vec<String> = cards
        .chain(queues)
        .chain(nodes)
        .map(|name| safe_line(&name).into_owned())
        .collect();
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .min(LONGEST);
    let room = width.saturating_sub(longest + NUMBERS).clamp(WIDTHS.0, WIDTHS.1);
    let mut names = names.into_iter();
    let mut row = |parts: Vec<Part>, numbers: String| {
        let name: String = names.next().unwrap_or_default().chars().take(longest).collect();
        let mut spans = vec![Span::raw(format!("{name:longest$}  "))];
        let drawn = parts.len();
        spans.extend(parts.chunk_by(|a, b| a == b).map(|run| drawn_run(run[0], run.len())));
        spans.push(Span::raw(format!("{:1$}  {numbers}", "", room.saturating_sub(drawn))));
        Line::from(spans)
    };
    let head = |text: &str, legend: &str| {
        [Line::from(vec![
            Span::styled(text.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
            Span::styled(format!("   {legend}"), Style::new().add_modifier(Modifier::DIM)),
        ])]
    };
    let mut lines = Vec::new();
    lines.extend(head("CARDS", bar::OF_CARDS));
    for card in &state.cards {
        let unaccounted = if card.unaccounted > 0 {
            format!(", {} charged to no queue", card.unaccounted)
        } else {
            String::new()
        };
        lines.push(row(
            bar::of_card(card, room),
            format!("{} of {} free{unaccounted}", card.free, card.kind.count(card.total)),
        ));
    }
    lines.push(Line::default());
    lines.extend(head("QUEUES", bar::OF_QUEUES));
    for queue in &state.queues {
        let (quota, deserved) = (number_or_dash(queue.quota), number_or_dash(queue.deserved));
        let numbers = match (queue.used, queue.waiting) {
            (Some(used), Some(waiting)) => format!("{used} of {quota}, deserves {deserved}, {waiting} waiting"),
            _ => format!("quota {quota}, deserves {deserved}"),
        };
        let parts = queue.used.map_or_else(Vec::new, |_| bar::of_queue(queue, room));
        lines.push(row(parts, numbers));
    }
    if let Some(nodes) = &state.nodes {
        lines.push(Line::default());
        lines.extend(head("NODES", bar::OF_CARDS));
        for node in nodes {
            let cordoned = if node.usable { "" } else { ", takes no pods" };
            lines.push(row(
                bar::of_node(node, room),
                format!("{} of {} used{cordoned}", node.used, node.total),
            ));
        }
    }
    for unseen in &state.unseen {
        lines.push(Line::default());
        lines.push(Line::from(format!("not shown: {}", safe_line(unseen))));
    }
    lines
}

/// Draws a part of a bar. Colour repeats what the character says.
fn drawn_run(part: Part, length: usize) -> Span<'static> {
    let colour = match part {
        Part::Used => Color::Green,
        Part::Borrowed => Color::Yellow,
        Part::Unaccounted => Color::Red,
        Part::Guaranteed | Part::Deserved => Color::Cyan,
        Part::Free | Part::Unusable => Color::DarkGray,
    };
    Span::styled(part.character().to_string().repeat(length), Style::new().fg(colour))
}

#[cfg(test)]
mod tests {
    use crds::card_type::CardKind;
    use ratatui::crossterm::event::KeyEvent;
    use tokio::sync::Notify;

    use super::super::state::{CardRow, NodeRow, QueueRow};
    use super::*;

    fn state() -> State {
        State {
            cards: vec![CardRow {
                card: "A100\u{1b}[2J".to_owned(),
                kind: CardKind::Whole,
                total: 8,
                charged: 4,
                unaccounted: 1,
                free: 3,
                unusable: 0,
            }],
            queues: vec![QueueRow {
                queue: "team-a".to_owned(),
                card: "A100".to_owned(),
                guaranteed: 0,
                deserved: Some(2),
                quota: Some(4),
                used: Some(4),
                borrowed: Some(2),
                waiting: Some(1),
                own: None,
            }],
            nodes: Some(vec![NodeRow {
                node: "gpu-1".to_owned(),
                card: "A100".to_owned(),
                total: 8,
                used: 5,
                free: 0,
                usable: false,
            }]),
            unseen: vec!["something".to_owned()],
        }
    }

    fn text(line: &Line<'_>) -> String {
        line.spans.iter().map(|span| &*span.content).collect()
    }

    #[test]
    fn every_card_queue_and_node_has_its_bar_and_no_name_commands_the_terminal() {
        let lines: Vec<String> = lines(&state(), 80).iter().map(text).collect();
        let line = |start: &str| lines.iter().find(|line| line.starts_with(start)).unwrap().clone();
        assert!(
            line("A100\\u{1b}[2J").contains("3 of 8 free, 1 charged to no queue"),
            "{lines:?}"
        );
        assert!(line("team-a  A100").contains("++"), "{lines:?}");
        assert!(line("gpu-1  A100").ends_with("5 of 8 used, takes no pods"), "{lines:?}");
        assert!(line("not shown: something").contains("something"));
        assert!(!lines.concat().contains('\u{1b}'));
    }

    #[test]
    fn a_narrow_terminal_has_bars_too() {
        for width in [0, 1, 20, 300] {
            let lines = lines(&state(), width);
            assert!(text(&lines[1]).contains('#'), "{width}: {lines:?}");
        }
    }

    #[test]
    fn q_and_control_c_leave() {
        let key = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Leave));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Leave));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Down, KeyModifiers::NONE), Some(Wish::Move(1)));
        assert_eq!(wish(&Event::Resize(1, 1)), Some(Wish::Draw));
    }

    #[tokio::test]
    async fn whoever_moves_the_view_sees_what_is_read_meanwhile() {
        let (keys, wishes) = mpsc::channel(16);
        let (answered, mut begun, mut drawn) = (Notify::new(), 0, 0);
        let read = async || {
            begun += 1;
            answered.notified().await;
            let unseen = vec!["new".to_owned()];
            Ok(State { unseen, ..state() })
        };
        let draw = |state: &State, _: &mut u16, _: &str| {
            drawn += 1;
            // The API server answers only after some keys were pressed.
            if drawn == 8 {
                answered.notify_one();
            }
            let is_over = state.unseen == ["new"] || drawn > 50;
            let wish = if is_over { Wish::Leave } else { Wish::Move(1) };
            keys.try_send(wish).map_err(io::Error::other)
        };
        follow(wishes, state(), read, draw).await.unwrap();
        // Another reading may begin once the first is answered.
        assert!((8..50).contains(&drawn), "drawn {drawn} times");
        assert!(begun <= 2, "read {begun} times: each key gave up what was under way");
    }
}
