//! From the body of a request to the body of its answer: all that the door does, apart from HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use crds::bounds::excerpt;
use crds::keys::{CARD_NAME, QUEUE_NAME};
use crds::lean::Text;
use crds::pod::Pod;
use serde::de::IgnoredAny;
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::binding;
use crate::denial::Denial;
use crate::endpoint::Endpoint;
use crate::job::hold;
use crate::knowledge::Knowledge;
use crate::lookup::{LookupError, Lookups};
use crate::metrics::{Metrics, Outcome};
use crate::patch::{Options, PodPatch};
use crate::pod::{Admitted, judge};
use crate::review::{self, Answer, CreateRequest, RawRequest, Request, ReviewError};
use crate::stop::Stop;
use crate::validate::{advice, queue, workload};
use crate::view::{Fresh, Lookup, View};
use crate::warning::Warning;

/// How often one request may ask the API server: once for its group, its namespace and its queue each, and once more for the
/// queue if the group turned out to have another.
const MAX_LOOKUPS: usize = 4;

/// An answer, as HTTP needs it.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status. 200 wherever there is a review to answer, also where its answer is no.
    pub status: u16,
    /// The review, or, beside 200, a text.
    pub body: Vec<u8>,
    /// What became of the request.
    pub outcome: Outcome,
}

