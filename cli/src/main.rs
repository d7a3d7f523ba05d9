//! `kubectl card`: which cards there are, who has them, what queues may have, and why something waits. Everything is asked
//! with the user's own rights.

mod applied;
mod arguments;
mod changes;
mod check;
mod cluster;
mod complete;
mod door;
mod failure;
mod files;
mod history;
mod known;
mod lint;
mod manifests;
mod policies;
mod print;
mod priorities;
mod quantities;
mod queue;
mod simulate;
mod span;
mod subject;
mod templates;
mod terminal;
mod top;
mod types;
mod ui;
mod uninstall;
mod who;
mod why;

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use arguments::{AGAINST_CLUSTER, Arguments, Connection, Linting, Verb};
use cluster::Cluster;
use failure::Failure;
use lint::before::Before;
use print::Answer;
use removal::Removal;

/// The namespace of objects that name none, where neither the user nor a kubeconfig names another.
const DEFAULT_NAMESPACE: &str = "default";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if complete::is_asked(env::args_os().next().as_deref()) {
        let words: Vec<_> = env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        print!("{}", complete::answer(&words).await);
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(answer) => deliver(&arguments, &answer),
        Err(failure) => {
            eprintln!("error: {}", terminal::safe(&failure.to_string()));
            ExitCode::from(failure.code())
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Answer, Failure> {
    let connection = &arguments.connection;
    let cluster = || Cluster::connect(connection);
    match &arguments.verb {
        Verb::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "kubectl-card", &mut script);
            Ok(Answer::text(String::from_utf8_lossy(&script).into_owned()))
        }
        Verb::Lint(asked) => lint_files(connection, asked).await,
        Verb::Simulate(asked) => {
            let manifests = manifests::read(&asked.file, asked.recursive)?;
            let (cluster, namespace) = maybe_connect(connection, asked.from_cluster).await?;
            simulate::answer(asked, manifests, cluster.as_ref(), &namespace).await
        }
        Verb::Types { queue } => types::answer(&cluster().await?, queue.as_deref()).await,
        Verb::Queue { name: Some(name) } => queue::answer_of_one(&cluster().await?, name).await,
        Verb::Queue { name: None } => queue::answer(&cluster().await?).await,
        Verb::Who { card } => who::answer(&cluster().await?, card).await,
        Verb::Uninstall { dry_run, queues, yes } => {
            let removal = Removal {
                dry_run: *dry_run,
                queues: *queues,
            };
            uninstall::answer(&cluster().await?, &removal, *yes).await
        }
        Verb::History { since, all_namespaces } => history::answer(&cluster().await?, *since, *all_namespaces).await,
        Verb::Top { watch } => top::answer(&cluster().await?, *watch && arguments.output.is_none()).await,
        Verb::Ui { port } => ui::serve(cluster().await?, *port).await,
        Verb::Check => check::answer(&cluster().await?).await,
        Verb::Why { what, .. } if !what.is_empty() => {
            let cluster = cluster().await?;
            why::answer(&cluster, vec![Ok(subject::of_words(what)?)]).await
        }
        Verb::Why { file: Some(file), .. } => {
            let cluster = cluster().await?;
            why::answer_of_file(&cluster, subject::of_file(file)?).await
        }
        Verb::Why { all_namespaces, .. } => why::list::answer(&cluster().await?, *all_namespaces).await,
    }
}

async fn lint_files(connection: &Connection, asked: &Linting) -> Result<Answer, Failure> {
    let manifests = manifests::read(&asked.file, asked.recursive)?;
    let against = &asked.against;
    let of_cluster = against.iter().any(|against| against.as_os_str() == AGAINST_CLUSTER);
    if of_cluster && against.len() > 1 {
        return Err(Failure::AgainstBoth);
    }
    let (cluster, namespace) = maybe_connect(connection, asked.cluster || of_cluster).await?;
    let before = match &cluster {
        Some(cluster) if of_cluster => Before::ask(cluster, &manifests).await?,
        _ => Before::of(manifests::read(against, asked.recursive)?, &namespace),
    };
    let known = cluster.as_ref().filter(|_| asked.cluster);
    lint::answer(&manifests, &before, known, &namespace, asked.strict).await
}

/// Returns the cluster, if it is to be asked, and the namespace that is meant.
async fn maybe_connect(connection: &Connection, asks: bool) -> Result<(Option<Cluster>, String), Failure> {
    if asks {
        let cluster = Cluster::connect(connection).await?;
        let namespace = cluster.namespace.clone();
        return Ok((Some(cluster), namespace));
    }
    let namespace = connection.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    Ok((None, namespace.to_owned()))
}

/// Prints an answer. It is no failure if the reader closes the output early.
fn deliver(arguments: &Arguments, answer: &Answer) -> ExitCode {
    for note in &answer.notes {
        eprintln!("note: {}", terminal::safe(note));
    }
    let written = answer
        .write(arguments.output)
        .and_then(|text| io::stdout().write_all(text.as_bytes()));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: the answer can't be printed: {error}");
            ExitCode::from(failure::CANNOT_ASK)
        }
        _ => ExitCode::from(answer.code),
    }
}
