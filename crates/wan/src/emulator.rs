//! The emulator: passes each received frame through the channel of its path, and sends it when it is due.

use std::{io, time::Duration};

use hawser_impair::{Channel, Instant, Profile, Tally};
use hawser_netdev::packet::{Frame, VNET_HEADER};
use hdrhistogram::Histogram;

use super::{
    classify::{Rule, addresses},
    clock::{self, Clocks},
    document::{Carries, Direction, Wire},
    plan::{self, Plan},
    pool::{Pool, Slot},
    port::{Outgoing, Port},
};

/// Frames received from one port in a turn of the event loop, so that the other ports are served too.
const RECEIVE_MAX: usize = 256;
/// Time until a full interface is tried again, in which its receiver processes some frames.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);
/// Significant digits and maximum of the lateness histograms: an error of at most 1 %, up to a minute.
const LATENESS_DIGITS: u8 = 2;
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// How many of the waiting frames were received in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Intake {
    /// No frames were waiting.
    Nothing,
    /// All of them.
    All,
    /// [`RECEIVE_MAX`] of one port; more may be waiting.
    Partial,
}

impl Intake {
    fn of(received: usize) -> Self {
        match received {
            0 => Self::Nothing,
            RECEIVE_MAX => Self::Partial,
            _ => Self::All,
        }
    }
}

/// One direction of a wire.
#[derive(Debug)]
struct Link {
    wire: usize,
    direction: Direction,
    /// Indices of the ports.
    from: usize,
    to: usize,
    /// Rules with the index of their path; the first that matches applies.
    rules: Vec<(Rule, usize)>,
    /// Index of the path of packets that no rule matches.
    default_path: usize,
}

/// A path on a link.
#[derive(Debug)]
pub(crate) struct Path {
    /// Its name; `wire:NAME:DIRECTION` for a link's default path.
    pub(crate) name: String,
    link: usize,
    /// Its impairments.
    pub(crate) channel: Channel<Slot>,
    /// Time between due time and transmission, ns.
    pub(crate) lateness: Histogram<u64>,
    /// Packets dropped because the memory was full.
    pub(crate) buffer: Tally,
    /// No longer configured, but may have packets in flight.
    pub(crate) retired: bool,
}

/// All ports, paths and packets of the emulator.
#[derive(Debug)]
pub(crate) struct Emulator {
    ports: Vec<Port>,
    links: Vec<Link>,
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
        let frame = ports.iter().map(|port| port.socket.frame_max()).max().unwrap_or_default();
        let memory = usize::try_from(plan.buffer_bytes).unwrap_or(usize::MAX);
        let mut emulator = Self {
            ports,
            links: Vec::new(),
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

    /// Replaces all paths at once. Paths that keep their name and link keep their random state and counters.
    pub(crate) fn configure(&mut self, plans: &[plan::Path]) {
        let now = clock::now();
        let defaults: Vec<usize> = self.links.iter().map(|link| link.default_path).collect();
        for (number, path) in self.paths.iter_mut().enumerate() {
            path.retired = !defaults.contains(&number);
        }
        self.links.iter_mut().for_each(|link| link.rules.clear());
        for plan in plans {
            self.configure_path(plan, now);
        }
    }

    /// When the next packet is due, or a full interface is to be tried again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let retry = self.ports.iter().any(Port::has_queued).then(|| clock::now() + RETRY_INTERVAL);
        self.paths.iter().filter_map(|path| path.channel.poll_timeout()).chain(retry).min()
    }

    /// Longest time that frames may wait in the rings without an effect on their delay.
    pub(crate) fn poll_interval_max(&self) -> Duration {
        let used = self.links.iter().flat_map(Link::used_paths);
        let paths = used.filter_map(|number| self.paths.get(number));
        paths.map(|path| path.channel.poll_interval_max()).min().unwrap_or_default()
    }

    /// Receives frames, up to [`RECEIVE_MAX`] per port.
    pub(crate) fn receive(&mut self) -> Intake {
        let Self { ports, links, paths, pool, .. } = self;
        let mut intake = Intake::Nothing;
        for link in &*links {
            let Some(port) = ports.get_mut(link.from) else { continue };
            let clocks = Clocks::read();
            let Port { socket, counters, .. } = port;
            let mut received = 0;
            while received < RECEIVE_MAX {
                let Some(frame) = socket.receive() else { break };
                received += 1;
                let length = u32::try_from(frame.length).unwrap_or(u32::MAX);
                counters.rx.add(length);
                if frame.is_truncated() {
                    counters.oversize.add(length);
                } else if let Some(path) = paths.get_mut(link.path(&frame)) {
                    path.enqueue(&frame, length, clocks.arrival(frame.received), pool);
                }
            }
            intake = intake.max(Intake::of(received));
        }
        intake
    }

    /// Sends all frames that are due.
    pub(crate) fn send_due(&mut self) {
        let now = clock::now();
        for number in 0..self.paths.len() {
            self.send_due_of_path(number, now);
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
            self.add_link(wire, number, Direction::Forward, (first, second));
        }
        if wire.carries != Carries::Forward {
            self.add_link(wire, number, Direction::Reverse, (second, first));
        }
    }

    fn add_link(&mut self, wire: &Wire, number: usize, direction: Direction, ends: (usize, usize)) {
        let suffix = if direction == Direction::Forward { "forward" } else { "reverse" };
        let link = self.links.len();
        let name = format!("wire:{}:{suffix}", wire.name);
        let default_path = self.add_path(name, link, Profile::default());
        let ((from, to), rules) = (ends, Vec::new());
        self.links.push(Link { wire: number, direction, from, to, rules, default_path });
    }

