use std::net::Ipv4Addr;

use super::*;

fn document() -> Value {
    json!({
        "version": 1,
        "control": "sff.sock",
        "ports": [
            {"name": "lan", "interface": "c0", "otherwise": {"port": "out"}},
            {"name": "out", "interface": "s0", "address": "192.0.2.1", "trusted": true},
        ],
        "hops": [
            {"spi": 1, "si": 255, "to": [
                {"port": "out", "mac": "02:00:00:00:00:0a", "vxlan_gpe": {"remote": "192.0.2.2"}},
            ]},
            {"spi": 1, "si": 254, "end": {"port": "out"}},
        ],
        "rules": [
            {"port": "lan", "source": "10.1.0.0/24", "destination_ports": [80, 90], "spi": 1},
            {"protocol": 17, "spi": 1, "metadata": {"variable": [
                {"class": 1, "type": 2, "data": "abcd"},
            ]}},
        ],
    })
}

fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut document = document();
    change(&mut document);
    let invalid = parse(Kind::Sff, &document).unwrap_err();
    invalid.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn names_become_numbers() {
    let plan = parse(Kind::Sff, &document()).unwrap();
    let interface = |last| Interface { mac: [2, 0, 0, 0, 0, last], frame_max: 1514 };
    let interfaces = [interface(1), interface(2)];
    let hops = plan.hops(&interfaces, &Down::default());
    let bpf::Hop::Forward(targets) = &hops[0].1 else { panic!("{hops:?}") };
    assert_eq!(
        (targets[0].port, targets[0].mac, targets[0].own_mac[5]),
        (1, [2, 0, 0, 0, 0, 10], 2)
    );
    assert_eq!(plan.ports(&interfaces, true)[0].otherwise, bpf::Otherwise::Port(1));
    assert_eq!((plan.headers.len(), plan.rules[0].0.port), (2, Some(1)));
    let header = nsh::Header::parse(&plan.headers[1].1).unwrap();
    let nsh::Context::Variable(tlvs) = header.context() else { panic!("MD type 2") };
    assert_eq!(tlvs.iter().next().unwrap().data, [0xab, 0xcd]);
}

#[test]
fn each_mistake_has_its_place() {
    for (found, expected) in [
        (
            errors(|d| d["hops"][0]["to"][0]["port"] = json!("x")),
            "hops[0].to[0].port: found \"x\", expected the name of a port",
        ),
        (errors(|d| d["hops"][0]["to"][0]["mac"] = json!("x")), "hops[0].to[0].mac"),
        (errors(|d| d["hops"][1]["si"] = json!(255)), "hops[1]: found"),
        (errors(|d| d["hops"][1]["end"] = json!(null)), "hops[1]: found"),
        (
            errors(|d| d["ports"][1]["address"] = json!(null)),
            "hops[0].to[0].port: found \"out\", expected a port with an address",
        ),
        (errors(|d| d["ports"][1]["name"] = json!("lan")), "ports[1].name"),
        (
            errors(|d| d["ports"][1]["queued"] = json!(true)),
            "ports[0].otherwise.port: found \"out\"",
        ),
        (
            errors(|d| {
                d["ports"][1]["queued"] = json!(true);
                d["hops"][0]["to"][0]["vxlan_gpe"] = json!(null);
            }),
            "hops[0].to[0].port: found \"out\", expected a port that is not queued",
        ),
        (errors(|d| d["rules"][0]["source"] = json!("10.1")), "rules[0].source"),
        (
            errors(|d| {
                d["hops"][0]["to"][0]["vxlan_gpe"] = json!(null);
                d["hops"][0]["to"][0]["back"] = json!({"spi": 2, "si": 254});
            }),
            "hops[0].to[0].back: found",
        ),
        (
            errors(|d| d["ports"][1]["proxy"] = json!("flows")),
            "hops[0].to[0].port: found \"out\", expected a port without proxy",
        ),
        (
            errors(|d| d["rules"][0]["destination_ports"] = json!([9, 8])),
            "rules[0].destination_ports",
        ),
        (errors(|d| d["rules"][0]["port"] = json!("x")), "rules[0].port"),
        (errors(|d| d["rules"][0]["spi"] = json!(0x100_0000)), "rules[0].spi"),
    ] {
        assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
    }
}

/// The same with two instances of a function on path 1, and rules of another path that does not use it.
fn checked(fail: &str) -> Value {
    let mut document = document();
    let check = json!({"by": {"tcp": {"address": "192.0.2.9:80"}}, "rise": 1, "fall": 1});
    let instance = |name| json!({"name": name, "checks": [check]});
    document["functions"] = json!([{"name": "f", "instances": [instance("f-1"), instance("f-2")]}]);
    document["service_paths"] = json!([{"spi": 1, "fail": fail, "functions": ["f"]}]);
    let target = |last, name| json!({"port": "out", "mac": format!("02:00:00:00:00:{last}"), "instance": name});
    document["hops"][0]["to"] = json!([target("0a", "f-1"), target("0b", "f-2")]);
    document["forwarders"] = json!(["192.0.2.9"]);
    document["rules"][1]["spi"] = json!(2);
    document
}

