//! Cards that claims hand out: whoever asks about them is told the same as of cards by device plugins.

use cardgate_tests::devices::{NVIDIA, by_name, by_template, card_has, claim, class, exactly, nodes, template};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use serde_json::{Value, json};

use super::ui::Pages;
use super::{NO_QUOTA, Outcome, Result, answers, card, editor, of_card, viewer};

/// A class of whole cards by devices that no resource stands for: other scenarios are as without it.
async fn class_of_cards(world: &World) -> Outcome {
    class(&world.plane, NVIDIA, &format!("device.driver == '{NVIDIA}'"), None).await
}

/// A node with six cards by devices, and a queue that may have three: one pod claims two by a template, two share the claim of a third,
/// one waits, and one that is in no queue has another.
async fn all_but_two_are_claimed(scenario: &Scenario<'_>, world: &World) -> Result<String> {
    let card = scenario.card("NVIDIA-A100");
    class_of_cards(world).await?;
    nodes(scenario, world, &[(&card, 6)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 3)).await?;
    template(world, scenario, "two", &exactly(NVIDIA, 2, Some(&card))).await?;
    template(world, scenario, "one", &exactly(NVIDIA, 1, Some(&card))).await?;
    claim(world, scenario, "shared", &exactly(NVIDIA, 1, Some(&card))).await?;
    scenario
        .create(&by_template(scenario.pod("both"), "two").build())
        .await?;
    scenario.expect("both", &Tally::none().running(&card, 1)).await?;
    scenario
        .create(&by_name(scenario.pod("pays"), "shared").build())
        .await?;
    scenario.expect("pays", &Tally::none().running(&card, 1)).await?;
    scenario
        .create(&by_name(scenario.pod("shares"), "shared").build())
        .await?;
    let stray = by_template(pod("stray").namespace(scenario.name()), "one");
    scenario.create(&stray.build()).await?;
    scenario
        .create(&by_template(scenario.pod("waits"), "one").build())
        .await?;
    scenario.waits("waits", NO_QUOTA).await?;
    card_has(world, &card, |status| {
        (status.total, status.used, status.free, status.unaccounted) == (6, 4, 2, 1)
    })
    .await?;
    Ok(card)
}

#[tokio::test]
async fn who_holds_claimed_cards_what_is_left_and_why_one_waits_is_told_as_of_others() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "plugin-claims").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = all_but_two_are_claimed(&scenario, world).await?;

    let holds = |data: &Value| {
        let holders = &data["queues"];
        let expected = json!({
            "queue": "plugin-claims", "allocated": 3, "quota": 3, "waiting": 1, "requested": 4, "share": holders[0]["share"],
        });
        *holders == json!([expected])
    };
    let data = answers(&scenario, &views, &["who", &name], holds).await?;
    let told = ["total", "free", "unaccounted"].map(|key| data[key].as_i64());
    assert_eq!(told, [Some(6), Some(2), Some(1)], "{data}");
    let answer = card(&scenario, &views, &["who", &name]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(0), ""), "{answer:?}");
    let said = format!("{name}: 2 of 6 free, 1 charged to no queue\n");
    assert!(answer.out.starts_with(&said), "{answer:?}");
    let answer = card(&scenario, &edits, &["who", &name]).await?;
    assert_eq!((answer.code, answer.out), (Some(0), said));

    // Bars of cards and quotas are everybody's; of use, and of nodes, whoever may view the cluster's.
    let row = |data: &Value, of: &str| -> Option<Value> {
        let rows = data[of].as_array()?;
        rows.iter().find(|row| row["card"] == *name).cloned()
    };
    let cards =
        json!({ "card": name, "kind": "Whole", "total": 6, "charged": 3, "unaccounted": 1, "free": 2, "unusable": 0 });
    let queue = json!({
        "queue": "plugin-claims", "card": name, "guaranteed": 0, "deserved": 3, "quota": 3, "used": 3, "borrowed": 0, "waiting": 1,
        "own": { "allocated": 3, "waiting": 1 },
    });
    let node = json!({ "node": "plugin-claims-0", "card": name, "total": 6, "used": 4, "free": 2, "usable": true });
    answers(&scenario, &views, &["top"], |data| {
        row(data, "cards").as_ref() == Some(&cards)
            && row(data, "queues").as_ref() == Some(&queue)
            && row(data, "nodes").as_ref() == Some(&node)
    })
    .await?;
    let data = answers(&scenario, &edits, &["top"], |data| {
        row(data, "cards").as_ref() == Some(&cards)
    })
    .await?;
    assert!(data["nodes"].is_null(), "{data}");

    // Whoever may edit one namespace learns what to write, what is free, and why a pod of theirs waits.
    let data = answers(&scenario, &edits, &["types", "--queue", scenario.name()], |_| true).await?;
    let shown = of_card(&data, &name).map(|row| ["free", "used", "total", "quota"].map(|key| row[key].as_i64()));
    assert_eq!(shown, Some([Some(2), Some(4), Some(6), Some(3)]), "{data}");
    let waits = |data: &Value| data["blocks"][0]["reason"] == NO_QUOTA;
    answers(&scenario, &edits, &["why", "waits"], waits).await?;
    let answer = card(&scenario, &edits, &["why", "waits"]).await?;
    for said in [
        format!("pod waits waits: queue plugin-claims: {name} asked 1, used 3, quota 3\n"),
        format!("{name} is held: 3 by queue plugin-claims (both, pays)\n"),
    ] {
        assert!(answer.out.contains(&said), "{said:?} is missing: {}", answer.out);
    }
    for pod in ["both", "pays", "shares"] {
        let answer = card(&scenario, &edits, &["why", pod]).await?;
        assert!(answer.out.starts_with(&format!("pod {pod} is let in")), "{answer:?}");
    }
    pages(&scenario, &views, &name).await
}

/// The same as pages.
async fn pages(scenario: &Scenario<'_>, user: &str, card: &str) -> Outcome {
    let pages = Pages::serve(scenario, user).await?;
    let cookie = pages.cookie().await?;
    let tile = "2 of 6 free, 3 charged to queues, 1 charged to nobody";
    let page = pages.shows(&cookie, "", &[card, tile, "1 waiting"]).await?;
    assert!(!page.contains("Not shown"), "{page}");
    let of_node = format!("{card}: 4 of 6 used, 2 free");
    pages.shows(&cookie, "nodes?name=plugin-claims-0", &[&of_node]).await?;
    let bar = format!("plugin-claims of {card}: 3 held, of which 0 borrowed; guaranteed 0, deserved 3, quota 3");
    pages.shows(&cookie, "queues", &[&bar]).await?;
    let ask = "why?namespace=plugin-claims&amp;what=pod/waits";
    pages
        .shows(&cookie, "queue?name=plugin-claims", &[&bar, ask, NO_QUOTA])
        .await?;
    let missing = format!("{card} asked 1, used 3, quota 3");
    let why = "why?namespace=plugin-claims&what=pod/waits";
    pages.shows(&cookie, why, &[NO_QUOTA, &missing]).await?;
    let lets_in = ["pod/both", "pod/pays", "let in"];
    pages
        .shows(&cookie, "history?namespace=plugin-claims", &lets_in)
        .await
        .map(drop)
}
