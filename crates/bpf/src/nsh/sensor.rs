//! Observations of packets, for flow features in user space.

use aya::maps::{Map, MapData, RingBuf};

use crate::{flow::Flow, object::Error};

/// Bytes of an observation in the ring.
const LENGTH: usize = 56;

/// What flow features need of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Time on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Addresses, protocol, and ports of TCP and UDP.
    pub flow: Flow,
    /// Length of the IP packet, bytes.
    pub length: u16,
    /// Length of the headers of IP and TCP, or of IP and the length field of UDP, bytes.
    pub header_length: u16,
    /// Flags of TCP.
    pub flags: u8,
}

impl Observation {
    fn parse(item: &[u8]) -> Option<Self> {
        let item: &[u8; LENGTH] = item.try_into().ok()?;
        let (time, rest) = item.split_first_chunk::<8>()?;
        let (flow, rest) = rest.split_first_chunk::<40>()?;
        let [a, b, c, d, flags, _, _, _] = *rest else { return None };
        Some(Self {
            time_ns: u64::from_ne_bytes(*time),
            flow: Flow::from_bytes(flow),
            length: u16::from_ne_bytes([a, b]),
            header_length: u16::from_ne_bytes([c, d]),
            flags,
        })
    }
}

/// The observations of one ring: all packets of its flows, in order.
pub struct Observations(pub(super) RingBuf<MapData>);

impl Observations {
    /// The ring of another process on this machine, by its number in the kernel. A ring has one reader.
    ///
    /// # Errors
    /// There is none of this number, or it is no ring.
    pub fn open(id: u32) -> Result<Self, Error> {
        Ok(Self(Map::from_map_data(MapData::from_id(id)?)?.try_into()?))
    }
}

impl Iterator for Observations {
    type Item = Observation;

    /// `None` if there is none now; later calls may return more.
    fn next(&mut self) -> Option<Observation> {
        Observation::parse(&self.0.next()?)
    }
}

/// What became of the packets at a sensor. All were forwarded like any others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Packets reported to user space.
    pub packets: u64,
    /// Packets not reported, since the ring was full.
    pub lost: u64,
    /// Packets that are not IP, or malformed.
    pub other: u64,
}
