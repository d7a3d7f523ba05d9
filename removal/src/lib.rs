//! Removal: lets go everything that Cardgate holds, then deletes all of Cardgate's own objects.
//!
//! The order makes it safe. First, nothing new is held. Second, the operator stops deciding, because it would evict pods for those that are
//! let go. Then pods and Jobs are let go, and the objects and labels by which they are recognized go last. Every step finds out for itself
//! what is left to do, so a removal that was killed in the middle can be started again.

mod each;
pub mod installed;
mod marked;
pub mod objects;
mod release;
mod request;

use std::fmt::Display;
use std::time::Duration;

use crds::keys::GPU_NODE_LABEL;
use kube::Client;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use each::{Pass, Writes};
use marked::{Job, Node, Pod};
use objects::{Object, Objects};
use request::Obstacle;
pub use request::RequestError;

/// How long API servers may go on calling a webhook that was deleted. They learn of it within moments, but none says when. Objects that
/// were held in that time are let go as well.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// How long API servers may go on enforcing a policy that was deleted: they check for changes every second.
const POLICIES_FORGOTTEN: Duration = Duration::from_secs(3);
/// The first pause after a failure; every further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long a step may make no progress, for example while there is no API server.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long objects may be in deletion with none of them going: a definition goes when all of its objects have gone, one by one.
const GOING: Duration = Duration::from_mins(30);
/// How often an object that cannot be written in its present form is tried again: it may have changed just then.
const TRIES: u32 = 5;
/// How long an API server may take to learn of rights: a server that has just started knows nobody's rights.
const RIGHTS_KNOWN: Duration = Duration::from_secs(8);
/// How long the operator's pods may take to end. After that they can do nothing anyway, since their rights were removed first.
const OPERATORS_END: Duration = Duration::from_mins(1);

/// What is removed, and how.
#[derive(Debug, Clone, Default)]
pub struct Removal {
    /// Change nothing; say what would be done.
    pub dry_run: bool,
    /// Remove the definitions of `Queue` and `PodGroup` too, with all queues and groups, where Cardgate's overlay without Volcano
    /// brought them.
    pub queues: bool,
}

/// Why the removal ended before it was done. When it is started again, it continues where it was.
#[derive(Debug, Error)]
pub enum UninstallError {
    /// Requests failed for minutes, or objects were on their way out for half an hour and none of them went.
    #[error("can't {what}, and got nowhere for minutes: {reason}; start it again to go on")]
    #[expect(missing_docs, reason = "one line says it")]
    Stuck { what: String, reason: String },
    /// The user who runs the removal lacks the right.
    #[error("can't {what}: {reason}; it takes the rights of whoever administers the cluster to remove Cardgate")]
    #[expect(missing_docs, reason = "one line says it")]
    Forbidden { what: String, reason: String },
    /// A request failed that was not to change anything.
    #[error("can't {what}: {source}")]
    #[expect(missing_docs, reason = "one line says it")]
    Request { what: String, source: RequestError },
}

/// Removes Cardgate from a cluster; `namespace` is Cardgate's own.
pub async fn run(client: &Client, namespace: &str, removal: &Removal) -> Result<(), UninstallError> {
    let removing = Removing {
        client,
        objects: Objects::new(client, removal.dry_run),
        dry_run: removal.dry_run,
    };
    removing.all(namespace, removal.queues).await
}

struct Removing<'a> {
    client: &'a Client,
    objects: Objects<'a>,
    dry_run: bool,
}

