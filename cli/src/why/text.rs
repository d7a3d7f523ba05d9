//! The text of an answer, for people.

use crds::card_review::{Block, CardReviewStatus, Count, Shortage};
use k8s_openapi::jiff::SignedDuration;

use crate::span;

/// How many pods are listed by name in one place; `-o yaml` has them all.
const MOST_NAMES: usize = 5;
/// How many queues are listed in one place.
const MOST_QUEUES: usize = 5;

/// How a sentence on a pod that waits in vain ends, before what would help.
const IN_VAIN: &str = "; waiting can't help: ";

/// Returns the lines of an answer.
pub fn lines(status: &CardReviewStatus) -> Vec<String> {
    let mut lines = vec![status.message.clone()];
    for (index, block) in status.blocks.iter().enumerate() {
        lines.push(String::new());
        lines.extend(of_block(index + 1, block));
    }
    let place = place(status);
    if !place.is_empty() {
        lines.push(String::new());
        lines.extend(place);
    }
    lines
}

fn of_block(number: usize, block: &Block) -> Vec<String> {
    // What would help is shown below, and that waiting can't help, above.
    let in_vain = format!("{IN_VAIN}{}", block.remedy);
    let message = block.message.strip_suffix(&in_vain).unwrap_or(&block.message);
    let mut lines = vec![
        format!("{number}. {} ({})", block.reason, block.outlook),
        format!("   {message}"),
    ];
    let held = block.shortages.iter().filter_map(holders);
    let kept = block.shortages.iter().filter_map(kept);
    lines.extend(held.chain(kept).map(|held| format!("   {held}")));
    lines.push(format!("   to do: {}", block.remedy));
    lines
}

/// Says which queues hold what is short.
fn holders(shortage: &Shortage) -> Option<String> {
    let (named, unnamed): (Vec<_>, Vec<_>) = shortage.holders.iter().partition(|holder| !holder.queue.is_empty());
    let held = named.iter().take(MOST_QUEUES);
    let held = held.map(|holder| format!("{} by queue {} ({})", holder.amount, holder.queue, pods(&holder.pods)));
    let mut held: Vec<_> = held.collect();
    let more = named.len().saturating_sub(MOST_QUEUES);
    held.extend((more > 0).then(|| format!("more by {more} other queues")));
    let of_others = unnamed.into_iter();
    held.extend(
        of_others.map(|holder| format!("{} by queues of others or none ({})", holder.amount, pods(&holder.pods))),
    );
    let place = match &*shortage.place.kind {
        "Node" => format!(" of node {}", shortage.place.name),
        _ => String::new(),
    };
    (!held.is_empty()).then(|| format!("{}{place} is held: {}", shortage.resource, held.join("; ")))
}

/// Says for which workloads it is kept, whose pods are not let in yet.
fn kept(shortage: &Shortage) -> Option<String> {
    let kept = shortage.kept.as_ref()?;
    let whom = pods(&kept.workloads);
    let left = span::short(SignedDuration::from_secs(kept.seconds));
    Some(format!(
        "{} is kept: {} for {whom}, until pods are let in, for {left} at most (inqueueTimeout)",
        shortage.resource, kept.amount
    ))
}

/// Lists the names of own pods and Jobs, and the number of others.
fn pods(count: &Count) -> String {
    let mut parts: Vec<String> = count.own.iter().take(MOST_NAMES).cloned().collect();
    let named = i64::try_from(parts.len()).unwrap_or(i64::MAX);
    let unnamed = count.own_count - named;
    parts.extend((unnamed > 0).then(|| format!("{unnamed} more of this namespace")));
    parts.extend((count.others > 0).then(|| match count.others {
        1 => "1 of another namespace".to_owned(),
        others => format!("{others} of other namespaces"),
    }));
    parts.join(", ")
}

