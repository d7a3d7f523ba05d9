//! Which selectors are evaluated, and what they select: selectors that users write for known drivers, and selectors written to cost much.

use super::*;

#[test]
fn selectors_for_nvidias_devices_are_evaluated_as_kubernetes_does() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    for (expression, expected) in [
        (
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')",
            false,
        ),
        ("device.attributes['gpu.nvidia.com'].index < 2", true),
        (
            "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('550.0.0'))",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('600.0.0')) >= 0",
            false,
        ),
        (
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
            true,
        ),
        (
            "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('80Gi'))",
            false,
        ),
        (
            "'resource.kubernetes.io' in device.attributes && device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'",
            true,
        ),
        // The driver says for that domain only what tells one device from others.
        ("'resource.kubernetes.io' in device.attributes", true),
        ("has(device.attributes['gpu.nvidia.com'].profile)", false),
        ("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'", false),
        ("device.attributes['gpu.nvidia.com'].index in [0, 3]", true),
        (
            "['a100', 'h100'].exists(name, device.attributes['gpu.nvidia.com'].productName.lowerAscii().contains(name))",
            true,
        ),
    ] {
        assert_eq!(
            selects(expression, "gpu.nvidia.com", &a100),
            Ok(expected),
            "{expression}"
        );
    }
}

#[test]
fn selectors_for_others_devices_are_evaluated_as_kubernetes_does() {
    let arc = json!({"name": "0000-03-00-0-0x56a0", "attributes": {"model": {"string": "A770"},
        "family": {"string": "Arc A-Series"}, "sriov": {"bool": false}},
        "capacity": {"memory": {"value": "16288Mi"}, "millicores": {"value": "1000"}}});
    let amd = json!({"name": "gpu-0-128", "attributes": {"type": {"string": "amdgpu"},
        "productName": {"string": "AMD_Instinct_MI300X_OAM"}, "driverVersion": {"version": "6.12.12"}},
        "capacity": {"memory": {"value": "196592Mi"}, "computeUnits": {"value": "304"}}});
    for (expression, expected) in [
        (
            "device.capacity[\"gpu.intel.com\"].memory.compareTo(quantity(\"4Gi\")) >= 0",
            true,
        ),
        ("device.attributes[\"gpu.intel.com\"].family.startsWith(\"Arc\")", true),
        ("!device.attributes[\"gpu.intel.com\"].sriov", true),
    ] {
        assert_eq!(selects(expression, "gpu.intel.com", &arc), Ok(expected), "{expression}");
    }
    for (expression, expected) in [
        (
            "device.driver == 'gpu.amd.com' && device.attributes['gpu.amd.com'].type == 'amdgpu'",
            true,
        ),
        (
            "device.capacity['gpu.amd.com'].computeUnits.compareTo(quantity('300')) > 0",
            true,
        ),
        ("true", true),
        ("1", false),
    ] {
        assert_eq!(selects(expression, "gpu.amd.com", &amd), Ok(expected), "{expression}");
    }
}