impl Removing<'_> {
    async fn all(&self, namespace: &str, queues: bool) -> Result<(), UninstallError> {
        // Policies refuse pods that come without the gate. So the webhook configurations that add the gate stay until no API server
        // enforces the policies any more.
        self.delete("no pod is refused for want of a gate", &objects::policies())
            .await?;
        if !self.dry_run {
            sleep(POLICIES_FORGOTTEN).await;
        }
        self.delete("nothing new is held", &objects::doors()).await?;
        let closed = Instant::now();
        self.delete("the operator decides no more", &objects::operator(namespace))
            .await?;
        self.await_end_of_operators(namespace).await?;

        self.let_go(closed).await?;
        self.until_done("nodes lose their label", Duration::ZERO, closed, async |pass| {
            let labelled = Writes::<Node>::new("node", release::without_label);
            pass.over(labelled.selected_by(GPU_NODE_LABEL)).await
        })
        .await?;

        self.delete("what Cardgate showed is removed", &objects::definitions())
            .await?;
        self.queues(queues).await?;
        self.delete("what remains is removed", &objects::rights()).await?;
        self.namespace(namespace).await
    }

    /// Lets all Jobs and pods go; nothing new has been held since `closed`. What keeps one of the three from being done keeps none of the
    /// others, and the conditions, which hold nobody, come last.
    async fn let_go(&self, closed: Instant) -> Result<(), UninstallError> {
        self.until_done("Jobs and pods are let go", FORGOTTEN, closed, async |pass| {
            let jobs = pass.over(Writes::<Job>::new("Job", release::resumption)).await;
            let gates = pass.over(Writes::<Pod>::new("pod", release::without_gate)).await;
            let conditions = Writes::<Pod>::of_status("pod", release::without_condition);
            let conditions = pass.over(conditions).await;
            jobs.and(gates).and(conditions)
        })
        .await
    }

    /// Deletes objects, and waits until they are gone.
    async fn delete(&self, step: &str, objects: &[Object]) -> Result<(), UninstallError> {
        match self.delete_in_time(step, objects).await? {
            0 => Ok(()),
            left => Err(UninstallError::Stuck {
                what: see_to_it(step),
                reason: not_gone(left),
            }),
        }
    }

    /// Deletes objects, and returns how many of them are still on their way out after [`GOING`].
    async fn delete_in_time(&self, step: &str, objects: &[Object]) -> Result<usize, UninstallError> {
        let mut trouble = Trouble::default();
        let (mut fewest, mut since) = (objects.len(), Instant::now());
        loop {
            let (left, failed) = self.objects.delete(objects).await;
            if left < fewest {
                (fewest, since, trouble) = (left, Instant::now(), Trouble::default());
            }
            let obstacle = match failed {
                Some(failed) => failed,
                None if left == 0 => {
                    info!(objects = objects.len(), "{step}");
                    return Ok(0);
                }
                None if self.dry_run => {
                    info!(objects = left, "would be deleted, so that {step}");
                    return Ok(0);
                }
                None if since.elapsed() >= GOING => return Ok(left),
                None => {
                    trouble.since = None;
                    Obstacle {
                        reason: not_gone(left),
                        is_forbidden: false,
                    }
                }
            };
            trouble.again(step, left, obstacle).await?;
        }
    }

    /// Waits for the operator's pods to end. A pod on a lost node never ends, and can do no harm.
    async fn await_end_of_operators(&self, namespace: &str) -> Result<(), UninstallError> {
        let begin = Instant::now();
        while !self.dry_run && begin.elapsed() < OPERATORS_END {
            let running = self.objects.operators(namespace).await;
            match running {
                Ok(0) => return Ok(()),
                Ok(running) => info!(pods = running, "waiting for the operator to end"),
                Err(error) => warn!(%error, "can't list the operator's pods"),
            }
            sleep(FIRST_PAUSE * 2).await;
        }
        Ok(())
    }

    /// Goes over the objects again and again, until a pass has seen all objects that existed when `settle` had passed since `since`.
    /// Cardgate has not held objects that come later, so a user who writes its marks on their own objects without end does not keep it from
    /// being removed. The same holds for objects that cannot be written: they stay as they are, and the log names one of them.
    async fn until_done(
        &self,
        step: &str,
        settle: Duration,
        since: Instant,
        over: impl AsyncFn(&mut Pass) -> Result<(), RequestError>,
    ) -> Result<(), UninstallError> {
        let (mut trouble, mut done, mut tries) = (Trouble::default(), 0, 0);
        loop {
            let mut pass = Pass::new(self.client, self.dry_run);
            let is_last = since.elapsed() >= settle;
            let unread = over(&mut pass).await.err();
            done += pass.done;
            if pass.done > 0 {
                trouble = Trouble::default();
            }
            if let Some(source) = unread {
                trouble.again(step, done, source.into()).await?;
            } else if let Some(obstacle) = pass.failed {
                trouble.again(step, done, obstacle).await?;
            } else if let Some(Obstacle { reason, .. }) = pass.refused.take_if(|_| is_last && tries == TRIES) {
                warn!(reason, "some objects can't be written, and stay as they are: {step}");
                return Ok(());
            } else if let Some(obstacle) = pass.refused {
                tries += u32::from(is_last);
                trouble.again(step, done, obstacle).await?;
            } else if self.dry_run {
                info!(objects = pass.done, "would be written, so that {step}");
                return Ok(());
            } else if is_last {
                info!(objects = done, "{step}");
                return Ok(());
            } else {
                sleep(settle.saturating_sub(since.elapsed())).await;
            }
        }
    }

    /// Removes the definitions of queues and groups if that is asked for. Otherwise they stay, because what people have written in them is
    /// theirs.
    async fn queues(&self, remove: bool) -> Result<(), UninstallError> {
        if remove {
            let ours = self.objects.ours(&objects::queues()).await;
            let ours = ours.map_err(|source| failed("read the definitions of Queue and PodGroup", source))?;
            let left = self.delete_in_time("queues and groups are removed", &ours).await?;
            if left > 0 {
                // Whoever may write a group in one namespace can keep it, and with it the definition.
                warn!(
                    reason = not_gone(left),
                    "queues or groups have a finalizer that somebody else is to take off; their definitions go with the last of them: \
                     kubectl get podgroups.scheduling.volcano.sh,queues.scheduling.volcano.sh --all-namespaces shows them"
                );
            }
            Ok(())
        } else {
            info!("queues, groups and their definitions are kept: --queues removes them, where Cardgate brought them");
            Ok(())
        }
    }

    /// Deletes the namespace. This is the last step, since this program may run in it: its content goes with it, including this program's
    /// own rights.
    async fn namespace(&self, namespace: &str) -> Result<(), UninstallError> {
        if self.dry_run {
            info!(namespace, "would be deleted, with the configuration in it");
            return Ok(());
        }
        let mut trouble = Trouble::default();
        while let Err(error) = self.objects.delete_with_own_rights(namespace).await {
            trouble.again("the namespace is removed", 0, error.into()).await?;
        }
        info!(namespace, "Cardgate is removed: its namespace goes now");
        Ok(())
    }
}

