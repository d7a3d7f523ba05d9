//! The path to which API servers send reviews. It ends with a secret, which is only written in the webhook configuration. API servers show
//! no certificate to a webhook. So the secret tells them from other clients that reach the port and would ask in another user's name.
//!
//! The operator that leads creates the secret if there is none. To get a new one, remove the path from the configuration.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::stream::BoxStream;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration, WebhookClientConfig};
use kube::Api;
use kube::api::{Patch, PatchParams};
use programs::certificates::provider;
use rustls::crypto::GetRandomFailed;
use serde_json::json;
use thiserror::Error;

use crate::certificates::CONFIGURATION;
use crate::context::Context;
use crate::keep::{KeepError, Keeper, LOOK_AGAIN};
use crate::metrics::{Verb, Write};
use crate::secret::is_same;

/// The webhook through which API servers ask, in the configuration `cardgate`.
pub const WEBHOOK: &str = "reviews.card.volcano.sh";
/// The part of the path before the secret.
const PREFIX: &str = "/review/";
/// Length of the secret before it is encoded.
const SECRET_BYTES: usize = 24;
/// Length of the secret in the path.
const SECRET_CHARACTERS: usize = SECRET_BYTES * 4 / 3;
/// The object, in messages.
const OBJECT: &str = "the MutatingWebhookConfiguration cardgate";

/// The path in use; none before this operator has led for the first time.
#[derive(Debug, Default)]
pub struct ReviewPath(ArcSwapOption<String>);

impl ReviewPath {
    /// Returns a path that is in use already, whoever created it. The operator's own path is in the webhook configuration ([`PathKeeper`]).
    pub fn known(path: String) -> Self {
        Self(ArcSwapOption::from_pointee(path))
    }

    /// Whether a request to this path knows the secret.
    pub(super) fn is(&self, path: &str) -> bool {
        let known = self.0.load();
        known
            .as_ref()
            .is_some_and(|known| is_same(path.as_bytes(), known.as_bytes()))
    }
}

/// The path could not be brought in order. The keeper tries again.
#[derive(Debug, Error)]
pub enum PathError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] KeepError),
    /// This machine provides no random numbers.
    #[error("no random numbers for the path of reviews")]
    Random,
}

impl From<GetRandomFailed> for PathError {
    fn from(_: GetRandomFailed) -> Self {
        Self::Random
    }
}

/// Keeps the path in the webhook configuration, and reads it from there.
pub struct PathKeeper {
    /// Where the path is kept.
    pub context: Context,
    /// Receives the path.
    pub path: Arc<ReviewPath>,
}

impl Keeper for PathKeeper {
    type Error = PathError;
    const OBJECTS: &'static str = "the path of reviews is";

    fn context(&self) -> &Context {
        &self.context
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let api = Api::all(self.context.client.clone());
        self.context.changes::<MutatingWebhookConfiguration>(api, CONFIGURATION)
    }

    async fn reconcile(&mut self) -> Result<Duration, PathError> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let read = api.get_opt(CONFIGURATION);
        let found = self.context.request(read, Verb::Get, "read", OBJECT).await?;
        let webhooks = found.and_then(|found| found.webhooks).unwrap_or_default();
        // Without the webhook nobody asks. The check of the installation reports that it is missing.
        let Some(place) = webhooks.iter().position(|webhook| webhook.name == WEBHOOK) else {
            return Ok(LOOK_AGAIN);
        };
        let path = match secret_path(&webhooks[place].client_config) {
            Some(path) => path.to_owned(),
            None => self.renew(&api, place, &webhooks[place]).await?,
        };
        self.path.0.store(Some(Arc::new(path)));
        Ok(LOOK_AGAIN)
    }
}

impl PathKeeper {
    /// Gives the webhook a new path.
    async fn renew(
        &self,
        api: &Api<MutatingWebhookConfiguration>,
        place: usize,
        webhook: &MutatingWebhook,
    ) -> Result<String, PathError> {
        let path = format!("{PREFIX}{}", random_secret()?);
        self.context.may_write(Write::ReviewPath)?;
        let (params, change) = (PatchParams::default(), Patch::Json::<()>(change(place, webhook, &path)));
        let write = api.patch(CONFIGURATION, &params, &change);
        self.context
            .request(write, Verb::Patch, "write the path of reviews into", OBJECT)
            .await?;
        tracing::info!("API servers bring reviews at a new path that only they know");
        Ok(path)
    }
}

