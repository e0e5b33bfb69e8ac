//! Computes the generator's tables from the configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser_bpf::{
    generator,
    layout::{Flow, RUN_SHIFT},
};
use hawser_daemon::config::{FieldError, Invalid};
use hawser_wire::ethernet;
use serde_json::Value;

use crate::{
    config::{Addresses, Config, Layer, Mac, Ports, Stream},
    headers::{self, Offsets},
    schedule::Schedule,
    sizes,
};

/// Longest pattern of a stream, frames. Beyond it, not every flow gets frames of every size.
const PATTERN_MAX: usize = 1 << 20;

/// A stream, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// Its name.
    pub(super) name: String,
    /// Its schedule.
    pub(super) schedule: Schedule,
    /// Its flows.
    pub(super) flows: Vec<FlowKey>,
}

/// Addresses and ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    /// Source address.
    pub(super) source: IpAddr,
    /// Destination address.
    pub(super) target: IpAddr,
    /// Source port.
    pub(super) source_port: u16,
    /// Destination port.
    pub(super) target_port: u16,
}

/// Properties of the interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// Ethernet address.
    pub(super) address: [u8; 6],
    /// MTU, bytes.
    pub(super) mtu: u32,
}

/// All streams with the tables of the generator.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// In the order of the configuration.
    pub(super) streams: Vec<Planned>,
    /// Their tables.
    pub(super) tables: generator::Plan,
}

/// Plans the streams of a configuration for an interface.
pub(super) fn plan(
    config: &Config,
    streams: &[Stream],
    catch_up_us: u64,
    interface: Interface,
) -> Result<Plan, Invalid> {
    let mut plan = Plan { streams: Vec::new(), tables: generator::Plan::default() };
    let mut errors = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let place = format!("send.traffic.streams[{index}]");
        if let Err(error) = add(&mut plan, config, stream, catch_up_us, interface, &place) {
            errors.push(error);
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(Invalid { errors }) }
}

fn add(
    plan: &mut Plan,
    config: &Config,
    stream: &Stream,
    catch_up_us: u64,
    interface: Interface,
    place: &str,
) -> Result<(), FieldError> {
    let lengths = frame_lengths(stream, interface, place)?;
    let source = stream.ethernet.source.as_ref().map_or(interface.address, Mac::octets);
    let tables = &mut plan.tables;
    let (first_flow, first_pattern) = (tables.flows.len(), tables.pattern.len());
    let indices = add_shapes(tables, stream, source, &lengths)
        .ok_or_else(|| FieldError::new(&format!("{place}.sizes"), Value::Null, "sizes that fit"))?;
    let pattern = pattern(&indices, stream.flows as usize);
    let flows: Vec<_> = (0..stream.flows).filter_map(|index| key(stream, index)).collect();
    tables.flows.extend(flows.iter().map(|key| flow(key, config.run)));
    tables.pattern.extend(&pattern);
    let mean = mean_bits(stream, &lengths);
    let schedule = Schedule::new(stream.rate, stream.amount, stream.burst, mean);
    let mut control = schedule.control(schedule.start, catch_up_us);
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    control.first_flow = number(first_flow);
    control.flow_count = number(flows.len());
    control.first_pattern = number(first_pattern);
    control.pattern_length = number(pattern.len());
    tables.streams.push(control);
    plan.streams.push(Planned { name: stream.name.clone(), schedule, flows });
    Ok(())
}

/// Lengths of the frames of one sequence of sizes, without frame check sequence.
fn frame_lengths(
    stream: &Stream,
    interface: Interface,
    place: &str,
) -> Result<Vec<usize>, FieldError> {
    let wrong = |found: Value, expected: String| {
        FieldError::new(&format!("{place}.sizes"), found, expected)
    };
    let sizes = sizes::sequence(&stream.sizes)
        .map_err(|letter| wrong(letter.to_string().into(), "a letter with a size".into()))?;
    let at = Offsets::of(stream);
    let link = ethernet::HEADER_LEN + ethernet::TAG_LEN * stream.ethernet.tags.len();
    let longest = (interface.mtu as usize + link).min(FRAME_MAX);
    let add = sizes_offset(stream, at);
    let check = |size: u32| {
        let length = usize::try_from(i64::from(size) + add).unwrap_or(0);
        if (at.frame_min()..=longest).contains(&length) {
            return Ok(length);
        }
        let (least, most) = (signed(at.frame_min()) - add, signed(longest) - add);
        Err(wrong(size.into(), format!("{least} to {most} bytes, for these headers and the MTU")))
    };
    sizes.into_iter().map(check).collect()
}

