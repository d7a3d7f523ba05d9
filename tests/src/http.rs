//! Plain HTTP to the ports of a child process.

use std::io::Cursor;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Nothing on the loopback interface that is alive takes longer.
const LIMIT: Duration = Duration::from_secs(5);

/// GETs `http://<address><path>` and returns the status code and the text.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    ask(Request::get(format!("http://{address}{path}")), Vec::new()).await
}

/// POSTs JSON to `http://<address><path>` and returns the status code and the text.
pub async fn post(address: &str, path: &str, body: &Value) -> Result<(u16, String)> {
    let request = Request::post(format!("http://{address}{path}"));
    ask(
        request.header(http::header::CONTENT_TYPE, "application/json"),
        serde_json::to_vec(body)?,
    )
    .await
}

async fn ask(request: http::request::Builder, body: Vec<u8>) -> Result<(u16, String)> {
    let request = request.body(Full::new(Cursor::new(body)))?;
    let what = format!("{} {}", request.method(), request.uri());
    let answer = async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Cursor<Vec<u8>>>>();
        let response = client.request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok::<_, anyhow::Error>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(LIMIT, answer)
        .await
        .with_context(|| format!("{what}: no answer within {} s", LIMIT.as_secs()))?
        .with_context(|| what.clone())
}
