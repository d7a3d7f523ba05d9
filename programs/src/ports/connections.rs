//! The connections of a port: so many at most, and the one that has done nothing for longest makes way for a new one; first
//! those that have shown no certificate. Whoever is being answered is spared while those are no more than half: slow answers to
//! somebody who sends many requests would otherwise leave others no connection, or not for long enough to ask.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::HttpRequest;
use actix_web::dev::Extensions;
use actix_web::rt::net;

use crate::ports::refusals::{Reason, Refusals};

/// The connections of one port.
pub struct Connections {
    port: &'static str,
    most: usize,
    refusals: Refusals,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Those with a request that is being answered.
    busy: BTreeMap<Place, TcpStream>,
    /// The others.
    idle: BTreeMap<Place, TcpStream>,
}

/// Where a connection is among the others: those of strangers before those with a certificate, or whose author is known; each by the time
/// since when it is busy, or idle.
type Place = (bool, u64);

impl State {
    /// Whoever makes way for a new connection.
    fn make_way(&mut self, is_certified: bool) -> Option<(Reason, TcpStream)> {
        let most_are_busy = self.busy.len() > self.idle.len();
        match self.busy.first_entry() {
            Some(longest) if most_are_busy && longest.key().0 <= is_certified => Some((Reason::Busy, longest.remove())),
            _ => self.idle.pop_first().map(|(_, idle)| (Reason::Idle, idle)),
        }
    }

    /// The next number, by which places are ordered.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Connections")
            .field("port", &self.port)
            .field("busy", &state.busy.len())
            .field("idle", &state.idle.len())
            .finish_non_exhaustive()
    }
}

impl Connections {
    /// The connections of the port of this name, as metrics call it; `most` of them at once.
    pub fn new(port: &'static str, most: usize, refusals: Refusals) -> Arc<Self> {
        Arc::new(Self {
            port,
            most,
            refusals,
            state: Mutex::default(),
        })
    }

    /// Keeps a book of a connection that begins: what [`actix_web::HttpServer::on_connect`] is to call.
    pub fn begin(self: &Arc<Self>, stream: &dyn Any, data: &mut Extensions) {
        let (tcp, is_certified) = match stream.downcast_ref::<TlsStream<net::TcpStream>>() {
            Some(tls) => {
                let (tcp, session) = tls.get_ref();
                (Some(tcp), session.peer_certificates().is_some())
            }
            None => (stream.downcast_ref::<net::TcpStream>(), false),
        };
        data.insert(Certified(is_certified));
        // A second handle, by which it can be ended from outside. Without one (too many open files) it lives as long as the
        // time limits let it.
        let Some(Ok(handle)) = tcp.map(|tcp| tcp.as_fd().try_clone_to_owned()) else {
            return;
        };
        data.insert(Arc::new(self.enter(handle.into(), is_certified)));
    }

