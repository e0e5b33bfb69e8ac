//! Every header as tshark reads it: the values that were written, and nothing malformed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

use std::{env, fs, net::Ipv6Addr, process::Command};

use hawser_wire::{
    esp, ethernet,
    ethernet::ethertype,
    ipv4,
    nsh::{self, Metadata, Path, TlvRepr},
    srh::{self, Hmac},
    udp, vxlan_gpe,
};

fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let repr = ethernet::Repr { source, destination, tags: Vec::new(), ethertype };
    [&repr.emit()[..], payload].concat()
}

fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let repr = ipv4::Repr { source, destination, protocol, ttl: 64 };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

fn datagram(destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let repr = udp::Repr { source_port: 50000, destination_port };
    let bytes = [&repr.emit(payload.len()).unwrap()[..], payload].concat();
    packet(ipv4::protocol::UDP, &bytes)
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([next_header, 64]);
    bytes.extend(segment(1).octets());
    bytes.extend(segment(2).octets());
    [&bytes[..], payload].concat()
}

fn segment(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)
}

fn service_header(metadata: Metadata, next_protocol: u8, payload: &[u8]) -> Vec<u8> {
    let path = Path { spi: 0x12_3456, si: 254 };
    let repr = nsh::Repr { oam: false, ttl: 62, next_protocol, path, metadata };
    [&repr.emit().unwrap()[..], payload].concat()
}

/// Values of `fields` that tshark finds in one frame, and what it finds wrong with it.
fn tshark(name: &str, frame: &[u8], fields: &[&str]) -> (Vec<String>, String) {
    let file = env::temp_dir().join(format!("hawser-wire-{}-{name}.pcap", std::process::id()));
    let length = u32::try_from(frame.len()).unwrap();
    let words = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1, 0, 0, length, length];
    let head: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    fs::write(&file, [&head, frame].concat()).unwrap();
    let wanted = ["_ws.malformed", "_ws.expert.message"].iter().chain(fields);
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args(["-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    command.args(["-E", "separator=|"]).args(wanted.flat_map(|field| ["-e", field]));
    let output = command.output();
    fs::remove_file(&file).unwrap();
    let text = String::from_utf8(output.expect("tshark is installed").stdout).unwrap();
    let mut values = text.trim_end_matches('\n').split('|').map(str::to_owned);
    let wrong = values.by_ref().take(2).collect();
    (values.collect(), wrong)
}

fn check(name: &str, frame: &[u8], expected: &[(&str, &str)]) {
    let fields: Vec<_> = expected.iter().map(|(field, _)| *field).collect();
    let (values, wrong) = tshark(name, frame, &fields);
    assert_eq!(values, expected.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    assert_eq!(wrong, "", "{name}");
}

const INNER: u8 = nsh::next_protocol::IPV4;

fn inner() -> Vec<u8> {
    datagram(9, b"what is carried")
}

#[test]
fn nsh_of_fixed_length_on_ethernet() {
    let header = service_header(Metadata::Fixed([0xab; 16]), INNER, &inner());
    let context = "abababab";
    check(
        "nsh-fixed",
        &frame(ethertype::NSH, &header),
        &[
            ("nsh.version", "0"),
            ("nsh.Obit", "0"),
            ("nsh.ttl", "0x003e"),
            ("nsh.mdtype", "1"),
            ("nsh.spi", "1193046"),
            ("nsh.si", "254"),
            ("nsh.contextheader", &[context; 4].join(",")),
            ("udp.dstport", "9"),
        ],
    );
}

#[test]
fn nsh_of_variable_length_on_ethernet() {
    let tlv = |class, data: &[u8]| TlvRepr { class, kind: 3, data: data.to_vec() };
    let tlvs = vec![tlv(0x0100, b"12345678"), tlv(0xfff6, b"abcd")];
    let inside = frame(ethertype::IPV4, &inner());
    let header = service_header(Metadata::Variable(tlvs), nsh::next_protocol::ETHERNET, &inside);
    check(
        "nsh-variable",
        &frame(ethertype::NSH, &header),
        &[
            ("nsh.mdtype", "2"),
            ("nsh.spi", "1193046"),
            ("nsh.metadataclass", "256,65526"),
            ("nsh.metadatalen", "0x08,0x04"),
            ("udp.dstport", "9"),
        ],
    );
}

#[test]
fn nsh_in_vxlan_gpe() {
    let header = service_header(Metadata::Variable(Vec::new()), INNER, &inner());
    let next_protocol = vxlan_gpe::next_protocol::NSH;
    let repr = vxlan_gpe::Repr { vni: 0x70_0001, next_protocol, oam: false };
    let payload = [&repr.emit().unwrap()[..], &header].concat();
    check(
        "vxlan-gpe",
        &frame(ethertype::IPV4, &datagram(vxlan_gpe::PORT, &payload)),
        &[
            ("vxlan.i_bit", "1"),
            ("vxlan.p_bit", "1"),
            ("vxlan.next_proto", "4"),
            ("vxlan.vni", "7340033"),
            ("nsh.si", "254"),
            ("udp.dstport", "4790,9"),
        ],
    );
}

#[test]
fn srh_with_hmac() {
    let segments = (2..5).map(segment).collect();
    let hmac = Hmac { any_destination: false, key_id: 7, value: vec![0xcd; 32] };
    let repr = srh::Repr::at_source(4, segments).unwrap();
    let repr = srh::Repr { tag: 0x1234, hmac: Some(hmac), ..repr };
    let payload = [&repr.emit().unwrap()[..], &inner()].concat();
    check(
        "srh",
        &frame(ethertype::IPV6, &ipv6(srh::NEXT_HEADER, &payload)),
        &[
            ("ipv6.routing.segleft", "2"),
            ("ipv6.routing.srh.last_entry", "2"),
            ("ipv6.routing.srh.tag", "1234"),
            ("ipv6.routing.srh.addr", "fd00::4,fd00::3,fd00::2"),
            ("udp.dstport", "9"),
        ],
    );
}

#[test]
fn esp_alone_and_in_udp() {
    let header = esp::Repr { spi: 0xc000_0001, sequence: 77 }.emit().unwrap();
    let body = esp::Plaintext { next_header: 4, data: &inner() }.emit(16).unwrap();
    let bytes = [&header[..], &body].concat();
    let expected = [("esp.spi", "0xc0000001"), ("esp.sequence", "77")];
    check("esp", &frame(ethertype::IPV4, &packet(esp::PROTOCOL, &bytes)), &expected);
    check("esp-udp", &frame(ethertype::IPV4, &datagram(esp::UDP_PORT, &bytes)), &expected);
}
