//! The meter: counts the load frames that arrive at a port.

use aya::{
    Ebpf, Pod,
    maps::{MapData, PerCpuArray, RingBuf},
    programs::xdp::XdpMode,
};

use crate::{
    layout::{BUCKETS, CAPTURE_HEAD, Count, Port},
    object::{self, Error, object},
};

const PROGRAM: &str = "load_receive";

/// Configuration of a meter.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The group of each flow; each group has its histograms.
    pub groups: &'a [u32],
    /// Number of groups.
    pub group_count: u32,
    /// Only frames of this run are counted.
    pub run: u16,
    /// Logarithm to base 2 of the window in which duplicates are detected, frames of a flow. At least 5.
    pub window_bits: u32,
    /// Bytes of each frame that are captured; 0: no capture.
    pub snap_length: u32,
    /// Size of the ring buffer for captured frames, bytes: a power of two.
    pub ring_bytes: u32,
}

/// The loaded meter. It is detached from its port when dropped.
pub struct Meter {
    object: Ebpf,
    counts: PerCpuArray<MapData, Count>,
    histograms: PerCpuArray<MapData, u64>,
    port: PerCpuArray<MapData, Port>,
    captures: Option<RingBuf<MapData>>,
    flow_count: u32,
}

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Time of arrival on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Its length.
    pub length: u32,
    /// Its first bytes.
    pub data: &'a [u8],
}

impl Meter {
    /// Loads the program and its tables.
    pub fn load(plan: &Plan<'_>) -> Result<Self, Error> {
        let flow_count = object::entries(plan.groups.len())?;
        let window_shift = plan.window_bits.saturating_sub(5);
        let window_words = 1u32 << window_shift;
        let words =
            flow_count.checked_mul(window_words).ok_or(Error::Absent("room for windows"))?;
        let mut object = object::loader()
            .override_global("flow_count", &flow_count, true)
            .override_global("group_count", &plan.group_count, true)
            .override_global("window_words", &window_words, true)
            .override_global("window_shift", &window_shift, true)
            .override_global("run", &u64::from(plan.run), true)
            .override_global("snap_length", &plan.snap_length, true)
            .map_max_entries("counts", flow_count)
            .map_max_entries("tracks", flow_count)
            .map_max_entries("groups", flow_count)
            .map_max_entries("seen", words)
            .map_max_entries("histograms", plan.group_count * 2 * BUCKETS)
            .map_max_entries("captures", plan.ring_bytes.max(4096))
            .load(object!("load/receive"))?;
        object::xdp(&mut object, PROGRAM)?.load()?;
        object::fill(&mut object::array(&mut object, "groups")?, plan.groups)?;
        Ok(Self {
            counts: object::per_cpu(&mut object, "counts")?,
            histograms: object::per_cpu(&mut object, "histograms")?,
            port: object::per_cpu(&mut object, "port")?,
            captures: Some(object::ring(&mut object, "captures")?),
            flow_count,
            object,
        })
    }

    /// Attaches the meter to a port. It sees frames before all other receivers.
    pub fn attach(&mut self, interface: u32) -> Result<(), Error> {
        let program = object::xdp(&mut self.object, PROGRAM)?;
        program.attach_to_if_index(interface, XdpMode::default())?;
        Ok(())
    }

    /// The counters of each flow.
    pub fn counts(&self) -> Result<Vec<Count>, Error> {
        (0..self.flow_count).map(|flow| sum(&self.counts, flow, Count::merge)).collect()
    }

    /// The histogram of delays of a group of flows: frames in each bucket.
    pub fn delays(&self, group: u32) -> Result<Vec<u64>, Error> {
        self.histogram(2 * group)
    }

    /// The histogram of delay variations of a group of flows.
    pub fn variations(&self, group: u32) -> Result<Vec<u64>, Error> {
        self.histogram(2 * group + 1)
    }

    fn histogram(&self, index: u32) -> Result<Vec<u64>, Error> {
        let first = index * BUCKETS;
        (first..first + BUCKETS).map(|at| sum(&self.histograms, at, |a, b| a + b)).collect()
    }

    /// The counters of the port.
    pub fn port(&self) -> Result<Port, Error> {
        sum(&self.port, 0, Port::merge)
    }

    /// Takes the ring buffer of captured frames, once.
    pub fn take_captures(&mut self) -> Option<Captures> {
        self.captures.take().map(Captures)
    }
}

pub(crate) fn sum<V: Pod + Default>(
    table: &PerCpuArray<MapData, V>,
    index: u32,
    merge: impl Fn(V, V) -> V,
) -> Result<V, Error> {
    Ok(table.get(&index, 0)?.iter().copied().fold(V::default(), merge))
}

/// The ring buffer of captured frames.
pub struct Captures(RingBuf<MapData>);

impl Captures {
    /// Passes the next frame to `take`, if there is one.
    pub fn next<R>(&mut self, take: impl FnOnce(Captured<'_>) -> R) -> Option<R> {
        let item = self.0.next()?;
        parse(&item).map(take)
    }
}

fn parse(item: &[u8]) -> Option<Captured<'_>> {
    let (head, data) = item.split_at_checked(CAPTURE_HEAD)?;
    let (time, rest) = head.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let kept = u32::from_ne_bytes(*rest.first_chunk::<4>()?);
    Some(Captured {
        time_ns: u64::from_ne_bytes(*time),
        length: u32::from_ne_bytes(*length),
        data: data.get(..usize::try_from(kept).ok()?)?,
    })
}
