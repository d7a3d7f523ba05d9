//! The pages in a real browser: live, by keyboard, in light and dark, on a telephone. Pictures of them are left in `target/pictures`.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use ::http::Request;
use anyhow::{Context, Result, ensure};
use cardgate_tests::http;
use cardgate_tests::nodes;
use cardgate_tests::ports::Port;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{pod, queue};
use cardgate_tests::workspace;
use cardgate_tests::world::World;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::live::{many_nodes_are_several_pages, what_is_shown_stays_while_the_cluster_does_not_answer};
use super::{Pages, viewer};
use crate::{NO_QUOTA, Outcome};

/// The card of which shares are given out.
const SHARED: &str = "NVIDIA-H100-80GB-HBM3/mgpu";
/// The views, each with the name of its picture.
const VIEWS: [(&str, &str); 6] = [
    ("cards", ""),
    ("nodes", "nodes"),
    ("queues", "queues"),
    ("queue", "queue?name=team-a"),
    ("history", "history"),
    ("why", "why?what=pod/evaluation"),
];

/// What is wrong on a page for those who can't see it, or not well: pictures and fields without words, text that is too faint (WCAG 2.2,
/// 1.4.3), and what does not fit.
pub const FAULTS: &str = r"
    const faults = [];
    const name = (element) => element.outerHTML.slice(0, 120);
    for (const picture of document.querySelectorAll('[role=img]')) if (!picture.getAttribute('aria-label')) faults.push('no words: ' + name(picture));
    for (const field of document.querySelectorAll('input')) if (!field.labels.length) faults.push('no label: ' + name(field));
    for (const link of document.querySelectorAll('a, button')) if (!link.textContent.trim()) faults.push('no words: ' + name(link));
    const parse = (colour) => { const parts = colour.match(/[\d.]+/g).map(Number); return parts.length === 3 ? [...parts, 1] : parts; };
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour[3] > 0) return colour; }
        return [255, 255, 255, 1];
    };
    for (const element of document.querySelectorAll('body *')) {
        const words = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
        if (!words || element.closest('svg') || !element.getClientRects().length) continue;
        const [one, other] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
        const contrast = (one + 0.05) / (other + 0.05);
        if (contrast < 4.5) faults.push('contrast ' + contrast.toFixed(2) + ': ' + name(element));
    }
    const width = document.documentElement.scrollWidth;
    if (width > innerWidth) faults.push('wider than the window: ' + width + ' of ' + innerWidth);
    return faults;
";

/// What those who don't see the pages hear of their parts: page, part, role, and how its name begins.
const HEARD: [(&str, &str, &str, &str); 16] = [
    ("", "header nav", "navigation", "Views"),
    ("", "a.skip", "link", "Skip to the content"),
    ("", "header nav a[aria-current=page]", "link", "Cards"),
    ("", "main", "main", ""),
    ("", "h1", "heading", "Cards"),
    ("", "li.tile", "listitem", ""),
    ("", "li.tile h2", "heading", "NVIDIA-A100"),
    ("", "svg.bar", "image", "1 of 12 free, "),
    ("", "footer", "status", ""),
    ("nodes", "#name", "textbox", "Part of a node's name"),
    ("nodes", "svg.bar", "image", "NVIDIA-A100: "),
    ("queues", "table", "table", ""),
    ("queues", "th", "columnheader", "Queue"),
    ("why", "#what", "textbox", "Pod, or KIND/NAME"),
    ("why", "button", "button", "Ask"),
    ("why?what=pod/evaluation", "section", "region", "Answer"),
];

/// A browser.
pub struct Browser {
    /// What drives it.
    pub client: Client,
    /// Where its driver listens.
    driver: String,
    _driver: Child,
}

impl Browser {
    /// Starts one: `arguments` are Chromium's, `telephone` is a small screen that is touched.
    async fn start(arguments: &[&str], telephone: bool) -> Result<Self> {
        let port = Port::take()?;
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", port.number()))
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("this needs chromedriver and chromium: Debian's packages chromium and chromium-driver")?;
        wait::eventually("chromedriver", wait::PATIENCE, async || {
            let answer = http::get(&port.address(), "/status").await;
            Ok(Seen::when(answer.is_ok(), "no answer"))
        })
        .await?;
        let own = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,900",
            "--hide-scrollbars",
        ];
        let arguments = [&own, arguments].concat();
        let mut options = json!({ "args": arguments });
        if telephone {
            options["mobileEmulation"] = json!({ "deviceMetrics": { "width": 390, "height": 844, "pixelRatio": 2.0 } });
        }
        let Value::Object(wanted) = json!({ "goog:chromeOptions": options }) else {
            anyhow::bail!("no object");
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://{}", port.address()))
            .await?;
        Ok(Self {
            client,
            driver: port.address(),
            _driver: driver,
        })
    }

