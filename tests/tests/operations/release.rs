//! What `cargo release` makes is taken by the tools that it is for: registries' and Helm's; and it lists what is in it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use cardgate_tests::go_tool;
use cardgate_tests::release::{self, Image, PROGRAMS, Part, Platform, Program, VERSION};
use serde_json::{Value, json};

type Outcome = Result<()>;

/// The registries' tool, built once from the Go module `tests/crane`.
fn crane() -> Result<Command> {
    static CRANE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let package = "github.com/google/go-containerregistry/cmd/crane";
    let build = || go_tool::build("crane", package, &[]).map_err(|error| format!("{error:#}"));
    Ok(Command::new(
        CRANE.get_or_init(build).as_deref().map_err(anyhow::Error::msg)?,
    ))
}

fn ask_crane(args: &[&str]) -> Result<Vec<u8>> {
    let output = crane()?.args(args).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "crane {args:?}: {said}");
    Ok(output.stdout)
}

/// A registry on this machine, for as long as it is kept.
struct Registry {
    process: Child,
    address: String,
}

impl Registry {
    fn serve() -> Result<Self> {
        let mut command = crane()?;
        command.args(["registry", "serve", "--address", "127.0.0.1:0"]);
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(process.stderr.take().context("no stderr")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        let port = line.trim().rsplit(' ').next().context("crane says nothing")?;
        let port: u16 = port.parse().with_context(|| line.clone())?;
        // Read on, or the registry could not say anything more.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Ok(Self {
            process,
            address: format!("127.0.0.1:{port}"),
        })
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn operator() -> Result<&'static Program> {
    PROGRAMS
        .iter()
        .find(|program| program.binary == "operator")
        .context("no operator")
}

fn parts_of(name: &str) -> Result<BTreeSet<Part>> {
    let program = PROGRAMS.iter().find(|program| program.binary == name);
    release::parts_of(program.context("no such program")?, &Platform::of_this_machine()?)
}

#[test]
fn images_are_loaded_as_one_file_and_pushed_as_a_layout() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let image = Image {
        program: operator()?,
        binary: b"\x7fELF, as it were".to_vec(),
        licences: b"MIT and so on",
        platform: &Platform::of_this_machine()?,
    };
    let archive = image.archive()?;
    assert!(archive == image.archive()?, "the same image twice");
    std::fs::write(path("image.tar"), &archive)?;
    ask_crane(&["validate", "--tarball", &path("image.tar")])?;

    tar::Archive::new(Cursor::new(&archive)).unpack(path("layout"))?;
    let registry = Registry::serve()?;
    let reference = format!("{}/cardgate/operator:{VERSION}", registry.address);
    ask_crane(&["push", &path("layout"), &reference, "--insecure"])?;
    ask_crane(&["validate", "--remote", &reference, "--insecure"])?;
    let configuration: Value = serde_json::from_slice(&ask_crane(&["config", &reference, "--insecure"])?)?;
    assert_eq!(configuration["os"], "linux");
    assert_eq!(configuration["config"]["User"], "65532:65532");
    assert_eq!(
        configuration["config"]["Entrypoint"],
        json!(["/usr/local/bin/operator"])
    );
    assert_eq!(
        configuration["config"]["ExposedPorts"],
        json!({ "8080/tcp": {}, "8081/tcp": {}, "8443/tcp": {} })
    );
    let files = ask_crane(&["export", &reference, "-", "--insecure"])?;
    let mut found = BTreeSet::new();
    for file in tar::Archive::new(Cursor::new(files)).entries()? {
        let mut file = file?;
        let (name, mode) = (file.path()?.display().to_string(), file.header().mode()?);
        if name == "usr/local/bin/operator" {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            assert_eq!((&*content, mode), (&b"\x7fELF, as it were"[..], 0o755));
        }
        if file.header().entry_type().is_file() {
            found.insert(name);
        }
    }
    let expected = [
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "usr/local/bin/operator",
        "usr/share/doc/cardgate/THIRD-PARTY-LICENSES.txt",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    Ok(())
}

