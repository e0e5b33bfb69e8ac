//! Frames between ports: each is given to the channel of its path, and sent when that lets it out.

use std::{io, time::Duration};

use hawser_impair::{Channel, Instant, Profile, Tally};
use hawser_netdev::packet::{Frame, VNET_HEADER};
use hdrhistogram::Histogram;

use super::{
    classify::{Rule, addresses},
    clock::{self, Moment},
    document::{Carries, Direction, Wire},
    plan::{self, Plan},
    pool::{Pool, Slot},
    port::{Outgoing, Port},
};

/// Frames taken from one port before the others have their turn.
const TURN: usize = 256;
/// Until an interface that took no more is tried again: the time in which a receiver takes some
/// frames in.
const AGAIN: Duration = Duration::from_micros(50);
/// Lateness is kept with an error of at most 1 %, up to a minute.
const LATENESS_DIGITS: u8 = 2;
const LATENESS_HIGHEST_NS: u64 = 60_000_000_000;

/// How much a turn of the loop took in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Intake {
    /// No frame was there.
    Nothing,
    /// Everything that was there.
    All,
    /// As much as one turn may take; more may be there.
    Part,
}

impl Intake {
    fn of(taken: usize) -> Self {
        match taken {
            0 => Self::Nothing,
            TURN => Self::Part,
            _ => Self::All,
        }
    }
}

/// One direction of a wire, from one port to the other.
#[derive(Debug)]
struct Lane {
    wire: usize,
    direction: Direction,
    from: usize,
    to: usize,
    /// Of several rules that take a packet, the first holds.
    rules: Vec<(Rule, usize)>,
    /// The path of packets that no rule takes.
    rest: usize,
}

/// One path of one lane.
#[derive(Debug)]
pub(crate) struct Path {
    /// Its name; that of the wire and direction for packets that no path takes.
    pub(crate) name: String,
    lane: usize,
    /// What happens to its packets.
    pub(crate) channel: Channel<Slot>,
    /// How much later than due its packets went, ns.
    pub(crate) lateness: Histogram<u64>,
    /// Packets for which no memory was left.
    pub(crate) buffer: Tally,
    /// No longer configured; lives on for the packets under way.
    pub(crate) retired: bool,
}

/// All ports, paths and packets of the emulator.
#[derive(Debug)]
pub(crate) struct Emulator {
    ports: Vec<Port>,
    lanes: Vec<Lane>,
    paths: Vec<Path>,
    pool: Pool,
    seed: u64,
}

impl Emulator {
    /// Opens the interfaces of a configuration.
    ///
    /// # Errors
    /// The kernel's, with the interface's name.
    pub(crate) fn open(plan: &Plan) -> io::Result<Self> {
        let ends = plan.wires.iter().flat_map(|wire| {
            let (forward, reverse) =
                (wire.carries != Carries::Reverse, wire.carries != Carries::Forward);
            [(&wire.ends.0.0, forward), (&wire.ends.1.0, reverse)]
        });
        let ports =
            ends.map(|(name, receives)| open(name, receives)).collect::<io::Result<Vec<_>>>()?;
        let frame = ports.iter().map(|port| port.socket.largest_frame()).max().unwrap_or_default();
        let memory = usize::try_from(plan.buffer_bytes).unwrap_or(usize::MAX);
        let mut emulator = Self {
            ports,
            lanes: Vec::new(),
            paths: Vec::new(),
            pool: Pool::new(VNET_HEADER + frame, memory),
            seed: plan.seed,
        };
        for (number, wire) in plan.wires.iter().enumerate() {
            emulator.add_wire(number, wire);
        }
        emulator.configure(&plan.paths);
        Ok(emulator)
    }

    /// New paths, all at once. Paths that keep their name and lane keep their chance and counters.
    pub(crate) fn configure(&mut self, plans: &[plan::Path]) {
        let now = clock::now();
        let unruled: Vec<usize> = self.lanes.iter().map(|lane| lane.rest).collect();
        for (number, path) in self.paths.iter_mut().enumerate() {
            path.retired = !unruled.contains(&number);
        }
        self.lanes.iter_mut().for_each(|lane| lane.rules.clear());
        for plan in plans {
            self.configure_path(plan, now);
        }
    }