    /// What assistive technology is told of a part of the page that is open: `role` or `label`.
    pub async fn computed(&self, part: &str, what: &str) -> Result<String> {
        let element = self.client.find(Locator::Css(part)).await?.element_id();
        let session = self.client.session_id().await?.context("no session")?;
        let path = format!("session/{session}/element/{}/computed{what}", &*element);
        let answer = http::exchange(Request::get(format!("http://{}/{path}", self.driver))).await?;
        let answer: Value = serde_json::from_str(answer.body())?;
        Ok(answer["value"].as_str().with_context(|| answer.to_string())?.to_owned())
    }

    /// All that there is on pages is heard for what it is.
    async fn is_heard(&self, pages: &Pages) -> Outcome {
        for (page, part, role, name) in HEARD {
            self.client.goto(&pages.address(page)).await?;
            let (found, label) = (self.computed(part, "role").await?, self.computed(part, "label").await?);
            // Browsers have begun to call pictures by their newer name.
            let found = if found == "img" { "image" } else { &*found };
            ensure!(
                found == role && label.starts_with(name),
                "{page} {part}: {found} {label:?}"
            );
        }
        Ok(())
    }

    /// Somebody else's port of this machine is shown no cookie, whatever it is asked for.
    async fn shows_nothing_elsewhere(&self) -> Outcome {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&asked);
        let lure = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = vec![0; 16_384];
                let length = stream.read(&mut buffer).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                heard.lock().await.push_str(&text);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlured";
                let _ = stream.write_all(answer).await;
            }
        });
        for path in ["/", "/nodes", "/why?what=pod/evaluation"] {
            self.client.goto(&format!("http://{address}{path}")).await?;
            self.reads("lured").await?;
        }
        lure.abort();
        let asked = asked.lock().await;
        ensure!(asked.contains("GET /nodes "), "{asked}");
        ensure!(!asked.to_lowercase().contains("cookie"), "{asked}");
        Ok(())
    }

    pub async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Awaits words on the page that is open.
    pub async fn reads(&self, words: &str) -> Outcome {
        wait::eventually(format!("{words:?} on the page"), wait::PATIENCE, async || {
            let text = self.run("return document.body.innerText").await?;
            let text = text.as_str().unwrap_or_default().to_owned();
            Ok(Seen::when(text.contains(words), text))
        })
        .await
    }

    /// Goes through all views: nothing is wrong on any, and a picture of each is kept.
    async fn views(&self, pages: &Pages, look: &str) -> Outcome {
        self.client.goto(&pages.entry).await?;
        let pictures = pictures()?;
        for (name, path) in VIEWS {
            self.client.goto(&pages.address(path)).await?;
            let faults = self.run(FAULTS).await?;
            ensure!(faults == json!([]), "{look}, {path}: {faults:#}");
            let style = "return getComputedStyle(document.querySelector('header')).display";
            ensure!(self.run(style).await? == "flex", "{look}, {path}: no style");
            let body = self.client.find(Locator::Css("body")).await?;
            let picture = body.screenshot().await?;
            fs::write(pictures.join(format!("{name}-{look}.png")), picture)?;
        }
        Ok(())
    }
}

fn pictures() -> Result<PathBuf> {
    let pictures = workspace::target_dir()?.join("pictures");
    fs::create_dir_all(&pictures)?;
    Ok(pictures)
}