/// For how long a step has made no progress.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<Instant>,
    /// Since when every failure has been a missing right.
    forbidden_since: Option<Instant>,
    pause: Duration,
}

impl Trouble {
    /// Waits before the step is tried again, longer each time. Fails if trying again is of no use.
    async fn again(&mut self, step: &str, objects: usize, obstacle: Obstacle) -> Result<(), UninstallError> {
        let Obstacle { reason, is_forbidden } = obstacle;
        let since = *self.since.get_or_insert_with(Instant::now);
        self.forbidden_since = is_forbidden.then(|| self.forbidden_since.unwrap_or_else(Instant::now));
        if self.forbidden_since.is_some_and(|since| since.elapsed() > RIGHTS_KNOWN) {
            return Err(UninstallError::Forbidden {
                what: see_to_it(step),
                reason,
            });
        }
        if since.elapsed() > PATIENCE {
            return Err(UninstallError::Stuck {
                what: see_to_it(step),
                reason,
            });
        }
        info!(objects, reason, "on the way: {step}");
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        sleep(self.pause).await;
        Ok(())
    }
}

fn see_to_it(step: &str) -> String {
    format!("see to it that {step}")
}

fn not_gone(left: usize) -> String {
    format!("{left} objects are not gone yet")
}

fn failed(what: impl Display, source: RequestError) -> UninstallError {
    UninstallError::Request {
        what: what.to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
