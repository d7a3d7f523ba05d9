//! The world around the operator: users, controllers, a scheduler, kubelets and nodes. All of them act only on the objects
//! of the API server.

mod allocation;
mod cards;
mod chance;
mod controllers;
mod kubelets;
mod nodes;
mod pods;
mod quantity;
mod scheduler;
mod step;
#[cfg(test)]
mod tests;
mod users;

use std::sync::Arc;

use rand::SeedableRng as _;
use serde_json::{Value, json};

pub use step::{Controller, Step};

use crate::Dice;
use crate::objects::{CONFIG_MAPS, Key, NAMESPACES, NODES, Objects, PODS, QUEUES, Refusal, Resource};
use chance::{number, one, percent};
use controllers::{Made, drivers};
use nodes::Model;
use users::{claims, configurations, queues};

/// More rounds than anything needs to come to rest.
const ROUNDS: usize = 30;

/// In so many of a hundred worlds drivers publish devices and pods claim them.
const WITH_DEVICES: u32 = 55;
/// Marks what is drawn from a seed separately, so that everything else is drawn as it always was.
const BESIDES: u64 = 0x0de7_1ce5;

/// Whether the world of a seed has devices.
pub fn has_devices(seed: u64) -> bool {
    percent(&mut Dice::seed_from_u64(seed ^ BESIDES), WITH_DEVICES)
}

/// Everything but the operator.
#[derive(Debug)]
pub struct World {
    /// How many objects each owner has made.
    made: Made,
    /// Whether Volcano's controllers are installed.
    has_volcano: bool,
}