    /// When the next packet is due, or those that an interface did not take are to be tried again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let again = self.ports.iter().any(Port::is_waiting).then(|| clock::now() + AGAIN);
        self.paths.iter().filter_map(|path| path.channel.poll_timeout()).chain(again).min()
    }

    /// How long packets may wait in the rings without anybody seeing it.
    pub(crate) fn patience(&self) -> Duration {
        let taking = self.lanes.iter().flat_map(Lane::taking);
        let paths = taking.filter_map(|number| self.paths.get(number));
        paths.map(|path| path.channel.patience()).min().unwrap_or_default()
    }

    /// Takes in what has come, up to [`TURN`] frames a port.
    pub(crate) fn receive(&mut self) -> Intake {
        let Self { ports, lanes, paths, pool, .. } = self;
        let mut intake = Intake::Nothing;
        for lane in &*lanes {
            let Some(port) = ports.get_mut(lane.from) else { continue };
            let moment = Moment::get();
            let Port { socket, counters, .. } = port;
            let mut taken = 0;
            while taken < TURN {
                let Some(frame) = socket.receive() else { break };
                taken += 1;
                let length = u32::try_from(frame.length).unwrap_or(u32::MAX);
                counters.rx.add(length);
                if frame.is_cut_off() {
                    counters.oversize.add(length);
                } else if let Some(path) = paths.get_mut(lane.path(&frame)) {
                    path.take(&frame, length, moment.arrival(frame.received), pool);
                }
            }
            intake = intake.max(Intake::of(taken));
        }
        intake
    }

    /// Sends everything that is due.
    pub(crate) fn release(&mut self) {
        let now = clock::now();
        for number in 0..self.paths.len() {
            self.release_path(number, now);
        }
        for port in 0..self.ports.len() {
            self.flush(port);
        }
    }

    /// Ports, for their file descriptors and counters.
    pub(crate) fn ports(&mut self) -> &mut [Port] {
        &mut self.ports
    }

    /// Paths, for their counters.
    pub(crate) fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Memory in use, bytes.
    pub(crate) fn buffered(&self) -> u64 {
        self.pool.bytes_in_use()
    }

    fn add_wire(&mut self, number: usize, wire: &Wire) {
        let (first, second) = (2 * number, 2 * number + 1);
        if wire.carries != Carries::Reverse {
            self.add_lane(wire, number, Direction::Forward, (first, second));
        }
        if wire.carries != Carries::Forward {
            self.add_lane(wire, number, Direction::Reverse, (second, first));
        }
    }

    fn add_lane(&mut self, wire: &Wire, number: usize, direction: Direction, ends: (usize, usize)) {
        let way = if direction == Direction::Forward { "forward" } else { "reverse" };
        let lane = self.lanes.len();
        let name = format!("wire:{}:{way}", wire.name);
        let rest = self.add_path(name, lane, Profile::default());
        let (from, to) = ends;
        self.lanes.push(Lane { wire: number, direction, from, to, rules: Vec::new(), rest });
    }

    fn add_path(&mut self, name: String, lane: usize, profile: Profile) -> usize {
        let seed = self.seed ^ fingerprint(&name);
        let path = Path::new(name, lane, Channel::new(clock::now(), profile, seed));
        let vacant = self.paths.iter().position(Path::is_vacant).unwrap_or(self.paths.len());
        match self.paths.get_mut(vacant) {
            Some(old) => *old = path,
            None => self.paths.push(path),
        }
        vacant
    }

    fn configure_path(&mut self, plan: &plan::Path, now: Instant) {
        let same = |lane: &Lane| lane.wire == plan.wire && lane.direction == plan.direction;
        let Some(at) = self.lanes.iter().position(same) else { return };
        let known = self.paths.iter().position(|path| path.name == plan.name && path.lane == at);
        let number = match known {
            Some(number) => number,
            None => self.add_path(plan.name.clone(), at, Profile::default()),
        };
        if let (Some(path), Some(lane)) = (self.paths.get_mut(number), self.lanes.get_mut(at)) {
            path.retired = false;
            path.channel.set_profile(now, plan.profile.clone());
            let (source, destination) = (plan.source, plan.destination);
            lane.rules.push((Rule { source, destination }, number));
        }
    }

    fn release_path(&mut self, number: usize, now: Instant) {
        while let Some((departure, lane)) = self
            .paths
            .get_mut(number)
            .and_then(|path| Some((path.channel.pop_due(now)?, path.lane)))
        {
            let to = self.lanes.get(lane).map_or(0, |lane| lane.to);
            let (slot, due, more) = (departure.packet, departure.due, departure.more);
            let frame = Outgoing { slot, path: number, due, more };
            if self.ports.get_mut(to).is_some_and(|port| port.queue(frame)) {
                self.flush(to);
            }
        }
    }

    /// Sends what a port has gathered, and notes how late it went: when the kernel has taken it.
    fn flush(&mut self, port: usize) {
        let Self { ports, paths, pool, .. } = self;
        let Some(port) = ports.get_mut(port) else { return };
        let mut sent = None;
        port.flush(pool, |frame| {
            let sent = *sent.get_or_insert_with(clock::now);
            if let Some(path) = paths.get_mut(frame.path) {
                let late = sent.saturating_since(frame.due).as_nanos();
                path.lateness.saturating_record(u64::try_from(late).unwrap_or(u64::MAX));
            }
        });
    }
}

