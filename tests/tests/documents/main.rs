//! The pages of `docs/` and the README are true: what they say to write is written, what they say to type is typed, by the person
//! that the page is for and with that person's rights, and what comes of it is compared with what stands there.

mod links;
mod page;
mod words;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::controlplane::Options;
use cardgate_tests::wait::PATIENCE;
use cardgate_tests::world::World;
use cardgate_tests::{cardgate, nodes, workspace};
use page::Step;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

type Outcome = Result<()>;

/// The namespace in which the pages' people work.
const NAMESPACE: &str = "research";
/// The verbs of commands that are typed once. Others change nothing, and are typed again until they print what the page says.
const CHANGES: [&str; 7] = ["apply", "annotate", "create", "delete", "patch", "run", "scale"];

/// Who reads.
struct Desk {
    directory: TempDir,
    path: std::ffi::OsString,
    kubeconfig: PathBuf,
}

impl Desk {
    async fn set(world: &World) -> Result<Self> {
        let plugin = tokio::task::spawn_blocking(cardgate::build).await??.plugin;
        let kubectl = world.plane.kubectl().program().to_owned();
        let of = |path: &Path| path.parent().map(Path::to_owned).context("no directory");
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            [of(&kubectl)?, of(&plugin)?]
                .into_iter()
                .chain(std::env::split_paths(&usual)),
        )?;
        let directory = tempfile::tempdir()?;
        // What a page applies from the repository is where its reader has it.
        for shared in ["examples", "manifests"] {
            std::os::unix::fs::symlink(workspace::root().join(shared), directory.path().join(shared))?;
        }
        let kubeconfig = world.plane.kubeconfig().to_owned();
        Ok(Self {
            directory,
            path,
            kubeconfig,
        })
    }

    /// Another person sits down; `admin` may do everything.
    fn seat(&mut self, world: &World, person: &str) -> Result<()> {
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.plane.kubeconfig())?)?;
        config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
        if person != "admin" {
            config["users"][0]["user"]["as"] = json!(person);
        }
        self.kubeconfig = self.directory.path().join(format!(".{person}.kubeconfig"));
        Ok(std::fs::write(&self.kubeconfig, config.to_string())?)
    }

    /// What a command prints, and whether it says that it failed.
    async fn run(&self, command: &str) -> Result<String> {
        let output = Command::new("bash")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.directory.path())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("COLUMNS", "120")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until the door knows the cards of the nodes, and does not warn of them.
    async fn await_cards(&self) -> Result<()> {
        let quota = json!({"NVIDIA-A100": 1, "NVIDIA-H100": 1}).to_string();
        let queue = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": { "name": "any", "annotations": { "volcano.sh/card.quota": quota } },
            "spec": { "capability": { "cpu": "1", "memory": "1Gi" } },
        });
        std::fs::write(self.directory.path().join(".any.json"), queue.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.run("kubectl apply --dry-run=server -f .any.json").await?;
            if printed.contains("any created") && !printed.contains("no node has the card") {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the door does not know the cards:\n{printed}"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn expect(&self, command: &str, expected: &str) -> Result<()> {
        let changes = command.split_whitespace().any(|word| CHANGES.contains(&word));
        let limit = if changes { Duration::ZERO } else { PATIENCE };
        let deadline = Instant::now() + limit;
        loop {
            let printed = self.run(command).await?;
            if page::agrees(expected, &printed) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "$ {command}\nprinted\n{printed}where the page has\n{expected}"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A cluster of three nodes as the pages have it, and three people: `jane` may edit her namespace, `lee` may also view the whole
/// cluster, `admin` may do everything.
async fn cluster() -> Result<World> {
    // Their Jobs last.
    let world = World::start_with(Options::default().job_duration(Duration::from_hours(1))).await?;
    let plane = &world.plane;
    plane
        .create_nodes(&[
            nodes::nvidia("a100-1", "NVIDIA-A100", 4, 81_920),
            nodes::nvidia("a100-2", "NVIDIA-A100", 4, 81_920),
            nodes::nvidia("h100-1", "NVIDIA-H100", 8, 81_559),
        ])
        .await?;
    plane.create_namespace(NAMESPACE, &[], &[]).await?;
    plane.grant("jane", "edit", NAMESPACE).await?;
    plane.create_namespace("vision", &[], &[]).await?;
    plane.grant("lee", "edit", NAMESPACE).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "lee-views" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lee" }],
    });
    plane.apply(&binding).await?;
    Ok(world)
}

/// Goes through a page. All that differs is told at once: whoever writes a page mends it in one go.
async fn go_through(name: &str) -> Outcome {
    let text = std::fs::read_to_string(workspace::root().join(name))?;
    let steps = page::steps(&text).with_context(|| name.to_owned())?;
    let world = cluster().await?;
    let mut desk = Desk::set(&world).await?;
    let mut differences = Vec::new();
    let mut commands = 0;
    desk.seat(&world, "admin")?;
    desk.await_cards().await?;
    for step in steps {
        match step {
            Step::As(person) => desk.seat(&world, &person)?,
            Step::Write { name, content } => std::fs::write(desk.directory.path().join(name), content)?,
            Step::Run { command, expected } => {
                commands += 1;
                if let Err(difference) = desk.expect(&command, &expected).await {
                    differences.push(difference.to_string());
                }
            }
        }
    }
    ensure!(commands > 1, "{name} has {commands} commands");
    ensure!(differences.is_empty(), "{name}:\n\n{}", differences.join("\n"));
    Ok(())
}

#[tokio::test]
async fn a_data_scientist_uses_cards() -> Outcome {
    go_through("docs/use.md").await
}

#[tokio::test]
async fn a_lead_shares_cards_among_teams() -> Outcome {
    go_through("docs/lead.md").await
}

#[tokio::test]
async fn an_administrator_operates_it() -> Outcome {
    go_through("docs/operate.md").await
}

#[tokio::test]
async fn somebody_comes_from_volcano() -> Outcome {
    go_through("docs/from-volcano.md").await
}

#[tokio::test]
async fn nodes_move_from_a_device_plugin_to_devices() -> Outcome {
    go_through("docs/dra.md").await
}
