//! What stands in the README and in `docs/` to be copied.

use anyhow::Context as _;
use cardgate_tests::workspace;
use cardgate_tests::world::World;
use crds::configuration::{CARDGATE_YAML, Configuration, SCHEDULER_CONF};
use serde_json::Value;

use crate::Outcome;

/// The YAML blocks of the README and of the pages in `docs/`.
fn blocks() -> anyhow::Result<Vec<String>> {
    let mut pages = vec![workspace::root().join("README.md")];
    for entry in std::fs::read_dir(workspace::root().join("docs"))? {
        pages.push(entry?.path());
    }
    let mut blocks = Vec::new();
    for page in pages {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page)?;
        for block in text.split("```yaml\n").skip(1) {
            let block = block.split("```").next().context("a block without end")?;
            blocks.push(block.to_owned());
        }
    }
    Ok(blocks)
}

/// An object that is no file of a page: `--test documents` writes those and applies them.
fn is_object(block: &str) -> bool {
    block.starts_with("apiVersion:")
}

fn is_configuration(block: &str) -> bool {
    [SCHEDULER_CONF, CARDGATE_YAML]
        .iter()
        .any(|key| block.starts_with(&format!("{key}:")))
}

#[test]
fn the_documents_configurations_can_be_read() -> Outcome {
    let configurations = blocks()?.into_iter().filter(|block| is_configuration(block));
    let mut count = 0;
    for block in configurations {
        let data: Value = serde_saphyr::from_str(&block)?;
        let read = |key: &str| data[key].as_str();
        let parsed = Configuration::parse(read(SCHEDULER_CONF), read(CARDGATE_YAML)).with_context(|| block.clone())?;
        assert_eq!(parsed.warnings, Vec::<String>::new(), "{block}");
        count += 1;
    }
    assert!(count >= 3, "{count}");
    Ok(())
}

#[tokio::test]
async fn the_documents_objects_are_let_in() -> Outcome {
    let kubectl = World::shared().await?.plane.kubectl();
    let objects: Vec<_> = blocks()?.into_iter().filter(|block| is_object(block)).collect();
    assert!(objects.len() >= 3, "{objects:?}");
    for block in objects {
        let create = ["create", "--dry-run=server", "-f", "-"];
        let answer = kubectl.output(create, Some(&block)).await?;
        let error = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{error}\n{block}");
    }
    Ok(())
}
