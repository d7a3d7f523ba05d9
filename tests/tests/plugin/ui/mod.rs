//! `kubectl card ui`: who gets its pages, and what stands in them.

mod browser;
mod live;

use ::http::Request;
use ::http::header::{COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use anyhow::{Context, Result, ensure};
use cardgate_tests::http;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use super::{NO_QUOTA, Outcome, command, editor, two_run_and_one_waits, viewer};

/// The plugin while it serves its pages.
pub struct Pages {
    /// What it printed to be opened, with the key.
    entry: String,
    /// Host and port.
    host: String,
    /// The path below which the pages are, which nobody else knows.
    place: String,
    _child: Child,
    /// Where it says more: who closes it ends the plugin.
    _said: Lines<BufReader<ChildStderr>>,
}

impl Pages {
    pub async fn serve(scenario: &Scenario<'_>, user: &str) -> Result<Self> {
        let mut command = command(scenario, user, &["ui", "--port", "0"]).await?;
        let mut child = command
            .kill_on_drop(true)
            .stderr(std::process::Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let line = lines.next_line().await?.context("the plugin said nothing")?;
        let entry = line.strip_prefix("Open ").and_then(|rest| rest.split(' ').next());
        let entry = entry.with_context(|| line.clone())?.to_owned();
        let address = entry.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
        let (host, path) = address.context("no address")?;
        let (place, _) = path.split_once('?').context("no key")?;
        let (host, place) = (host.to_owned(), format!("/{place}"));
        Ok(Self {
            entry,
            host,
            place,
            _child: child,
            _said: lines,
        })
    }

    /// The address of a page.
    fn address(&self, page: &str) -> String {
        format!("http://{}{}{page}", self.host, self.place)
    }

    fn request(&self, page: &str) -> ::http::request::Builder {
        Request::get(self.address(page))
    }

    /// A request for something elsewhere on the same port.
    fn elsewhere(&self, path: &str) -> ::http::request::Builder {
        Request::get(format!("http://{}{path}", self.host))
    }

    /// What a browser shows from then on, once it has opened the address that was printed.
    pub async fn cookie(&self) -> Result<String> {
        let answer = http::exchange(Request::get(&self.entry)).await?;
        ensure!(
            answer.status() == 303 && answer.headers()[LOCATION] == *self.place,
            "{answer:?}"
        );
        let cookie = answer.headers()[SET_COOKIE].to_str()?;
        let path = format!("Path={}", self.place);
        for flag in ["HttpOnly", "SameSite=Strict", &path] {
            ensure!(cookie.contains(flag), "{cookie}");
        }
        Ok(cookie.split(';').next().unwrap_or_default().to_owned())
    }

    /// Awaits a page that has all of it.
    pub async fn shows(&self, cookie: &str, path: &str, wanted: &[&str]) -> Result<String> {
        wait::eventually(format!("{path} shows {wanted:?}"), wait::PATIENCE, async || {
            let answer = http::exchange(self.request(path).header(COOKIE, cookie)).await?;
            let page = answer.into_body();
            Ok(match wanted.iter().find(|part| !page.contains(**part)) {
                None => Seen::Done(page),
                Some(part) => Seen::NotYet(format!("no {part:?} in {page}")),
            })
        })
        .await
    }
}

/// Neither without the key, nor with another, nor from another's page, nor under another's name.
async fn nobody_else_is_let_in(pages: &Pages, cookie: &str, card: &str) -> Outcome {
    let wrong = format!("{}0", &cookie[..cookie.len() - 1]);
    let wrong = if wrong == cookie {
        format!("{}1", &cookie[..cookie.len() - 1])
    } else {
        wrong
    };
    for (refused, what) in [
        (pages.request(""), "no key"),
        (pages.request("?key=0123456789abcdef0123456789abcdef"), "another key"),
        (pages.request("nodes").header(COOKIE, &wrong), "another cookie"),
        (pages.request("nothing"), "no key, where nothing is"),
        (pages.elsewhere("/").header(COOKIE, cookie), "another place"),
        (pages.elsewhere("/nodes").header(COOKIE, cookie), "another place"),
        (
            pages
                .elsewhere("/0123456789abcdef0123456789abcdef/nodes")
                .header(COOKIE, cookie),
            "a guessed place",
        ),
        (
            pages.request("").header(COOKIE, cookie).header(HOST, "evil.example"),
            "another name",
        ),
        (
            pages
                .request("why?what=pod/three")
                .header(COOKIE, cookie)
                .header(ORIGIN, "http://evil.example"),
            "another origin",
        ),
    ] {
        let answer = http::exchange(refused).await?;
        assert_eq!(answer.status(), 401, "{what}");
        assert!(!answer.body().contains(card), "{what}");
    }
    let entry = Request::get(&pages.entry).header(HOST, "evil.example");
    assert_eq!(
        http::exchange(entry).await?.status(),
        401,
        "the key, under another name"
    );
    Ok(())
}

#[tokio::test]
async fn pages_are_for_who_started_them_and_show_what_that_user_may_see() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-ui").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let card = two_run_and_one_waits(&scenario).await?;
    let pages = Pages::serve(&scenario, &views).await?;
    let cookie = pages.cookie().await?;

    nobody_else_is_let_in(&pages, &cookie, &card).await?;
    let tile = "2 of 4 free, 2 charged to queues, 0 charged to nobody";
    let page = pages
        .shows(&cookie, "", &[&card, tile, "queue?name=plugin-ui", "1 waiting"])
        .await?;
    assert!(!page.contains("Not shown"), "{page}");
    pages
        .shows(
            &cookie,
            "nodes",
            &["plugin-ui", &format!("{card}: 2 of 4 used, 2 free")],
        )
        .await?;
    let bar = format!("plugin-ui of {card}: 2 held, of which 0 borrowed; guaranteed 0, deserved 2, quota 2");
    pages.shows(&cookie, "queues", &[&bar]).await?;
    let ask = "why?namespace=plugin-ui&amp;what=pod/three";
    pages
        .shows(
            &cookie,
            "queue?name=plugin-ui",
            &[&bar, "1 of 1 that wait", ask, NO_QUOTA],
        )
        .await?;
    let missing = format!("{card} asked 1, used 2, quota 2");
    let page = pages
        .shows(&cookie, "why?namespace=plugin-ui&what=pod/three", &[NO_QUOTA, &missing])
        .await?;
    assert!(page.contains("kubectl card why pod/three -n plugin-ui"), "{page}");
    pages
        .shows(&cookie, "history", &["pod/one", "pod/two", "let in", "queue/plugin-ui"])
        .await?;

    // What can't be answered says why, and what is asked becomes no part of anything.
    for (path, status, said) in [
        ("queue?name=nobody", 404, "there is no queue"),
        ("why?what=a/b/c", 200, "names nothing"),
        ("why?what=pod/none", 200, "is not known in namespace"),
        ("why?what=pod/three&namespace=..%2F..%2Fnodes", 502, "is no namespace"),
        ("history?namespace=A", 502, "is no namespace"),
        (
            "why?what=%3Cscript%3Ealert(1)%3C/script%3E&namespace=",
            200,
            "&lt;script&gt;",
        ),
        ("nothing", 404, ""),
    ] {
        let answer = http::exchange(pages.request(path).header(COOKIE, &cookie)).await?;
        assert_eq!(answer.status(), status, "{path}: {}", answer.body());
        assert!(answer.body().contains(said), "{path}: {}", answer.body());
        assert!(!answer.body().contains("<script>alert"), "{path}");
        let policy = &answer.headers()["content-security-policy"];
        assert!(policy.to_str()?.starts_with("default-src 'none'"), "{path}");
    }

    // An editor of one namespace sees cards and quotas, and is told what is not shown.
    let pages = Pages::serve(&scenario, &edits).await?;
    let cookie = pages.cookie().await?;
    let page = pages.shows(&cookie, "", &[&card, "Not shown: what queues use"]).await?;
    assert!(page.contains("you may not list cardusages"), "{page}");
    pages
        .shows(&cookie, "nodes", &["you may not list cardinventories"])
        .await?;
    pages.shows(&cookie, "why?what=pod/three", &[NO_QUOTA]).await?;
    Ok(())
}
