//! Makes every answer readable as text, whatever bytes it contains.
//!
//! API servers keep some of what tenants write unchanged, such as `managedFields` and parameters of claims. A byte in there that is not
//! UTF-8 comes back in every list and watch. kube takes such an answer for broken, so a single pod would keep all pods from being seen.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};

/// Replaces a byte that is not UTF-8. It has the same length, so that an answer stays as long as its headers say.
const UNREADABLE: u8 = b'?';

/// A body with `?` for each byte that is no UTF-8.
#[derive(Debug)]
pub struct Readable<B> {
    body: B,
    /// The beginning of a character that comes in two parts.
    begun: Vec<u8>,
}

/// Returns the answer with a body that is valid text.
pub fn readable<B>(answer: Response<B>) -> Response<Readable<B>> {
    answer.map(|body| Readable {
        body,
        begun: Vec::new(),
    })
}

impl<B> Readable<B> {
    /// Returns the next part as text; none if it is only the beginning of a character.
    fn text(&mut self, part: Bytes) -> Option<Bytes> {
        let part = if self.begun.is_empty() {
            part
        } else {
            let mut whole = std::mem::take(&mut self.begun);
            whole.extend_from_slice(&part);
            whole.into()
        };
        let Err(error) = std::str::from_utf8(&part) else {
            return Some(part);
        };
        let text = if error.error_len().is_none() {
            self.begun = part[error.valid_up_to()..].to_vec();
            part.slice(..error.valid_up_to())
        } else {
            self.without_unreadable(&part)
        };
        (!text.is_empty()).then_some(text)
    }

    fn without_unreadable(&mut self, part: &[u8]) -> Bytes {
        let mut text = Vec::with_capacity(part.len());
        for chunk in part.utf8_chunks() {
            text.extend_from_slice(chunk.valid().as_bytes());
            let rest = chunk.invalid();
            let is_begun = text.len() + rest.len() == part.len()
                && std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                self.begun = rest.to_vec();
            } else {
                text.resize(text.len() + rest.len(), UNREADABLE);
            }
        }
        text.into()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Readable<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        loop {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                None if !this.begun.is_empty() => {
                    let rest = vec![UNREADABLE; std::mem::take(&mut this.begun).len()];
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
                end => return Poll::Ready(end),
            };
            match frame.into_data().map(|part| this.text(part)) {
                Ok(None) => {}
                Ok(Some(text)) => return Poll::Ready(Some(Ok(Frame::data(text)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let begun = u64::try_from(self.begun.len()).unwrap_or(0);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + begun);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use futures::executor::block_on;
    use futures::future::poll_fn;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A body in parts.
    struct Parts(VecDeque<Vec<u8>>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = self.get_mut().0.pop_front();
            Poll::Ready(next.map(|part| Ok(Frame::data(part.into()))))
        }
    }

    fn read(parts: Vec<Vec<u8>>) -> String {
        let mut body = readable(Response::new(Parts(parts.into()))).into_body();
        let mut all = Vec::new();
        while let Some(Ok(frame)) = block_on(poll_fn(|context| Pin::new(&mut body).poll_frame(context))) {
            let part = frame.into_data().unwrap();
            assert!(!part.is_empty() && std::str::from_utf8(&part).is_ok(), "{part:?}");
            all.extend_from_slice(&part);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn bytes_that_are_no_text_become_question_marks_and_characters_in_two_parts_stay() {
        assert_eq!(read(vec![b"{\"a\xff\":1}".to_vec()]), "{\"a?\":1}");
        let euro = "€".as_bytes();
        assert_eq!(
            read(vec![euro[..1].to_vec(), euro[1..2].to_vec(), euro[2..].to_vec()]),
            "€"
        );
        assert_eq!(read(vec![euro[..2].to_vec(), b"x".to_vec()]), "??x");
        assert_eq!(read(vec![b"\xff".to_vec(), euro[..2].to_vec()]), "???");
    }

    proptest! {
        /// A body in any parts keeps its length, and valid text in it stays unchanged.
        #[test]
        fn an_answer_is_text_of_its_own_length(
            text in "[a-z€𝄞]{0,12}", noise in vec(any::<u8>(), 0..6), ends in vec(1_usize..5, 1..20),
        ) {
            let whole = [text.as_bytes(), &noise].concat();
            let (mut parts, mut rest) = (Vec::new(), &whole[..]);
            for end in ends {
                let (part, after) = rest.split_at(end.min(rest.len()));
                parts.push(part.to_vec());
                rest = after;
            }
            parts.push(rest.to_vec());
            parts.retain(|part| !part.is_empty());
            let found = read(parts);
            prop_assert_eq!(found.len(), whole.len());
            prop_assert!(found.starts_with(&text));
            if let Ok(whole) = std::str::from_utf8(&whole) {
                prop_assert_eq!(found, whole);
            }
        }
    }
}
