//! When all is quiet, the numbers in what waiting pods are told are true: what their queue, or one above it, has of what is short.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::amounts::What;
use super::pods::Pod;
use super::view::View;
use super::{Finding, broken, quota};

/// The rule.
pub const RULE: &str = "the numbers in a reason are true";

/// Who is short of something: `queue speech: `, `queue research, of which queue speech is a part: ` or `the cluster, for queue
/// speech: `; who was named last where nobody is named.
static WHOSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^((?:queue (\S+?)(?:, of which queue \S+ is a part)?|the cluster, for queue \S+): )?(.*)$").ok()
});
/// What is short, and the numbers.
static NUMBERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(\S.*) asked (\d+), used (\d+)(?:, quota (\d+))?(?:, .*)?$").ok());

/// Judges what a pod is told of cards. What others kept free, or what it may not borrow at the moment, is said in words.
pub fn judge(view: &View, pod: &Pod, message: &str) -> Finding {
    let (Some(whose), Some(numbers)) = (&*WHOSE, &*NUMBERS) else {
        return Ok(());
    };
    let mut queue = None;
    for part in message.split("; ") {
        let Some(said) = whose.captures(part) else { continue };
        if said.get(1).is_some() {
            queue = said.get(2).map(|name| name.as_str().to_owned());
        }
        let (Some(queue), Some(said)) = (&queue, numbers.captures(&said[3])) else {
            continue;
        };
        let what = What::Card(said[1].to_owned());
        if !view.nodes.iter().any(|node| node.card(&said[1]).is_some()) || !view.tree.queues.contains_key(queue) {
            continue;
        }
        let has = quota::allocated(view, queue).get(&what).copied().unwrap_or(0);
        let asks = view.count_of(pod, &said[1]);
        let number = |place: usize| said.get(place).and_then(|number| number.as_str().parse::<i128>().ok());
        if number(3) != Some(has) || number(2) != Some(asks) {
            let key = &pod.key;
            return broken(
                RULE,
                format!("{key} is told {message:?}, asks for {asks} {what}, and queue {queue} has {has}"),
            );
        }
    }
    Ok(())
}