/// Longest XDP live frame, bytes: a page less the kernel's metadata.
const FRAME_MAX: usize = 3200;

/// Difference of a frame's length and the size that the configuration counts.
fn sizes_offset(stream: &Stream, at: Offsets) -> i64 {
    match stream.counted {
        _ if sizes::counts_check_sequence(&stream.sizes) => -signed(ethernet::FCS_LEN),
        Layer::Fcs => -signed(ethernet::FCS_LEN),
        Layer::Frame => 0,
        Layer::Ip => signed(at.ip),
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Mean size, in bits, that rates in bit/s count.
fn mean_bits(stream: &Stream, lengths: &[usize]) -> f64 {
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    let offset = match stream.counted {
        Layer::Frame => 0.0,
        Layer::Fcs => ethernet::FCS_LEN as f64,
        Layer::Ip => -(Offsets::of(stream).ip as f64),
    };
    8.0 * (mean + offset)
}

/// Adds a shape for each new length. Returns the indices of the shapes, in the order of `lengths`.
fn add_shapes(
    tables: &mut generator::Plan,
    stream: &Stream,
    source: [u8; 6],
    lengths: &[usize],
) -> Option<Vec<u32>> {
    let first = tables.shapes.len();
    let mut known: Vec<usize> = Vec::new();
    let mut indices = Vec::new();
    for length in lengths {
        let place = known.iter().position(|other| other == length).unwrap_or(known.len());
        if place == known.len() {
            known.push(*length);
            tables.shapes.push(headers::shape(stream, source, *length)?);
        }
        indices.push(u32::try_from(first + place).ok()?);
    }
    Some(indices)
}

/// A pattern of shapes in which every flow gets every shape. If the numbers of flows and shapes have a common
/// divisor, each round of both starts one shape later.
fn pattern(shapes: &[u32], flows: usize) -> Vec<u32> {
    let length = shapes.len();
    let divisor = gcd(length, flows);
    let round = length / divisor * flows;
    if divisor == 1 || round * divisor > PATTERN_MAX {
        return shapes.to_vec();
    }
    let at = |place: usize| shapes.get((place + place / round) % length).copied().unwrap_or(0);
    (0..round * divisor).map(at).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn key(stream: &Stream, index: u32) -> Option<FlowKey> {
    Some(FlowKey {
        source: address(stream.source, index)?,
        target: address(stream.target, index)?,
        source_port: port(stream.source_port, index)?,
        target_port: port(stream.target_port, index)?,
    })
}

fn address(range: Addresses, index: u32) -> Option<IpAddr> {
    let step = index % range.count;
    Some(match range.first {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).checked_add(step)?).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).checked_add(step.into())?).into(),
    })
}

fn port(range: Ports, index: u32) -> Option<u16> {
    u16::try_from(u32::from(range.first) + index % range.count).ok()
}

