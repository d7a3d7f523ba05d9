//! Ways to talk to the API server: kubeconfig files and clients for any identity.

use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

/// An API server and the certificate authority to trust for it.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub server: String,
    pub ca: std::path::PathBuf,
}

/// Who speaks: the holder of a token, maybe on behalf of someone else.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    pub token: String,
    pub impersonate: Option<String>,
}

impl Endpoint {
    fn kubeconfig(&self, credentials: &Credentials) -> serde_json::Value {
        let mut user = json!({ "token": credentials.token });
        if let Some(name) = &credentials.impersonate {
            user["as"] = json!(name);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "cardgate", "cluster": { "server": self.server, "certificate-authority": self.ca } }],
            "users": [{ "name": "cardgate", "user": user }],
            "contexts": [{ "name": "cardgate", "context": { "cluster": "cardgate", "user": "cardgate" } }],
            "current-context": "cardgate",
        })
    }

    /// Writes a kubeconfig file. JSON is YAML.
    pub fn write_kubeconfig(&self, credentials: &Credentials, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.kubeconfig(credentials))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Makes a client. It belongs to the async runtime that it is made in.
    pub async fn client(&self, credentials: &Credentials) -> Result<Client> {
        let kubeconfig: Kubeconfig = serde_json::from_value(self.kubeconfig(credentials))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }
}
