//! Makes the sentences of an explanation.

use crds::bounds::{told, told_with};
use crds::format::format_amount;

use super::explanation::{Explanation, Extent, Together, Whose};
use super::found::{NodeCount, Nodes, What};
use super::short::{At, Kept, Place, Short, Used};
use crate::cluster::Cluster;
use crate::cluster::workload::Workload;
use crate::decide::gang::MOST_TRIES;
use crate::reason::{Outlook, Reason};
use crate::refs::WorkloadKind;

/// What a pod is told for which there would be room.
const SET_ASIDE: &str = ", and what comes free is set aside for pods that wait for it";

impl Explanation<'_> {
    /// Returns the reason with its numbers, and what a user can't see from them: that waiting does not help, or that the pod waits for its
    /// own predecessor.
    pub fn message(&self) -> String {
        let said = self.in_numbers();
        match (self.replaces, &self.beyond) {
            (_, Some(beyond)) => in_vain(said, &format!("{}: {}", beyond.said, self.remedy())),
            (Some(old), None) => {
                let whose = format!("your own pod {} of the same Deployment holds some of it", old.name);
                told_with(said, format!("{whose}: {}", self.remedy()))
            }
            (None, None) if self.outlook == Outlook::Never => in_vain(said, &self.remedy()),
            (None, None) => told(said),
        }
    }

    fn in_numbers(&self) -> String {
        let what = match &self.what {
            What::Said(said) => said.clone(),
            What::Quota(short) => match &self.extent {
                Extent::Whole(..) => short.iter().map(|short| as_a_whole(self.cluster, short)).collect(),
                Extent::Alone | Extent::Together(..) => of_quota(self.cluster, short),
            },
            What::Nodes(nodes) => of_nodes(self.cluster, nodes, self.reason),
        };
        match &self.extent {
            Extent::Alone => what,
            Extent::Whole(id, at) => {
                let workload = self.cluster.workload(*id);
                let who = format!("{} {}", workload.kind.as_str(), workload.name);
                let what = if what.is_empty() {
                    "there is room by now, and it is looked at again"
                } else {
                    &what
                };
                format!("{} can't take {who} as a whole: {what}", whose(self.cluster, *at, ","))
            }
            Extent::Together(them) => together(them, &what),
        }
    }
}

impl Reason {
    /// Returns the message for a pod of which nothing more is known than the reason and this text.
    pub(super) fn message(self, said: &str) -> String {
        // The numbers were not looked at, so what they might still decide is not said.
        let outlook = self.outlook(|| true);
        match outlook {
            Outlook::Never => in_vain(said.to_owned(), self.remedy(outlook, true)),
            Outlook::NotYet => told(said.to_owned()),
        }
    }
}

/// Returns what is said where waiting is in vain, with what would help.
fn in_vain(said: String, would_help: &str) -> String {
    told_with(said, format!("waiting can't help: {would_help}"))
}

/// Returns which queue or cluster a level is, as seen from the asking queue. `end` closes the inserted clause.
fn whose(cluster: &Cluster, At { own, level }: At, end: &str) -> String {
    let own_name = &cluster.queue(own).name;
    match level {
        Some(level) if level == own => format!("queue {own_name}"),
        Some(level) => format!(
            "queue {}, of which queue {own_name} is a part{end}",
            cluster.queue(level).name
        ),
        None => format!("the cluster, for queue {own_name}{end}"),
    }
}

/// Returns all that a pod lacks of quota, naming each level only once in a row.
fn of_quota(cluster: &Cluster, all: &[Short]) -> String {
    let (mut text, mut last) = (String::new(), String::new());
    for short in all {
        let Place::Level(at) = short.place else { continue };
        let whose = whose(cluster, at, "");
        text.push_str(if text.is_empty() { "" } else { "; " });
        if whose != last {
            text.push_str(&whose);
            text.push_str(": ");
            last = whose;
        }
        text.push_str(&numbers(cluster, short));
    }
    text
}

/// Returns what a pod asks for, what is used, and the limit.
fn numbers(cluster: &Cluster, short: &Short) -> String {
    let word = match short.kept {
        Kept::WhileBorrowing | Kept::AsDeserved | Kept::AsLeft => "deserved",
        Kept::ForNobody | Kept::ForBetters | Kept::ForWhoLooks | Kept::ForClaimants => "quota",
    };
    let limit = short.limit.map(|limit| format!(", {word} {}", short.format(limit)));
    let reserved = match short.used {
        Used::ByPods { reserved, .. } if reserved > 0 => {
            format!(", {} of them kept free by guarantees", short.format(reserved))
        }
        Used::ByPods { .. } | Used::ByWorkloads { .. } => String::new(),
    };
    let kept = match short.kept {
        Kept::ForNobody | Kept::ForWhoLooks => "",
        Kept::WhileBorrowing => ", and it may not borrow more at the moment",
        Kept::AsDeserved | Kept::AsLeft => ", and it may not borrow more",
        Kept::ForBetters => ", and what comes free is for pods of higher priority, for which others were evicted",
        Kept::ForClaimants => SET_ASIDE,
    };
    format!(
        "{} asked {}, used {}{}{reserved}{kept}",
        short.name(cluster),
        short.format(short.asked),
        short.format(short.in_use()),
        limit.unwrap_or_default()
    )
}

