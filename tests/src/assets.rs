//! The control plane's programs: taken from `KUBEBUILDER_ASSETS`, or built from the Go module `tests/controlplane` into
//! the target directory on first use.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

use crate::command::{self, Line};
use crate::locks;
use crate::progress::Progress;
use crate::workspace;

/// The variable that names a directory with ready programs, as in Kubernetes' own test tools.
const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";
/// The package of the module that is all of Kubernetes and etcd, and the name of the program that comes out of it.
const CONTROL_PLANE: Package = Package {
    path: ".",
    program: "controlplane",
};
/// The package of kwok, a program of its own because its flags clash with Kubernetes'.
const KWOK: Package = Package {
    path: "sigs.k8s.io/kwok/cmd/kwok",
    program: "kwok",
};
/// What to do where there is no Go.
const GO_MISSING: &str = "the test control plane (kube-apiserver, etcd, ...) is built with Go: install it from \
    https://go.dev/dl, or point KUBEBUILDER_ASSETS at a directory with the programs";

struct Package {
    path: &'static str,
    program: &'static str,
}

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the programs' names")]
pub enum Program {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    Kwok,
}

impl Program {
    /// The programs that come from Kubernetes and etcd: all but kwok.
    const OF_CONTROL_PLANE: [Self; 5] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
    ];

    /// The file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Assets {
    control_plane: PathBuf,
    kwok: PathBuf,
}

impl Assets {
    /// Finds the programs, building them if need be. Blocks, for minutes in the worst case.
    pub fn locate() -> Result<&'static Self> {
        static ASSETS: OnceLock<Assets> = OnceLock::new();
        if let Some(known) = ASSETS.get() {
            return Ok(known);
        }
        let found = if let Some(dir) = std::env::var_os(ASSETS_VARIABLE) {
            Self::given(&PathBuf::from(dir))?
        } else {
            let dir = Module::read()?.build(&[CONTROL_PLANE, KWOK])?;
            Self {
                control_plane: dir.clone(),
                kwok: dir,
            }
        };
        Ok(ASSETS.get_or_init(|| found))
    }

    fn given(dir: &Path) -> Result<Self> {
        let missing: Vec<_> = Program::OF_CONTROL_PLANE
            .iter()
            .map(|program| program.name())
            .filter(|name| !dir.join(name).exists())
            .collect();
        ensure!(
            missing.is_empty(),
            "{ASSETS_VARIABLE}={} lacks {}: put them there, or unset {ASSETS_VARIABLE} to have them built from {}",
            dir.display(),
            missing.join(", "),
            Module::dir().display(),
        );
        let kwok = if dir.join(KWOK.program).exists() {
            dir.to_owned()
        } else {
            Module::read()?.build(&[KWOK])?
        };
        Ok(Self {
            control_plane: dir.to_owned(),
            kwok,
        })
    }

    /// The program's path.
    pub fn path(&self, program: Program) -> PathBuf {
        let dir = if program == Program::Kwok {
            &self.kwok
        } else {
            &self.control_plane
        };
        dir.join(program.name())
    }
}

/// The Go module.
struct Module {
    /// Changes whenever a file of the module does.
    hash: String,
    /// Kubernetes' version as `go.mod` requires it, for example `v1.37.2`.
    kubernetes: String,
}

impl Module {
    /// The files that decide what is built.
    const FILES: [&str; 3] = ["go.mod", "go.sum", "main.go"];

    fn dir() -> PathBuf {
        workspace::root().join("tests/controlplane")
    }

    fn read() -> Result<Self> {
        // A change of the standard library's hash costs a rebuild, not a wrong result.
        let mut hasher = DefaultHasher::new();
        let mut kubernetes = None;
        for name in Self::FILES {
            let path = Self::dir().join(name);
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            text.hash(&mut hasher);
            let version = text
                .lines()
                .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
            kubernetes = kubernetes.or(version
                .filter(|_| name == "go.mod")
                .map(|version| format!("v{version}")));
        }
        let kubernetes = kubernetes
            .with_context(|| format!("{}/go.mod does not require k8s.io/kubernetes", Self::dir().display()))?;
        Ok(Self {
            hash: format!("{:016x}", hasher.finish()),
            kubernetes,
        })
    }

    /// Builds the packages, unless an earlier process has, and returns the directory of the programs.
    fn build(&self, packages: &[Package]) -> Result<PathBuf> {
        let base = workspace::target_dir()?.join("controlplane");
        let names: Vec<_> = packages.iter().map(|package| package.program).collect();
        let dir = base.join(&self.hash).join(names.join("+"));
        let bin = dir.join("bin");
        if bin.exists() {
            return Ok(bin);
        }
        let _lock = locks::lock(&base.join("build.lock"), || {
            eprintln!("waiting for another process that builds the test control plane");
        })?;
        if bin.exists() {
            return Ok(bin);
        }
        // Built beside and then moved, so that what an interrupted build left is never taken for a finished one.
        let partial = dir.join("partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        }
        std::fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
        self.compile(packages, &partial)?;
        if names.contains(&CONTROL_PLANE.program) {
            for program in Program::OF_CONTROL_PLANE {
                symlink(CONTROL_PLANE.program, partial.join(program.name())).context("cannot link the programs")?;
            }
        }
        std::fs::rename(&partial, &bin).with_context(|| format!("cannot create {}", bin.display()))?;
        Ok(bin)
    }

    fn compile(&self, packages: &[Package], into: &Path) -> Result<()> {
        let paths = packages.iter().map(|package| package.path);
        let mut progress = Progress::new(format!(
            "building the test control plane (Kubernetes {}, once)",
            self.kubernetes
        ));
        let mut downloaded = 0;
        let mut total = 0;
        command::run(go().args(["list", "-deps"]).args(paths.clone()), GO_MISSING, |line| {
            match line {
                Line::Error(text) => downloaded += usize::from(text.contains("downloading")),
                Line::Output(_) => total += 1,
                Line::None => {}
            }
            progress.show(&format!("{downloaded} modules downloaded"));
        })?;
        let mut compiled = 0;
        // kubectl refuses a server, and the components a client, whose version they can't parse.
        let version = "k8s.io/component-base/version";
        let mut numbers = self.kubernetes.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let flags = format!(
            "-s -w -X {version}.gitVersion={} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}",
            self.kubernetes
        );
        command::run(
            go().args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"])
                .arg(into.join(""))
                .args(paths),
            GO_MISSING,
            |line| {
                compiled += usize::from(matches!(line, Line::Error(_)));
                progress.show(&format!(
                    "{compiled} packages compiled, of {total} at most, then linked"
                ));
            },
        )?;
        progress.finish(&format!("done, in {}", into.with_file_name("bin").display()));
        Ok(())
    }
}

fn go() -> Command {
    let mut command = Command::new("go");
    command.current_dir(Module::dir());
    command
}