fn flow(key: &FlowKey, run: u16) -> Flow {
    let (source, target) = (octets(key.source), octets(key.target));
    let ports = [key.source_port.to_be_bytes(), key.target_port.to_be_bytes()].concat();
    Flow {
        source,
        target,
        source_port: key.source_port.to_be(),
        target_port: key.target_port.to_be(),
        entropy: (0xc000 | (key.source_port ^ key.target_port.rotate_left(7)) & 0x3fff).to_be(),
        pad: 0,
        address_sum: headers::sum(&source) + headers::sum(&target),
        port_sum: headers::sum(&ports),
        sequence: u64::from(run) << RUN_SHIFT,
        bytes: 0,
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn stream(extra: &Value) -> Stream {
        let mut value = serde_json::json!({
            "name": "s", "ethernet": {"destination": "02:00:00:00:00:02"},
            "source": {"first": "10.21.5.32", "count": 5},
            "target": {"first": "10.22.5.204", "count": 5},
            "source_port": {"first": 10000, "count": 100},
            "target_port": {"first": 10500, "count": 100},
            "flows": 100, "sizes": {"fixed": 60}, "rate": {"frames_per_s": 1000}, "amount": {"frames": 1},
        });
        let merged = value.as_object_mut().unwrap();
        merged.extend(extra.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    const PORT: Interface = Interface { address: [2, 0, 0, 0, 0, 1], mtu: 1500 };

    #[test]
    fn flows_are_those_of_the_published_experiment() {
        let stream = stream(&serde_json::json!({}));
        let text = |index| {
            let key = key(&stream, index).unwrap();
            format!("{}:{} {}:{}", key.source, key.source_port, key.target, key.target_port)
        };
        assert_eq!(text(0), "10.21.5.32:10000 10.22.5.204:10500");
        assert_eq!(text(4), "10.21.5.36:10004 10.22.5.208:10504");
        assert_eq!(text(95), "10.21.5.32:10095 10.22.5.204:10595");
        assert_eq!(text(99), "10.21.5.36:10099 10.22.5.208:10599");
    }

    #[test]
    fn sizes_are_counted_as_asked() {
        let lengths = |extra| frame_lengths(&stream(&extra), PORT, "").unwrap();
        assert_eq!(lengths(serde_json::json!({"sizes": {"fixed": 64}, "counted": "fcs"})), [60]);
        assert_eq!(lengths(serde_json::json!({"sizes": {"fixed": 48}, "counted": "ip"})), [62]);
        assert_eq!(lengths(serde_json::json!({"sizes": {"imix": {"genome": "ag"}}})), [60, 1514]);
    }

    #[test]
    fn a_size_beyond_the_mtu_is_refused_with_its_place() {
        let stream = stream(&serde_json::json!({"sizes": {"fixed": 1515}}));
        let error = frame_lengths(&stream, PORT, "send.traffic.streams[0]").unwrap_err();
        assert_eq!(error.field, "send.traffic.streams[0].sizes");
        assert_eq!(error.expected, "60 to 1514 bytes, for these headers and the MTU");
    }

    #[test]
    fn an_ipv6_frame_needs_eighty_bytes() {
        let six = serde_json::json!({
            "source": {"first": "fd00::1"}, "target": {"first": "fd00::2"}, "sizes": {"fixed": 79},
        });
        let error = frame_lengths(&stream(&six), PORT, "").unwrap_err();
        assert!(error.expected.starts_with("80 to 1514"), "{}", error.expected);
    }

    #[test]
    fn headers_fit_their_offsets() {
        let outers = [
            serde_json::json!({}),
            serde_json::json!({"outer": {"srv6": {"source": "fd00::1", "segments": ["fd00::2", "fd00::3"]}}}),
            serde_json::json!({"outer": {"vxlan": {"source": "10.0.0.1", "target": "10.0.0.2", "vni": 7,
                "ethernet": {"source": "02:00:00:00:00:03", "destination": "02:00:00:00:00:04"}}}}),
            serde_json::json!({"outer": {"nsh": {"spi": 7, "si": 255}}}),
        ];
        for outer in outers {
            let stream = stream(&outer);
            let shape = headers::shape(&stream, [2; 6], 300).unwrap();
            assert_eq!(usize::from(shape.header_length), Offsets::of(&stream).payload);
            assert_eq!(shape.header[usize::from(shape.ip_offset)], 0x45);
        }
    }

    proptest! {
        #[test]
        fn every_flow_gets_every_size(sizes in 1usize..13, flows in 1usize..40) {
            let shapes: Vec<u32> = (0u32..).take(sizes).collect();
            let pattern = pattern(&shapes, flows);
            let met: HashSet<_> = (0..pattern.len() * flows)
                .map(|frame| (frame % flows, pattern[frame % pattern.len()]))
                .collect();
            prop_assert_eq!(met.len(), sizes * flows);
        }
    }
}
