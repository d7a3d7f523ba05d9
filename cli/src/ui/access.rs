//! Who may see the pages: whoever was given the address, from a browser on this machine.

use std::net::SocketAddr;

use actix_web::HttpRequest;
use actix_web::cookie::{Cookie, SameSite};
use actix_web::http::header::{HOST, ORIGIN};

/// What the address carries the key in.
pub const PARAMETER: &str = "key";
/// How many bytes nobody guesses.
const LENGTH: usize = 16;

/// What lets a browser in. Other users of the machine reach the port, too, and so do the pages of others that a browser shows.
#[derive(Debug, Clone)]
pub struct Key(String);

impl Key {
    /// A key that nobody guesses.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    /// The address that lets a browser in.
    pub fn address(&self, bound: SocketAddr) -> String {
        format!("http://{bound}/?{PARAMETER}={}", self.0)
    }

    /// Whether this is the key, found out in the same time whatever it is.
    pub fn is(&self, said: &str) -> bool {
        let differs = self
            .0
            .bytes()
            .zip(said.bytes())
            .fold(0, |all, (own, other)| all | (own ^ other));
        self.0.len() == said.len() && differs == 0
    }

    /// What a browser shows from then on, and to no other site.
    pub fn cookie(&self, port: u16) -> Cookie<'static> {
        Cookie::build(cookie_name(port), self.0.clone())
            .path("/")
            .http_only(true)
            .same_site(SameSite::Strict)
            .finish()
    }

    /// Whether a request comes from who was let in, to this server by its own name: a page of somebody else's whose name suddenly means
    /// this machine says that name.
    pub fn lets_in(&self, request: &HttpRequest, bound: SocketAddr) -> bool {
        let shown = request.cookie(&cookie_name(bound.port()));
        is_named(request, bound) && shown.is_some_and(|cookie| self.is(cookie.value()))
    }
}

/// Browsers keep cookies by host, not by port.
fn cookie_name(port: u16) -> String {
    format!("kubectl-card-{port}")
}

/// Whether a request names this server, and comes from none of another's pages.
pub fn is_named(request: &HttpRequest, bound: SocketAddr) -> bool {
    let names = [bound.to_string(), format!("localhost:{}", bound.port())];
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
        assert_eq!(key.0.len(), 2 * LENGTH);
        assert!(key.is(&key.0) && !key.is(&other.0));
        assert!(!key.is("") && !key.is(&key.0[1..]) && !key.is(&format!("{}0", key.0)));
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
}
