//! The features are flowtbag's: its own answer for a capture, line by line.
//!
//! flowtbag takes the seconds of a capture's time stamps for microseconds, so the captures here have
//! microseconds in that field. What it prints is cut to integers; two known differences remain:
//!
//! - It forgets a minimum of 0 when the next number comes (`DistributionFeature.Add` in its `features.go`).
//! - It rounds sums of squares, so that a deviation near an integer may be one less or more.
//!
//! `FLOWTBAG=program cargo test -p hawser-flowmeter --test flowtbag -- --ignored` asks the program itself
//! over 100 000 flows, and writes the small capture and its answer anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::{
    fs::{self, File},
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use hawser_flowmeter::{FlowTable, Packet, Record, Settings, features::NAMES};
use pcap_file::{
    DataLink,
    pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter},
};

/// What flowtbag and we say of a flow: addresses, ports, protocol, features cut to integers.
type Line = (String, Vec<i64>);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn the_features_of_a_capture_are_those_of_flowtbag() {
    let answer = fs::read_to_string(data("traffic.csv")).unwrap();
    let compared = compare(&ours(&data("traffic.pcap")), &theirs(&answer));
    assert_eq!(compared.flows, 293);
}

#[test]
#[ignore = "needs flowtbag, named by $FLOWTBAG"]
fn the_features_of_many_flows_are_those_of_flowtbag() {
    let program = std::env::var("FLOWTBAG").expect("FLOWTBAG names the program");
    ask(&program, 400, &data("traffic.pcap"), &data("traffic.csv"));
    let folder = std::env::temp_dir();
    let (capture, answer) =
        (folder.join("hawser-flowtbag.pcap"), folder.join("hawser-flowtbag.csv"));
    ask(&program, 250_000, &capture, &answer);
    let text = fs::read_to_string(&answer).unwrap();
    let compared = compare(&ours(&capture), &theirs(&text));
    fs::remove_file(capture).unwrap();
    fs::remove_file(answer).unwrap();
    println!("{compared:?}");
    assert!(compared.flows > 100_000);
}

/// Writes a capture of seeded traffic and what `program` says of it.
fn ask(program: &str, flows: u32, capture: &Path, answer: &Path) {
    fs::create_dir_all(capture.parent().unwrap()).unwrap();
    write(capture, &common::traffic(flows, 3));
    let output = Command::new(program).arg(capture).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(answer, output.stdout).unwrap();
}

/// Frames of Ethernet, cut after the headers; the seconds of their time are microseconds.
fn write(path: &Path, packets: &[(u64, Packet)]) {
    let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(File::create(path).unwrap(), header).unwrap();
    for (now, packet) in packets {
        let frame = frame(packet);
        let length = u32::from(packet.length) + 14;
        let packet = PcapPacket::new(Duration::from_secs(*now), length, &frame);
        writer.write_packet(&packet).unwrap();
    }
}

fn frame(packet: &Packet) -> Vec<u8> {
    let tuple = packet.tuple;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (tuple.source, tuple.destination) else {
        panic!("flowtbag reads IPv4 alone")
    };
    let mut bytes = vec![0; 12];
    bytes.extend([8, 0, 0x45, packet.dscp << 2]);
    bytes.extend(packet.length.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, tuple.protocol, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(tuple.source_port.to_be_bytes());
    bytes.extend(tuple.destination_port.to_be_bytes());
    if tuple.protocol == 6 {
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, packet.flags, 0, 0, 0, 0, 0, 0]);
    } else {
        bytes.extend((packet.length - 20).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes
}

fn ours(capture: &Path) -> Vec<Line> {
    let mut table = FlowTable::new(Settings { capacity: 1 << 20, ..Settings::default() });
    let mut lines = Vec::new();
    let mut keep = |record: Record| {
        if record.reason.is_last() && record.is_conversation {
            lines.push(line(&record));
        }
    };
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    while let Some(packet) = reader.next_packet() {
        let captured = packet.unwrap();
        let packet = Packet::parse(&captured.data[14..]).unwrap();
        table.observe(captured.timestamp.as_secs(), &packet, &mut keep);
    }
    table.finish(&mut keep);
    lines.sort();
    lines
}

#[allow(clippy::cast_possible_truncation)] // as flowtbag cuts
fn line(record: &Record) -> Line {
    let tuple = record.tuple;
    let (from, to) = (tuple.source, tuple.destination);
    let (port, service) = (tuple.source_port, tuple.destination_port);
    let flow = format!("{from},{port},{to},{service},{}", tuple.protocol);
    (flow, record.features.iter().map(|value| *value as i64).collect())
}

fn theirs(answer: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = answer
        .lines()
        .map(|text| {
            let (at, _) = text.match_indices(',').nth(4).unwrap();
            let values = text[at + 1..].split(',').map(|value| value.parse().unwrap());
            (text[..at].to_owned(), values.collect())
        })
        .collect();
    lines.sort();
    lines
}

/// How much was equal.
#[derive(Debug, Default)]
struct Compared {
    flows: usize,
    minima_of_zero: usize,
    deviations_off_by_one: usize,
}

/// Compares all flows; panics at the first difference that is not a known one.
fn compare(ours: &[Line], theirs: &[Line]) -> Compared {
    assert_eq!(ours.len(), theirs.len());
    let mut compared = Compared { flows: ours.len(), ..Compared::default() };
    for ((flow, values), (their_flow, their_values)) in ours.iter().zip(theirs) {
        assert_eq!((flow, values.len()), (their_flow, their_values.len()));
        for ((name, value), their) in NAMES.iter().zip(values).zip(their_values) {
            if name.starts_with("std_") && (value - their).abs() == 1 {
                compared.deviations_off_by_one += 1;
            } else if name.starts_with("min_") && *value == 0 && *their != 0 {
                compared.minima_of_zero += 1;
            } else {
                assert_eq!(value, their, "{name} of {flow}: ours {values:?}, {their_values:?}");
            }
        }
    }
    compared
}