/// As Kubernetes' documentation of the field `expression`, and AMD's manual, write it.
#[test]
fn names_that_selectors_give_to_values_are_evaluated_as_kubernetes_does() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let read = |expression: &str| selects(expression, "gpu.nvidia.com", &a100);
    for (expression, expected) in [
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.index < 2)",
            true,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.index > 2)",
            false,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], has(gpu.profile))",
            false,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.?profile.orValue('none') == 'none')",
            true,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], 'type' in gpu)",
            true,
        ),
        ("cel.bind(all, device.attributes, 'gpu.nvidia.com' in all)", true),
        // Of a domain of which the device has nothing, and an error that nobody asks for.
        (
            "cel.bind(gpu, device.attributes['gpu.intel.com'], has(gpu.type))",
            false,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.intel.com'].type, true || gpu == 'gpu')",
            true,
        ),
        (
            "cel.bind(own, device, own.driver == 'gpu.nvidia.com') && cel.bind(twin, 2, twin + twin == 4)",
            true,
        ),
        (
            "cel.bind(gpu, device.attributes['gpu.nvidia.com'], cel.bind(name, gpu.productName, ['A100', 'H100'].exists(part, name.contains(part))))",
            true,
        ),
        (
            "cel.bind(memory, device.capacity['gpu.nvidia.com'].memory, memory.isGreaterThan(quantity('40Gi')) && memory.isLessThan(quantity('100Gi')))",
            true,
        ),
        ("[1, 2].exists(x, cel.bind(y, x, y == 2))", true),
    ] {
        assert_eq!(read(expression), Ok(expected), "{expression}");
    }
    for (expression, why) in [
        (
            "cel.bind(device, 1, device == 1)",
            "a name that stands for something else",
        ),
        (
            "cel.bind(x, 1, [1].exists(x, x == 1))",
            "a name that stands for something else",
        ),
        (
            "[1].exists(x, cel.bind(x, 2, x == 1))",
            "a name that stands for something else",
        ),
        (
            "cel.bind(x, 1, cel.bind(x, 2, x == 1))",
            "a name that stands for something else",
        ),
        // In Kubernetes this is the function, and true.
        (
            "cel.bind(sets, 'b', sets.contains(['a'], ['a']))",
            "a name that stands for something else",
        ),
        ("cel.bind(x, 1, x == 1) && x == 1", "names other than"),
        ("cel.bind(x, y, cel.bind(y, 1, x == 1))", "names other than"),
        ("cel.bind('x', 1, true)", "other than a name, a value and an expression"),
        ("cel.bind(x, 1)", "other than a name, a value and an expression"),
        ("other.bind(x, 1, x == 1)", "function bind"),
        (
            "[1].exists(x, cel.bind(y, [2].exists(z, z == x), y))",
            "a loop within a loop",
        ),
    ] {
        let error = read(expression).unwrap_err().to_string();
        assert!(error.contains(why), "{expression}: {error}");
    }
}

#[test]
fn what_would_cost_more_than_its_text_is_long_is_not_evaluated() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let read = |expression: &str| selects(expression, "gpu.nvidia.com", &a100);
    let nested = "[1, 2].all(a, [1, 2].all(b, a == b))";
    let growing = "'a'.replace('a', 'aaaaaaaa').replace('a', 'aaaaaaaa') == ''";
    for expression in [
        nested,
        growing,
        "'a'.matches('(a{1000}){1000}')",
        "'a'.matches(device.driver)",
        "no(",
        "unknown(1)",
    ] {
        assert!(read(expression).is_err(), "{expression}");
    }
    let deep = |open: &str, times: usize, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    for expression in [
        deep("(", 5000, "true", ")"),
        deep("!", 10_000, "true", ""),
        deep("1 + ", 2000, "1 == 1", ""),
        deep("true ? ", 1000, "true", " : true"),
        deep("[", 5000, "", "]"),
        deep("-", 9999, "1 == 1", ""),
        "a".repeat(20_000),
    ] {
        assert!(read(&expression).is_err(), "{}", &expression[..20]);
    }
}

#[test]
fn what_tenants_write_to_cost_much_is_refused_or_cheap() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let name = "device.attributes['gpu.nvidia.com'].productName";
    let words = |count: usize| format!("{name}.matches('^{}')", "\\\\w*".repeat(count));
    let list = |count: usize| format!("[{}].exists(x, x == 2)", vec!["1"; count].join(","));
    let refused = [
        (words(17), "more than 16 of"),
        (vec![words(1); 9].join(" || "), "more than 8 times"),
        (format!("['a'].exists(x, {name}.matches('a'))"), "within a loop"),
        (list(2000), "more than 256 operators, dots, commas and brackets"),
        (
            format!("['{}'].exists(x, x == 'a')", "a".repeat(1100)),
            "a loop in an expression of more than 1024 characters",
        ),
        ("[1].map(x, [1].map(y, y)) == []".to_owned(), "a loop within a loop"),
        // In Kubernetes this is the function `sets.contains`, and true.
        (
            "['b'].exists(sets, sets.contains(['a'], ['a']))".to_owned(),
            "with a name of its own for the element",
        ),
        (
            "cel.bind(a, 'a' + 'a', cel.bind(b, a + a + a + a, cel.bind(c, b + b + b + b, c + c + c + c))) == ''"
                .to_owned(),
            "stand for as much in so many places",
        ),
        (
            format!("{name}.replace('a', '{}') == ''", "b".repeat(5000)),
            "function replace",
        ),
        (format!("{name}.split('').size() > 0"), "function split"),
    ];
    for (expression, why) in refused {
        let error = selects(&expression, "gpu.nvidia.com", &a100).unwrap_err().to_string();
        assert!(
            error.contains(why),
            "{}: {error}",
            &expression[..40.min(expression.len())]
        );
    }
    let begun = std::time::Instant::now();
    for expression in [
        vec![words(16); 8].join(" || "),
        list(240),
        format!("{name}.contains('{}')", "a".repeat(9000)),
        format!("'{}'.contains({name})", "a".repeat(9000)),
    ] {
        let read = selects(&expression, "gpu.nvidia.com", &a100);
        assert!(read.is_ok(), "{}: {read:?}", &expression[..40]);
    }
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

