//! No GPU node above its quota, whatever happens; and what is counted step by step is what is counted anew.

use proptest::prelude::*;

use super::*;

const NODES: usize = 3;
const PODS: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    /// A pod comes to wait; `true` for one with GPU.
    Arrive(usize, u8, bool),
    /// A pod without gate is bound to a GPU node by somebody else, where that leaves the node within its quota.
    Foreign(usize, u8, usize),
    /// The scheduler binds a pod that was let in.
    Bind(usize),
    /// The API server has refused to let a pod in.
    Refuse(usize),
    Leave(usize),
    /// A node's annotation is raised to its quota plus so much.
    Raise(usize, u8),
    /// A node without GPU comes or goes.
    OtherNode(bool),
    Decide,
    /// The operator starts anew: all that it knows comes from the API server.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (pod, node) = (0..PODS, 0..NODES);
    prop_oneof![
        4 => (pod.clone(), 0..6_u8, prop::bool::weighted(0.2)).prop_map(|(pod, cores, gpu)| Step::Arrive(pod, cores, gpu)),
        1 => (pod.clone(), 0..3_u8, node.clone()).prop_map(|(pod, cores, node)| Step::Foreign(pod, cores, node)),
        3 => pod.clone().prop_map(Step::Bind),
        1 => pod.clone().prop_map(Step::Refuse),
        2 => pod.prop_map(Step::Leave),
        1 => (node, 0..3_u8).prop_map(|(node, cores)| Step::Raise(node, cores)),
        1 => any::<bool>().prop_map(Step::OtherNode),
        5 => Just(Step::Decide),
        1 => Just(Step::Restart),
    ]
}

/// Where a pod was let in to.
#[derive(Debug, Clone, PartialEq)]
enum Admitted {
    Nowhere,
    To(String),
    OffGpuNodes,
}

/// What the API server holds of a pod.
#[derive(Debug, Clone)]
struct Kept {
    object: Object,
    admitted: Admitted,
    bound: Option<String>,
}

struct Run {
    world: World,
    quotas: [u32; NODES],
    other_node: bool,
    pods: Vec<Option<Kept>>,
    generation: usize,
}

impl Run {
    fn new() -> Self {
        let mut run = Self {
            world: world(ARGUMENTS),
            quotas: [8, 6, 4],
            other_node: false,
            pods: vec![None; PODS],
            generation: 0,
        };
        for number in 0..NODES {
            run.world.node(&run.gpu(number));
        }
        run
    }

    fn gpu(&self, number: usize) -> Object {
        let quota = self.quotas[number].to_string();
        gpu_node(&format!("gpu-{number}")).annotation("volcano.sh/crossquota-cpu", &quota)
    }

    fn show(&mut self, place: usize) {
        let Some(kept) = &self.pods[place] else { return };
        let shown = match (&kept.bound, &kept.admitted) {
            (Some(node), _) => kept.object.clone().on(node),
            (None, Admitted::To(node)) => kept.object.clone().ungated().pinned_to(node),
            (None, Admitted::OffGpuNodes) => kept.object.clone().ungated(),
            (None, Admitted::Nowhere) => kept.object.clone(),
        };
        self.world.pod(&shown);
    }

