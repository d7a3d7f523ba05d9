//! What has to be written, given what exists.

use crds::card_inventory::{CardInventory, CardInventorySpec};
use engine::discovery::Problem;
use engine::overview::status::{Usability, inventory};
use kube::ResourceExt as _;

use super::*;
use crate::report::shown::owner_reference;

type Inventories = Objects<CardInventory>;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn record(usability: Usability, problems: &[Problem]) -> Record<CardInventory> {
    Record {
        owner_uid: "uid".into(),
        spec: CardInventorySpec {
            node_name: "n".to_owned(),
        },
        status: inventory(&[], usability, problems, None),
    }
}

fn usable() -> Record<CardInventory> {
    record(Usability::Usable, &[])
}

fn name() -> Arc<str> {
    "n".into()
}

/// Returns the objects after a list of the API server with `there`.
fn listed(there: Option<Record<CardInventory>>) -> Inventories {
    let mut objects = Inventories::new();
    objects.begin_list();
    objects.end_list(there.into_iter().map(|record| (name(), Some(record))).collect(), at(0));
    objects
}

/// Returns the transition times in seconds, by condition.
fn times(objects: &mut Inventories, now: i64) -> Vec<i64> {
    let (Plan::Create(record) | Plan::Update { record, .. }) = objects.plan(&name(), at(now)) else {
        panic!("nothing to write");
    };
    let times = record
        .status
        .conditions
        .iter()
        .map(|condition| condition.last_transition_time.0.as_second());
    times.collect()
}

fn write(objects: &mut Inventories, now: i64) {
    let (Plan::Create(record) | Plan::Update { record, .. }) = objects.plan(&name(), at(now)) else {
        panic!("nothing to write");
    };
    objects.written(&name(), Left::Record(record));
}

#[test]
fn nothing_is_written_before_the_list_and_nothing_that_is_there() {
    let mut objects = Inventories::new();
    assert!(!objects.want(&name(), Some(usable()), at(1)), "not compared yet");
    objects.begin_list();
    assert_eq!(objects.end_list(Vec::new(), at(1)), [name()]);
    write(&mut objects, 1);
    assert!(!objects.want(&name(), Some(usable()), at(2)));
    assert!(matches!(objects.plan(&name(), at(2)), Plan::Nothing));

    // After a restart the object exists already, whatever the time.
    let Plan::Create(there) = listed_plan() else {
        panic!("it is not there")
    };
    let mut restarted = listed(Some(Arc::unwrap_or_clone(there)));
    assert!(!restarted.want(&name(), Some(usable()), at(99)));
    assert!(matches!(restarted.plan(&name(), at(99)), Plan::Nothing));
}

fn listed_plan() -> Plan<CardInventory> {
    let mut objects = listed(None);
    assert!(objects.want(&name(), Some(usable()), at(5)));
    objects.plan(&name(), at(5))
}

#[test]
fn transition_times_change_with_the_status_of_their_condition_alone() {
    let mut objects = listed(None);
    objects.want(&name(), Some(usable()), at(1));
    assert_eq!(times(&mut objects, 2), [2, 2, 2], "the time of the write");
    write(&mut objects, 2);
    assert!(objects.want(&name(), Some(record(Usability::Cordoned, &[])), at(3)));
    assert_eq!(times(&mut objects, 3), [2, 2, 3]);
    write(&mut objects, 3);
    // The reason changes, the status does not.
    assert!(objects.want(&name(), Some(record(Usability::NotReady, &[])), at(4)));
    assert_eq!(times(&mut objects, 4), [2, 2, 3]);
    // The record is back to what exists, before the change was written.
    assert!(!objects.want(&name(), Some(record(Usability::Cordoned, &[])), at(5)));
    assert!(matches!(objects.plan(&name(), at(5)), Plan::Nothing));
}

