//! Proposes what could be typed next. kubectl asks a plugin by calling `kubectl_complete-card` with the words after `kubectl
//! card`, of which the last is incomplete. It reads one proposal from each line, and from the last line what else the shell
//! is to do.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _, ValueHint};
use kube::ResourceExt;

use crate::arguments::{Arguments, Connection};
use crate::cluster::Cluster;
use crate::terminal::safe_line;

/// The name under which kubectl calls the plugin to complete its words.
const NAME: &str = "kubectl_complete-card";
/// How long the cluster is asked for names, since the user waits at a prompt.
const PATIENCE: Duration = Duration::from_secs(2);

/// What else the shell is to do, in the numbers of kubectl's own completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    /// Propose files where nothing else is proposed.
    Files = 0,
    /// Propose no files.
    NoFiles = 4,
}

/// What can be proposed.
#[derive(Debug, PartialEq, Eq)]
enum Proposals {
    /// These words, each with its meaning.
    These(Vec<(String, String)>),
    /// Names of existing cards.
    Cards,
    /// Names of existing queues.
    Queues,
    /// Files.
    Files,
}

/// Whether the program was called under the name that asks for completion.
pub fn is_asked(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_stem());
    name == Some(OsStr::new(NAME))
}

/// Returns what could be typed next, in the form that kubectl reads.
pub async fn answer(words: &[String]) -> String {
    let mut root = Arguments::command();
    // Then the options for all commands are also among the options of each command.
    root.build();
    let (before, current) = match words {
        [before @ .., current] => (before, current.as_str()),
        [] => (words, ""),
    };
    let (proposals, lead) = proposals(&root, before, current);
    let (found, directive) = match proposals {
        Proposals::These(these) => (these, Directive::NoFiles),
        Proposals::Files => (Vec::new(), Directive::Files),
        Proposals::Cards => (in_time(cards(before)).await, Directive::NoFiles),
        Proposals::Queues => (in_time(queues(before)).await, Directive::NoFiles),
    };
    let mut answer = String::new();
    for (word, meaning) in found {
        let whole = format!("{lead}{word}");
        if whole.starts_with(current) {
            answer.push_str(&safe_line(&whole));
            if !meaning.is_empty() {
                answer.push('\t');
                answer.push_str(&safe_line(&meaning));
            }
            answer.push('\n');
        }
    }
    format!("{answer}:{}\n", directive as u8)
}

/// Returns the proposals for a word, and the part of the word that is not replaced.
fn proposals<'w>(root: &Command, before: &[String], current: &'w str) -> (Proposals, &'w str) {
    let (mut command, mut position, mut open) = (root, 0, None);
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if word.len() > 1 && word.starts_with('-') {
            open = option(command, word).filter(|_| !word.contains('='));
        } else if let Some(verb) = command.find_subcommand(word) {
            (command, position) = (verb, 0);
        } else {
            position += 1;
        }
    }
    if let Some(arg) = open {
        return (values(command, arg), "");
    }
    if let Some((option_word, _)) = current.split_once('=')
        && let Some(arg) = option(command, option_word)
    {
        return (values(command, arg), &current[..=option_word.len()]);
    }
    if current.starts_with('-') {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let options = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), meaning(arg.get_help()))));
        return (Proposals::These(options.collect()), "");
    }
    if command.has_subcommands() {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs = verbs.map(|verb| (verb.get_name().to_owned(), meaning(verb.get_about())));
        return (Proposals::These(verbs.collect()), "");
    }
    let here = command.get_positionals().nth(position);
    (
        here.map_or_else(|| Proposals::These(Vec::new()), |arg| values(command, arg)),
        "",
    )
}

/// Returns the option that a word names, if it takes a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or(word);
    let mut arguments = command.get_arguments();
    let found = match name.strip_prefix("--") {
        Some(long) => arguments.find(|arg| arg.get_long() == Some(long)),
        // Of several short options in a word, the last counts.
        None => arguments.find(|arg| arg.get_short().is_some() && arg.get_short() == name.chars().last()),
    };
    found.filter(|arg| arg.get_action().takes_values())
}

/// Returns the possible values of an argument.
fn values(command: &Command, arg: &Arg) -> Proposals {
    let possible = arg.get_possible_values();
    match (command.get_name(), arg.get_id().as_str()) {
        ("who", "card") => Proposals::Cards,
        ("queue", "name") | ("types", "queue") => Proposals::Queues,
        _ if !possible.is_empty() => {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            let shown = shown.map(|value| (value.get_name().to_owned(), meaning(value.get_help())));
            Proposals::These(shown.collect())
        }
        _ if arg.get_value_hint() == ValueHint::AnyPath => Proposals::Files,
        _ => Proposals::These(Vec::new()),
    }
}

