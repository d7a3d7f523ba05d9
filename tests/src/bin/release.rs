//! `cargo release`: everything that people install, in one directory.

use std::path::PathBuf;

use cardgate_tests::assets::{Assets, Program};
use cardgate_tests::{release, workspace};
use clap::Parser;

/// Makes a release of the sources as they lie here: images, Helm chart, files for kubectl apply, the plugin, what all of it is made of
/// (`CycloneDX`), licences and checksums.
///
/// Images are loaded by `docker load -i`, `ctr images import` or `kind load image-archive`. Only this machine's platform is built for.
#[derive(Parser)]
struct Arguments {
    /// Where to; made if absent, and it must be empty.
    #[arg(long, value_name = "DIR", default_value = "dist")]
    to: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Arguments { to } = Arguments::parse();
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    release::release(&workspace::root().join(to), &kubectl, |said| println!("{said}"))
}