/// Targets at the first position of path 1, and identifiers of the paths that rules refer to.
fn led(fail: &str, gone: &[usize]) -> (Option<Vec<u8>>, Vec<u32>) {
    let plan = parse(Kind::Sff, &checked(fail)).unwrap();
    let (functions, now) = (&plan.document.functions, std::time::Instant::now());
    let mut health = crate::health::Health::new(functions, now);
    for instance in gone {
        health.observe(crate::health::Place(0, *instance, 0), Err(String::new()), now);
    }
    let down = health.down();
    let interface = Interface { mac: [2, 0, 0, 0, 0, 1], frame_max: 1514 };
    let hops = plan.hops(&[interface, interface], &down);
    let targets = hops.iter().find_map(|(path, hop)| match hop {
        bpf::Hop::Forward(targets) if path.si == 255 => {
            Some(targets.iter().map(|target| target.mac[5]).collect())
        }
        _ => None,
    });
    let rules = plan.rules(&down);
    (targets, rules.iter().map(|(_, at)| plan.headers[*at as usize].0.spi).collect())
}

#[test]
fn packets_avoid_what_is_down() {
    for fail in ["open", "closed"] {
        assert_eq!(led(fail, &[]), (Some(vec![10, 11]), vec![1, 2]));
        assert_eq!(led(fail, &[0]), (Some(vec![11]), vec![1, 2]));
    }
    assert_eq!(led("open", &[0, 1]), (None, vec![2]));
    assert_eq!(led("closed", &[0, 1]), (None, vec![1, 2]));
}

#[test]
fn each_mistake_with_functions_has_its_place() {
    for (change, expected) in [
        (("/hops/0/to/0/instance", json!("f")), "hops[0].to[0].instance: found \"f\", expected"),
        (("/service_paths/0/functions/0", json!("f-1")), "service_paths[0].functions[0]: found"),
        (("/service_paths/0/functions", json!([])), "service_paths[0].functions"),
        (("/functions/0/instances/1/name", json!("f-1")), "functions[0].instances[1].name"),
        (
            ("/functions/0/instances/0/checks/0/fall", json!(0)),
            "functions[0].instances[0].checks[0].fall",
        ),
        (
            ("/functions/0/instances/0/checks/0/by/tcp/address", json!("192.0.2.9")),
            "functions[0].instances[0].checks[0].by",
        ),
    ] {
        let ((place, value), mut document) = (change, checked("open"));
        *document.pointer_mut(place).unwrap() = value;
        let invalid = parse(Kind::Sff, &document).unwrap_err();
        let found: Vec<_> = invalid.errors.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn old_configurations_get_one_error_about_trust() {
    let expected = "ports: found [\"out\"], expected `trusted: true` at these ports";
    let found = errors(|d| d["ports"][1]["trusted"] = json!(false));
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let function = json!({
        "version": 1,
        "control": "f.sock",
        "ports": [{"name": "f0", "interface": "f0", "address": "192.0.2.2", "trusted": true}],
        "forwarders": ["192.0.2.1"],
    });
    for (place, value, expected) in [
        ("/ports/0/trusted", json!(false), "ports: found [\"f0\"], expected `trusted: true`"),
        ("/forwarders", json!([]), "forwarders: found [], expected addresses that send"),
    ] {
        let mut old = function.clone();
        *old.pointer_mut(place).unwrap() = value;
        let invalid = parse(Kind::Forwarder, &old).unwrap_err();
        let found: Vec<_> = invalid.errors.iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
    let plan = parse(Kind::Forwarder, &function).unwrap();
    assert_eq!(plan.forwarders(), [Ipv4Addr::new(192, 0, 2, 1)].into());
    let plan = parse(Kind::Sff, &document()).unwrap();
    assert_eq!(plan.forwarders(), [Ipv4Addr::new(192, 0, 2, 2)].into(), "remotes of hops");
}

#[test]
fn a_port_with_proxy_is_not_trusted() {
    let found = errors(|d| {
        d["ports"][0]["trusted"] = json!(true);
        d["ports"][0]["proxy"] = json!("flows");
    });
    assert!(found.iter().any(|error| error.starts_with("ports[0].trusted: found true")));
}

#[test]
fn a_forwarder_has_no_rules() {
    let invalid = parse(Kind::Forwarder, &document()).unwrap_err();
    assert_eq!(invalid.errors[0].field, "rules");
}
