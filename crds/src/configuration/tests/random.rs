//! Random configurations made of Volcano's real options: each is accepted as it is written, or refused with the option that is wrong;
//! none is taken in part without a word.

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::{collection, option};

use crate::configuration::*;

/// An option of a plugin: its name, texts that are right and wrong for it, and what a right one means.
struct Known {
    plugin: &'static str,
    key: &'static str,
    right: &'static [&'static str],
    wrong: &'static [&'static str],
    set: fn(&mut Configuration, &str),
}

const BOOLEAN: &[&str] = &["true", "false", "True"];
const NO_BOOLEAN: &[&str] = &["maybe", "2", "[]", "{}"];
const QUEUES: &str = "capacity";
const CARDS: &str = "capacity-card";
const BOTH: &str = "";
const PREDICATES: &str = "predicates";

fn boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

const KNOWN: [Known; 16] = [
    Known {
        plugin: BOTH,
        key: "rootQueue",
        right: &["root", "top.of-all"],
        wrong: &["No Queue", "ends-", "[]"],
        set: |to, text| to.capacity.root_queue = text.to_owned(),
    },
    Known {
        plugin: BOTH,
        key: "reclaimable",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity.reclaimable = boolean(text),
    },
    Known {
        plugin: BOTH,
        key: "enableOveruse",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity.enable_overuse = boolean(text),
    },
    Known {
        plugin: BOTH,
        key: "enableHierarchy",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity.enable_hierarchy = boolean(text),
    },
    Known {
        plugin: BOTH,
        key: "metricsEnabled",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity.metrics_enabled = boolean(text),
    },
    Known {
        plugin: BOTH,
        key: "logLevel",
        right: &["info", "Info"],
        wrong: &["loud", "3"],
        set: |to, _| to.capacity.log_level = Some(LogLevel::Info),
    },
    Known {
        plugin: BOTH,
        key: "reclaimInterval",
        right: &["1", "30", "86400"],
        wrong: &["0", "-1", "1.5", "soon", "86401"],
        set: |to, text| to.capacity.reclaim_interval = Duration::from_secs(number(text).into()),
    },
    Known {
        plugin: BOTH,
        key: "guaranteeThreshold",
        right: &["0", "50", "100"],
        wrong: &["-1", "101", "half"],
        set: |to, text| to.capacity.guarantee_threshold = number(text),
    },
    Known {
        plugin: QUEUES,
        key: "checkQueueDimensionsOnly",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity.check_queue_dimensions_only = boolean(text),
    },
    Known {
        plugin: CARDS,
        key: "cardUnlimitedCpuMemory",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.capacity_card.card_unlimited_cpu_memory = boolean(text),
    },
    Known {
        plugin: CARDS,
        key: "nodeOrderWeight",
        right: &["2", "0.5"],
        wrong: &["0", "-1", "heavy"],
        set: |to, text| to.capacity_card.node_order_weight = text.parse().unwrap(),
    },
    Known {
        plugin: PREDICATES,
        key: "predicate.MGPUEnable",
        right: BOOLEAN,
        wrong: NO_BOOLEAN,
        set: |to, text| to.mgpu.enable = boolean(text),
    },
    Known {
        plugin: PREDICATES,
        key: "predicate.MGPUPolicy",
        right: &["spread", "Spread"],
        wrong: &["pack", "1"],
        set: |to, _| to.mgpu.policy = CardStrategy::Spread,
    },
    Known {
        plugin: PREDICATES,
        key: "predicate.MGPUWeightOfCore",
        right: &["0", "100"],
        wrong: &["101", "-1", "much"],
        set: |to, text| to.mgpu.weight_of_core = text.parse().unwrap(),
    },
    Known {
        plugin: PREDICATES,
        key: "predicate.MGPUScheduleMode",
        right: &["id"],
        wrong: &["name", "0"],
        set: |to, _| to.mgpu.schedule_mode = ScheduleMode::Id,
    },
    Known {
        plugin: PREDICATES,
        key: "predicate.MGPUMaxContainersPerCard",
        right: &["1", "32"],
        wrong: &["0", "-1", "some"],
        set: |to, text| to.mgpu.max_containers_per_card = number(text),
    },
];

