//! Turns the body of a request into the body of its answer: all that the door does, apart from HTTP.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crds::bounds::excerpt;
use crds::keys::{CARD_NAME, QUEUE_NAME};
use crds::lean::Text;
use crds::pod::Pod;
use serde::de::IgnoredAny;
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::binding;
use crate::brief::brief;
use crate::denial::Denial;
use crate::endpoint::Endpoint;
use crate::job::hold;
use crate::knowledge::Knowledge;
use crate::lookup::{ASKING, LookupError, Lookups};
use crate::patch::{ObjectPatch, Options};
use crate::pod::{AllowedPod, judge};
use crate::review::{self, Answer, CreateRequest, RawRequest, Request, ReviewError};
use crate::stop::Stop;
use crate::validate::{advice, queue, workload};
use crate::view::{Fresh, Lookup, View};
use crate::warning::{Meant, Warning};

/// How often one request may ask the API server: once each for its group, its namespace and its queue, once more for the
/// queue if the group turned out to have another, and for some claims and their classes.
const MAX_LOOKUPS: usize = 16;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Let through as it was.
    Allowed,
    /// Let through with changes.
    Patched,
    /// Refused, in words for the user who sent it.
    Denied,
    /// Not answered by a review.
    Error,
}

/// Counts what the door does.
pub trait Counts: Send + Sync {
    /// Counts a refused request.
    fn denied(&self, denial: &Denial);

    /// Counts a question to the API server.
    fn lookup(&self, lookup: &Lookup, answered: bool);
}

/// Counts nothing.
impl Counts for () {
    fn denied(&self, _: &Denial) {}

    fn lookup(&self, _: &Lookup, _: bool) {}
}

/// An answer, in the form that HTTP needs.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status. It is 200 wherever there is a review to answer, even where the answer is a refusal.
    pub status: u16,
    /// The review; with a status other than 200, a text.
    pub body: Vec<u8>,
    /// What became of the request.
    pub outcome: Outcome,
}

/// The decision about a request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why the request is refused, if it is.
    pub denial: Option<Denial>,
    /// What the request's author is told.
    pub warnings: Vec<Warning>,
    patch: ObjectPatch,
}

impl Verdict {
    /// What is written on the object, as a JSON patch; empty where nothing is written.
    pub fn patch(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(&self.patch)
    }

    fn outcome(&self) -> Outcome {
        match (&self.denial, self.patch.is_empty()) {
            (Some(_), _) => Outcome::Denied,
            (None, true) => Outcome::Allowed,
            (None, false) => Outcome::Patched,
        }
    }
}

/// A verdict, and the uid of the review that it answers.
type Judged<'b> = (Text<'b>, Verdict);

