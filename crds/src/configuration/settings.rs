//! Cardgate's own settings: `cardgate.yaml`.

use std::time::Duration;

use super::card_drivers::{self, CardDriver};
use super::yaml::{self, Field};
use super::{CARDGATE_YAML, ConfigurationError, duration};
use crate::card_resources::{WELL_KNOWN, matches};
use crate::names::is_object_name;

/// Longest time that can be set. A user who means "for ever" is told so now, instead of by an overflow years later.
const MAX_TIMEOUT: Duration = Duration::from_hours(8760);
/// Shortest [`Settings::inqueue_timeout`]: below it, nobody could make pods in time.
const MIN_INQUEUE_TIMEOUT: Duration = Duration::from_secs(1);
/// Shortest [`Settings::reservation_timeout`]: below it, a busy scheduler would be taken for one that can't place the pod.
const MIN_RESERVATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest user name that is read, in bytes: twice what a service account's can have.
const MAX_USER_NAME: usize = 700;

const DEFAULT_QUEUE: &str = "defaultQueue";
const ADMIT_ON: &str = "admitOn";
const RESERVATION_TIMEOUT: &str = "reservationTimeout";
const TERMINATING_TIMEOUT: &str = "terminatingTimeout";
const UNNAMED_CARDS: &str = "unnamedCards";
const UNQUEUED_CARDS: &str = "unqueuedCards";
const INQUEUE_TIMEOUT: &str = "inqueueTimeout";
const CARD_RESOURCES: &str = "cardResources";
const CARD_DRIVERS: &str = "cardDrivers";
const ENFORCE_CROSS_QUOTA: &str = "enforceCrossQuota";
const ENFORCE_MGPU: &str = "enforceMGPU";
const ENQUEUE: &str = "enqueue";
const STRICT_HIERARCHY: &str = "strictHierarchy";
const SCHEDULERS: &str = "schedulers";

/// The users whose Bindings may carry the pod's own annotations, where nothing else is configured: the stock scheduler, Volcano's
/// where its chart and its manifests install it, and the one that Cardgate's overlay installs.
const DEFAULT_SCHEDULERS: [&str; 4] = [
    "system:kube-scheduler",
    "system:serviceaccount:volcano-system:volcano-scheduler",
    "system:serviceaccount:kube-system:volcano-scheduler",
    "system:serviceaccount:cardgate-system:scheduler",
];

/// When a waiting pod is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitOn {
    /// When its quota allows it and some node can take it now.
    Fit,
    /// When its quota allows it: for clusters whose autoscaler must see unschedulable pods.
    Quota,
}

/// How a policy about nodes is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// A pod waits behind a scheduling gate until there is a node for it, and goes nowhere else.
    Gating,
    /// A scheduler asks Cardgate's scheduler extender which nodes can take the pod, and which are best. The pod is pinned to
    /// none.
    Extender,
}

/// What becomes of a pod that asks for cards without saying which (docs/rules.md, **Card quota**).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnnamedCards {
    /// It is charged for a card that its queue has a quota for.
    #[default]
    Charge,
    /// It is refused.
    Deny,
    /// Its cards are counted against no quota.
    Free,
}

impl UnnamedCards {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Deny => "deny",
            Self::Free => "free",
        }
    }
}

/// What becomes of a pod that asks for cards, where neither it nor its group nor its namespace names a queue (docs/rules.md,
/// **Card quota**).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnqueuedCards {
    /// Its cards are charged to nobody, and shown as unaccounted.
    #[default]
    Count,
    /// It waits for the default queue, and is charged to it.
    Charge,
}

impl UnqueuedCards {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Charge => "charge",
        }
    }
}

