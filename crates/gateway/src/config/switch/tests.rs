//! The configuration of the switch: what is accepted, and which field each mistake names.

use serde_json::{Value, json};

use super::super::{
    parse,
    tests::{fields, sample},
};
use super::*;

/// Branch 1 of the worked example of document 004, section III.D: subflow 1, and a path of others
/// that passes through.
pub(crate) fn switched() -> Value {
    let (own, own_b, next, far) = ("198.18.1.2", "198.18.2.2", "198.18.5.2", "198.18.3.2");
    let tuple = |source: &str, destination: &str, what: &str, port: u16| {
        let mut tuple = json!({"source": source, "destination": destination});
        tuple[what] = port.into();
        tuple
    };
    let entry = |name: &str, from: &str, mut key: Value, write: Value, output: Value| {
        key["from"] = from.into();
        for port in ["source_port", "destination_port"] {
            key[port] = key.get(port).cloned().unwrap_or_default();
        }
        json!({"name": name, "match": key, "write": write, "output": output})
    };
    let out = |port: &str| json!({"port": port, "class": 0x10001});
    let mut document = sample();
    document["switch"] = json!({
        "kind": "bpf",
        "ports": [
            {"name": "a", "interface": "wa", "address": own, "next_hop": "198.18.1.1",
             "type": "internet"},
            {"name": "b", "interface": "wb", "address": own_b, "next_hop": "198.18.2.1",
             "type": "leased"},
        ],
        "entries": [
            entry("source", "agent", tuple(own, far, "destination_port", 0x2004),
                  tuple(own, next, "port", 0x2114), out("a")),
            entry("source back", "wan", tuple(next, own, "source_port", 0x2114),
                  tuple(far, own, "port", 0x2004), json!("agent")),
            entry("transit", "wan", tuple(far, own, "destination_port", 0x5224),
                  tuple(own_b, next, "port", 0x5224), out("b")),
            entry("transit back", "wan", tuple(next, own_b, "source_port", 0x5224),
                  tuple(own, far, "port", 0x5224), out("a")),
        ],
    });
    document
}

#[test]
fn the_worked_example_is_good() {
    let switch = parse(&switched()).unwrap().switch.unwrap();
    assert_eq!(switch.entries.len(), 4);
    assert_eq!(switch.entries[0].write.ports, Ports::Destination(0x2114));
    assert_eq!(switch.entries[0].output, Output::Port { port: 0, class: Some(0x10001) });
    assert_eq!(switch.entries[1].output, Output::Agent);
}

#[test]
fn every_error_names_its_field() {
    let cases = [
        ("/kind", json!("ebpf"), "kind"),
        ("/ports", json!([]), "ports"),
        ("/ports/1/name", json!("a"), "ports[1].name"),
        ("/ports/1/interface", json!("wa"), "ports[1].interface"),
        ("/ports/1/interface", json!("a-name-that-is-long"), "ports[1].interface"),
        ("/ports/0/address", json!("::1"), "ports[0].address"),
        ("/ports/0/next_hop", json!("224.0.0.1"), "ports[0].next_hop"),
        ("/ports/0/type", json!("dsl"), "ports[0].type"),
        ("/entries/1/name", json!("source"), "entries[1].name"),
        ("/entries/0/match/source", json!("198.18.9.9"), "entries[0].match.source"),
        ("/entries/0/match/source_port", json!(0x2004), "entries[0].write.port"),
        ("/entries/0/write/port", json!(null), "entries[0].write.port"),
        ("/entries/0/match/destination_port", json!(null), "entries[0].match"),
        ("/entries/0/match/destination_port", json!(0x2114), "entries[0].match.destination_port"),
        ("/entries/0/match/destination_port", json!(70_000), "entries[0].match.destination_port"),
        ("/entries/0/match/from", json!("lan"), "entries[0].match.from"),
        ("/entries/0/write/port", json!(0x2004), "entries[0].write.port"),
        ("/entries/0/write/source", json!("198.18.2.2"), "entries[0].write.source"),
        ("/entries/0/output/port", json!("c"), "entries[0].output.port"),
        ("/entries/0/output", json!("agent"), "entries[0].output"),
        ("/entries/1/match/source_port", json!(0x2004), "entries[1].match.source_port"),
        ("/entries/1/match/destination", json!("198.18.9.9"), "entries[1].match.destination"),
        ("/entries/1/write/destination", json!("198.18.9.9"), "entries[1].write.destination"),
        ("/entries/2/write/port", json!(0x5554), "entries[2].write.port"),
    ];
    for (pointer, value, field) in cases {
        let mut document = switched();
        *document.pointer_mut(&format!("/switch{pointer}")).unwrap() = value.clone();
        let seen = fields(&document);
        assert!(
            seen.iter().any(|seen| *seen == format!("switch.{field}")),
            "{pointer} = {value}: {seen:?}"
        );
    }
}