#[test]
fn manifests_run_images_as_their_user_and_expose_their_ports() -> Outcome {
    for program in PROGRAMS.iter().filter(|program| !program.ports.is_empty()) {
        let path = cardgate_tests::manifests::directory().join(format!("base/{}.yaml", program.binary));
        let manifest = std::fs::read_to_string(path)?;
        let values = |key: &str| {
            let values = manifest
                .lines()
                .filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix(key));
            values
                .map(|value| value.trim().parse::<u32>())
                .collect::<Result<BTreeSet<_>, _>>()
        };
        assert_eq!(values("runAsUser:")?, [release::USER].into(), "{}", program.binary);
        let ports = program.ports.iter().copied().map(u32::from).collect();
        assert_eq!(values("containerPort:")?, ports, "{}", program.binary);
    }
    Ok(())
}

#[test]
fn programs_in_images_have_nothing_of_what_only_the_plugin_shows() -> Outcome {
    for program in ["operator", "webhook"] {
        let parts = parts_of(program)?;
        let names: BTreeSet<_> = parts.iter().map(|part| &*part.name).collect();
        assert!(
            names.is_superset(&["kube", "tokio", "rustls", "glibc", "rust-std"].into()),
            "{program}: {names:?}"
        );
        for unneeded in ["ratatui", "maud", "clap_complete", "cardgate-cli", "cardgate-tests"] {
            assert!(!names.contains(unneeded), "{program} has {unneeded}");
        }
    }
    assert!(parts_of("kubectl-card")?.iter().any(|part| part.name == "ratatui"));
    Ok(())
}

#[test]
fn parts_are_listed_for_scanners_and_with_the_texts_of_their_licences() -> Outcome {
    let parts = parts_of("operator")?;
    let bom: Value = serde_json::from_slice(&release::bill_of_materials(operator()?, &parts)?)?;
    assert_eq!(
        (&bom["bomFormat"], &bom["specVersion"]),
        (&json!("CycloneDX"), &json!("1.5"))
    );
    let components = bom["components"].as_array().context("no components")?;
    // The program itself is what the list is of.
    assert_eq!(components.len(), parts.len() - 1);
    let serde = components
        .iter()
        .find(|part| part["name"] == "serde")
        .context("no serde")?;
    let version = serde["version"].as_str().context("no version")?;
    assert_eq!(serde["purl"], format!("pkg:cargo/serde@{version}"));
    assert_eq!(serde["licenses"], json!([{ "expression": "MIT OR Apache-2.0" }]));

    let texts = release::licence_texts(&parts, &Platform::of_this_machine()?)?;
    for part in [
        format!("serde {version}: MIT OR Apache-2.0"),
        "glibc ".to_owned(),
        "Permission is hereby granted".to_owned(),
    ] {
        assert!(texts.contains(&part), "no {part}");
    }
    assert!(!texts.contains("cardgate-engine"), "our own licence is in LICENSE");
    Ok(())
}

#[test]
fn the_chart_is_packed_as_helm_reads_it() -> Outcome {
    let files = tempfile::tempdir()?;
    let packed = files.path().join("cardgate.tgz");
    std::fs::write(&packed, release::chart()?)?;
    let render = |chart: &Path| -> Result<String> {
        let helm = go_tool::build("helm", "helm.sh/helm/v4/cmd/helm", &[])?;
        let mut command = Command::new(helm);
        command
            .args(["template", "cardgate", "--namespace", "cardgate-system"])
            .arg(chart);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let unpacked = cardgate_tests::manifests::directory().join("chart");
    assert_eq!(render(&packed)?, render(&unpacked)?);
    Ok(())
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() -> Outcome {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("mine"), "")?;
    let refused = release::release(directory.path(), Path::new("kubectl"), |_| {});
    let error = refused.err().context("it was written to")?.to_string();
    assert!(
        error.ends_with("is not empty: remove it, or name another directory by --to"),
        "{error}"
    );
    Ok(())
}