/// A cluster with something of everything that pages show: a node that takes no pods, a queue that borrows, one whose guarantee is kept
/// free, shares of cards, and a pod that waits.
async fn furnish(world: &World, scenario: &Scenario<'_>) -> Outcome {
    let conf =
        "tiers: [{plugins: [{name: capacity-card}, {name: predicates, arguments: {predicate.MGPUEnable: true}}]}]";
    world.cardgate.configure(&world.plane, Some(conf), None).await?;
    let plane = scenario.plane();
    plane
        .create_nodes(&[
            nodes::nvidia("a100-1", "NVIDIA-A100", 4, 81_920),
            nodes::nvidia("a100-2", "NVIDIA-A100", 4, 81_920),
            nodes::nvidia("a100-3", "NVIDIA-A100", 4, 81_920).cordoned(),
            nodes::nvidia("h100-1", "NVIDIA-H100", 8, 81_559),
            nodes::vke_mgpu("shared-1").label("vke.volcengine.com/mgpu-compute-policy", "fixed-share"),
        ])
        .await?;
    let queue = |name: &str| queue(name).capability("cpu", "100").capability("memory", "1000Gi");
    let deserved = json!({ "NVIDIA-A100": 4 }).to_string();
    for queue in [
        queue("team-a")
            .quota("NVIDIA-A100", 8)
            .quota("NVIDIA-H100", 2)
            .annotation(CARD_DESERVED, &deserved),
        queue("team-b")
            .quota("NVIDIA-A100", 8)
            .quota("NVIDIA-H100", 4)
            .annotation(CARD_DESERVED, &deserved)
            .annotation(CARD_GUARANTEE, &json!({ "NVIDIA-A100": 2 }).to_string()),
        queue("vision").quota(SHARED, 400),
    ] {
        plane.apply(&queue.build()).await?;
    }
    let whole = |name: String, queue: &str, card: &str| {
        let pod = pod(&name).namespace(scenario.name()).queue(queue).card(card);
        pod.request("nvidia.com/gpu", 1).build()
    };
    for (queue, card, count) in [
        ("team-a", "NVIDIA-A100", 6),
        ("team-b", "NVIDIA-A100", 1),
        ("team-a", "NVIDIA-H100", 2),
    ] {
        for index in 0..count {
            let name = format!("{queue}-{}-{index}", card.to_lowercase());
            scenario.create(&whole(name, queue, card)).await?;
        }
    }
    for index in 0..3 {
        let pod = pod(&format!("notebook-{index}"))
            .namespace(scenario.name())
            .queue("vision")
            .card(SHARED);
        let pod = pod.request("vke.volcengine.com/mgpu-core", 30);
        scenario
            .create(&pod.request("vke.volcengine.com/mgpu-memory", 16_384).build())
            .await?;
    }
    let waiting = whole("evaluation".to_owned(), "team-a", "NVIDIA-H100");
    scenario.create(&waiting).await?;
    scenario.waits("evaluation", NO_QUOTA).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs Debian's packages chromium and chromium-driver, which .ci/run installs"]
async fn pages_are_live_and_can_be_used_by_everybody() -> Outcome {
    // A world of its own, so that pictures show nothing else.
    let world = World::start().await?;
    let scenario = Scenario::begin(&world, "research").await?;
    let views = viewer(&scenario).await?;
    furnish(&world, &scenario).await?;
    let pages = Pages::serve(&scenario, &views).await?;
    let cookie = pages.cookie().await?;
    pages
        .shows(&cookie, "", &["6 of 8 free", "card-NVIDIA-H100-team-a", "1 waiting"])
        .await?;
    pages
        .shows(&cookie, "", &["1 of 12 free", "4 on nodes that take no pods"])
        .await?;
    pages.shows(&cookie, "nodes", &["90 of 100 compute"]).await?;

    let browser = Browser::start(&[], false).await?;
    browser.views(&pages, "light").await?;
    Browser::start(&["--blink-settings=preferredColorScheme=0"], false)
        .await?
        .views(&pages, "dark")
        .await?;
    Browser::start(&[], true).await?.views(&pages, "telephone").await?;

    browser.is_heard(&pages).await?;
    browser.shows_nothing_elsewhere().await?;

    // The first key leads past what all pages have.
    let client = &browser.client;
    client.goto(&pages.address("")).await?;
    client.active_element().await?.send_keys(&Key::Tab.to_string()).await?;
    let skip = client.active_element().await?;
    assert_eq!(skip.text().await?, "Skip to the content");
    skip.send_keys(&Key::Enter.to_string()).await?;
    assert_eq!(browser.run("return document.activeElement.id").await?, "content");

    // What changes in the cluster changes on the page, and nothing else does: the focus stays, and nothing is loaded anew.
    let link = "card-NVIDIA-H100-team-a";
    let focus = format!("document.getElementById('{link}').focus(); window.stays = true");
    browser.run(&focus).await?;
    browser.reads("6 of 8 free").await?;
    let quota = format!("{CARD_QUOTA}={}", json!({ "NVIDIA-A100": 8, "NVIDIA-H100": 3 }));
    scenario
        .plane()
        .kubectl()
        .run(["annotate", "queue", "team-a", &quota, "--overwrite"])
        .await?;
    browser.reads("5 of 8 free").await?;
    assert_eq!(browser.run("return document.activeElement.id").await?, link);
    assert_eq!(browser.run("return window.stays").await?, true);

    // From the card to its queue, to what waits there, to why, each by a click or the Enter key.
    let another = pod("another")
        .namespace(scenario.name())
        .queue("team-a")
        .card("NVIDIA-H100");
    scenario.create(&another.request("nvidia.com/gpu", 1).build()).await?;
    client
        .find(Locator::Id(link))
        .await?
        .send_keys(&Key::Enter.to_string())
        .await?;
    browser
        .reads("1 of 1 that wait (1 pod in all), first to go first")
        .await?;
    let waiting = Locator::LinkText("Pod research/another");
    client.wait().for_element(waiting).await?.click().await?;
    browser
        .reads("queue team-a: NVIDIA-H100 asked 1, used 3, quota 3")
        .await?;
    browser.reads("kubectl card why pod/another -n research").await?;
    let field = client.find(Locator::Id("what")).await?;
    field.clear().await?;
    field.send_keys(&format!("pod/nobody{}", Key::Enter)).await?;
    browser.reads("is not known in namespace").await?;
    what_is_shown_stays_while_the_cluster_does_not_answer(&browser, &pages).await?;
    many_nodes_are_several_pages(&browser, &pages, &scenario).await
}