/// Why there is no review in the answer. The API server then acts by its `failurePolicy`.
#[derive(Debug, Error)]
enum Failure {
    /// The body is no review.
    #[error("{0}")]
    Review(#[from] ReviewError),
    /// Not everything has been read yet.
    #[error("the webhook is starting and has not read everything yet, {} among it: try again", .0.join(", "))]
    NotReady(Vec<&'static str>),
    /// The API server did not say what the decision rests on.
    #[error("could not ask the API server for {lookup}: {source}")]
    Lookup {
        /// What was asked.
        lookup: Lookup,
        /// What went wrong.
        source: LookupError,
    },
    /// Every answer of the API server led to another question.
    #[error("what the decision rests on changed while it was looked up: try again")]
    Undecided,
    /// The answer could not be written.
    #[error("the answer can't be written: {0}")]
    Write(#[from] serde_json::Error),
}

impl Failure {
    fn status(&self) -> u16 {
        match self {
            Self::Review(_) => 400,
            Self::NotReady(_) => 503,
            Self::Lookup { .. } | Self::Undecided | Self::Write(_) => 500,
        }
    }
}

/// The door. Shared by all workers, and changed by none.
pub struct Door {
    knowledge: Arc<Knowledge>,
    lookups: Arc<dyn Lookups>,
    options: Options,
    metrics: Arc<Metrics>,
}

impl Door {
    /// A door that sees what `knowledge` holds.
    pub fn new(knowledge: Arc<Knowledge>, lookups: Arc<dyn Lookups>, options: Options, metrics: Arc<Metrics>) -> Self {
        Self {
            knowledge,
            lookups,
            options,
            metrics,
        }
    }

    /// What the door measures.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers the body of a request.
    pub async fn answer(&self, endpoint: Endpoint, body: &[u8]) -> Reply {
        let reply = match endpoint {
            Endpoint::Mutate => self.mutate(body).await,
            Endpoint::Validate => self.validate(body).await,
            Endpoint::Advise => self.advise(body).await,
        };
        reply.unwrap_or_else(|failure| {
            warn!(path = endpoint.path(), status = failure.status(), "{failure}");
            Reply {
                status: failure.status(),
                body: failure.to_string().into_bytes(),
                outcome: Outcome::Error,
            }
        })
    }

    async fn mutate(&self, body: &[u8]) -> Result<Reply, Failure> {
        let request = match review::parse::<Pod<Text<'_>>, IgnoredAny>(body) {
            Ok(request) => request,
            // The object alone may be what can't be read; then there is a review to answer.
            Err(error @ ReviewError::Json(_)) => {
                let request: RawRequest<'_> = review::parse(body).map_err(|_| error)?;
                return match request.kind.as_pair() {
                    ("", "Pod") => self.validate_pod(&request).await,
                    ("batch", "Job") => self.hold_job(&request),
                    _ => self.deny(&request, &unknown_kind(Endpoint::Mutate, &request)),
                };
            }
            Err(error) => return Err(error.into()),
        };
        if request.kind.as_pair() == ("batch", "Job") {
            return self.hold_job(&review::parse(body)?);
        }
        if request.kind.as_pair() == ("", "Binding") {
            return self.strip_binding(&request);
        }
        if request.kind.as_pair() != ("", "Pod") {
            return self.deny(&request, &unknown_kind(Endpoint::Mutate, &request));
        }
        match request.object.as_ref().filter(|_| request.is("CREATE")) {
            Some(pod) => match self.judge_pod(&request, pod).await? {
                Ok(admitted) => allow(&request, Some(&admitted.patch), &admitted.warnings),
                Err(denial) => self.deny(&request, &denial),
            },
            None => allow(&request, None, &[]),
        }
    }

    /// A Binding's metadata is read like a pod's, and it has nothing else of interest.
    fn strip_binding(&self, request: &CreateRequest<'_, Pod<Text<'_>>>) -> Result<Reply, Failure> {
        // Who is a scheduler is not known before.
        self.ready()?;
        let Some(object) = &request.object else {
            return allow(request, None, &[]);
        };
        match binding::judge(
            &object.metadata,
            request.username(),
            &self.knowledge.configured().configuration.cardgate.schedulers,
        ) {
            Ok(patch) => allow(request, Some(&patch), &[]),
            Err(denial) => {
                info!(
                    namespace = request.namespace(),
                    pod = request.name(),
                    user = request.username(),
                    reason = denial.reason(),
                    "Binding refused: {denial}"
                );
                self.deny(request, &denial)
            }
        }
    }

    fn hold_job(&self, request: &RawRequest<'_>) -> Result<Reply, Failure> {
        match hold(request) {
            Ok(held) => allow(request, Some(&held.patch), &held.warnings),
            Err(denial) => self.deny(request, &denial),
        }
    }

    async fn validate(&self, body: &[u8]) -> Result<Reply, Failure> {
        let request: RawRequest<'_> = review::parse(body)?;
        let judged = match request.kind.as_pair() {
            ("", "Pod") => return self.validate_pod(&request).await,
            ("scheduling.volcano.sh", "Queue") => {
                self.ready()?;
                self.decide(|view| queue::judge(&request, view)).await?
            }
            ("scheduling.volcano.sh", "PodGroup") | ("batch" | "batch.volcano.sh", "Job") => {
                self.decide(|view| workload::judge(&request, view)).await?
            }
            _ => Err(unknown_kind(Endpoint::Validate, &request)),
        };
        match judged {
            Ok(warnings) => allow(&request, None, &warnings),
            Err(denial) => self.deny(&request, &denial),
        }
    }

    /// Lets everything in. What is not known yet, or can't be asked, is no reason to make anybody wait for advice.
    async fn advise(&self, body: &[u8]) -> Result<Reply, Failure> {
        let request: RawRequest<'_> = review::parse(body)?;
        let warnings = match self.decide(|view| advice::judge(&request, view)).await {
            Ok(Ok(warnings)) => warnings,
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        allow(&request, None, &warnings)
    }

    /// Judges a pod without writing on it.
    async fn validate_pod(&self, request: &RawRequest<'_>) -> Result<Reply, Failure> {
        let Some(object) = request.object.filter(|_| request.is("CREATE")) else {
            return allow(request, None, &[]);
        };
        let judged = match serde_json::from_str::<Pod<Text<'_>>>(object.get()) {
            Ok(pod) => self.judge_pod(request, &pod).await?,
            Err(error) => Err(Denial::Object {
                kind: "Pod".to_owned(),
                error: error.to_string(),
            }),
        };
        match judged {
            Ok(admitted) => allow(request, None, &admitted.warnings),
            Err(denial) => self.deny(request, &denial),
        }
    }

    async fn judge_pod<O, P>(
        &self,
        request: &Request<'_, O, P>,
        pod: &Pod<Text<'_>>,
    ) -> Result<Result<Admitted, Denial>, Failure> {
        let (namespace, user, by_kubelet) = (request.namespace(), request.username(), request.is_by_kubelet());
        let judged = self
            .decide(|view| judge(pod, user, by_kubelet, namespace, view, &self.options))
            .await?;
        match &judged {
            Ok(admitted) => debug!(
                namespace,
                pod = display_name(request.name(), pod),
                card = logged(pod, CARD_NAME).as_deref(),
                queue = admitted.resolved.as_ref().map(|resolved| &*resolved.queue),
                patched = !admitted.patch.is_empty(),
                "pod let in"
            ),
            Err(denial) => info!(
                namespace,
                pod = display_name(request.name(), pod),
                card = logged(pod, CARD_NAME).as_deref(),
                queue = logged(pod, QUEUE_NAME).as_deref(),
                user,
                reason = denial.reason(),
                "pod refused: {denial}"
            ),
        }
        Ok(judged)
    }

    /// Decides by what is known, and asks the API server where the decision would rest on what a watch may not have delivered
    /// yet.
    async fn decide<T>(&self, judge: impl Fn(View<'_>) -> Result<T, Stop>) -> Result<Result<T, Denial>, Failure> {
        let (configured, mut fresh) = (self.knowledge.configured(), Fresh::default());
        loop {
            let view = View {
                knowledge: &self.knowledge,
                configured: &configured,
                fresh: &fresh,
            };
            let lookup = match judge(view) {
                Ok(judged) => return Ok(Ok(judged)),
                Err(Stop::Denied(denial)) => return Ok(Err(denial)),
                Err(Stop::NotReady) => return Err(Failure::NotReady(self.knowledge.missing())),
                Err(Stop::Ask(lookup)) => lookup,
            };
            self.ask(lookup, &mut fresh).await?;
        }
    }

    /// Asks the API server for what a request needs to know.
    async fn ask(&self, lookup: Lookup, fresh: &mut Fresh) -> Result<(), Failure> {
        if fresh.len() == MAX_LOOKUPS {
            return Err(Failure::Undecided);
        }
        let found = self.lookups.find(&lookup).await;
        self.metrics.lookup(&lookup, found.is_ok());
        match found {
            Ok(found) => {
                fresh.add(lookup, found);
                Ok(())
            }
            Err(source) => Err(Failure::Lookup { lookup, source }),
        }
    }

    fn ready(&self) -> Result<(), Failure> {
        if self.knowledge.is_complete() {
            Ok(())
        } else {
            Err(Failure::NotReady(self.knowledge.missing()))
        }
    }

    fn deny<O, P>(&self, request: &Request<'_, O, P>, denial: &Denial) -> Result<Reply, Failure> {
        self.metrics.denied(denial);
        reply(
            request,
            Outcome::Denied,
            &Answer {
                denial: Some(denial),
                ..Answer::default()
            },
        )
    }
}

fn allow<O, P>(request: &Request<'_, O, P>, patch: Option<&PodPatch>, warnings: &[Warning]) -> Result<Reply, Failure> {
    let patch = patch.filter(|patch| !patch.is_empty());
    let outcome = patch.map_or(Outcome::Allowed, |_| Outcome::Patched);
    let answer = Answer {
        patch,
        warnings,
        denial: None,
    };
    reply(request, outcome, &answer)
}

fn reply<O, P>(request: &Request<'_, O, P>, outcome: Outcome, answer: &Answer<'_>) -> Result<Reply, Failure> {
    Ok(Reply {
        status: 200,
        body: answer.write(request.uid())?,
        outcome,
    })
}

fn unknown_kind<O, P>(endpoint: Endpoint, request: &Request<'_, O, P>) -> Denial {
    Denial::Kind {
        path: endpoint.path(),
        kind: request.kind.as_pair().1.to_owned(),
        api_version: request.kind.api_version(),
    }
}

/// An annotation of a pod, as the log shows it: nobody fills the log with what they wrote.
fn logged<'p>(pod: &'p Pod<Text<'_>>, key: &str) -> Option<Cow<'p, str>> {
    pod.metadata.annotations.get(key).map(excerpt)
}

/// A pod's name, or the prefix from which the API server will make one.
fn display_name<'p>(name: &'p str, pod: &'p Pod<Text<'_>>) -> &'p str {
    match (name, &pod.metadata.generate_name) {
        ("", Some(prefix)) => prefix.as_ref(),
        _ => name,
    }
}
