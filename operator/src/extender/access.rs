//! Decides which callers may ask the extender: those with a certificate of the authority, or, where a certificate cannot be configured,
//! those with a token.
//!
//! TLS accepts a connection without a certificate, so that a caller that forgot it gets an explanation. TLS ends a connection with a
//! certificate of another authority.

use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, ContentType, WWW_AUTHENTICATE};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use programs::ports::connections::{self, is_certified};
use programs::ports::refusals::{Reason, Refusals};

use super::mounted::Mounted;
use super::{PORT, volcano};
use crate::secret::is_same;

/// Checks every request before any of its content is read.
pub struct Access {
    pub mounted: Arc<Mounted>,
    pub refusals: Refusals,
}

/// Passes on the requests of callers that may ask, and refuses the others.
pub(super) async fn check(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let access = request.app_data::<Data<Access>>();
    if access.is_some_and(|access| access.admits(&request)) {
        let _spared = connections::busy_with_known(request.request());
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    if let Some(access) = access {
        access.refusals.count(PORT, Reason::Unknown);
    }
    let text = "the scheduler extender answers who shows a certificate of Cardgate's authority, such as that of Secret \
                cardgate-extender-client (tlsConfig of a KubeSchedulerConfiguration); under /volcano also who sends the token of \
                Secret cardgate-extender-token, as a bearer token or as the password in urlPrefix\n";
    let refusal = HttpResponse::Unauthorized()
        .insert_header((WWW_AUTHENTICATE, "Basic realm=\"cardgate\""))
        .force_close()
        .content_type(ContentType::plaintext())
        .body(text);
    tracing::debug!(path = request.path(), "somebody unknown asks");
    Ok(request.into_response(refusal))
}

impl Access {
    fn admits(&self, request: &ServiceRequest) -> bool {
        is_certified(request.request())
            || (request.path().starts_with(volcano::PREFIX)
                && self
                    .mounted
                    .token()
                    .is_some_and(|token| shows(request, token.as_bytes())))
    }
}

/// Whether a request shows the token, as a bearer token or as a password.
fn shows(request: &ServiceRequest, token: &[u8]) -> bool {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some((scheme, shown)) = header.and_then(|header| header.split_once(' ')) else {
        return false;
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_same(shown.as_bytes(), token);
    }
    let decoded = STANDARD.decode(shown).unwrap_or_default();
    let colon = decoded.iter().position(|byte| *byte == b':');
    let password = colon.map(|colon| &decoded[colon + 1..]);
    scheme.eq_ignore_ascii_case("basic") && password.is_some_and(|password| is_same(password, token))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn tokens_are_bearer_tokens_or_passwords() {
        let token = b"0123456789abcdef";
        for (header, expected) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Basic dm9sY2FubzowMTIzNDU2Nzg5YWJjZGVm", true),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer", false),
            ("Bearer ", false),
            ("0123456789abcdef", false),
            ("Basic 0123456789abcdef", false),
            ("Basic MDEyMzQ1Njc4OWFiY2RlZg==", false),
            ("Digest 0123456789abcdef", false),
        ] {
            let request = TestRequest::default()
                .insert_header((AUTHORIZATION, header))
                .to_srv_request();
            assert_eq!(shows(&request, token), expected, "{header}");
        }
        assert!(!shows(&TestRequest::default().to_srv_request(), token));
    }
}
