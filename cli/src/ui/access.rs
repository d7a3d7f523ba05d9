//! Who may see the pages: everybody who was given the address, from a browser on this machine.

use std::net::SocketAddr;

use actix_web::HttpRequest;
use actix_web::cookie::{Cookie, SameSite};
use actix_web::http::header::{HOST, ORIGIN};

/// The parameter that carries the key in an address.
pub const PARAMETER: &str = "key";
/// The length of a secret, in bytes, so that nobody guesses it.
const LENGTH: usize = 16;

/// A text that nobody guesses.
#[derive(Debug, Clone)]
struct Secret(String);

impl Secret {
    fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    /// Whether `said` is the secret. The comparison takes the same time whatever is said.
    fn is(&self, said: &str) -> bool {
        let differs = self
            .0
            .bytes()
            .zip(said.bytes())
            .fold(0, |all, (own, other)| all | (own ^ other));
        self.0.len() == said.len() && differs == 0
    }
}

/// What lets a browser in. Other users of the machine can reach the port too, and so can other sites' pages in the user's
/// browser.
///
/// Browsers send cookies to all ports of a host. So the cookie is limited to the path of the pages, which nobody else knows:
/// a program that listens on another port does not get it. And a person who sees the address of a page, over a shoulder or
/// in a history, has no cookie.
#[derive(Debug, Clone)]
pub struct Key {
    /// The first part of the path of all pages.
    place: Secret,
    /// The value of the cookie.
    key: Secret,
}

impl Key {
    /// A new key that nobody guesses.
    pub fn new() -> Result<Self, getrandom::Error> {
        Ok(Self {
            place: Secret::new()?,
            key: Secret::new()?,
        })
    }

    /// The path below which the pages are.
    pub fn root(&self) -> String {
        format!("/{}/", self.place.0)
    }

    /// Whether a path is below the path of the pages, even if there is no such page.
    pub fn has(&self, path: &str) -> bool {
        let rest = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
        rest.is_some_and(|(place, _)| self.place.is(place))
    }

    /// The address that lets a browser in.
    pub fn address(&self, bound: SocketAddr) -> String {
        format!("http://{bound}{}?{PARAMETER}={}", self.root(), self.key.0)
    }

    /// Whether this is the key.
    pub fn is(&self, said: &str) -> bool {
        self.key.is(said)
    }

    /// The cookie by which a browser stays let in. It is sent from no other site, and to no other path of this host.
    pub fn cookie(&self, port: u16) -> Cookie<'static> {
        Cookie::build(cookie_name(port), self.key.0.clone())
            .path(self.root())
            .http_only(true)
            .same_site(SameSite::Strict)
            .finish()
    }

    /// Whether a request comes from a browser that was let in, and names this server by its own name. A page of another site
    /// whose name is made to point to this machine sends that site's name.
    pub fn lets_in(&self, request: &HttpRequest, bound: SocketAddr) -> bool {
        let shown = request.cookie(&cookie_name(bound.port()));
        is_named(request, bound) && shown.is_some_and(|cookie| self.is(cookie.value()))
    }
}

/// Browsers keep cookies by host and path, not by port. So the name contains the port.
fn cookie_name(port: u16) -> String {
    format!("kubectl-card-{port}")
}

/// The port that browsers leave out of a server's name.
const DEFAULT_PORT: u16 = 80;

/// Whether a request names this server, and comes from no other site's page.
pub fn is_named(request: &HttpRequest, bound: SocketAddr) -> bool {
    let mut names = vec![bound.to_string(), format!("localhost:{}", bound.port())];
    if bound.port() == DEFAULT_PORT {
        names.extend([bound.ip().to_string(), "localhost".to_owned()]);
    }
    let header = |name| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let is_own = |host: &str| names.iter().any(|name| name == host);
    header(HOST).is_some_and(is_own)
        && header(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://").is_some_and(is_own))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn bound() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 8200))
    }

    #[test]
    fn no_two_keys_are_the_same_and_only_the_whole_key_is_it() {
        let (key, other) = (Key::new().unwrap(), Key::new().unwrap());
        let said = &*key.key.0;
        assert_eq!((said.len(), key.place.0.len()), (2 * LENGTH, 2 * LENGTH));
        assert!(key.is(said) && !key.is(&other.key.0) && !key.is(&key.place.0));
        assert!(!key.is("") && !key.is(&said[1..]) && !key.is(&format!("{said}0")));
    }

    #[test]
    fn pages_and_the_cookie_are_at_a_place_that_others_do_not_know() {
        let (key, other) = (Key::new().unwrap(), Key::new().unwrap());
        assert_eq!(key.cookie(8200).path(), Some(&*key.root()));
        assert!(key.root().contains(&key.place.0) && !key.root().contains(&key.key.0));
        for path in [key.root(), format!("{}nodes", key.root())] {
            assert!(key.has(&path) && !other.has(&path), "{path}");
        }
        let place = &*key.place.0;
        for path in [
            "/",
            "",
            "//",
            "/nodes",
            &format!("/{place}"),
            &format!("/{place}0/"),
            &format!("//{place}/"),
        ] {
            assert!(!key.has(path), "{path}");
        }
        assert!(
            key.address(bound())
                .starts_with(&format!("http://127.0.0.1:8200/{place}/?key="))
        );
    }

    #[test]
    fn who_shows_the_key_at_the_right_name_is_let_in() {
        let key = Key::new().unwrap();
        let request = |host: &str, cookie: Option<Cookie<'static>>, origin: Option<&str>| {
            let mut request = TestRequest::get().insert_header((HOST, host));
            if let Some(cookie) = cookie {
                request = request.cookie(cookie);
            }
            if let Some(origin) = origin {
                request = request.insert_header((ORIGIN, origin));
            }
            key.lets_in(&request.to_http_request(), bound())
        };
        let cookie = || Some(key.cookie(8200));
        assert!(request("127.0.0.1:8200", cookie(), None));
        assert!(request("localhost:8200", cookie(), Some("http://localhost:8200")));
        assert!(!request("127.0.0.1:8200", None, None));
        assert!(!request("127.0.0.1:8200", Some(Key::new().unwrap().cookie(8200)), None));
        assert!(!request("evil.example:8200", cookie(), None));
        assert!(!request("127.0.0.1:8200", cookie(), Some("http://evil.example")));
    }

    #[test]
    fn the_port_that_browsers_leave_out_may_be_left_out() {
        let is_let_in = |port: u16, host: &str, origin: &str| {
            let key = Key::new().unwrap();
            let request = TestRequest::get()
                .insert_header((HOST, host))
                .insert_header((ORIGIN, origin))
                .cookie(key.cookie(port));
            key.lets_in(&request.to_http_request(), SocketAddr::from(([127, 0, 0, 1], port)))
        };
        for host in ["127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"] {
            assert!(is_let_in(80, host, &format!("http://{host}")), "{host}");
            assert!(!is_let_in(8200, host, "http://localhost:8200"), "{host}");
            assert!(!is_let_in(80, host, "http://evil.example"), "{host}");
        }
        assert!(!is_let_in(80, "evil.example", "http://localhost"));
        assert!(is_let_in(8200, "localhost:8200", "http://localhost:8200"));
    }
}