#[test]
fn a_wide_label_takes_both_ports_and_is_not_rewritten() {
    let mut document = switched();
    for (index, ports) in [(0, (0x1041, 0x1084)), (2, (0xf001, 0xffff))] {
        let entry = &mut document["switch"]["entries"][index];
        (entry["match"]["source_port"], entry["match"]["destination_port"]) =
            (json!(ports.0), json!(ports.1));
        entry["write"]["port"] = json!(null);
    }
    let switch = parse(&document).unwrap().switch.unwrap();
    let both = Ports::Both { source: 0x1041, destination: 0x1084 };
    assert_eq!((switch.entries[0].key.ports, switch.entries[0].write.ports), (both, both));
    let port = |name: &str, value: u16| {
        let mut document = document.clone();
        document["switch"]["entries"][0]["match"][name] = json!(value);
        fields(&document)
    };
    assert_eq!(port("source_port", 4095), ["switch.entries[0].match.source_port"]);
    assert_eq!(port("destination_port", 4095), ["switch.entries[0].match.destination_port"]);
    assert_eq!(port("destination_port", 0x1042), ["switch.entries[0].match.destination_port"]);
}

#[test]
fn the_agent_may_have_other_addresses_at_a_port() {
    let mut document = switched();
    document["peers"][0]["groups"][0]["paths"][0]["local"] = "198.18.1.3".into();
    document["switch"]["entries"][0]["match"]["source"] = "198.18.1.3".into();
    document["switch"]["entries"][1]["write"]["destination"] = "198.18.1.3".into();
    assert!(parse(&document).is_ok());
    document["switch"]["entries"][1]["match"]["destination"] = "198.18.1.3".into();
    assert_eq!(fields(&document), ["switch.entries[1].match.destination"]);
}

/// The worked example with IPv6 addresses.
fn switched6() -> Value {
    let mut document = switched();
    let v6 = |v4: &Value| {
        let v4: Ipv4Addr = v4.as_str().unwrap().parse().unwrap();
        json!(format!("2001:db8::{v4}").parse::<Ipv6Addr>().unwrap().to_string())
    };
    for port in document["switch"]["ports"].as_array_mut().unwrap() {
        port["address6"] = v6(&port["address"]);
        port["next_hop6"] = json!("fe80::1");
    }
    for entry in document["switch"]["entries"].as_array_mut().unwrap() {
        for (part, end) in ["match", "write"]
            .into_iter()
            .flat_map(|part| ["source", "destination"].map(|end| (part, end)))
        {
            entry[part][end] = v6(&entry[part][end]);
        }
    }
    document
}

#[test]
fn entries_of_ipv6_leave_by_the_next_hop_of_ipv6() {
    let switch = parse(&switched6()).unwrap().switch.unwrap();
    let (entry, port) = (&switch.entries[0], &switch.ports[0]);
    assert!(entry.key.source.is_ipv6() && entry.write.destination.is_ipv6());
    let link_local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(port.next_hop_for(entry.write.source), Some(link_local));
    assert_eq!(port.next_hop_for([198, 18, 1, 2].into()), Some([198, 18, 1, 1].into()));
}

#[test]
fn a_port_may_have_ipv6_alone() {
    let mut document = switched6();
    for port in document["switch"]["ports"].as_array_mut().unwrap() {
        for name in ["address", "next_hop"] {
            port.as_object_mut().unwrap().remove(name);
        }
    }
    let switch = parse(&document).unwrap().switch.unwrap();
    let port = &switch.ports[0];
    assert!(port.addresses().all(|address| address.is_ipv6()));
    assert_eq!(port.next_hop_for([198, 18, 1, 2].into()), None);

    for (taken, missing) in [
        (&["next_hop"][..], "next_hop"),
        (&["address"], "address"),
        (&["address", "next_hop", "address6", "next_hop6"], "address"),
    ] {
        let mut document = switched6();
        for name in taken {
            document["switch"]["ports"][1].as_object_mut().unwrap().remove(*name);
        }
        assert_eq!(fields(&document)[0], format!("switch.ports[1].{missing}"), "without {taken:?}");
    }
}

#[test]
fn an_entry_is_of_one_version() {
    let cases = [
        ("/entries/2/match/destination", json!("198.18.1.2"), "entries[2].match.destination"),
        ("/entries/2/write/source", json!("198.18.2.2"), "entries[2].write.source"),
        ("/entries/2/write/destination", json!("198.18.5.2"), "entries[2].write.destination"),
        ("/entries/2/write/destination", json!("ff02::1"), "entries[2].write.destination"),
        ("/ports/1/address6", json!("::"), "ports[1].address6"),
        ("/ports/1/address6", json!("198.18.2.2"), "ports[1].address6"),
        ("/ports/1/address6", json!("2001:db8::c612:102"), "ports[1].address6"),
        ("/ports/1/next_hop6", json!(null), "ports[1].next_hop6"),
        ("/ports/1/address6", json!(null), "ports[1].address6"),
    ];
    for (pointer, value, field) in cases {
        let mut document = switched6();
        *document.pointer_mut(&format!("/switch{pointer}")).unwrap() = value.clone();
        let seen = fields(&document);
        assert_eq!(seen[0], format!("switch.{field}"), "{pointer} = {value}: {seen:?}");
    }
    let mut document = switched6();
    for name in ["address6", "next_hop6"] {
        document["switch"]["ports"][0][name] = json!(null);
    }
    let seen = fields(&document);
    assert!(seen.contains(&"switch.entries[0].write.source".into()), "no address: {seen:?}");
}

#[test]
fn two_entries_cannot_match_the_same_packets() {
    let mut document = switched();
    let mut twin = document["switch"]["entries"][2].clone();
    twin["name"] = "twin".into();
    document["switch"]["entries"].as_array_mut().unwrap().push(twin);
    assert_eq!(fields(&document), ["switch.entries[4].match"]);
}