/// A tenant who found one of these was charged for MIG devices and given whole cards, or kept the admission webhook from answering for seconds.
#[test]
fn what_kubernetes_takes_otherwise_is_not_evaluated() {
    let a100 = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    let name = "device.attributes['gpu.nvidia.com'].productName";
    for expression in [
        "size('é') == 1".to_owned(),
        "size('\\u00e9') == 1".to_owned(),
        "'\\u0663'.matches('a')".to_owned(),
        "'\\v'.matches('\\\\s')".to_owned(),
        "string(1e21) == '1e+21'".to_owned(),
        "1.0 == 1".to_owned(),
        "1u == 1".to_owned(),
        "size(b'a') == 1".to_owned(),
        "{'a': 1, 'a': 2}.a == 1".to_owned(),
        "bool('True')".to_owned(),
        "isQuantity(' 1')".to_owned(),
        "isQuantity(' ' + '1')".to_owned(),
        "[' 1'].exists(x, isQuantity(x))".to_owned(),
        "[' 1'].exists(device, isQuantity(device))".to_owned(),
        "quantity('1e40').isGreaterThan(quantity('1'))".to_owned(),
        "isSemver('01.2.3')".to_owned(),
        "-(-9223372036854775807 - 1) == 1".to_owned(),
        "!!true".to_owned(),
        "! ! true".to_owned(),
        "- - 1 == 1".to_owned(),
        "! // hidden\n !true".to_owned(),
        "[0, 1].exists(x, 1 / x > 0)".to_owned(),
        "[0, 1].exists(x, x == 1 || device.attributes['a'].b == x)".to_owned(),
        "[1, 'a'].exists(x, x.startsWith('a'))".to_owned(),
        "[1].exists_one(x, x == 1)".to_owned(),
        "int == int".to_owned(),
        "has(device.attributes.x)".to_owned(),
        "has(device.driver)".to_owned(),
        "size(device.attributes['a']) == 0".to_owned(),
        "size(device.attributes.x) == 0".to_owned(),
        "device.attributes[?'x'].hasValue()".to_owned(),
        "device.attributes.?x.hasValue()".to_owned(),
        "size(device.attributes['a' + 'b']) == 0".to_owned(),
        "[device].exists(d, size(d.attributes['a']) == 0)".to_owned(),
        "size((true ? device.attributes : device.attributes)['x']) == 0".to_owned(),
        "optional.of(1) == optional.of(1)".to_owned(),
        "device.attributes['g'].?a.orValue(1 / 0) == 1".to_owned(),
        format!("device.attributes['g']{} == 1", ".?a.orValue(1)".repeat(60)),
        format!("device.attributes['g']{}.hasValue()", ".?a".repeat(20)),
        "!quantity('1.0').isInteger()".to_owned(),
        "!(1 / 0 in [])".to_owned(),
        "[device.attributes['a'].version] == [3]".to_owned(),
        "[1] in [[1]]".to_owned(),
        "device.attributes['a'].?type[?'y'].orValue('a') == 'a'".to_owned(),
        format!("isQuantity({name})"),
        format!("{name}.matches('(?i)[a-\u{10ffff}]')"),
        format!("{name}.matches('[a-z&&b]')"),
        format!("{name}.matches('{}a{}')", "(".repeat(26), ")*".repeat(26)),
        format!("{name}.matches('{}a{}')", "\\x28".repeat(60), "\\x29".repeat(60)),
    ] {
        let read = selects(&expression, "gpu.nvidia.com", &a100);
        assert!(
            matches!(read, Err(SelectorError::Unsupported(_))),
            "{expression}: {read:?}"
        );
    }
    for expression in [
        format!("{name}.matches('(?i)nvidia a100')"),
        "isQuantity('1Gi') && quantity('80Gi').isLessThan(quantity('1Ti'))".to_owned(),
        format!("{name}.size() == 21 && size([1, 2]) == 2"),
        "-1 < 0 && 7 % -2 == 1".to_owned(),
    ] {
        assert_eq!(selects(&expression, "gpu.nvidia.com", &a100), Ok(true), "{expression}");
    }
}