fn meaning(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default()
}

/// Returns the names in the cluster. Empty if the cluster can't be asked, or not in time: a prompt is no place to say why.
async fn in_time(names: impl Future<Output = Option<Vec<String>>>) -> Vec<(String, String)> {
    let names = tokio::time::timeout(PATIENCE, names).await;
    let names = names.ok().flatten().unwrap_or_default();
    names.into_iter().map(|name| (name, String::new())).collect()
}

async fn cards(before: &[String]) -> Option<Vec<String>> {
    let cluster = Cluster::connect(&connection(before)?).await.ok()?;
    let types = cluster.card_types().await.ok()?;
    Some(types.into_iter().map(|card| card.spec.card_name).collect())
}

async fn queues(before: &[String]) -> Option<Vec<String>> {
    let cluster = Cluster::connect(&connection(before)?).await.ok()?;
    let queues = cluster.queues().await.ok()?;
    Some(queues.iter().map(ResourceExt::name_any).collect())
}

/// Returns which cluster the words so far mean, although they are not a whole command.
fn connection(before: &[String]) -> Option<Connection> {
    let words = std::iter::once("kubectl-card").chain(before.iter().map(String::as_str));
    let parsed = Arguments::command()
        .ignore_errors(true)
        .try_get_matches_from(words)
        .ok()?;
    let of_verb = parsed.subcommand().map(|(_, verb)| verb);
    Connection::from_arg_matches(of_verb.unwrap_or(&parsed)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is proposed for the last of these words.
    fn proposed(line: &str) -> (Proposals, String) {
        let mut root = Arguments::command();
        root.build();
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let (current, before) = words.split_last().unwrap();
        let (proposals, lead) = proposals(&root, before, current);
        (proposals, lead.to_owned())
    }

    fn words(proposals: Proposals) -> Vec<String> {
        let Proposals::These(these) = proposals else {
            panic!("{proposals:?}")
        };
        these.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn what_comes_next_is_proposed() {
        let verbs = words(proposed("wh").0);
        assert!(
            ["why", "who", "queue"]
                .iter()
                .all(|verb| verbs.iter().any(|known| known == verb)),
            "{verbs:?}"
        );
        let options = words(proposed("why --").0);
        let expected = ["--file", "--all-namespaces", "--namespace", "--context", "--output"];
        assert!(
            expected
                .iter()
                .all(|option| options.iter().any(|known| known == option)),
            "{options:?}"
        );
        for (line, expected) in [
            ("who ", Proposals::Cards),
            ("--context lab who NV", Proposals::Cards),
            ("queue ", Proposals::Queues),
            ("types --queue ", Proposals::Queues),
            ("why -f ", Proposals::Files),
            ("lint --file=x", Proposals::Files),
            ("who A ", Proposals::These(Vec::new())),
        ] {
            assert_eq!(proposed(line).0, expected, "{line}");
        }
        assert_eq!(words(proposed("types -o ").0), ["wide", "json", "yaml"]);
        let (forms, lead) = proposed("types --output=j");
        assert_eq!((words(forms).len(), &*lead), (3, "--output="));
    }

    #[tokio::test]
    async fn kubectl_reads_the_word_its_meaning_and_what_to_do_besides() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let answered = answer(&words("unins")).await;
        let (line, rest) = answered.split_once('\n').unwrap();
        assert!(line.starts_with("uninstall\tRemove Cardgate"), "{answered}");
        assert_eq!(rest, ":4\n");
        assert_eq!(answer(&words("types --output=j")).await, "--output=json\tJSON\n:4\n");
        assert_eq!(answer(&words("why -f po")).await, ":0\n");
    }

    #[test]
    fn the_cluster_is_the_one_that_the_words_name() {
        let before = ["who", "--context", "lab", "--as", "jane"].map(str::to_owned);
        let connection = connection(&before).unwrap();
        assert_eq!(
            (connection.context.as_deref(), connection.user.as_deref()),
            (Some("lab"), Some("jane"))
        );
    }

    #[test]
    fn the_name_that_it_is_called_by_says_what_is_asked() {
        let asked = |program: &str| is_asked(Some(OsStr::new(program)));
        assert!(asked("/usr/local/bin/kubectl_complete-card") && asked("kubectl_complete-card.exe"));
        assert!(!asked("kubectl-card") && !is_asked(None));
    }
}
