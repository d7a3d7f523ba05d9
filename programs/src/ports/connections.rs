//! The connections of a port. Their number is bounded: for a new connection, the one that has been idle for longest is ended, those without
//! a certificate first. Connections that are being answered are spared as long as they are at most half of all. Otherwise slow answers to a
//! client that sends many requests would leave other clients no connection, or not for long enough to ask.

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
    /// The connections with a request that is being answered.
    busy: BTreeMap<Place, TcpStream>,
    /// The other connections.
    idle: BTreeMap<Place, TcpStream>,
}

/// The place of a connection in its map. Connections of strangers come before those that have a certificate, or whose client is known;
/// within each group, the order is that in which they became busy, or idle.
type Place = (bool, u64);

impl State {
    /// Removes the connection that makes way for a new one.
    fn make_way(&mut self, is_certified: bool) -> Option<(Reason, TcpStream)> {
        let most_are_busy = self.busy.len() > self.idle.len();
        match self.busy.first_entry() {
            Some(longest) if most_are_busy && longest.key().0 <= is_certified => Some((Reason::Busy, longest.remove())),
            _ => self.idle.pop_first().map(|(_, idle)| (Reason::Idle, idle)),
        }
    }

    /// Returns the next number. The numbers order places.
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
    /// Returns the connections of the port that metrics call `port`, with at most `most` connections at once.
    pub fn new(port: &'static str, most: usize, refusals: Refusals) -> Arc<Self> {
        Arc::new(Self {
            port,
            most,
            refusals,
            state: Mutex::default(),
        })
    }

    /// Registers a connection that begins. Call it from [`actix_web::HttpServer::on_connect`].
    pub fn begin(self: &Arc<Self>, stream: &dyn Any, data: &mut Extensions) {
        let (tcp, is_certified) = match stream.downcast_ref::<TlsStream<net::TcpStream>>() {
            Some(tls) => {
                let (tcp, session) = tls.get_ref();
                (Some(tcp), session.peer_certificates().is_some())
            }
            None => (stream.downcast_ref::<net::TcpStream>(), false),
        };
        data.insert(Certified(is_certified));
        // A second handle allows ending the connection from outside. Without one (too many open files), the connection lives until a time
        // limit ends it.
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
            // The connection may have ended by itself.
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

/// Whether a connection has shown a certificate that was accepted.
struct Certified(bool);

/// Whether a request came over a connection with a certificate, which TLS has verified.
pub fn is_certified(request: &HttpRequest) -> bool {
    request.conn_data::<Certified>().is_some_and(|certified| certified.0)
}

/// A registered connection; dropping it removes it.
#[derive(Debug)]
struct Connection {
    port: Arc<Connections>,
    is_certified: bool,
    /// The connection's number among the idle connections of its group.
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

/// Spares the connection of a request that is being answered, since the request has arrived as a whole. Returns none if the connection is
/// not registered as idle.
pub fn busy(request: &HttpRequest) -> Option<Busy> {
    request.conn_data::<Arc<Connection>>()?.busy(false)
}

/// Spares the connection of a request whose client is known. Connections of strangers never end it.
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
        // There is no entry if the connection has made way.
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

    /// Returns the client's end of a new connection, and the port's record of it.
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
        // The first connection has had a request since, and the third one is being answered.
        drop(first_book.busy(false));
        let answering = third_book.busy(false);
        let (fourth, _fourth_book) = connect(&port, &listener);
        assert!(has_ended(&second));
        assert!(!has_ended(&first) && !has_ended(&third) && !has_ended(&fourth));
        let (fifth, fifth_book) = connect(&port, &listener);
        assert!(has_ended(&first) && !has_ended(&third) && !has_ended(&fifth));
        drop(answering);
        assert!(!has_ended(&third));
        // A connection that has ended leaves room.
        drop(fifth_book);
        let (_sixth, _sixth_book) = connect(&port, &listener);
        assert!(!has_ended(&fourth));
        // An answer does not bring back a connection that has made way.
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
        // Of the connections with a certificate, the one that has been idle for longest makes way.
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
        // The answer to it, which nobody reads, does not bring it back.
        drop(answering_second);
        assert!(second_book.busy(false).is_none());
        // A new connection has time to ask, whatever comes next. If as many connections are idle, the longest idle one goes first.
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
