//! The figures as tables.

use std::fmt::{self, Display, Write as _};

use super::figures::{Durations, Shown, median};
use super::scene::Contender;
use super::{CardgateFigures, Memory, Plan, Run, aims};

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was run.
    pub plan: Plan,
    /// How busy the machine was before, by its own count of running processes.
    pub load_average: f64,
    /// In the order in which they were measured.
    pub runs: Vec<Run>,
}

impl Report {
    fn runs_of(&self, contender: Contender) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.contender == contender)
    }

    fn rate(&self, contender: Contender) -> Option<f64> {
        let rates: Vec<_> = self.runs_of(contender).map(|run| run.burst.rate()).collect();
        median(&rates)
    }

    fn write_rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent_of = |rate: f64, other: Contender| {
            self.rate(other)
                .map_or_else(|| "-".to_owned(), |other| format!("{:.0} %", rate / other * 100.0))
        };
        writeln!(
            f,
            "{:<16} {:>8} {:>9} {:>9}  {:<22} {:>9} {:>9}",
            "", "pods/s", "of bare", "of plain", "each round", "creation", "bound"
        )?;
        for contender in Contender::ALL {
            let Some(rate) = self.rate(contender) else { continue };
            let mut rounds = String::new();
            for run in self.runs_of(contender) {
                write!(rounds, "{:.0} ", run.burst.rate())?;
            }
            let last = self.runs_of(contender).last();
            writeln!(
                f,
                "{contender:<16} {rate:>8.1} {:>9} {:>9}  {rounds:<22} {:>9} {:>9}",
                percent_of(rate, Contender::Bare),
                percent_of(rate, Contender::Plain),
                last.map_or_else(String::new, |run| Shown(run.burst.created).to_string()),
                last.map_or_else(String::new, |run| Shown(run.burst.bound).to_string()),
            )?;
        }
        Ok(())
    }

    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["let in p50", "max", "bound p50", "max", "let in p50", "p99", "max"];
        writeln!(f, "{:<16} {:^43} {:^32}", "", "one pod by one", "all pods at once")?;
        write!(f, "{:<16}", "")?;
        for column in columns {
            write!(f, " {column:>10}")?;
        }
        writeln!(f)?;
        for contender in Contender::ALL {
            let Some(run) = self.runs_of(contender).last() else {
                continue;
            };
            let (one, all) = (&run.singles, &run.burst.let_in);
            let figures = [
                one.let_in.percentile(50),
                one.let_in.max(),
                one.bound.percentile(50),
                one.bound.max(),
                all.percentile(50),
                all.percentile(99),
                all.max(),
            ];
            write!(f, "{contender:<16}")?;
            for figure in figures {
                write!(f, " {:>10}", Shown(figure))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// CPU time per pod of each process, in milliseconds; the median of the rounds.
    fn write_cpu(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.runs.iter().flat_map(|run| &run.burst.cpu) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        write!(f, "{:<24}", "CPU ms per pod")?;
        for contender in Contender::ALL {
            write!(f, " {contender:>16}")?;
        }
        writeln!(f)?;
        let mut totals = [0.0; Contender::ALL.len()];
        for name in names {
            write!(f, "{name:<24}")?;
            for (contender, total) in Contender::ALL.into_iter().zip(&mut totals) {
                let times = self.runs_of(contender).filter_map(|run| {
                    let (_, time) = run.burst.cpu.iter().find(|(clock, _)| clock == name)?;
                    Some(time.as_secs_f64() * 1e3 * ratio(1, run.burst.pods))
                });
                let times: Vec<_> = times.collect();
                match median(&times) {
                    None => write!(f, " {:>16}", "-")?,
                    Some(time) => {
                        *total += time;
                        write!(f, " {time:>16.2}")?;
                    }
                }
            }
            writeln!(f)?;
        }
        write!(f, "{:<24}", "together")?;
        for total in totals {
            write!(f, " {total:>16.2}")?;
        }
        writeln!(f)
    }

    /// What each contender has of another beside it, round by round: what else the machine did meets both.
    fn write_pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_pair(f, Contender::Cardgate, Contender::Bare)?;
        self.write_pair(f, Contender::BareWebhook, Contender::Bare)?;
        self.write_pair(f, Contender::Cardgate, Contender::BareWebhook)
    }

    /// The aims are those of Cardgate beside the bare loop.
    fn write_pair(&self, f: &mut fmt::Formatter<'_>, one: Contender, other: Contender) -> fmt::Result {
        let has_aims = (one, other) == (Contender::Cardgate, Contender::Bare);
        let pairs: Vec<_> = self.runs_of(one).zip(self.runs_of(other)).collect();
        if pairs.len() < 2 {
            return Ok(());
        }
        writeln!(
            f,
            "{:<44} {:>8} {:>8}  each pair",
            format!("{one}, of the {other}'s, as pairs"),
            "median",
            "aim"
        )?;
        let mut line = |what: &str, aim: f64, share: &dyn Fn(&Run, &Run) -> f64| {
            let shares: Vec<_> = pairs.iter().map(|(one, other)| share(one, other) * 100.0).collect();
            let each: Vec<_> = shares.iter().map(|share| format!("{share:.0}")).collect();
            let middle = median(&shares).unwrap_or_default();
            let aim = if has_aims {
                format!("{aim:.0} %")
            } else {
                "-".to_owned()
            };
            writeln!(f, "{what:<44} {middle:>6.0} % {aim:>8}  {}", each.join(" "))
        };
        line("  pods a second", aims::PERCENT_OF_BARE, &|one, other| {
            one.burst.rate() / other.burst.rate()
        })?;
        line("  CPU a pod, of all processes", aims::PERCENT_OF_CPU, &|one, other| {
            one.burst.cpu_of_a_pod() / other.burst.cpu_of_a_pod()
        })?;
        writeln!(f)
    }

    fn write_cardgate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(run) = self.runs_of(Contender::Cardgate).last() else {
            return Ok(());
        };
        let Some(cardgate) = &run.cardgate else { return Ok(()) };
        writeln!(f, "{:<58} {:>12} {:>10}", "Cardgate", "measured", "aim")?;
        let mut line =
            |what: &str, measured: &dyn Display, aim: &dyn Display| writeln!(f, "{what:<58} {measured:>12} {aim:>10}");
        if let (Some(rate), Some(bare)) = (self.rate(Contender::Cardgate), self.rate(Contender::Bare)) {
            let percent = format!("{:.0} %", rate / bare * 100.0);
            line(
                "rate, of the bare loop's",
                &percent,
                &format!("{:.0} %", aims::PERCENT_OF_BARE),
            )?;
        }
        let CardgateFigures { writes, .. } = cardgate;
        let writes_per_pod = |count: usize| format!("{:.3}", ratio(count, run.burst.pods));
        line(
            "writes per admitted pod: the pod",
            &writes_per_pod(writes.admissions),
            &aims::WRITES_PER_POD,
        )?;
        line(
            "  with conditions, events and reports",
            &writes_per_pod(writes.total()),
            &"-",
        )?;
        line(
            "from creation to admission, idle, p50",
            &Shown(run.singles.let_in.percentile(50)),
            &Shown(aims::IDLE_ADMISSION),
        )?;
        for (name, durations) in [
            ("from the request", &run.burst.let_in),
            ("from the pod's event", &run.burst.waited),
        ] {
            line(
                &format!("  under load, {name}, p50"),
                &Shown(durations.percentile(50)),
                &"-",
            )?;
            line(
                &format!("  under load, {name}, p99"),
                &Shown(durations.percentile(99)),
                &"-",
            )?;
        }
        if let Some(freed) = &cardgate.freed {
            let times = format!("freed quota used again, p50 of {}", freed.reused.count());
            line(&times, &Shown(freed.reused.percentile(50)), &Shown(aims::REUSE))?;
            line("  max", &Shown(freed.reused.max()), &Shown(aims::REUSE))?;
            line("  writes to pods that waited on", &freed.needless_writes, &0)?;
        }
        if let Some(reviews) = &cardgate.reviews {
            let what = format!("why a pod waits, answered, {} wait, p50", reviews.waiting);
            line(&what, &Shown(reviews.answered.percentile(50)), &"-")?;
            line("  p99", &Shown(reviews.answered.percentile(99)), &Shown(aims::REVIEW))?;
        }
        if let Some(restarts) = &cardgate.restarts {
            let ways: [(&str, &Durations); 2] = [
                ("SIGTERM", &restarts.after_termination),
                ("SIGKILL", &restarts.after_kill),
            ];
            for (way, times) in ways {
                let what = format!("first admission, restart after {way}, {} wait, p50", restarts.waiting);
                line(&what, &Shown(times.percentile(50)), &Shown(aims::RESTART))?;
            }
            line("  writes to pods that waited on", &restarts.needless_writes, &0)?;
        }
        let programs = [("operator", aims::OPERATOR_MEMORY), ("webhook", aims::WEBHOOK_MEMORY)];
        for (index, (program, aim)) in programs.into_iter().enumerate() {
            for (moment, memory) in [
                ("idle", cardgate.idle[index]),
                ("after the load", cardgate.after[index]),
            ] {
                let what = format!("memory of the {program}, {moment} (without its files)");
                line(&what, &Held(memory), &Megabytes(aim))?;
            }
            let [idle, after] = [&cardgate.idle, &cardgate.after].map(|all| all[index].anonymous);
            let of_a_thousand = after.saturating_sub(idle).saturating_mul(1000) / (run.burst.pods.max(1) as u64);
            line("  more for each 1000 pods", &Megabytes(of_a_thousand), &"-")?;
        }
        writeln!(f, "written under load: {writes}")
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(
            f,
            "{} nodes of {} cards, {} pods of one card, {} creators; {} cores, load average before {:.1}\n",
            plan.nodes,
            plan.cards_of_a_node(),
            plan.pods,
            plan.creators,
            std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            self.load_average,
        )?;
        self.write_rates(f)?;
        writeln!(f)?;
        self.write_latencies(f)?;
        writeln!(f)?;
        self.write_cpu(f)?;
        writeln!(f)?;
        self.write_pairs(f)?;
        self.write_cardgate(f)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 pods")]
fn ratio(count: usize, pods: usize) -> f64 {
    count as f64 / pods as f64
}

struct Megabytes(u64);

impl Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0 / 100_000;
        f.pad(&format!("{}.{} MB", tenths / 10, tenths % 10))
    }
}

struct Held(Memory);

impl Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory { resident, anonymous } = self.0;
        f.pad(&format!("{} ({})", Megabytes(resident), Megabytes(anonymous)))
    }
}