#[test]
fn lists_and_what_may_be_missing_are_evaluated_as_kubernetes_does() {
    let device = json!({"name": "d", "attributes": {"type": {"string": "gpu"}, "links": {"ints": [1, 2]},
        "names": {"strings": ["a", "b"]}, "versions": {"versions": ["1.0.0", "2.1.0"]}, "on": {"bools": [true]}}});
    let of = "device.attributes['x.com']";
    for (expression, expected) in [
        (format!("2 in {of}.links"), true),
        (format!("3 in {of}.links"), false),
        (format!("{of}.names.exists(name, name.startsWith('b'))"), true),
        (format!("{of}.names.size() == 2 && {of}.names[0] == 'a'"), true),
        (
            format!("{of}.versions.all(version, version.isGreaterThan(semver('0.9.0')))"),
            true,
        ),
        (format!("{of}.on[0]"), true),
        (format!("{of}.?missing.orValue('none') == 'none'"), true),
        (format!("{of}.?type.orValue('none') == 'gpu'"), true),
        (format!("{of}.?missing.hasValue()"), false),
        (
            format!("!{of}.?missing.hasValue() && {of}[?'type'].value() == 'gpu'"),
            true,
        ),
        ("device.attributes[?'y.com'].?type.orValue('') == ''".to_owned(), true),
        (format!("has({of}.type) && !has({of}.missing)"), true),
        (
            "!has(device.attributes['y.com'].type) && !('type' in device.attributes['y.com'])".to_owned(),
            true,
        ),
        ("'y.com' in device.attributes".to_owned(), false),
        ("device.attributes['y.com'].type == 'gpu'".to_owned(), false),
        (
            "!has(device.capacity['y.com'].memory) && !device.allowMultipleAllocations".to_owned(),
            true,
        ),
        (format!("{of}.?missing.deeper.orValue('') == ''"), true),
        // An error on one side does not matter where the other side decides.
        (format!("{of}.missing == 'a' || {of}.type == 'gpu'"), true),
        (format!("{of}.type == 'gpu' || {of}.missing == 'a'"), true),
        (format!("!({of}.missing == 'a' && {of}.type == 'mig')"), true),
        (format!("{of}.missing == 'a' || {of}.type == 'mig'"), false),
        (format!("!({of}.missing == 'a')"), false),
        (format!("{of}.missing != 'a'"), false),
    ] {
        assert_eq!(selects(&expression, "x.com", &device), Ok(expected), "{expression}");
    }
}

#[test]
fn a_list_is_shown_to_be_there_and_nobody_judges_by_what_is_not_shown_of_it() {
    let mut device = nvidia("gpu-0", 0, "NVIDIA A100 80GB PCIe");
    device["attributes"]["links"] = json!({"ints": [1]});
    let device = serde_json::from_value(device).unwrap();
    let (model, _) = Model::of("gpu.nvidia.com", &Drivers::default(), &device, &mut TextPool::default());
    let shown = catalogue::shown(&model);
    let mut catalogue = Catalogue::default();
    catalogue.add(A100, &[shown]);
    assert!(!catalogue.knows_all_of(A100));
}