/// What real configurations have besides: Volcano's plugins and switches, sections of their own, and options that nobody knows.
const OTHERS: [&str; 8] = [
    "priority",
    "gang",
    "conformance",
    "drf",
    "nodeorder",
    "binpack",
    "overcommit",
    "deviceshare",
];
const SWITCHES: [&str; 5] = [
    "enablePreemptable",
    "enableJobOrder",
    "enabledOverused",
    "enableReclaimable",
    "enablePredicate",
];
const ACTIONS: [&str; 5] = ["enqueue", "allocate", "backfill", "preempt", "reclaim"];
const UNKNOWN: [&str; 3] = ["enableOverUse", "cardUnlimitedCPUMemory", "predicate.MGPUEnabled"];

/// Where an option stands, and its text.
#[derive(Debug, Clone)]
struct Written {
    option: usize,
    beside: Option<&'static str>,
    under: Option<&'static str>,
    quoted: bool,
}

impl Written {
    /// The text that counts.
    fn text(&self) -> &'static str {
        self.under.or(self.beside).unwrap()
    }

    fn is_wrong(&self) -> bool {
        KNOWN[self.option].wrong.contains(&self.text())
    }

    fn is_said_twice_differently(&self) -> bool {
        let (Some(beside), Some(under)) = (self.beside, self.under) else {
            return false;
        };
        // In whatever case, these are one value.
        let is_one = boolean(beside) && boolean(under);
        beside != under && !is_one
    }
}

#[derive(Debug, Clone)]
struct Random {
    /// The plugin that rules queues, if any.
    queue_plugin: Option<&'static str>,
    has_predicates: bool,
    options: Vec<Written>,
    unknown: Vec<&'static str>,
    switches: Vec<&'static str>,
    others: Vec<&'static str>,
    actions: Vec<&'static str>,
    has_more: bool,
}

fn written(option: usize) -> impl Strategy<Value = Option<Written>> {
    let known = &KNOWN[option];
    // Most are right, or next to no configuration would be.
    let text = || prop_oneof![9 => select(known.right), 1 => select(known.wrong)];
    let places = (
        option::weighted(0.4, text()),
        option::weighted(0.4, text()),
        any::<bool>(),
    );
    places.prop_map(move |(beside, under, quoted)| {
        beside.or(under).map(|_| Written {
            option,
            beside,
            under,
            quoted,
        })
    })
}

fn random() -> impl Strategy<Value = Random> {
    let options: Vec<_> = (0..KNOWN.len()).map(written).collect();
    (
        option::weighted(0.9, select(&[QUEUES, CARDS][..])),
        any::<bool>(),
        options,
        collection::btree_set(select(&UNKNOWN[..]), 0..=1),
        collection::btree_set(select(&SWITCHES[..]), 0..=3),
        collection::btree_set(select(&OTHERS[..]), 0..=5),
        collection::btree_set(select(&ACTIONS[..]), 1..=5),
        any::<bool>(),
    )
        .prop_map(
            |(queue_plugin, has_predicates, options, unknown, switches, others, actions, has_more)| Random {
                queue_plugin,
                has_predicates,
                options: options.into_iter().flatten().collect(),
                unknown: Vec::from_iter(unknown),
                switches: Vec::from_iter(switches),
                others: Vec::from_iter(others),
                actions: Vec::from_iter(actions),
                has_more,
            },
        )
}

impl Random {
    /// The options that stand at a plugin that is listed.
    fn of(&self, plugin: &str) -> Vec<&Written> {
        let is_of = |written: &&Written| {
            let of = KNOWN[written.option].plugin;
            of == plugin || of == BOTH && plugin != PREDICATES
        };
        self.options.iter().filter(is_of).collect()
    }

