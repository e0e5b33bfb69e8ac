//! SRv6 service proxies for SR-unaware functions (draft-ietf-spring-sr-service-programming section 6), at the XDP
//! hooks of ports.

mod layout;
mod proxy;

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, PerCpuArray, xdp::DevMap},
    programs::xdp::XdpLinkId,
};

use self::layout::{RawCache, RawProxy};
pub use self::proxy::{Behaviour, HEADERS_MAX, NextHop, Proxy};
use crate::{
    codes::srv6 as codes,
    drops::causes,
    meter::sum,
    object::{self, Error, object},
};
pub use crate::{count::Count, object::Verdict};

const PROGRAM: &str = "srv6";
/// Proxies at most.
pub const PROXIES_MAX: usize = codes::SRV6_PROXIES as usize;
/// Ports at most.
pub const PORTS_MAX: usize = codes::SRV6_PORTS as usize;
/// Inner families, each with a cache: IPv4 and IPv6.
const FAMILIES: u32 = 2;
const UNKNOWN: &[Vec<u8>; 2] = &[Vec::new(), Vec::new()];

causes! {
    /// Truncated, or its headers contradict each other.
    malformed,
    /// To a segment, or back from a function, without the segment routing header it needs.
    not_srv6,
    /// No segment is left after the proxy's.
    segments_left,
    /// Hop limit exhausted.
    hop_limit,
    /// The inner packet is neither IPv4 nor IPv6.
    payload,
    /// Returned before an encapsulation was learned.
    no_cache,
    /// Its headers are too long to be restored.
    too_long,
    /// Larger than the egress port's frames.
    too_big,
    /// The function changed the destination of a masqueraded packet.
    changed,
    /// No headroom in front of the packet, or the port is gone.
    failed,
    /// To a segment, or with a segment routing header, from a port that is not trusted (RFC 8754 section 5.1).
    untrusted_srh,
}

/// Counters of a proxy: frames on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// To the function.
    pub toward: Count,
    /// Returned by the function.
    pub returned: Count,
    /// Packets whose headers differed from the cached ones and were stored.
    pub learned: u64,
}

/// The loaded program. It is detached from its ports when dropped.
pub struct Proxies {
    object: Ebpf,
    devices: DevMap<MapData>,
    segments: HashMap<MapData, [u8; 16], RawProxy>,
    returns: HashMap<MapData, u32, RawProxy>,
    caches: Array<MapData, RawCache>,
    counts: PerCpuArray<MapData, Count>,
    drops: PerCpuArray<MapData, u64>,
}

impl Proxies {
    /// Loads the program without attaching it.
    pub fn load() -> Result<Self, Error> {
        let mut object = object::loader().load(object!("srv6/srv6"))?;
        object::xdp(&mut object, PROGRAM)?.load()?;
        Ok(Self {
            devices: object::map(&mut object, "devices")?.try_into()?,
            segments: object::map(&mut object, "segments")?.try_into()?,
            returns: object::map(&mut object, "returns")?.try_into()?,
            caches: object::array(&mut object, "caches")?,
            counts: object::per_cpu(&mut object, "counts")?,
            drops: object::per_cpu(&mut object, "drops")?,
            object,
        })
    }

    /// Makes an interface a port of this number.
    pub fn add_port(&mut self, number: u32, interface: u32) -> Result<(), Error> {
        object::add_port(&mut self.devices, number, interface)
    }

    /// Attaches the program to an interface.
    pub fn attach(&mut self, interface: u32) -> Result<XdpLinkId, Error> {
        object::attach(&mut self.object, PROGRAM, interface)
    }

    /// Adds a proxy of this number, below [`PROXIES_MAX`].
    pub fn add(&mut self, number: u32, proxy: &Proxy) -> Result<(), Error> {
        let headers = match &proxy.behaviour {
            Behaviour::Static { headers } => headers,
            Behaviour::Dynamic | Behaviour::Masquerading => UNKNOWN,
        };
        for (family, headers) in (0..).zip(headers) {
            let cache = RawCache::new(headers).ok_or(Error::Absent("room for these headers"))?;
            self.caches.set(number * FAMILIES + family, cache, 0)?;
        }
        let raw = |next_hop, trusted| RawProxy::new(&proxy.behaviour, number, next_hop, trusted);
        self.returns.insert(proxy.returns, raw(&proxy.onward, proxy.returns_trusted), 0)?;
        Ok(self.segments.insert(proxy.segment.octets(), raw(&proxy.function, true), 0)?)
    }

    /// Drops packets to segments, or with a segment routing header, from an interface on which nothing returns.
    pub fn distrust(&mut self, interface: u32) -> Result<(), Error> {
        Ok(self.returns.insert(interface, RawProxy::outside(), 0)?)
    }

    /// Counters of the proxy of this number.
    pub fn counts(&self, number: u32) -> Result<Counts, Error> {
        let count = |what| sum(&self.counts, number * codes::SRV6_COUNTS + what, Count::merge);
        Ok(Counts {
            toward: count(codes::COUNT_TOWARD)?,
            returned: count(codes::COUNT_RETURNED)?,
            learned: count(codes::COUNT_LEARNED)?.packets,
        })
    }

    /// Dropped packets.
    pub fn drops(&self) -> Result<Drops, Error> {
        let mut causes = 0..;
        Drops::read(|| sum(&self.drops, causes.next().unwrap_or_default(), |a, b| a + b))
    }

    /// Runs the program on a frame (`BPF_PROG_RUN`) with the loopback interface as ingress.
    pub fn run(&self, frame: &[u8]) -> Result<(Verdict, Vec<u8>), Error> {
        object::run(&self.object, PROGRAM, frame)
    }
}