/// Cardgate's own settings, from `cardgate.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Queue of pods that name none, in namespaces that name none.
    pub default_queue: String,
    /// When a waiting pod is let in.
    pub admit_on: AdmitOn,
    /// How long the scheduler may take to place an admitted pod before its reservation is given back.
    pub reservation_timeout: Duration,
    /// How long a deleted pod may hold its quota beyond its grace period.
    pub terminating_timeout: Duration,
    /// How long a queue keeps what a `PodGroup` or Job asks for as a whole before the first of its pods is let in. Then it
    /// waits again, behind others.
    pub inqueue_timeout: Duration,
    /// What becomes of a pod that asks for cards without saying which.
    pub unnamed_cards: UnnamedCards,
    /// What becomes of a pod that asks for cards where nothing names a queue.
    pub unqueued_cards: UnqueuedCards,
    /// Card resources: exact names, or prefixes that end in `*`. [`WELL_KNOWN`] are always among them; what nodes are
    /// found to have as cards counts besides.
    pub card_resources: Vec<String>,
    /// Drivers whose devices are cards, besides those that are known by name.
    pub card_drivers: Vec<CardDriver>,
    /// How the quotas of pods without GPU on nodes with GPUs are enforced, where the plugin `crossquota` is enabled.
    pub enforce_cross_quota: Enforcement,
    /// How the cards of mGPU pods are chosen, where `predicate.MGPUEnable` is on.
    pub enforce_mgpu: Enforcement,
    /// Move `PodGroup`s from phase to phase, and reserve quota for those whose pods do not exist yet. Off beside Volcano's
    /// scheduler, which does both.
    pub enqueue: bool,
    /// Deny a queue whose children could use more in sum than it may (docs/rules.md, **Queues**); else a warning.
    pub strict_hierarchy: bool,
    /// The users that are schedulers: their Bindings may carry what the pod is charged by, which is taken off them, since the pod
    /// has it already. From anybody else such a Binding is refused.
    pub schedulers: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_queue: "default".to_owned(),
            admit_on: AdmitOn::Fit,
            reservation_timeout: Duration::from_mins(5),
            terminating_timeout: Duration::from_mins(5),
            inqueue_timeout: Duration::from_mins(10),
            unnamed_cards: UnnamedCards::default(),
            unqueued_cards: UnqueuedCards::default(),
            card_resources: WELL_KNOWN.map(str::to_owned).into(),
            card_drivers: Vec::new(),
            enforce_cross_quota: Enforcement::Gating,
            enforce_mgpu: Enforcement::Gating,
            enqueue: true,
            strict_hierarchy: false,
            schedulers: DEFAULT_SCHEDULERS.map(str::to_owned).to_vec(),
        }
    }
}

impl Settings {
    /// Whether the resource is one of [`Self::card_resources`].
    pub fn is_card_resource(&self, resource: &str) -> bool {
        self.card_resources.iter().any(|pattern| matches(pattern, resource))
    }
}