    fn plugins(&self) -> Vec<&'static str> {
        let predicates = self.has_predicates.then_some(PREDICATES);
        self.queue_plugin.into_iter().chain(predicates).collect()
    }

    fn text(&self) -> String {
        let mut text = format!("actions: \"{}\"\ntiers:\n- plugins:\n", self.actions.join(", "));
        for other in &self.others {
            let _ = writeln!(text, "  - name: {other}\n    arguments: {{{other}.weight: 3}}");
        }
        text.push_str("  - name: priority-of-ours\n- plugins:\n  - name: another\n");
        for plugin in self.plugins() {
            let _ = writeln!(text, "  - name: {plugin}");
            for switch in &self.switches {
                let _ = writeln!(text, "    {switch}: false");
            }
            let line = |written: &Written, value: &str| {
                let key = KNOWN[written.option].key;
                let is_list = value.starts_with(['[', '{']);
                if written.quoted && !is_list {
                    format!("{key}: \"{value}\"\n")
                } else {
                    format!("{key}: {value}\n")
                }
            };
            for written in self.of(plugin) {
                text.extend(written.beside.map(|value| format!("    {}", line(written, value))));
            }
            text.push_str("    arguments:\n");
            for written in self.of(plugin) {
                text.extend(written.under.map(|value| format!("      {}", line(written, value))));
            }
            for unknown in &self.unknown {
                let _ = writeln!(text, "      {unknown}: 1");
            }
        }
        if self.has_more {
            text.push_str("configurations:\n- name: enqueue\n  arguments: {overcommit-factor: 1.2}\nmetrics: {type: prometheus}\n");
        }
        text
    }

    fn expected(&self) -> Configuration {
        let mut expected = Configuration {
            actions: self.actions.iter().map(|action| (*action).to_owned()).collect(),
            queue_plugin: match self.queue_plugin {
                Some(QUEUES) => QueuePlugin::Capacity,
                Some(_) => QueuePlugin::CapacityCard,
                None => QueuePlugin::Off,
            },
            ..Configuration::default()
        };
        for plugin in self.plugins() {
            for written in self.of(plugin) {
                (KNOWN[written.option].set)(&mut expected, written.text());
            }
        }
        expected
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn real_options_are_taken_as_written_or_refused_by_name(random in random()) {
        let text = random.text();
        let listed: Vec<_> = random.plugins().into_iter().flat_map(|plugin| random.of(plugin)).collect();
        let mut wrong = listed.iter().filter(|written| written.is_wrong()).map(|written| KNOWN[written.option].key).peekable();
        match Configuration::parse(Some(&text), None) {
            Err(error) => {
                let said = error.to_string();
                prop_assert!(wrong.any(|key| said.contains(key)), "{}\n{}", said, text);
            }
            Ok(parsed) => {
                prop_assert!(wrong.peek().is_none(), "{:?} passed\n{}", wrong.peek(), text);
                prop_assert_eq!(&parsed.configuration, &random.expected(), "{}", text);
                let mut warnings = parsed.warnings;
                for written in listed.iter().filter(|written| written.is_said_twice_differently()) {
                    let key = KNOWN[written.option].key;
                    let told = warnings.iter().position(|warning| warning.contains(key) && warning.contains("the former counts"));
                    prop_assert!(told.is_some(), "{key} is said twice, and {warnings:?}\n{text}");
                    warnings.remove(told.unwrap());
                }
                for plugin in random.plugins() {
                    for unknown in &random.unknown {
                        // Of the arguments of predicates, those are Volcano's own that do not begin as Cardgate's.
                        if plugin == PREDICATES && !unknown.starts_with("predicate.MGPU") {
                            continue;
                        }
                        let told = warnings.iter().position(|warning| warning.contains(unknown));
                        prop_assert!(told.is_some(), "{unknown} has no effect, and {warnings:?}\n{text}");
                        warnings.remove(told.unwrap());
                    }
                }
                prop_assert!(warnings.is_empty(), "{warnings:?}\n{text}");
            }
        }
    }

    #[test]
    fn both_queue_plugins_or_one_that_says_two_things_are_refused(
        first in select(&[QUEUES, CARDS][..]),
        second in select(&[QUEUES, CARDS][..]),
        apart in any::<bool>(),
        again in select(&["", ", rootQueue: top", ", rootQueue: other"][..]),
    ) {
        let between = if apart { "- plugins:\n" } else { "" };
        let text = format!("tiers:\n- plugins:\n  - {{name: {first}, rootQueue: top}}\n{between}  - {{name: {second}{again}}}\n");
        if first == second && again != ", rootQueue: other" {
            let once = format!("tiers:\n- plugins:\n  - {{name: {first}, rootQueue: top}}\n");
            let [parsed, once] = [text, once].map(|text| Configuration::parse(Some(&text), None).unwrap());
            prop_assert_eq!(parsed.configuration, once.configuration);
            prop_assert!(parsed.warnings[0].contains("a second time, which has no effect"), "{:?}", parsed.warnings);
            return Ok(());
        }
        let said = Configuration::parse(Some(&text), None).unwrap_err().to_string();
        prop_assert!(said.contains(first) && said.contains(second), "{said}");
    }
}