fn open(name: &str, receives: bool) -> io::Result<Port> {
    Port::open(name, receives)
        .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

impl Lane {
    /// The paths that take its packets: those of its rules, or of a lane without rules the rest.
    fn taking(&self) -> impl Iterator<Item = usize> {
        let rest = self.rules.is_empty().then_some(self.rest);
        self.rules.iter().map(|(_, number)| *number).chain(rest)
    }

    /// Number of the path that takes a frame.
    fn path(&self, frame: &Frame<'_>) -> usize {
        let between = frame.bytes.get(VNET_HEADER..).and_then(addresses);
        let found = self.rules.iter().find(|(rule, _)| rule.takes(between));
        found.map_or(self.rest, |(_, number)| *number)
    }
}

impl Path {
    fn new(name: String, lane: usize, channel: Channel<Slot>) -> Self {
        #[expect(clippy::expect_used, reason = "constant arguments, covered by every test")]
        let lateness = Histogram::new_with_bounds(1, LATENESS_HIGHEST_NS, LATENESS_DIGITS)
            .expect("bounds of a histogram");
        Self { name, lane, channel, lateness, buffer: Tally::default(), retired: false }
    }

    /// Whether nobody needs the path any more.
    fn is_vacant(&self) -> bool {
        self.retired && self.channel.poll_timeout().is_none()
    }

    /// Gives a frame to the channel; its bytes are copied only if it survives.
    fn take(&mut self, frame: &Frame<'_>, length: u32, arrival: Instant, pool: &mut Pool) {
        let Some(slot) = pool.take() else {
            self.buffer.add(length);
            return;
        };
        match self.channel.enqueue(arrival, length, slot) {
            Ok(()) => store(pool, slot, frame),
            Err(_) => pool.free(slot),
        }
    }
}

/// Copies a frame; a VLAN tag that the kernel took off goes back between addresses and type.
fn store(pool: &mut Pool, slot: Slot, frame: &Frame<'_>) {
    let tagged = frame.vlan.zip(frame.bytes.split_at_checked(VNET_HEADER + 12));
    let Some(((tpid, tci), (head, tail))) = tagged else {
        return pool.write(slot, &[frame.bytes]);
    };
    let tag = (u32::from(tpid) << 16 | u32::from(tci)).to_be_bytes();
    let (header, addresses) = head.split_at(VNET_HEADER);
    pool.write(slot, &[&behind_tag(header), addresses, &tag, tail]);
}

/// The `virtio_net_hdr` of a frame that grew by a tag: the checksum starts four bytes later.
fn behind_tag(header: &[u8]) -> [u8; VNET_HEADER] {
    const START: usize = 6; // of csum_start, in the machine's byte order
    let mut moved = [0; VNET_HEADER];
    moved.copy_from_slice(header);
    if let Some(start) = moved.get_mut(START..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        let place = u16::from_ne_bytes(*start);
        *start = if place == 0 { 0 } else { place.saturating_add(4) }.to_ne_bytes();
    }
    moved
}

/// FNV-1a: each path has chance of its own, the same in every version.
fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