pub(super) fn read(text: &str, warnings: &mut Vec<String>) -> Result<Settings, ConfigurationError> {
    let mut read = Settings::default();
    let mut document = yaml::document(CARDGATE_YAML, text)?;
    if let Some(field) = document.take(DEFAULT_QUEUE) {
        read.default_queue = queue_name(&field)?;
    }
    if let Some(field) = document.take(ADMIT_ON) {
        let named = [("fit", AdmitOn::Fit), ("quota", AdmitOn::Quota)];
        read.admit_on = field.one_of(named, str::eq, "fit or quota")?;
    }
    if let Some(field) = document.take(RESERVATION_TIMEOUT) {
        read.reservation_timeout = timeout(&field, MIN_RESERVATION_TIMEOUT, "a time from 1s to 8760h, such as 5m")?;
    }
    if let Some(field) = document.take(TERMINATING_TIMEOUT) {
        read.terminating_timeout = timeout(&field, Duration::ZERO, "a time from 0s to 8760h, such as 5m")?;
    }
    if let Some(field) = document.take(INQUEUE_TIMEOUT) {
        read.inqueue_timeout = timeout(&field, MIN_INQUEUE_TIMEOUT, "a time from 1s to 8760h, such as 10m")?;
    }
    if let Some(field) = document.take(UNNAMED_CARDS) {
        let named = [UnnamedCards::Charge, UnnamedCards::Deny, UnnamedCards::Free].map(|value| (value.as_str(), value));
        read.unnamed_cards = field.one_of(named, str::eq, "charge, deny or free")?;
    }
    if let Some(field) = document.take(UNQUEUED_CARDS) {
        let named = [UnqueuedCards::Count, UnqueuedCards::Charge].map(|value| (value.as_str(), value));
        read.unqueued_cards = field.one_of(named, str::eq, "count or charge")?;
    }
    if let Some(field) = document.take(STRICT_HIERARCHY) {
        read.strict_hierarchy = field.boolean()?;
    }
    if let Some(field) = document.take(CARD_RESOURCES) {
        for field in field.list("a list of resource names, such as [amd.com/gpu]")? {
            let pattern = resource_pattern(&field)?;
            if !read.card_resources.contains(&pattern) {
                read.card_resources.push(pattern);
            }
        }
    }
    if let Some(field) = document.take(CARD_DRIVERS) {
        read.card_drivers = card_drivers::read(field, warnings)?;
    }
    if let Some(field) = document.take(ENFORCE_CROSS_QUOTA) {
        read.enforce_cross_quota = enforcement(&field)?;
    }
    if let Some(field) = document.take(ENFORCE_MGPU) {
        read.enforce_mgpu = enforcement(&field)?;
    }
    if let Some(field) = document.take(ENQUEUE) {
        read.enqueue = field.boolean()?;
    }
    if let Some(field) = document.take(SCHEDULERS) {
        let users = field.list("a list of user names, such as [system:kube-scheduler]")?;
        read.schedulers = users.iter().map(user_name).collect::<Result<_, _>>()?;
    }
    let known = [
        DEFAULT_QUEUE,
        ADMIT_ON,
        RESERVATION_TIMEOUT,
        TERMINATING_TIMEOUT,
        INQUEUE_TIMEOUT,
        UNNAMED_CARDS,
        UNQUEUED_CARDS,
        CARD_RESOURCES,
        CARD_DRIVERS,
        ENFORCE_CROSS_QUOTA,
        ENFORCE_MGPU,
        ENQUEUE,
        STRICT_HIERARCHY,
        SCHEDULERS,
    ];
    document.warn_unknown("the settings", &known, warnings);
    Ok(read)
}

fn enforcement(field: &Field) -> Result<Enforcement, ConfigurationError> {
    let named = [("gating", Enforcement::Gating), ("extender", Enforcement::Extender)];
    field.one_of(named, str::eq, "gating or extender")
}

fn timeout(field: &Field, least: Duration, expected: &'static str) -> Result<Duration, ConfigurationError> {
    duration::parse(field.text(expected)?)
        .filter(|time| (least..=MAX_TIMEOUT).contains(time))
        .ok_or_else(|| field.refuse(expected))
}

fn queue_name(field: &Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str = "the name of a queue, in quotes where it is a number: lower case letters, digits, - and .";
    let name = field.text(EXPECTED)?;
    if is_object_name(name) {
        Ok(name.to_owned())
    } else {
        Err(field.refuse(EXPECTED))
    }
}

fn user_name(field: &Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str =
        "a user as the API server knows it, such as system:serviceaccount:volcano-system:volcano-scheduler";
    let name = field.text(EXPECTED)?;
    if name.is_empty() || name.len() > MAX_USER_NAME || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(field.refuse(EXPECTED));
    }
    Ok(name.to_owned())
}

/// Reads a pattern of card resources. They are extended resources, so they have a domain: `*` alone would mean CPU as well.
fn resource_pattern(field: &Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str = "a resource with its domain, such as amd.com/gpu, or the start of one, such as amd.com/*";
    let text = field.text(EXPECTED)?;
    let stem = text.strip_suffix('*').unwrap_or(text);
    let valid = stem
        .split_once('/')
        .is_some_and(|(domain, name)| !domain.is_empty() && (!name.is_empty() || stem != text))
        && stem.matches('/').count() == 1
        && stem
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    if valid {
        Ok(text.to_owned())
    } else {
        Err(field.refuse(EXPECTED))
    }
}