    fn add_path(&mut self, name: String, link: usize, profile: Profile) -> usize {
        let seed = self.seed ^ hash(&name);
        let path = Path::new(name, link, Channel::new(clock::now(), profile, seed));
        let vacant = self.paths.iter().position(Path::is_vacant).unwrap_or(self.paths.len());
        match self.paths.get_mut(vacant) {
            Some(old) => *old = path,
            None => self.paths.push(path),
        }
        vacant
    }

    fn configure_path(&mut self, plan: &plan::Path, now: Instant) {
        let same = |link: &Link| link.wire == plan.wire && link.direction == plan.direction;
        let Some(at) = self.links.iter().position(same) else { return };
        let known = self.paths.iter().position(|path| path.name == plan.name && path.link == at);
        let number = match known {
            Some(number) => number,
            None => self.add_path(plan.name.clone(), at, Profile::default()),
        };
        if let (Some(path), Some(link)) = (self.paths.get_mut(number), self.links.get_mut(at)) {
            path.retired = false;
            path.channel.set_profile(now, plan.profile.clone());
            let (source, destination) = (plan.source, plan.destination);
            link.rules.push((Rule { source, destination }, number));
        }
    }

    fn send_due_of_path(&mut self, number: usize, now: Instant) {
        while let Some((departure, link)) = self
            .paths
            .get_mut(number)
            .and_then(|path| Some((path.channel.pop_due(now)?, path.link)))
        {
            let to = self.links.get(link).map_or(0, |link| link.to);
            let (slot, due, more) = (departure.packet, departure.due, departure.more);
            let frame = Outgoing { slot, path: number, due, more };
            if self.ports.get_mut(to).is_some_and(|port| port.queue(frame)) {
                self.flush(to);
            }
        }
    }

    /// Sends the frames queued at a port, and records their lateness when the kernel accepts them.
    fn flush(&mut self, port: usize) {
        let Self { ports, paths, pool, .. } = self;
        let Some(port) = ports.get_mut(port) else { return };
        let mut sent = None;
        port.flush(pool, |frame| {
            let sent = *sent.get_or_insert_with(clock::now);
            if let Some(path) = paths.get_mut(frame.path) {
                let lateness = sent.saturating_since(frame.due).as_nanos();
                path.lateness.saturating_record(u64::try_from(lateness).unwrap_or(u64::MAX));
            }
        });
    }
}

fn open(name: &str, receives: bool) -> io::Result<Port> {
    Port::open(name, receives)
        .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

impl Link {
    /// The paths of its rules, or the default path if it has no rules.
    fn used_paths(&self) -> impl Iterator<Item = usize> {
        let default_path = self.rules.is_empty().then_some(self.default_path);
        self.rules.iter().map(|(_, number)| *number).chain(default_path)
    }

    /// Index of a frame's path.
    fn path(&self, frame: &Frame<'_>) -> usize {
        let addresses = frame.bytes.get(VNET_HEADER..).and_then(addresses);
        let found = self.rules.iter().find(|(rule, _)| rule.matches(addresses));
        found.map_or(self.default_path, |(_, number)| *number)
    }
}

impl Path {
    fn new(name: String, link: usize, channel: Channel<Slot>) -> Self {
        #[expect(clippy::expect_used, reason = "constant arguments, covered by every test")]
        let lateness = Histogram::new_with_bounds(1, LATENESS_MAX_NS, LATENESS_DIGITS)
            .expect("bounds of a histogram");
        Self { name, link, channel, lateness, buffer: Tally::default(), retired: false }
    }

    /// Whether the path can be replaced: retired, with no packets in flight.
    fn is_vacant(&self) -> bool {
        self.retired && self.channel.poll_timeout().is_none()
    }

    /// Passes a frame to the channel. Its bytes are copied only if the channel does not drop it.
    fn enqueue(&mut self, frame: &Frame<'_>, length: u32, arrival: Instant, pool: &mut Pool) {
        let Some(slot) = pool.allocate() else {
            self.buffer.add(length);
            return;
        };
        match self.channel.enqueue(arrival, length, slot) {
            Ok(()) => store(pool, slot, frame),
            Err(_) => pool.free(slot),
        }
    }
}

/// Copies a frame into its slot, and puts back the VLAN tag that the kernel removed.
fn store(pool: &mut Pool, slot: Slot, frame: &Frame<'_>) {
    let tagged = frame.vlan.zip(frame.bytes.split_at_checked(VNET_HEADER + 12));
    let Some(((tpid, tci), (head, tail))) = tagged else {
        return pool.write(slot, &[frame.bytes]);
    };
    let tag = (u32::from(tpid) << 16 | u32::from(tci)).to_be_bytes();
    let (header, addresses) = head.split_at(VNET_HEADER);
    pool.write(slot, &[&with_tag(header), addresses, &tag, tail]);
}

/// The `virtio_net_hdr` of a frame after a tag was inserted: `csum_start` is four bytes higher.
fn with_tag(header: &[u8]) -> [u8; VNET_HEADER] {
    const CSUM_START: usize = 6; // offset of csum_start, which is in host byte order
    let mut changed = [0; VNET_HEADER];
    changed.copy_from_slice(header);
    let field = changed.get_mut(CSUM_START..).and_then(|rest| rest.first_chunk_mut::<2>());
    if let Some(field) = field {
        let start = u16::from_ne_bytes(*field);
        *field = if start == 0 { 0 } else { start.saturating_add(4) }.to_ne_bytes();
    }
    changed
}

/// FNV-1a hash of a path's name, which selects its random streams; the same in every version.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
