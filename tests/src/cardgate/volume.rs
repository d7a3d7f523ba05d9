//! The kubelet's part for one volume: a Secret as a directory, kept up to date as Kubernetes does it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use tokio::sync::oneshot;

use super::NAMESPACE;
use crate::controlplane::ControlPlane;

/// The link to the directory of the current version.
const CURRENT: &str = "..data";
/// The name under which the next link is made, before it takes the place of the other.
const NEXT: &str = "..data_tmp";

/// A mounted Secret of Cardgate's namespace. It is followed until this is dropped.
#[derive(Debug)]
pub(super) struct SecretVolume {
    directory: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    follower: Option<JoinHandle<()>>,
}

impl SecretVolume {
    /// Mounts a Secret, which need not exist yet. It is followed by a thread with a runtime of its own, since a test's ends with
    /// the test.
    pub async fn mount(plane: &ControlPlane, secret: &'static str) -> Result<Self> {
        let directory = plane.dir().join("volumes").join(secret);
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let volume = directory.clone();
        let follower = thread::Builder::new().name(format!("volume {secret}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    followed = follow(config, secret, &volume) => {
                        if let Err(error) = followed {
                            eprintln!("the volume {secret} is not kept up to date any more: {error:#}");
                        }
                    }
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            directory,
            stop: Some(stop),
            follower: Some(follower),
        })
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for SecretVolume {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(follower) = self.follower.take() {
            // It has said already what was wrong.
            let _ = follower.join();
        }
    }
}

/// Publishes every version. A Secret that is deleted leaves its volume as it was, as for a kubelet.
async fn follow(config: Config, secret: &str, volume: &Path) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(Client::try_from(config)?, NAMESPACE);
    let only = watcher::Config::default().fields(&format!("metadata.name={secret}"));
    let mut versions = std::pin::pin!(watcher(secrets, only).default_backoff().applied_objects());
    let mut number = 0_u32;
    while let Some(version) = versions.next().await {
        // A watch that is interrupted begins anew.
        let Ok(version) = version else { continue };
        publish(volume, number, &version.data.unwrap_or_default())?;
        number += 1;
    }
    Ok(())
}

/// Writes a version beside the current one, and exchanges them in one step.
fn publish(volume: &Path, number: u32, files: &BTreeMap<String, ByteString>) -> Result<()> {
    let version = format!("..version-{number}");
    let directory = volume.join(&version);
    fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, content) in files {
        fs::write(directory.join(name), &content.0)?;
        let link = volume.join(name);
        if !link.is_symlink() {
            symlink(Path::new(CURRENT).join(name), link)?;
        }
    }
    let before = fs::read_link(volume.join(CURRENT));
    symlink(&version, volume.join(NEXT))?;
    fs::rename(volume.join(NEXT), volume.join(CURRENT))?;
    if let Ok(before) = before {
        fs::remove_dir_all(volume.join(before))?;
    }
    Ok(())
}