fn random_secret() -> Result<String, GetRandomFailed> {
    let mut bytes = [0; SECRET_BYTES];
    provider().secure_random.fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the path of a webhook, if it ends with a secret.
fn secret_path(client: &WebhookClientConfig) -> Option<&str> {
    let service = client.service.as_ref().and_then(|service| service.path.as_deref());
    let path = client.url.as_deref().map_or(service, |url| Some(split(url).1))?;
    let is_secret = |secret: &str| {
        secret.len() >= SECRET_CHARACTERS
            && secret
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    path.strip_prefix(PREFIX).is_some_and(is_secret).then_some(path)
}

/// Splits a URL into its beginning and its path.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |scheme| scheme + "://".len());
    let path = url[host..].find('/').map_or(url.len(), |path| host + path);
    url.split_at(path)
}

/// Returns a patch that gives a webhook this path. It fails if the webhooks have changed since they were read.
fn change(place: usize, webhook: &MutatingWebhook, path: &str) -> json_patch::Patch {
    let at = format!("/webhooks/{place}");
    let client = format!("{at}/clientConfig");
    let (target, value) = match &webhook.client_config.url {
        Some(url) => (format!("{client}/url"), format!("{}{path}", split(url).0)),
        None => (format!("{client}/service/path"), path.to_owned()),
    };
    let operations = json!([
        { "op": "test", "path": format!("{at}/name"), "value": WEBHOOK },
        { "op": "add", "path": target, "value": value },
    ]);
    serde_json::from_value(operations).expect("these are JSON patch operations")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ServiceReference;

    use super::*;

    const SECRET: &str = "/review/0123456789abcdefghijklmnopqrst-_";

    fn at(path: Option<&str>, url: Option<&str>) -> MutatingWebhook {
        let service = ServiceReference {
            path: path.map(str::to_owned),
            ..ServiceReference::default()
        };
        MutatingWebhook {
            name: WEBHOOK.to_owned(),
            client_config: WebhookClientConfig {
                service: url.is_none().then_some(service),
                url: url.map(str::to_owned),
                ..WebhookClientConfig::default()
            },
            ..MutatingWebhook::default()
        }
    }

    #[test]
    fn a_path_that_ends_with_a_secret_is_taken_as_it_is_and_any_other_replaced() {
        let url = format!("https://127.0.0.1:1{SECRET}");
        for webhook in [at(Some(SECRET), None), at(None, Some(&url))] {
            assert_eq!(secret_path(&webhook.client_config), Some(SECRET));
        }
        let short = SECRET.trim_end_matches('_');
        let strange = format!("{SECRET}?a=b");
        for path in [
            None,
            Some(""),
            Some("/review"),
            Some("/review/"),
            Some(short),
            Some(&*strange),
        ] {
            assert_eq!(secret_path(&at(path, None).client_config), None, "{path:?}");
            let url = format!("https://127.0.0.1:1{}", path.unwrap_or_default());
            assert_eq!(secret_path(&at(None, Some(&url)).client_config), None, "{url}");
        }
    }

    #[test]
    fn what_is_before_the_path_stays() {
        for (webhook, target, value) in [
            (
                at(None, None),
                "/webhooks/2/clientConfig/service/path",
                SECRET.to_owned(),
            ),
            (
                at(Some("/review"), None),
                "/webhooks/2/clientConfig/service/path",
                SECRET.to_owned(),
            ),
            (
                at(None, Some("https://[::1]:8443/review")),
                "/webhooks/2/clientConfig/url",
                format!("https://[::1]:8443{SECRET}"),
            ),
            (
                at(None, Some("https://cardgate.example.com")),
                "/webhooks/2/clientConfig/url",
                format!("https://cardgate.example.com{SECRET}"),
            ),
        ] {
            let expected = json!([
                { "op": "test", "path": "/webhooks/2/name", "value": WEBHOOK },
                { "op": "add", "path": target, "value": value },
            ]);
            assert_eq!(serde_json::to_value(change(2, &webhook, SECRET)).unwrap(), expected);
        }
    }

    #[test]
    fn a_secret_that_is_made_is_one_and_no_two_are_the_same() {
        let (one, other) = (random_secret().unwrap(), random_secret().unwrap());
        assert_ne!(one, other);
        let path = format!("{PREFIX}{one}");
        assert_eq!(secret_path(&at(Some(&path), None).client_config), Some(&*path));
    }

    #[test]
    fn nobody_knows_the_path_before_there_is_one() {
        let path = ReviewPath::default();
        for asked in ["", "/", PREFIX, SECRET] {
            assert!(!path.is(asked));
        }
        path.0.store(Some(Arc::new(SECRET.to_owned())));
        assert!(path.is(SECRET) && !path.is(PREFIX));
    }
}
