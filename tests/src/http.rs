//! HTTP to the ports of a child process.

use std::io::Cursor;
use std::time::Duration;

use anyhow::{Context, Result};
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use serde_json::Value;

/// Nothing on the loopback interface that is alive takes longer.
const LIMIT: Duration = Duration::from_secs(5);

type Body = Full<Cursor<Vec<u8>>>;

/// GETs `http://<address><path>` and returns the status code and the text.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    ask_plainly(Request::get(format!("http://{address}{path}")), Vec::new()).await
}

/// POSTs JSON to `http://<address><path>` and returns the status code and the text.
pub async fn post(address: &str, path: &str, body: &Value) -> Result<(u16, String)> {
    let request = Request::post(format!("http://{address}{path}"));
    ask_plainly(
        request.header(CONTENT_TYPE, "application/json"),
        serde_json::to_vec(body)?,
    )
    .await
}

/// POSTs JSON to `https://<address><path>` and returns the status code and the text.
pub async fn post_tls(tls: &ClientConfig, address: &str, path: &str, body: &Value) -> Result<(u16, String)> {
    let request = Request::post(format!("https://{address}{path}")).header(CONTENT_TYPE, "application/json");
    send(tls, request, serde_json::to_vec(body)?).await
}

/// Sends any request by HTTPS and returns the status code and the text.
pub async fn send(tls: &ClientConfig, request: http::request::Builder, body: Vec<u8>) -> Result<(u16, String)> {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls.clone())
        .https_only()
        .enable_http1()
        .build();
    ask(Client::builder(TokioExecutor::new()).build(connector), request, body).await
}

/// Sends any request without a body by HTTP and returns the answer, redirections too.
pub async fn exchange(request: http::request::Builder) -> Result<Response<String>> {
    answer(Client::builder(TokioExecutor::new()).build_http(), request, Vec::new()).await
}

async fn ask_plainly(request: http::request::Builder, body: Vec<u8>) -> Result<(u16, String)> {
    ask(Client::builder(TokioExecutor::new()).build_http(), request, body).await
}

async fn ask<C>(client: Client<C, Body>, request: http::request::Builder, body: Vec<u8>) -> Result<(u16, String)>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let (head, text) = answer(client, request, body).await?.into_parts();
    Ok((head.status.as_u16(), text))
}

async fn answer<C>(client: Client<C, Body>, request: http::request::Builder, body: Vec<u8>) -> Result<Response<String>>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let request = request.body(Full::new(Cursor::new(body)))?;
    let what = format!("{} {}", request.method(), request.uri());
    let answer = async {
        let (head, body) = client.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok::<_, anyhow::Error>(Response::from_parts(head, text))
    };
    tokio::time::timeout(LIMIT, answer)
        .await
        .with_context(|| format!("{what}: no answer within {} s", LIMIT.as_secs()))?
        .with_context(|| what.clone())
}
