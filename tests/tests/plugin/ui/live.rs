//! What a page does while it is open: it stays as it is while the cluster does not answer, and where there is much of something.

use anyhow::ensure;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use fantoccini::Locator;
use fantoccini::key::Key;
use serde_json::json;

use super::Pages;
use super::browser::{Browser, FAULTS};
use crate::Outcome;

/// So many nodes more than one page of them holds.
const BEYOND: usize = 10;

/// While the cluster does not answer, a page shows what it showed, says so, and is brought up to date when it answers again.
pub async fn what_is_shown_stays_while_the_cluster_does_not_answer(browser: &Browser, pages: &Pages) -> Outcome {
    browser.client.goto(&pages.address("")).await?;
    browser.reads("Kept up to date.").await?;
    let tiles = "return document.querySelector('main').innerHTML";
    let shown = browser.run(tiles).await?;
    let refuse =
        "window.answers = window.fetch; window.fetch = async () => new Response('<main>error</main>', { status: 502 })";
    browser.run(refuse).await?;
    browser
        .reads("The cluster did not answer: what is shown is what it said last.")
        .await?;
    let kept = browser.run(tiles).await?;
    ensure!(kept == shown, "it showed\n{shown}\nand then\n{kept}");
    browser.run("window.fetch = window.answers").await?;
    browser.reads("Kept up to date.").await
}

/// More nodes than one page holds: each page is bounded, there is a way to all of them, and it stays live.
pub async fn many_nodes_are_several_pages(browser: &Browser, pages: &Pages, scenario: &Scenario<'_>) -> Outcome {
    let name = |index: usize| format!("bulk-{index:04}");
    let many: Vec<_> = (0..500 + BEYOND)
        .map(|index| nodes::nvidia(&name(index), "NVIDIA-L4", 1, 24_576))
        .collect();
    scenario.plane().create_nodes(&many).await?;
    let all = many.len() + 5;
    let client = &browser.client;
    client.goto(&pages.address("nodes")).await?;
    browser.reads(&format!("1 to 500 of {all} nodes, by name.")).await?;
    let tiles = "return document.querySelectorAll('li.tile').length";
    assert_eq!(browser.run(tiles).await?, 500);
    let faults = browser.run(FAULTS).await?;
    assert_eq!(faults, json!([]), "{faults:#}");
    let role = browser.computed("nav[data-part=pages]", "role").await?;
    let label = browser.computed("nav[data-part=pages]", "label").await?;
    assert_eq!((&*role, &*label), ("navigation", "Pages of nodes"));
    client.find(Locator::Id("page-2")).await?.click().await?;
    browser.reads(&format!("501 to {all} of {all} nodes, by name.")).await?;
    assert_eq!(browser.run(tiles).await?, all - 500);
    browser.reads("Kept up to date.").await?;
    assert_eq!(
        browser.run(tiles).await?,
        all - 500,
        "brought up to date, it is the same page"
    );
    let field = client.find(Locator::Id("name")).await?;
    field.send_keys(&format!("{}{}", name(507), Key::Enter)).await?;
    browser
        .reads(&format!("1 nodes with such names, {all} in all."))
        .await?;
    assert_eq!(browser.run(tiles).await?, 1);
    Ok(())
}