    fn uid(&self, place: usize) -> Option<String> {
        let object: serde_json::Value = self.pods[place].as_ref()?.object.read();
        Some(object["metadata"]["uid"].as_str()?.to_owned())
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive(place, cores, gpu) if self.pods[place].is_none() => {
                self.generation += 1;
                let mut object = cpu(&format!("p{place}-{}", self.generation), &cores.to_string());
                if gpu {
                    object = object.requests(GPU, "1");
                }
                self.keep(place, object, None);
            }
            Step::Foreign(place, cores, node) if self.pods[place].is_none() => {
                let name = format!("gpu-{node}");
                let (used, quota) = line(&self.world.cluster, &name);
                if used + i128::from(cores) * 1000 <= i128::from(quota) {
                    self.generation += 1;
                    let object = bare_pod(&format!("f{place}-{}", self.generation));
                    self.keep(place, object.requests("cpu", &cores.to_string()), Some(name));
                }
            }
            Step::Bind(place) => {
                let other_node = self.other_node;
                let Some(kept) = self.pods[place].as_mut().filter(|kept| kept.bound.is_none()) else {
                    return;
                };
                let node = match &kept.admitted {
                    Admitted::To(node) => node.clone(),
                    Admitted::OffGpuNodes if other_node => "cpu-1".to_owned(),
                    _ => return,
                };
                kept.bound = Some(node);
                self.show(place);
            }
            Step::Refuse(place) => {
                let Some(uid) = self.uid(place) else { return };
                // Only what was not written yet can be refused.
                if self.pods[place].as_ref().is_some_and(|kept| kept.bound.is_none()) {
                    let before = self.world.stage(&uid);
                    self.world.refuse(&uid, self.world.now);
                    if before != self.world.stage(&uid)
                        && let Some(kept) = self.pods[place].as_mut()
                    {
                        kept.admitted = Admitted::Nowhere;
                        // The others' admissions are seen before this pod stands aside no longer.
                        (0..PODS).for_each(|place| self.show(place));
                        self.world.wait(60);
                    }
                }
            }
            Step::Leave(place) => {
                if let Some(uid) = self.uid(place) {
                    self.world.remove_pod(&uid);
                    self.pods[place] = None;
                }
            }
            Step::Raise(node, cores) => {
                self.quotas[node] += u32::from(cores);
                self.world.node(&self.gpu(node));
            }
            Step::OtherNode(there) if there != self.other_node => {
                self.other_node = there;
                if there {
                    self.world.node(&node("cpu-1").offers("cpu", "5"));
                } else {
                    self.world.remove_node("cpu-1", self.world.now);
                }
            }
            Step::Decide => {
                for admission in self.world.admissions() {
                    let uid = admission.pod.uid.to_string();
                    let place = (0..PODS)
                        .find(|place| self.uid(*place).as_deref() == Some(&*uid))
                        .unwrap();
                    let kept = self.pods[place].as_mut().unwrap();
                    kept.admitted = match admission.pin {
                        Some(pin) => Admitted::To(pin.node.to_string()),
                        None => Admitted::OffGpuNodes,
                    };
                }
            }
            Step::Restart => self.restart(),
            Step::Arrive(..) | Step::Foreign(..) | Step::OtherNode(_) => {}
        }
    }

    fn keep(&mut self, place: usize, object: Object, bound: Option<String>) {
        self.pods[place] = Some(Kept {
            object,
            admitted: Admitted::Nowhere,
            bound,
        });
        self.show(place);
    }

    fn restart(&mut self) {
        let now = self.world.now;
        self.world = world(ARGUMENTS);
        self.world.now = now;
        for number in 0..NODES {
            self.world.node(&self.gpu(number));
        }
        if self.other_node {
            self.world.node(&node("cpu-1").offers("cpu", "5"));
        }
        (0..PODS).for_each(|place| self.show(place));
    }

    /// What every GPU node holds, counted from what the API server and the decisions say.
    fn check(&self) {
        for number in 0..NODES {
            let name = format!("gpu-{number}");
            let on_it = self.pods.iter().flatten().filter(|kept| match &kept.bound {
                Some(node) => *node == name,
                None => kept.admitted == Admitted::To(name.clone()),
            });
            let held: i128 = on_it
                .map(|kept| {
                    let object: serde_json::Value = kept.object.read();
                    let requests = &object["spec"]["containers"][0]["resources"]["requests"];
                    let cores: i128 = requests["cpu"].as_str().unwrap().parse().unwrap();
                    if requests.get(GPU).is_some() { 0 } else { cores * 1000 }
                })
                .sum();
            let (used, quota) = line(&self.world.cluster, &name);
            assert_eq!(used, held, "{name}");
            assert!(used <= i128::from(quota), "{name} holds {used} of {quota}");
            assert_eq!(quota, i64::from(self.quotas[number]) * 1000);
        }
    }
}

const ARGUMENTS: &str = "quota.cpu: 1";

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn no_gpu_node_is_above_its_quota_after_any_sequence(steps in proptest::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            run.check();
        }
    }
}
