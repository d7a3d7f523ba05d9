//! Devices as drivers publish them, read by small code of the simulator's own: which devices exist, which cards they are,
//! and which ones a selector means. The scheduler of these worlds and the judge use it; no code that decides does.

use std::collections::BTreeMap;

use serde_json::Value;

/// The driver of the cards in these worlds.
pub const NVIDIA: &str = "gpu.nvidia.com";

/// A device of a complete pool.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// The node that has it.
    pub node: &'a str,
    /// Its driver, its pool, and its name in the pool.
    pub id: [&'a str; 3],
    /// What the slice says about the device.
    pub says: &'a Value,
}

impl<'a> Device<'a> {
    /// Returns an attribute in the driver's domain, if it is a text.
    pub fn attribute(&self, name: &str) -> Option<&'a str> {
        self.says["attributes"][name]["string"].as_str()
    }

    /// Whether a taint keeps new pods away.
    pub fn is_kept_away(&self) -> bool {
        let mut taints = self.says["taints"].as_array().into_iter().flatten();
        taints.any(|taint| taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute")
    }

    /// Returns the device's card, and the resource by which a device plugin would count such cards. `None` for other drivers
    /// and types.
    pub fn card(&self) -> Option<(String, String)> {
        let product = self.attribute("productName")?.replace(' ', "-");
        match self.attribute("type")? {
            _ if self.id[0] != NVIDIA => None,
            "gpu" => Some((product, "nvidia.com/gpu".to_owned())),
            "mig" => {
                let profile = self.attribute("profile")?;
                Some((
                    format!("{product}/mig-{profile}-mixed"),
                    format!("nvidia.com/mig-{profile}"),
                ))
            }
            _ => None,
        }
    }
}

/// Returns the devices of these slices, of any pool and generation, for which `is_meant` holds.
fn of_slices<'a>(
    slices: impl IntoIterator<Item = &'a Value>,
    is_meant: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = Device<'a>> {
    let meant = slices.into_iter().filter(move |slice| is_meant(slice));
    meant.flat_map(|slice| {
        let spec = &slice["spec"];
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let (node, driver, pool) = (text(&spec["nodeName"]), text(&spec["driver"]), pool(slice).1);
        let devices = spec["devices"].as_array().into_iter().flatten();
        devices.map(move |says| Device {
            node,
            id: [driver, pool, text(&says["name"])],
            says,
        })
    })
}

/// Returns the driver and the name of a slice's pool.
fn pool(slice: &Value) -> (&str, &str) {
    (
        slice["spec"]["driver"].as_str().unwrap_or_default(),
        slice["spec"]["pool"]["name"].as_str().unwrap_or_default(),
    )
}

/// Returns the devices that count: of each pool those of its newest generation, if all slices of that are there.
pub fn complete<'a>(slices: impl Iterator<Item = &'a Value> + Clone) -> Vec<Device<'a>> {
    let generation = |slice: &Value| slice["spec"]["pool"]["generation"].as_i64().unwrap_or(0);
    let mut newest = BTreeMap::new();
    for slice in slices.clone() {
        let wanted = slice["spec"]["pool"]["resourceSliceCount"].as_i64().unwrap_or(0);
        let (of, count, most) = newest.entry(pool(slice)).or_insert((i64::MIN, 0, 0));
        match generation(slice).cmp(of) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => *count += 1,
            std::cmp::Ordering::Greater => (*of, *count, *most) = (generation(slice), 1, wanted),
        }
    }
    let counts = |slice: &Value| {
        newest
            .get(&pool(slice))
            .is_some_and(|(of, count, most)| generation(slice) == *of && count == most)
    };
    of_slices(slices, counts).collect()
}

/// Returns all devices that any slice names, including those of incomplete and outdated pools.
pub fn all<'a>(slices: impl Iterator<Item = &'a Value>) -> Vec<Device<'a>> {
    of_slices(slices, |_| true).collect()
}

/// Whether all selectors of a class or request match a device.
pub fn selects(selectors: &Value, device: &Device<'_>) -> bool {
    let mut selectors = selectors.as_array().into_iter().flatten();
    selectors.all(|selector| means(selector["cel"]["expression"].as_str().unwrap_or_default(), device))
}

/// Whether an expression matches a device. It has terms of a few forms, all of which must hold.
fn means(expression: &str, device: &Device<'_>) -> bool {
    expression.split(" && ").all(|term| {
        let quoted = |text: &str| text.strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned);
        if let Some(driver) = term.strip_prefix("device.driver == ").and_then(quoted) {
            return device.id[0] == driver;
        }
        let Some((domain, rest)) = term
            .strip_prefix("device.attributes['")
            .and_then(|rest| rest.split_once("']."))
        else {
            return false;
        };
        // An attribute that a device does not have is an error, and an error selects nothing.
        let of = |name: &str| device.attribute(name).filter(|_| domain == device.id[0]);
        if let Some((name, value)) = rest.split_once(" == ") {
            return quoted(value).is_some_and(|value| of(name) == Some(&value));
        }
        if let Some((name, pattern)) = rest.split_once(".lowerAscii().matches('^.*") {
            let part = pattern.strip_suffix(".*$')").unwrap_or_default();
            return !part.is_empty() && of(name).is_some_and(|text| text.to_lowercase().contains(part));
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, generation: i64, of: i64, devices: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"driver": NVIDIA, "nodeName": "n", "devices": devices,
            "pool": {"name": "n", "generation": generation, "resourceSliceCount": of}}})
    }

    fn gpu(name: &str, product: &str) -> Value {
        json!({"name": name, "attributes": {"type": {"string": "gpu"}, "productName": {"string": product}}})
    }

    fn names(slices: &[Value]) -> Vec<&str> {
        complete(slices.iter()).iter().map(|device| device.id[2]).collect()
    }

    #[test]
    fn of_a_pool_the_newest_generation_counts_where_it_is_whole() {
        let mut slices = vec![slice("a", 1, 1, &json!([gpu("old", "A")]))];
        assert_eq!(names(&slices), ["old"]);
        slices.push(slice("b", 2, 2, &json!([gpu("new", "A")])));
        assert_eq!(names(&slices), [""; 0], "the second of its slices is missing");
        slices.push(slice("c", 2, 2, &json!([gpu("more", "A")])));
        assert_eq!(names(&slices), ["new", "more"]);
    }

    #[test]
    fn selectors_of_these_forms_mean_devices() {
        let slices = [slice("a", 1, 1, &json!([gpu("one", "NVIDIA A100 80GB PCIe")]))];
        let device = complete(slices.iter())[0];
        assert_eq!(
            device.card(),
            Some(("NVIDIA-A100-80GB-PCIe".to_owned(), "nvidia.com/gpu".to_owned()))
        );
        for (expression, is) in [
            ("device.driver == 'gpu.nvidia.com'", true),
            (
                "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
                true,
            ),
            ("device.attributes['gpu.nvidia.com'].type == 'mig'", false),
            ("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'", false),
            ("device.attributes['other.com'].type == 'gpu'", false),
            (
                "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')",
                true,
            ),
            ("anything else", false),
        ] {
            assert_eq!(means(expression, &device), is, "{expression}");
        }
    }
}
