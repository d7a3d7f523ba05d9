use std::pin::pin;
use std::task::Poll;

use futures::future::{LocalBoxFuture, poll_immediate};
use futures::{FutureExt as _, stream};
use proptest::prelude::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;

const LIMITS: Limits = Limits {
    longest: 1000,
    time: Duration::from_secs(4),
    values: Some(VALUES),
};

const VALUES: Values = Values { most: 8, room: 10 };

type Pieces = UnboundedSender<Result<Bytes, PayloadError>>;

/// Returns a sender for the pieces of a body, and the future that reads them.
fn arriving(room: &Arc<Room>) -> (Pieces, LocalBoxFuture<'static, Result<Body, BodyError>>) {
    let (sender, mut receiver) = unbounded_channel();
    let room = Arc::clone(room);
    let reading = async move {
        read(
            &room,
            Box::pin(stream::poll_fn(move |cx| receiver.poll_recv(cx))),
            LIMITS,
        )
        .await
    };
    (sender, reading.boxed_local())
}

fn send(pieces: &Pieces, length: usize) {
    pieces.send(Ok(vec![b'x'; length].into())).unwrap();
}

fn whole(pieces: &[&'static [u8]]) -> impl Stream<Item = Result<Bytes, PayloadError>> + Unpin {
    stream::iter(
        pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece)))
            .collect::<Vec<_>>(),
    )
}

#[tokio::test]
async fn a_body_is_what_its_pieces_say_and_keeps_its_room_until_it_is_answered() {
    let room = Room::new(100_000);
    for (pieces, text) in [
        (&[] as &[&'static [u8]], ""),
        (&[b"abc"], "abc"),
        (&[b"abc", b"", b"d", b"ef"], "abcdef"),
    ] {
        let body = read(&room, whole(pieces), LIMITS).await.unwrap();
        assert_eq!(&*body, text.as_bytes());
        assert!(room.free() <= 100_000 - text.len());
        drop(body);
        assert_eq!(room.free(), 100_000);
    }
}

#[tokio::test]
async fn what_is_read_of_a_body_takes_room_too() {
    let room = Room::new(1_000);
    let body = read(&room, whole(&[b"[1,2,3]"]), LIMITS).await.unwrap();
    assert_eq!(1_000 - room.free(), body.len() + 3 * VALUES.room);
    drop(body);
    assert_eq!(room.free(), 1_000);

    let full = Room::new(b"[1,2,3]".len() + 2 * VALUES.room);
    let refused = read(&full, whole(&[b"[1,2,3]"]), LIMITS).await.unwrap_err();
    assert!(matches!(refused, BodyError::Crowded), "{refused}");
    for many in [
        b"[1,2,3,4,5,6,7,8,9]" as &[u8],
        b"[[[[[[[[[1]]]]]]]]]",
        br#"{"":{"":{"":{"":[[[[[1]]]]]}}}}"#,
    ] {
        let refused = read(&room, whole(&[many]), LIMITS).await.unwrap_err();
        assert!(matches!(refused, BodyError::TooMany(8)), "{refused}");
        assert_eq!(
            (refused.status(), refused.reason()),
            (StatusCode::PAYLOAD_TOO_LARGE, Some(Reason::TooLarge))
        );
    }
    assert_eq!(room.free(), 1_000, "it is given back");
    assert_eq!(full.free(), b"[1,2,3]".len() + 2 * VALUES.room);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_or_too_slow_is_refused() {
    let room = Room::new(100_000);
    let (pieces, reading) = arriving(&room);
    send(&pieces, 900);
    send(&pieces, 101);
    let refused = reading.await.unwrap_err();
    assert_eq!(
        (refused.status(), refused.reason()),
        (StatusCode::PAYLOAD_TOO_LARGE, Some(Reason::TooLarge))
    );

    let (pieces, reading) = arriving(&room);
    send(&pieces, 10);
    let began = tokio::time::Instant::now();
    let refused = reading.await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(began.elapsed(), LIMITS.time);
    assert_eq!(room.free(), 100_000);
}

#[tokio::test]
async fn what_has_been_arriving_for_longest_makes_way() {
    let room = Room::new(1000);
    let (slow, mut slow_body) = arriving(&room);
    let (late, mut late_body) = arriving(&room);
    for (pieces, body) in [(&slow, &mut slow_body), (&late, &mut late_body)] {
        send(pieces, 450);
        assert!(poll_immediate(&mut *body).await.is_none());
    }
    assert_eq!(room.free(), 100);
    // A small body arrives at once; the body that came first is given up for it.
    let small = read(&room, whole(&[&[b'x'; 120]]), LIMITS).await.unwrap();
    let refused = slow_body.await.unwrap_err();
    assert_eq!(
        (refused.status(), refused.reason()),
        (StatusCode::SERVICE_UNAVAILABLE, Some(Reason::Crowded))
    );
    assert!(refused.response().headers().contains_key(RETRY_AFTER));
    // The other body goes on.
    drop(late);
    let late = late_body.await.unwrap();
    assert_eq!(late.len(), 450);
    // A body that has arrived keeps its room, whoever needs room.
    assert_eq!(room.free(), 1000 - 450 - 120);
    let refused = read(&room, whole(&[&[b'x'; 500]]), LIMITS).await.unwrap_err();
    assert!(matches!(refused, BodyError::Crowded));
    drop((small, late));
    assert_eq!(room.free(), 1000);
}

proptest! {
    /// In any order of events, no more room is held than there is, and all of it is given back.
    #[test]
    fn the_room_is_never_overdrawn(steps in proptest::collection::vec((0..6_usize, 0..400_usize, any::<bool>()), 1..80)) {
        // The runtime is not driven, so no time limit is ever reached.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let room = Room::new(2000);
        let mut bodies: Vec<_> = (0..6).map(|_| Some(arriving(&room))).collect();
        let mut done: Vec<Body> = Vec::new();
        for (place, length, ends) in steps {
            let Some((pieces, mut reading)) = bodies[place].take() else {
                bodies[place] = Some(arriving(&room));
                continue;
            };
            let _ = pieces.send(Ok(vec![b'x'; length].into()));
            let pieces = (!ends).then_some(pieces);
            let polled = {
                let waker = futures::task::noop_waker();
                let mut cx = std::task::Context::from_waker(&waker);
                pin!(&mut reading).poll(&mut cx)
            };
            match (polled, pieces) {
                (Poll::Ready(Ok(body)), _) => done.push(body),
                (Poll::Pending, Some(pieces)) => bodies[place] = Some((pieces, reading)),
                _ => {}
            }
            let held: usize = done.iter().map(|body| body.len()).sum();
            prop_assert!(held + room.free() <= 2000);
            if done.len() > 3 {
                done.clear();
            }
        }
        bodies.clear();
        done.clear();
        prop_assert_eq!(room.free(), 2000);
    }
}
