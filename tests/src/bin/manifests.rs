//! `cargo manifests`: writes the generated files below `manifests/` and in `docs/`. `--check` writes nothing, and fails with a diff
//! where a file is not current.

use anyhow::bail;
use cardgate_tests::assets::{Assets, Program};
use cardgate_tests::manifests::{self, Generated};
use clap::Parser;

/// Writes the generated files below manifests/.
#[derive(Parser)]
struct Arguments {
    /// Write nothing; fail with a diff where a file is not current.
    #[arg(long)]
    check: bool,
}

fn main() -> anyhow::Result<()> {
    let Arguments { check } = Arguments::parse();
    let kubectl = Assets::locate()?.path(Program::Kubectl);
    // The definitions first: the files for `kubectl apply -f` contain them.
    let stale = bring_up_to_date(&manifests::custom_resource_definitions()?, check)?
        + bring_up_to_date(&manifests::install_files(&kubectl)?, check)?
        + bring_up_to_date(&manifests::chart::files(&kubectl)?, check)?
        + bring_up_to_date(
            &[
                manifests::rights::document()?,
                manifests::reasons::document()?,
                manifests::reference::document()?,
            ],
            check,
        )?;
    if check && stale > 0 {
        bail!("{stale} generated file(s) not current: run `cargo manifests`");
    }
    Ok(())
}

/// Writes what is not current, or shows how it differs; says how many files were not current.
fn bring_up_to_date(files: &[Generated], check: bool) -> anyhow::Result<usize> {
    let mut stale = 0;
    for file in files {
        if check {
            if let Some(diff) = file.diff()? {
                println!("{diff}");
                stale += 1;
            }
        } else if file.write()? {
            println!("wrote manifests/{}", file.path.display());
            stale += 1;
        }
    }
    Ok(stale)
}