#[test]
fn what_differs_is_planned_and_nothing_else() {
    let mut objects = listed(None);
    objects.want(&name(), Some(usable()), at(1));
    write(&mut objects, 1);
    objects.want(&name(), Some(record(Usability::Cordoned, &[])), at(2));
    let plan = objects.plan(&name(), at(2));
    assert!(
        matches!(
            plan,
            Plan::Update {
                object: false,
                status: true,
                ..
            }
        ),
        "{plan:?}"
    );
    // The node was deleted and created again under its name.
    objects.want(
        &name(),
        Some(Record {
            owner_uid: "other".into(),
            ..usable()
        }),
        at(2),
    );
    let plan = objects.plan(&name(), at(2));
    assert!(
        matches!(
            plan,
            Plan::Update {
                object: true,
                status: false,
                ..
            }
        ),
        "{plan:?}"
    );
}

#[test]
fn what_is_uncertain_is_written_in_full() {
    let mut objects = listed(None);
    objects.want(&name(), Some(usable()), at(1));
    objects.written(&name(), Left::Unknown);
    assert!(matches!(
        objects.plan(&name(), at(1)),
        Plan::Update {
            object: true,
            status: true,
            ..
        }
    ));
    assert!(objects.want(&name(), Some(usable()), at(1)));
    objects.written(&name(), Left::Nothing);
    assert!(matches!(objects.plan(&name(), at(1)), Plan::Create(_)));
}

#[test]
fn what_nobody_reported_is_deleted_after_the_first_full_round_alone() {
    let mut objects = Inventories::new();
    objects.begin_list();
    assert_eq!(objects.end_list(vec![(name(), Some(usable()))], at(1)).len(), 0);
    assert!(matches!(objects.plan(&"other".into(), at(1)), Plan::Nothing));
    assert_eq!(objects.sync(), [name()]);
    assert!(matches!(objects.plan(&name(), at(1)), Plan::Delete));
    objects.written(&name(), Left::Nothing);
    assert!(matches!(objects.plan(&name(), at(1)), Plan::Nothing));

    let mut objects = listed(Some(usable()));
    objects.want(&name(), Some(usable()), at(1));
    assert_eq!(objects.sync().len(), 0);
    // Its last card is gone.
    assert!(objects.want(&name(), None, at(1)));
    assert!(matches!(objects.plan(&name(), at(1)), Plan::Delete));

    // Synced before it was listed.
    let mut objects = Inventories::new();
    assert_eq!(objects.sync().len(), 0);
    objects.begin_list();
    assert_eq!(objects.end_list(vec![(name(), None)], at(1)), [name()]);
}

#[test]
fn a_list_puts_right_what_somebody_else_did() {
    let mut objects = listed(None);
    objects.want(&name(), Some(usable()), at(1));
    write(&mut objects, 1);
    objects.begin_list();
    assert_eq!(objects.end_list(Vec::new(), at(2)), [name()], "deleted");
    write(&mut objects, 2);
    objects.begin_list();
    let edited = record(Usability::Cordoned, &[]);
    assert_eq!(objects.end_list(vec![(name(), Some(edited))], at(3)), [name()]);
    write(&mut objects, 3);
    // An object that is written while the list is under way is newer than the list.
    objects.begin_list();
    objects.want(&name(), Some(record(Usability::NotReady, &[])), at(4));
    write(&mut objects, 4);
    assert_eq!(objects.end_list(vec![(name(), Some(usable()))], at(5)).len(), 0);
    assert!(matches!(objects.plan(&name(), at(5)), Plan::Nothing));
}

#[test]
fn a_record_is_what_an_object_says() {
    let mut object = CardInventory::new(
        "n",
        CardInventorySpec {
            node_name: "n".to_owned(),
        },
    );
    assert_eq!(Record::read(&object), None, "no status yet");
    object.status = Some(usable().status);
    let without_owner = Record {
        owner_uid: "".into(),
        ..usable()
    };
    assert_eq!(Record::read(&object), Some(without_owner.clone()));
    let owner = owner_reference::<CardInventory>(&object.spec, "uid").unwrap();
    object.owner_references_mut().push(owner.clone());
    assert_eq!(Record::read(&object), Some(usable()));
    // With somebody else's owner reference, garbage collection would wait for both owners.
    object.owner_references_mut().push(owner);
    assert_eq!(Record::read(&object), Some(without_owner));
}
