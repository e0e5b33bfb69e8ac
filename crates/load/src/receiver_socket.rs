//! The counters of receivers with sockets, in user space.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hawser_meter::{flow::Flow, histogram::Histogram};
use hawser_wire::{
    ethernet::{self, ethertype},
    load, nsh, srh,
    udp::{self, Datagram},
    vxlan,
};

use crate::{config::StreamFlows, receiver::ReceiveTally};

/// Counters that the receiving thread updates and other threads read.
pub(super) struct Counters(Mutex<State>);

/// The locked counters.
pub(super) struct State {
    run: u16,
    /// Stream of each flow.
    stream_of_flow: Vec<usize>,
    flows: Vec<Flow>,
    /// All counters except those of the flows.
    pub(super) tally: ReceiveTally,
}

impl Counters {
    /// Counters at zero.
    pub(super) fn new(run: u16, streams: &[StreamFlows], window_bits: u32) -> Self {
        let of_flow = streams.iter().enumerate();
        let of_flow = of_flow.flat_map(|(index, s)| std::iter::repeat_n(index, s.flows as usize));
        let stream_of_flow: Vec<usize> = of_flow.collect();
        let histograms = vec![(Histogram::default(), Histogram::default()); streams.len()];
        Self(Mutex::new(State {
            run,
            flows: stream_of_flow.iter().map(|_| Flow::new(window_bits)).collect(),
            stream_of_flow,
            tally: ReceiveTally { histograms, ..ReceiveTally::default() },
        }))
    }

    /// The counters, for a batch of frames.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current counters.
    pub(super) fn tally(&self) -> ReceiveTally {
        let state = self.lock();
        let flows = state.flows.iter().map(|flow| flow.count).collect();
        ReceiveTally { flows, ..state.tally.clone() }
    }
}

impl State {
    /// Counts a frame of `length` bytes with a load payload.
    pub(super) fn observe(&mut self, payload: &load::Repr, length: usize, now: u64) {
        let index = payload.flow as usize;
        let flow = self.flows.get_mut(index).filter(|_| payload.run == self.run);
        let stream = self.stream_of_flow.get(index);
        let histograms = stream.and_then(|stream| self.tally.histograms.get_mut(*stream));
        let (Some(flow), Some((delays, variations))) = (flow, histograms) else {
            self.tally.foreign += 1;
            return;
        };
        let first = self.tally.span_ns.map_or(now, |span| span.0);
        self.tally.span_ns = Some((first, now));
        let delay = payload.delay_ns(now);
        flow.observe(payload.sequence, length as u64, delay, delays, variations);
    }

    /// Counts a frame without a load payload.
    pub(super) fn observe_other(&mut self, length: usize) {
        self.tally.other += 1;
        self.tally.other_bytes += length as u64;
    }
}

/// Headers that are parsed at most: two IP headers, two routing headers, UDP, VXLAN, and those inside.
const STEPS: usize = 10;

/// The load payload of a frame, behind any encapsulation that the generator can add.
pub(super) fn find_payload(frame: &[u8]) -> Option<load::Repr> {
    let mut at = Header::Ethernet(frame);
    for _ in 0..STEPS {
        at = match at {
            Header::Ethernet(bytes) => {
                let frame = ethernet::Frame::parse(bytes)?;
                Header::of_type(frame.ethertype(), frame.payload())?
            }
            Header::Protocol(protocol, bytes) => after(protocol, bytes)?,
            Header::Payload(payload) => return Some(payload),
        };
    }
    None
}

enum Header<'a> {
    Ethernet(&'a [u8]),
    /// By IP protocol number.
    Protocol(u8, &'a [u8]),
    Payload(load::Repr),
}

impl<'a> Header<'a> {
    fn of_type(ethertype: u16, bytes: &'a [u8]) -> Option<Self> {
        match ethertype {
            ethertype::IPV4 => Some(Self::Protocol(4, bytes)),
            ethertype::IPV6 => Some(Self::Protocol(41, bytes)),
            ethertype::NSH => {
                let header = nsh::Header::parse(bytes).ok()?;
                let protocol = match header.next_protocol() {
                    nsh::next_protocol::IPV4 => 4,
                    nsh::next_protocol::IPV6 => 41,
                    nsh::next_protocol::ETHERNET => return Some(Self::Ethernet(header.payload())),
                    _ => return None,
                };
                Some(Self::Protocol(protocol, header.payload()))
            }
            _ => None,
        }
    }
}

fn after(protocol: u8, bytes: &[u8]) -> Option<Header<'_>> {
    match protocol {
        4 => {
            let length = usize::from(bytes.first()? & 15) * 4;
            let fragment = bytes.get(6)? & 0x3f != 0 || *bytes.get(7)? != 0;
            let rest = bytes.get(length..).filter(|_| length >= 20 && !fragment)?;
            Some(Header::Protocol(*bytes.get(9)?, rest))
        }
        41 => Some(Header::Protocol(*bytes.get(6)?, bytes.get(40..)?)),
        srh::NEXT_HEADER => {
            let header = srh::Header::parse(bytes).ok()?;
            Some(Header::Protocol(header.next_header(), header.payload()))
        }
        17 => {
            let datagram = Datagram::parse(bytes)?;
            if let Ok(payload) = load::Repr::parse(datagram.payload()) {
                return Some(Header::Payload(payload));
            }
            let inner = vxlan::inner(bytes.get(udp::HEADER_LEN..)?)?;
            (datagram.destination_port() == vxlan::PORT).then_some(Header::Ethernet(inner))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_frame_panics(frame: Vec<u8>) {
            let _ = find_payload(&frame);
        }
    }
}