/// Says where it stands in its queue, and when it may be let in.
fn place(status: &CardReviewStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(queue) = &status.queue {
        let position = status.position.zip(status.waiting);
        let position = position.map_or_else(String::new, |(position, waiting)| {
            format!(", number {position} of {waiting} that wait")
        });
        lines.push(format!("queue:  {queue}{position}"));
    }
    if let Some(before) = &status.before {
        let before = pods(before);
        // For a queue that takes pods, these are all pods that wait.
        let label = if status.admitted { "waits:  " } else { "before: " };
        lines.push(format!("{label}{}", if before.is_empty() { "nobody" } else { &before }));
    }
    if !status.admitted {
        lines.push(match &status.estimate {
            Some(estimate) => {
                let until = SignedDuration::from_secs(estimate.seconds);
                format!("when:   in {}, {}", span::short(until), estimate.basis)
            }
            None => "when:   nothing says when".to_owned(),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use crds::card_review::{Estimate, Holder, KeptFor, Outlook, Place};

    use super::*;

    fn own(names: &[&str], others: i64) -> Count {
        Count {
            own: names.iter().map(|name| (*name).to_owned()).collect(),
            own_count: i64::try_from(names.len()).unwrap(),
            others,
        }
    }

    fn waiting() -> CardReviewStatus {
        let shortage = Shortage {
            resource: "A100".to_owned(),
            asked: "2".to_owned(),
            used: "3".to_owned(),
            limit: Some("4".to_owned()),
            place: Place::default(),
            holders: vec![Holder {
                queue: "team-a".to_owned(),
                amount: "3".to_owned(),
                pods: own(&["mine"], 1),
            }],
            kept: None,
        };
        CardReviewStatus {
            message: "pod next waits: queue team-a: A100 asked 2, used 3, quota 4".to_owned(),
            queue: Some("team-a".to_owned()),
            position: Some(2),
            waiting: Some(3),
            before: Some(own(&[], 2)),
            blocks: vec![Block {
                reason: "InsufficientScalarQuota".to_owned(),
                message: "queue team-a: A100 asked 2, used 3, quota 4".to_owned(),
                outlook: Outlook::NotYet,
                remedy: "wait".to_owned(),
                shortages: vec![shortage],
            }],
            ..CardReviewStatus::default()
        }
    }

    #[test]
    fn everything_is_said_that_people_ask() {
        let expected = "pod next waits: queue team-a: A100 asked 2, used 3, quota 4\n\n\
                        1. InsufficientScalarQuota (not yet)\n   \
                        queue team-a: A100 asked 2, used 3, quota 4\n   \
                        A100 is held: 3 by queue team-a (mine, 1 of another namespace)\n   \
                        to do: wait\n\n\
                        queue:  team-a, number 2 of 3 that wait\n\
                        before: 2 of other namespaces\n\
                        when:   nothing says when";
        assert_eq!(lines(&waiting()).join("\n"), expected);
    }

    #[test]
    fn an_estimate_has_its_basis_and_who_is_in_asks_nothing_more() {
        let mut status = waiting();
        status.estimate = Some(Estimate {
            seconds: 40,
            basis: "at the earliest: it stands aside until then".to_owned(),
        });
        let last = lines(&status).pop().unwrap();
        assert_eq!(last, "when:   in 40s, at the earliest: it stands aside until then");
        for (seconds, said) in [(5_400, "in 1h30m, "), (-3, "in 0s, ")] {
            status.estimate = Some(Estimate {
                seconds,
                ..Estimate::default()
            });
            let last = lines(&status).pop().unwrap();
            assert!(last.contains(said), "{last}");
        }
        let is_in = CardReviewStatus {
            admitted: true,
            message: "pod a is let in and has its node".to_owned(),
            queue: Some("team-a".to_owned()),
            ..CardReviewStatus::default()
        };
        assert_eq!(
            lines(&is_in).join("\n"),
            "pod a is let in and has its node\n\nqueue:  team-a"
        );
    }

    #[test]
    fn what_is_held_of_a_node_says_of_which() {
        let mut status = waiting();
        let place = &mut status.blocks[0].shortages[0].place;
        (place.kind, place.name) = ("Node".to_owned(), "n1".to_owned());
        let lines = lines(&status);
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("   A100 of node n1 is held: 3 by")),
            "{lines:?}"
        );
    }

    #[test]
    fn for_whom_it_is_kept_stands_below_who_holds_it() {
        let mut status = waiting();
        status.blocks[0].shortages[0].kept = Some(KeptFor {
            amount: "2".to_owned(),
            workloads: own(&["Job train"], 1),
            seconds: 540,
        });
        let expected = "   A100 is kept: 2 for Job train, 1 of another namespace, until pods are let in, for 9m at most (inqueueTimeout)";
        assert_eq!(lines(&status)[5], expected);
    }

    #[test]
    fn queues_of_others_are_told_together_and_last() {
        let mut status = waiting();
        let of_others = Holder {
            queue: String::new(),
            amount: "9".to_owned(),
            pods: own(&[], 4),
        };
        status.blocks[0].shortages[0].holders.push(of_others);
        let expected = "   A100 is held: 3 by queue team-a (mine, 1 of another namespace); 9 by queues of others or none (4 of \
                        other namespaces)";
        let lines = lines(&status);
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }

    #[test]
    fn what_would_help_is_told_once_for_each_thing_in_the_way() {
        let mut status = waiting();
        let block = &mut status.blocks[0];
        block.outlook = Outlook::Never;
        block.remedy = "ask for less".to_owned();
        block.message = "A100 asked 9, quota 4; waiting can't help: ask for less".to_owned();
        let said = lines(&status).join("\n");
        assert!(said.contains("(never)\n   A100 asked 9, quota 4\n"), "{said}");
        assert!(said.contains("\n   to do: ask for less"), "{said}");
    }

    #[test]
    fn of_a_queue_that_takes_pods_what_waits_is_told_as_what_waits() {
        let takes = CardReviewStatus {
            admitted: true,
            message: "queue team-a takes pods: 2 hold quota, 1 waits".to_owned(),
            queue: Some("team-a".to_owned()),
            before: Some(own(&["train"], 0)),
            ..CardReviewStatus::default()
        };
        assert_eq!(lines(&takes).last().unwrap(), "waits:  train");
    }

    #[test]
    fn long_lists_are_cut_short() {
        let many: Vec<String> = (0..9).map(|index| format!("p{index}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(pods(&own(&many, 0)), "p0, p1, p2, p3, p4, 4 more of this namespace");
    }
}
