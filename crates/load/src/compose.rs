//! Builds frames in user space, as the eBPF generator does, for packet sockets.

use hawser_bpf::layout::{Flow, RUN_SHIFT, Shape};
use hawser_wire::load;

use crate::headers::{fold, sum};

/// Builds the next frame of a flow with this shape in `frame`. Returns false if the shape's offsets exceed its
/// length.
pub(super) fn compose(
    frame: &mut Vec<u8>,
    shape: &Shape,
    flow: &Flow,
    index: u32,
    now: u64,
) -> bool {
    let header = shape.header.get(..usize::from(shape.header_length)).unwrap_or_default();
    frame.clear();
    frame.extend_from_slice(header);
    frame.resize(shape.length as usize, 0);
    write(frame, shape, flow, &payload(flow, index, now)).is_some()
}

/// The load payload of the next frame of a flow.
pub(super) fn payload(flow: &Flow, index: u32, now: u64) -> [u8; load::LEN] {
    #[allow(clippy::cast_possible_truncation)] // 16 bits remain
    let run = (flow.sequence >> RUN_SHIFT) as u16;
    let sequence = flow.sequence & ((1 << RUN_SHIFT) - 1);
    load::Repr { flow: index, time_ns: now, run, sequence }.emit()
}

fn write(frame: &mut [u8], shape: &Shape, flow: &Flow, payload: &[u8]) -> Option<()> {
    let ip = frame.get_mut(usize::from(shape.ip_offset)..)?;
    if shape.ip_version == 6 {
        ip.get_mut(8..24)?.copy_from_slice(&flow.source);
        ip.get_mut(24..40)?.copy_from_slice(&flow.target);
    } else {
        ip.get_mut(12..16)?.copy_from_slice(flow.source.first_chunk::<4>()?);
        ip.get_mut(16..20)?.copy_from_slice(flow.target.first_chunk::<4>()?);
        let check = !fold(shape.ip_sum + flow.address_sum);
        ip.get_mut(10..12)?.copy_from_slice(&check.to_ne_bytes());
    }
    let udp = frame.get_mut(usize::from(shape.udp_offset)..)?;
    udp.get_mut(0..2)?.copy_from_slice(&flow.source_port.to_ne_bytes());
    udp.get_mut(2..4)?.copy_from_slice(&flow.target_port.to_ne_bytes());
    udp.get_mut(8..8 + payload.len())?.copy_from_slice(payload);
    let check = !fold(shape.udp_sum + flow.address_sum + flow.port_sum + sum(payload));
    let check = if check == 0 { 0xffff } else { check }; // RFC 768: 0 means no checksum
    udp.get_mut(6..8)?.copy_from_slice(&check.to_ne_bytes());
    if shape.entropy_offset > 0 {
        let at = usize::from(shape.entropy_offset);
        frame.get_mut(at..at + 2)?.copy_from_slice(&flow.entropy.to_ne_bytes());
    }
    Some(())
}