/// Why the answer contains no review. The API server then acts by its `failurePolicy`.
#[derive(Debug, Error)]
pub enum Failure {
    /// The body is no review.
    #[error("{0}")]
    Review(#[from] ReviewError),
    /// Not everything has been read yet.
    #[error("the webhook is starting and has not read everything yet, {} among it: try again", .0.join(", "))]
    NotReady(Vec<&'static str>),
    /// The API server did not answer a question that the decision rests on.
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

/// The door. All workers share it, and none changes it.
pub struct Door {
    knowledge: Arc<Knowledge>,
    lookups: Arc<dyn Lookups>,
    options: Options,
    counts: Arc<dyn Counts>,
}

impl Door {
    /// A door that sees what `knowledge` holds.
    pub fn new(
        knowledge: Arc<Knowledge>,
        lookups: Arc<dyn Lookups>,
        options: Options,
        counts: Arc<dyn Counts>,
    ) -> Self {
        Self {
            knowledge,
            lookups,
            options,
            counts,
        }
    }

    /// Answers the body of a request.
    pub async fn answer(&self, endpoint: Endpoint, body: &[u8]) -> Reply {
        let judged = self.judge(endpoint, body).await;
        let reply = judged.and_then(|(uid, verdict)| {
            let answer = Answer {
                denial: verdict.denial.as_ref(),
                patch: Some(&verdict.patch),
                warnings: &verdict.warnings,
            };
            Ok(Reply {
                status: 200,
                body: answer.write(uid.as_ref())?,
                outcome: verdict.outcome(),
            })
        });
        reply.unwrap_or_else(|failure| {
            // The error text may quote what was sent.
            let text = brief(&failure);
            warn!(path = endpoint.path(), status = failure.status(), "{text}");
            Reply {
                status: failure.status(),
                body: text.into_bytes(),
                outcome: Outcome::Error,
            }
        })
    }

    /// Decides on the body of a request, for a caller that writes the answer in another form.
    pub async fn verdict(&self, endpoint: Endpoint, body: &[u8]) -> Result<Verdict, Failure> {
        Ok(self.judge(endpoint, body).await?.1)
    }

    async fn judge<'b>(&self, endpoint: Endpoint, body: &'b [u8]) -> Result<Judged<'b>, Failure> {
        match endpoint {
            Endpoint::Mutate => self.mutate(body).await,
            Endpoint::Validate => self.validate(body).await,
            Endpoint::Advise => self.advise(body).await,
        }
    }

    async fn mutate<'b>(&self, body: &'b [u8]) -> Result<Judged<'b>, Failure> {
        let request = match review::parse::<Pod<Text<'_>>, IgnoredAny>(body) {
            Ok(request) => request,
            // Perhaps only the object can't be read; then there is a review to answer.
            Err(error @ ReviewError::Json(_)) => {
                let request: RawRequest<'_> = review::parse(body).map_err(|_| error)?;
                return match request.kind.as_pair() {
                    ("", "Pod") => self.validate_pod(&request).await,
                    ("batch", "Job") => Ok(self.hold_job(&request)),
                    _ => Ok(self.deny(&request, unknown_kind(Endpoint::Mutate, &request))),
                };
            }
            Err(error) => return Err(error.into()),
        };
        if request.kind.as_pair() == ("batch", "Job") {
            return Ok(self.hold_job(&review::parse(body)?));
        }
        if request.kind.as_pair() == ("", "Binding") {
            return self.strip_binding(&request);
        }
        if request.kind.as_pair() != ("", "Pod") {
            return Ok(self.deny(&request, unknown_kind(Endpoint::Mutate, &request)));
        }
        Ok(match request.object.as_ref().filter(|_| request.is("CREATE")) {
            Some(pod) => match self.judge_pod(&request, pod).await? {
                Ok(allowed) => self.allow(&request, allowed.patch, allowed.warnings),
                Err(denial) => self.deny(&request, denial),
            },
            None => self.allow(&request, ObjectPatch::default(), Vec::new()),
        })
    }

    /// Reads a Binding's metadata like a pod's; nothing else of a Binding matters.
    fn strip_binding<'b>(&self, request: &CreateRequest<'b, Pod<Text<'b>>>) -> Result<Judged<'b>, Failure> {
        // Before that the schedulers are not known.
        self.ready()?;
        let Some(object) = &request.object else {
            return Ok(self.allow(request, ObjectPatch::default(), Vec::new()));
        };
        Ok(
            match binding::judge(
                &object.metadata,
                request.username(),
                &self.knowledge.configured().configuration.cardgate.schedulers,
            ) {
                Ok(patch) => self.allow(request, patch, Vec::new()),
                Err(denial) => {
                    info!(
                        namespace = request.namespace(),
                        pod = request.name(),
                        user = request.username(),
                        reason = denial.reason(),
                        "Binding refused: {}",
                        brief(&denial)
                    );
                    self.deny(request, denial)
                }
            },
        )
    }

    fn hold_job<'b>(&self, request: &RawRequest<'b>) -> Judged<'b> {
        match hold(request) {
            Ok(allowed) => self.allow(request, allowed.patch, allowed.warnings),
            Err(denial) => self.deny(request, denial),
        }
    }

    async fn validate<'b>(&self, body: &'b [u8]) -> Result<Judged<'b>, Failure> {
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
        Ok(match judged {
            Ok(warnings) => self.allow(&request, ObjectPatch::default(), warnings),
            Err(denial) => self.deny(&request, denial),
        })
    }

    /// Allows everything, with or without advice. No user has to wait for advice that needs something not known yet or not
    /// answered.
    async fn advise<'b>(&self, body: &'b [u8]) -> Result<Judged<'b>, Failure> {
        let request: RawRequest<'_> = review::parse(body)?;
        let warnings = match self.decide(|view| advice::judge(&request, view)).await {
            Ok(Ok(warnings)) => warnings,
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        Ok(self.allow(&request, ObjectPatch::default(), warnings))
    }

    /// Judges a pod without writing on it.
    async fn validate_pod<'b>(&self, request: &RawRequest<'b>) -> Result<Judged<'b>, Failure> {
        let Some(object) = request.object.filter(|_| request.is("CREATE")) else {
            return Ok(self.allow(request, ObjectPatch::default(), Vec::new()));
        };
        let judged = match serde_json::from_str::<Pod<Text<'_>>>(object.get()) {
            Ok(pod) => self.judge_pod(request, &pod).await?,
            Err(error) => Err(Denial::Object {
                kind: "Pod".to_owned(),
                error: error.to_string(),
            }),
        };
        Ok(match judged {
            Ok(allowed) => self.allow(request, ObjectPatch::default(), allowed.warnings),
            Err(denial) => self.deny(request, denial),
        })
    }

    async fn judge_pod<O, P>(
        &self,
        request: &Request<'_, O, P>,
        pod: &Pod<Text<'_>>,
    ) -> Result<Result<AllowedPod, Denial>, Failure> {
        let (namespace, user, by_kubelet) = (request.namespace(), request.username(), request.is_by_kubelet());
        let judged = self
            .decide(|view| judge(pod, user, by_kubelet, namespace, view, &self.options))
            .await?;
        match &judged {
            Ok(allowed) => debug!(
                namespace,
                pod = display_name(request.name(), pod),
                card = logged(pod, CARD_NAME).as_deref(),
                queue = allowed.resolved.as_ref().map(|resolved| &*resolved.queue),
                patched = !allowed.patch.is_empty(),
                "pod allowed"
            ),
            Err(denial) => info!(
                namespace,
                pod = display_name(request.name(), pod),
                card = logged(pod, CARD_NAME).as_deref(),
                queue = logged(pod, QUEUE_NAME).as_deref(),
                user,
                reason = denial.reason(),
                "pod refused: {}",
                brief(denial)
            ),
        }
        Ok(judged)
    }

    /// Decides by what is known. Asks the API server where the decision would rest on something that a watch may not have
    /// delivered yet.
    async fn decide<T>(&self, judge: impl Fn(View<'_>) -> Result<T, Stop>) -> Result<Result<T, Denial>, Failure> {
        let (configured, mut fresh) = (self.knowledge.configured(), Fresh::default());
        let began = Instant::now();
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
            self.ask(lookup, &mut fresh, began).await?;
        }
    }

    /// Asks the API server for what a request needs to know; its judging began at `began`.
    async fn ask(&self, lookup: Lookup, fresh: &mut Fresh, began: Instant) -> Result<(), Failure> {
        if fresh.len() == MAX_LOOKUPS {
            return Err(Failure::Undecided);
        }
        // Once a claim is unknown, nothing certain can be said of the pod's claims, and a review that waits keeps others
        // waiting.
        let is_in_vain = lookup.is_about_claims() && fresh.lacks_claims();
        let found = if began.elapsed() < ASKING && !is_in_vain {
            self.lookups.find(&lookup).await
        } else {
            Err(LookupError::Late)
        };
        self.counts.lookup(&lookup, found.is_ok());
        match found {
            Ok(found) => {
                fresh.add(lookup, found);
                Ok(())
            }
            Err(source) => match lookup.unanswered() {
                Some(unanswered) => {
                    fresh.go_without(lookup, unanswered);
                    Ok(())
                }
                None => Err(Failure::Lookup { lookup, source }),
            },
        }
    }

    fn ready(&self) -> Result<(), Failure> {
        if self.knowledge.is_complete() {
            Ok(())
        } else {
            Err(Failure::NotReady(self.knowledge.missing()))
        }
    }

    fn allow<'b, O, P>(
        &self,
        request: &Request<'b, O, P>,
        patch: ObjectPatch,
        mut warnings: Vec<Warning>,
    ) -> Judged<'b> {
        Meant::fill_in(&mut warnings, &self.knowledge);
        let verdict = Verdict {
            denial: None,
            warnings,
            patch,
        };
        (request.answered(), verdict)
    }

    fn deny<'b, O, P>(&self, request: &Request<'b, O, P>, denial: Denial) -> Judged<'b> {
        self.counts.denied(&denial);
        let verdict = Verdict {
            denial: Some(denial),
            ..Verdict::default()
        };
        (request.answered(), verdict)
    }
}

fn unknown_kind<O, P>(endpoint: Endpoint, request: &Request<'_, O, P>) -> Denial {
    Denial::Kind {
        path: endpoint.path(),
        kind: request.kind.as_pair().1.to_owned(),
        api_version: request.kind.api_version(),
    }
}

/// How much of a name the log shows, in bytes: no object has a longer one.
const LONGEST_NAME: usize = 253;

/// An annotation of a pod, as the log shows it: cut, so that no user can fill the log.
fn logged<'p>(pod: &'p Pod<Text<'_>>, key: &str) -> Option<Cow<'p, str>> {
    pod.metadata.annotations.get(key).map(excerpt)
}

/// A pod's name, or the prefix from which the API server will generate one.
fn display_name<'p>(name: &'p str, pod: &'p Pod<Text<'_>>) -> &'p str {
    match (name, &pod.metadata.generate_name) {
        ("", Some(prefix)) => &prefix.as_ref()[..prefix.as_ref().floor_char_boundary(LONGEST_NAME)],
        _ => name,
    }
}
