//! `cargo record`: what this version leaves in a cluster, for the tests of later ones.

use cardgate_tests::fixture::Fixture;
use clap::Parser;

/// Records below tests/fixtures what a cluster holds of this version after pods of all kinds came.
///
/// Run it for each release, when Cargo.toml has its version, and commit what it writes: the tests of later versions install
/// themselves above it.
#[derive(Parser)]
struct Arguments;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments = Arguments::parse();
    println!("wrote {}", Fixture::record().await?.write()?.display());
    Ok(())
}