    fn enter(self: &Arc<Self>, handle: TcpStream, is_certified: bool) -> Connection {
        let mut state = self.state();
        let number = state.number();
        state.idle.insert((is_certified, number), handle);
        let made_way = (state.idle.len() + state.busy.len() > self.most)
            .then(|| state.make_way(is_certified))
            .flatten();
        drop(state);
        if let Some((reason, connection)) = made_way {
            self.refusals.count(self.port, reason);
            // It may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
        }
        Connection {
            port: Arc::clone(self),
            is_certified,
            number: AtomicU64::new(number),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a connection has shown a certificate that was believed.
struct Certified(bool);

/// Whether a request came over a connection with a certificate, which TLS has verified.
pub fn is_certified(request: &HttpRequest) -> bool {
    request.conn_data::<Certified>().is_some_and(|certified| certified.0)
}

/// One connection; gone when it is dropped.
#[derive(Debug)]
struct Connection {
    port: Arc<Connections>,
    is_certified: bool,
    /// Where it is among the idle ones of its kind.
    number: AtomicU64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let place = self.place();
        self.port.state().idle.remove(&place);
    }
}

/// While this lives, the connection of a request counts as busy.
#[derive(Debug)]
pub struct Busy {
    connection: Arc<Connection>,
    place: Place,
}

/// Spares the connection of a request that is being answered, since it has arrived as a whole. None where no book is kept of it.
pub fn busy(request: &HttpRequest) -> Option<Busy> {
    request.conn_data::<Arc<Connection>>()?.busy(false)
}

/// Spares the connection of a request whose author is known: strangers never end it.
pub fn busy_with_known(request: &HttpRequest) -> Option<Busy> {
    request.conn_data::<Arc<Connection>>()?.busy(true)
}

impl Connection {
    fn place(&self) -> Place {
        (self.is_certified, self.number.load(Ordering::Relaxed))
    }

    fn busy(self: &Arc<Self>, is_known: bool) -> Option<Busy> {
        let mut state = self.port.state();
        let handle = state.idle.remove(&self.place())?;
        let place = (self.is_certified || is_known, state.number());
        state.busy.insert(place, handle);
        Some(Busy {
            connection: Arc::clone(self),
            place,
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.connection.port.state();
        // None where it has made way.
        if let Some(handle) = state.busy.remove(&self.place) {
            self.connection.number.store(state.number(), Ordering::Relaxed);
            state.idle.insert(self.connection.place(), handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Pairs of what a client holds and what the port does.
    fn connect(port: &Arc<Connections>, listener: &TcpListener) -> (TcpStream, Arc<Connection>) {
        connect_as(port, listener, false)
    }

    fn connect_as(port: &Arc<Connections>, listener: &TcpListener, is_certified: bool) -> (TcpStream, Arc<Connection>) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Arc::new(port.enter(server, is_certified)))
    }

    fn has_ended(client: &TcpStream) -> bool {
        let mut client = client;
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn who_did_nothing_for_longest_makes_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Connections::new("test", 3, Refusals::default());
        let (first, first_book) = connect(&port, &listener);
        let (second, _second_book) = connect(&port, &listener);
        let (third, third_book) = connect(&port, &listener);
        // The first has been asked something since, and the third is being answered.
        drop(first_book.busy(false));
        let answering = third_book.busy(false);
        let (fourth, _fourth_book) = connect(&port, &listener);
        assert!(has_ended(&second));
        assert!(!has_ended(&first) && !has_ended(&third) && !has_ended(&fourth));
        let (fifth, fifth_book) = connect(&port, &listener);
        assert!(has_ended(&first) && !has_ended(&third) && !has_ended(&fifth));
        drop(answering);
        assert!(!has_ended(&third));
        // Who has gone leaves room.
        drop(fifth_book);
        let (_sixth, _sixth_book) = connect(&port, &listener);
        assert!(!has_ended(&fourth));
        // Who was made way for is not brought back by an answer.
        assert!(first_book.busy(false).is_none());
    }

    #[test]
    fn who_has_shown_a_certificate_makes_way_last() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Connections::new("test", 2, Refusals::default());
        let (known, _known_book) = connect_as(&port, &listener, true);
        let (stranger, _stranger_book) = connect(&port, &listener);
        let (second, _second_book) = connect(&port, &listener);
        assert!(has_ended(&stranger) && !has_ended(&known) && !has_ended(&second));
        // Of those that have, the one that has done nothing for longest.
        let (third, _third_book) = connect_as(&port, &listener, true);
        let (fourth, _fourth_book) = connect_as(&port, &listener, true);
        assert!(has_ended(&second) && has_ended(&known) && !has_ended(&third) && !has_ended(&fourth));
    }

    #[test]
    fn where_most_are_being_answered_the_one_for_longest_makes_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Connections::new("test", 3, Refusals::default());
        let (first, first_book) = connect(&port, &listener);
        let (second, second_book) = connect(&port, &listener);
        let (third, third_book) = connect(&port, &listener);
        let answering_second = second_book.busy(false);
        let answering_first = first_book.busy(false);
        let answering_third = third_book.busy(false);
        let (fourth, _fourth_book) = connect(&port, &listener);
        assert!(has_ended(&second) && !has_ended(&first) && !has_ended(&third) && !has_ended(&fourth));
        // Its answer, which nobody reads, does not bring it back.
        drop(answering_second);
        assert!(second_book.busy(false).is_none());
        // Who has come has time to ask, whoever comes next; where as many do nothing, that goes first.
        let (fifth, _fifth_book) = connect(&port, &listener);
        assert!(has_ended(&fourth) && !has_ended(&first) && !has_ended(&third) && !has_ended(&fifth));
        drop((answering_first, answering_third));
        let (_sixth, _sixth_book) = connect(&port, &listener);
        assert!(
            has_ended(&fifth) && !has_ended(&first) && !has_ended(&third),
            "they were asked something since"
        );
    }

    #[test]
    fn strangers_end_nobody_who_is_known_and_being_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for is_certified in [false, true] {
            let port = Connections::new("test", 2, Refusals::default());
            let (known, known_book) = connect_as(&port, &listener, is_certified);
            let (_other, other_book) = connect_as(&port, &listener, is_certified);
            let answering = (known_book.busy(!is_certified), other_book.busy(!is_certified));
            let (stranger, _stranger_book) = connect(&port, &listener);
            assert!(has_ended(&stranger) && !has_ended(&known));
            let (second, _second_book) = connect_as(&port, &listener, true);
            assert!(has_ended(&known) && !has_ended(&second));
            drop(answering);
        }
    }
}