/// Returns what a workload asks for as a whole, and what counts against it.
fn as_a_whole(cluster: &Cluster, short: &Short) -> String {
    let Used::ByWorkloads { sums, written } = &short.used else {
        return numbers(cluster, short);
    };
    let cut = written.map(|written| {
        let written = short.format(written);
        let why = match short.kept {
            Kept::AsDeserved => "the rest is more than it deserves (enableOveruse: false)",
            Kept::ForNobody => "a queue above it has no more",
            _ => "others are guaranteed the rest, or the cluster does not have it",
        };
        format!(" of {written}: {why}")
    });
    format!(
        "{} asked {}, allocated {}, in queue {}, elastic {}, quota {}{}",
        short.name(cluster),
        short.format(sums.asked),
        short.format(sums.allocated),
        short.format(sums.inqueue),
        short.format(sums.elastic),
        sums.quota
            .map_or_else(|| "unlimited".to_owned(), |quota| short.format(quota)),
        cut.unwrap_or_default()
    )
}

/// Returns what the pods that are let in together lack, or one of them where they differ.
fn together(them: &Together<'_>, what: &str) -> String {
    let workload = them.workload;
    let missing = workload.missing();
    let was_cut = workload.admitted() > 0;
    let kind = workload.kind.as_str();
    let given_up = if them.was_given_up {
        format!(
            "; the search for places for all of them was given up after at most {MOST_TRIES} tries, so there may be some: pods of \
             fewer kinds are searched for to the end"
        )
    } else {
        String::new()
    };
    let name = &workload.name;
    let one_by_one = workload.kind == WorkloadKind::Job && names_no_group(workload);
    let lead = match (missing, was_cut) {
        _ if one_by_one => {
            format!("the {missing} pods of {kind} {name} are let in one by one, and not all of them now")
        }
        (1, false) => format!("one pod of {kind} {name} is let in first"),
        (1, true) => format!("one pod of {kind} {name} is missing"),
        (_, false) => format!("the {missing} pods of {kind} {name} are let in together"),
        (_, true) => format!("the {missing} missing pods of {kind} {name} are let in together"),
    };
    match (missing, them.whose) {
        (1, Whose::Each | Whose::Told) if !was_cut => format!("{what}{given_up}"),
        (1, Whose::Each | Whose::Told) => format!("{lead}: {what}{given_up}"),
        (_, Whose::Each) => format!("{lead}; of each, {what}{given_up}"),
        (_, Whose::Told) => format!("{lead}; of this one, {what}{given_up}"),
        (_, Whose::One) => format!("{lead}; of one of them, {what}{given_up}"),
    }
}

/// Whether the pods of a workload are in no group. The pods of a Job that is taken as a whole follow one by one.
fn names_no_group(workload: &Workload) -> bool {
    let terms = workload.terms.as_ref();
    terms.is_some_and(|terms| terms.naming.group.is_none())
}

fn of_nodes(cluster: &Cluster, nodes: &Nodes<'_>, reason: Reason) -> String {
    let counts: Vec<_> = nodes.counts.iter().map(count).collect();
    let counts = format!("{}: {}", nodes.lead, counts.join("; "));
    if nodes.over_quota.is_empty() {
        return counts;
    }
    let over_quota = nodes.over_quota.iter().filter_map(|short| of_gpu_nodes(cluster, short));
    let over_quota = over_quota.collect::<Vec<_>>().join("; ");
    if reason == Reason::CrossQuotaExceeded {
        format!("{over_quota}; {counts}")
    } else {
        format!("{counts}; {over_quota}")
    }
}

/// Returns how many nodes say what; what no node says is left out.
fn count(count: &NodeCount) -> String {
    let some = count.parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = some.map(|(count, text)| format!("{count} {text}")).collect();
    let parts = if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    };
    let plural = if count.nodes == 1 { "" } else { "s" };
    let card = count
        .card
        .as_ref()
        .map_or_else(String::new, |card| format!(" with {card}"));
    format!("{} {}{plural}{card}: {parts}", count.nodes, count.kind)
}

/// Returns what GPU nodes have too little quota of.
fn of_gpu_nodes(cluster: &Cluster, short: &Short) -> Option<String> {
    let Place::GpuNodes {
        most_left,
        without,
        of,
        source,
    } = &short.place
    else {
        return None;
    };
    let resource = cluster.names().resource_name(short.of.first()?.resource()?);
    let format = |amount| format_amount(resource, amount);
    Some(format!(
        "{resource} quota exceeded on {without} of {of} GPU nodes: asked {}; most is left on {}: used {}, quota {} ({source})",
        format(short.asked),
        cluster.node(*most_left).name,
        format(short.in_use()),
        short.limit.map_or_else(|| "unlimited".to_owned(), format),
    ))
}

impl Short {
    /// Returns the name that users know it by.
    pub fn name(&self, cluster: &Cluster) -> String {
        let names: Vec<_> = self
            .of
            .iter()
            .map(|dimension| dimension.name(cluster.names()))
            .collect();
        names.join("|")
    }

    /// Formats an amount of it.
    pub fn format(&self, amount: i128) -> String {
        self.of
            .first()
            .map_or_else(String::new, |dimension| dimension.format(amount))
    }
}