impl World {
    /// Creates the objects of the beginning: nodes, namespaces, queues, the configuration.
    pub fn new(dice: &mut Dice, objects: &mut Objects) -> Self {
        let has_devices = objects.has_devices;
        let mut world = Self {
            made: Made::new(),
            has_volcano: percent(dice, 45),
        };
        let mut create = |resource, object| {
            if let Err(refusal) = objects.create(&Arc::from(users::ADMIN), resource, object) {
                tracing::debug!(
                    ?refusal,
                    resource = resource.plural,
                    "what a world begins with was refused"
                );
            }
        };
        for name in ["cardgate-system", "kube-system"] {
            create(&NAMESPACES, json!({"metadata": {"name": name}}));
        }
        for name in users::TEAMS {
            let mut labels = json!({"kubernetes.io/metadata.name": name, "team": name});
            if name == "batch" && percent(dice, 85) {
                labels["card.volcano.sh/crossquota"] = "enabled".into();
            }
            let mut annotations = json!({});
            if name == "serving" && percent(dice, 60) {
                annotations["scheduling.volcano.sh/queue-name"] = "solo".into();
            }
            create(
                &NAMESPACES,
                json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}}),
            );
        }
        let data = configurations::sound(dice);
        let configuration =
            json!({"metadata": {"namespace": "cardgate-system", "name": "cardgate-config"}, "data": data});
        create(&CONFIG_MAPS, configuration);
        let mut models = vec![Model::A100];
        // In a small world more pods compete for the same card.
        let is_small = percent(dice, 35);
        for (model, often) in [
            (Model::H100, 80),
            (Model::Mig, 60),
            (Model::Mps, 50),
            (Model::Shared, 75),
            (Model::Shared, 25),
            (Model::Ascend, 30),
            (Model::Cpu, 50),
        ] {
            if percent(dice, if is_small { often / 3 } else { often }) {
                models.push(model);
            }
        }
        if has_devices {
            models.push(Model::Devices);
            if percent(dice, 50) {
                models.push(Model::Devices);
            }
            for (resource, object) in claims::installed(dice) {
                create(resource, object);
            }
        }
        for (index, model) in models.into_iter().enumerate() {
            let name = format!("{}-{index}", format!("{model:?}").to_lowercase());
            create(&NODES, nodes::node(dice, model, &name));
        }
        if has_devices {
            // Devices are published now, so that queues have quotas of them.
            let mut run = |world: &mut Self| controllers::run(Controller::Drivers, objects, &mut world.made);
            (0..3).for_each(|_| run(&mut world));
        }
        world.make_queues(dice, objects);
        world
    }

    fn make_queues(&self, dice: &mut Dice, objects: &mut Objects) {
        let cards = cards::present(objects);
        let tops = queues::DEPARTMENTS.map(|name| (name, &[][..]));
        let unit = (queues::UNIT, queues::ABOVE_UNIT);
        for (name, above) in tops.into_iter().chain([unit]).chain(queues::TEAMS) {
            // Not every queue exists from the beginning.
            if percent(dice, if name == queues::UNIT { 45 } else { 8 }) {
                continue;
            }
            let parent = queues::first_there(objects, above);
            let parent = parent.as_ref().map(|(name, queue)| (*name, &**queue));
            let mut queue = queues::queue(dice, name, parent, &cards);
            if self.has_volcano {
                queue["status"] = json!({"state": "Open"});
            }
            if let Err(refusal) = objects.create(&Arc::from(users::ADMIN), &QUEUES, queue) {
                tracing::debug!(?refusal, name, "a queue that a world begins with was refused");
            }
        }
    }

    /// Draws the next event. Actors with more to do are drawn more often.
    pub fn draw(&self, dice: &mut Dice, objects: &Objects) -> Step {
        for _ in 0..20 {
            if let Some(step) = self.try_draw(dice, objects) {
                return step;
            }
        }
        Step::Control(Controller::Garbage)
    }

    fn try_draw(&self, dice: &mut Dice, objects: &Objects) -> Option<Step> {
        if objects.has_devices && percent(dice, 5) {
            return drivers::draw(dice, objects);
        }
        let to_place = pods::which(objects, pods::waits_for_place);
        let to_start = pods::which(objects, pods::waits_for_start);
        let mut to_stop = pods::which(objects, pods::is_deleted);
        to_stop.retain(|key| kubelets::has_to_stop(objects, key));
        let running = pods::which(objects, pods::runs);
        let some = |pods: &[Key], each: u32, most: u32| (u32::try_from(pods.len()).unwrap_or(most) * each).min(most);
        let weights = [
            34,
            26,
            some(&to_place, 10, 40),
            some(&to_start, 10, 40),
            some(&to_stop, 8, 30),
            some(&running, 1, 10),
            5,
        ];
        let mut left = number(dice, 0, weights.iter().sum::<u32>().into());
        let which = weights.iter().position(|weight| {
            left -= i64::from(*weight);
            left < 0
        })?;
        Some(match which {
            0 => return users::draw(dice, objects, self.has_volcano),
            1 => Step::Control(self.controller(dice, objects)?),
            2 => {
                let choice = if percent(dice, 75) { 0 } else { number(dice, 0, 4) };
                Step::Schedule(one(dice, &to_place)?.clone(), usize::try_from(choice).unwrap_or(0))
            }
            3 => Step::Start(one(dice, &to_start)?.clone()),
            4 => Step::Stop(one(dice, &to_stop)?.clone()),
            5 => {
                // A service does not end by itself, except that the whole pod crashes.
                let ends = |pod: &Value| pods::runs(pod) && pod["spec"]["restartPolicy"] != "Always";
                let to_end = pods::which(objects, ends);
                if !to_end.is_empty() && percent(dice, 75) {
                    Step::End(one(dice, &to_end)?.clone(), percent(dice, 85))
                } else {
                    Step::End(one(dice, &running)?.clone(), percent(dice, 20))
                }
            }
            _ => return nodes::draw(dice, objects),
        })
    }

    fn controller(&self, dice: &mut Dice, objects: &Objects) -> Option<Controller> {
        let mut controllers = vec![
            Controller::ReplicaSets,
            Controller::ReplicaSets,
            Controller::Deployments,
            Controller::Jobs,
            Controller::Jobs,
            Controller::Garbage,
            Controller::DisruptionBudgets,
            Controller::Nodes,
        ];
        if self.has_volcano {
            controllers.extend([
                Controller::PodGroups,
                Controller::VolcanoJobs,
                Controller::VolcanoJobs,
                Controller::Queues,
            ]);
        }
        if objects.has_devices {
            controllers.extend([
                Controller::Claims,
                Controller::Claims,
                Controller::Claims,
                Controller::Drivers,
            ]);
        }
        one(dice, &controllers).copied()
    }

    /// Draws a user's edit of an existing object, if there is any.
    pub fn draw_edit(dice: &mut Dice, objects: &Objects) -> Option<Step> {
        users::edits::draw(dice, objects)
    }

    /// Draws what a crowd does next: one thing after the other, or nothing.
    pub fn draw_crowd(dice: &mut Dice, objects: &Objects) -> Vec<Step> {
        users::crowd::draw(dice, objects)
    }

    /// Draws the writing of a rarely used key of the configuration.
    pub fn draw_key(dice: &mut Dice, objects: &Objects) -> Option<Step> {
        users::keys::draw(dice, objects)
    }

    /// Carries a step out. A step that no longer applies does nothing.
    pub fn take(&mut self, step: &Step, objects: &mut Objects) {
        match step {
            Step::Create(who, created) => {
                for (resource, object) in created {
                    note(objects.create(&Arc::from(*who), resource, object.clone()).map(drop));
                }
            }
            Step::Change(who, resource, key, patch) => change(objects, who, resource, key, patch),
            Step::Delete(who, resource, key) => note(objects.delete(&Arc::from(*who), resource, key)),
            Step::LetGo(key) => pods::release(objects, users::USER, key, users::edits::HOLD),
            Step::Open(key, gate) => {
                let opened = objects.change(&Arc::from("license-controller"), &PODS, key, |pod| {
                    if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                        gates.retain(|one| one["name"] != **gate);
                    }
                    Ok(())
                });
                note(opened.map(drop));
            }
            Step::Control(controller) => controllers::run(*controller, objects, &mut self.made),
            Step::Schedule(key, choice) => scheduler::schedule(objects, key, *choice),
            Step::Start(key) => kubelets::start(objects, key),
            Step::End(key, well) => kubelets::end(objects, key, *well),
            Step::Stop(key) => kubelets::stop(objects, key),
            Step::Drain(node) => {
                let key = Key::new("", &**node);
                change(
                    objects,
                    users::ADMIN,
                    &NODES,
                    &key,
                    &json!({"spec": {"unschedulable": true}}),
                );
                for pod in pods::which(objects, |pod| pods::node(pod) == Some(node) && pods::is_active(pod)) {
                    note(objects.delete(&Arc::from(users::ADMIN), &PODS, &pod));
                }
            }
            Step::Die(node) => note(objects.delete(&Arc::from(users::ADMIN), &NODES, &Key::new("", &**node))),
        }
    }

    /// Lets controllers, the scheduler and kubelets finish. Returns whether they had anything to do. No new pods come, and
    /// nothing that runs ends.
    pub fn come_to_rest(&mut self, objects: &mut Objects) -> bool {
        let begin = objects.version();
        for _ in 0..ROUNDS {
            let before = objects.version();
            for controller in step::CONTROLLERS {
                if self.has_volcano
                    || !matches!(
                        controller,
                        Controller::VolcanoJobs | Controller::PodGroups | Controller::Queues
                    )
                {
                    controllers::run(controller, objects, &mut self.made);
                }
            }
            for key in pods::which(objects, pods::waits_for_place) {
                scheduler::schedule(objects, &key, 0);
            }
            for key in pods::which(objects, pods::waits_for_start) {
                kubelets::start(objects, &key);
            }
            for key in pods::which(objects, pods::is_deleted) {
                kubelets::stop(objects, &key);
            }
            for key in pods::which(objects, |pod| {
                pods::is_deleted(pod) && pods::has_finalizer(pod, users::edits::HOLD)
            }) {
                pods::release(objects, users::USER, &key, users::edits::HOLD);
            }
            if objects.version() == before {
                break;
            }
        }
        objects.version() != begin
    }
}

fn change(objects: &mut Objects, who: &str, resource: &'static Resource, key: &Key, patch: &Value) {
    let changed = objects.change(&Arc::from(who), resource, key, |object| {
        json_patch::merge(object, patch);
        Ok(())
    });
    note(changed.map(drop));
}

/// Users get refusals for their mistakes, so these are ignored.
fn note(done: Result<(), Refusal>) {
    if let Err(refusal) = done {
        tracing::debug!(?refusal, "refused");
    }
}
