//! Plain HTTP to the health and metrics ports of a child process.

use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Nothing on the loopback interface that is alive takes longer.
const LIMIT: Duration = Duration::from_secs(5);

/// GETs `http://<address><path>` and returns the status code and the text.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let url = format!("http://{address}{path}");
    let request = async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<&[u8]>>();
        let response = client.get(url.parse()?).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok::<_, anyhow::Error>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(LIMIT, request)
        .await
        .with_context(|| format!("GET {url}: no answer within {} s", LIMIT.as_secs()))?
        .with_context(|| format!("GET {url}"))
}
