//! The switch: swaps addresses by exact match between the agent and the WAN ports, in TC programs.
//!
//! If the process is killed, programs stay attached and continue to forward; the next switch replaces them
//! (docs/design/switch.md).

mod flow;
mod layout;
mod tables;

use std::{collections::BTreeMap, net::IpAddr, os::fd::AsFd, os::fd::BorrowedFd};

use aya::{
    Ebpf, TestRun as _,
    maps::{Array, MapData, PerCpuArray, RingBuf},
    programs::{
        ProgramError, SchedClassifier, TestRunOptions,
        tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcAttachType, TcHandle},
    },
};

pub use self::flow::{Flow, From, Output};
use self::{
    layout::{EVENT_HEAD, V4, V6},
    tables::Tables,
};
pub use crate::count::Count;
use crate::{
    codes::switch as codes,
    drops::causes,
    meter::sum,
    object::{self, Error, object},
};

/// Entries at most. There are counters for two sets, the old and the new one.
pub const ENTRIES_MAX: u32 = COUNTS / 2;

/// Counters of entries.
pub const COUNTS: u32 = codes::SWITCH_COUNTS;

/// Priority of our filters on a port ("HW").
const PRIORITY: u16 = 0x4857;
const HANDLE: TcHandle = TcHandle::new(0, 1);

/// The programs and the hooks that they attach to.
const PROGRAMS: [(&str, TcAttachType); 2] =
    [(WAN, TcAttachType::Ingress), (AGENT, TcAttachType::Egress)];
const WAN: &str = "switch_wan";
const AGENT: &str = "switch_agent";

causes! {
    /// Not addressed to this gateway, or with a path label that has neither an entry nor a socket.
    no_entry,
    /// Fragment of an IPv4 packet that an entry matches.
    fragment,
    /// Larger than the MTU of the egress port.
    too_big,
    /// A header or its checksum is wrong.
    malformed,
    /// TTL or hop limit exhausted.
    ttl,
    /// A helper failed, such as for a port that is gone.
    failed,
}

/// The loaded switch. It is detached from its ports when dropped.
pub struct Switch {
    object: Ebpf,
    v4: Tables<V4>,
    v6: Tables<V6>,
    switches_ipv6: Array<MapData, u32>,
    counts: PerCpuArray<MapData, Count>,
    drops: PerCpuArray<MapData, u64>,
    events: Option<RingBuf<MapData>>,
}

impl Switch {
    /// Loads the programs without attaching them and without entries.
    pub fn load() -> Result<Self, Error> {
        let mut object = object::loader().load(object!("switch/switch"))?;
        for (name, _) in PROGRAMS {
            classifier(&mut object, name)?.load()?;
        }
        Ok(Self {
            v4: Tables::of(&mut object, "in_force", "own")?,
            v6: Tables::of(&mut object, "in_force6", "own6")?,
            switches_ipv6: object::array(&mut object, "switches_ipv6")?,
            counts: object::per_cpu(&mut object, "counts")?,
            drops: object::per_cpu(&mut object, "drops")?,
            events: Some(object::ring(&mut object, "events")?),
            object,
        })
    }

    /// Attaches the programs to a port. Atomically replaces those of a switch that was killed.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        match tc::qdisc_add_clsact(interface) {
            Err(error) if !exists(&error) => return Err(ProgramError::from(error).into()),
            _ => {}
        }
        for (name, place) in PROGRAMS {
            let program = classifier(&mut self.object, name)?;
            let options = NlOptions { priority: PRIORITY, handle: HANDLE, classid: None };
            match program.attach_with_options(interface, place, TcAttachOptions::Netlink(options)) {
                Err(ProgramError::TcError(error)) if exists(&error) => {
                    let stale =
                        SchedClassifierLink::attached(interface, place, PRIORITY, HANDLE, None)?;
                    program.attach_to_link(stale)?;
                }
                result => {
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Replaces all entries, of each version of IP atomically. Without entries of IPv6, its packets are left to the
    /// kernel.
    pub fn install(&mut self, flows: &[Flow]) -> Result<(), Error> {
        let (v6, v4): (Vec<_>, Vec<_>) =
            flows.iter().copied().partition(|flow| flow.key.source.is_ipv6());
        self.v4.install(&v4)?;
        self.v6.install(&v6)?;
        Ok(self.switches_ipv6.set(0, u32::from(!v6.is_empty()), 0)?)
    }

    /// Sets the gateway's own addresses, and whether NAT uses low ports of each. Packets to them are passed to the
    /// kernel.
    pub fn set_own(&mut self, addresses: &BTreeMap<IpAddr, bool>) -> Result<(), Error> {
        self.v4.set_own(addresses)?;
        self.v6.set_own(addresses)
    }

    /// Counters of an entry, by index: IP packets on the wire (after segmentation), and their bytes with the IP
    /// header.
    pub fn count(&self, index: u32) -> Result<Count, Error> {
        sum(&self.counts, index, Count::merge)
    }

    /// Resets counters to zero.
    pub fn clear(&mut self, index: u32) -> Result<(), Error> {
        let zeros = vec![Count::default(); aya::util::nr_cpus().map_err(|(_, error)| error)?];
        let zeros = aya::maps::PerCpuValues::try_from(zeros)?;
        Ok(self.counts.set(index, zeros, 0)?)
    }

    /// Dropped packets.
    pub fn drops(&self) -> Result<Drops, Error> {
        let mut causes = 0..;
        Drops::read(|| sum(&self.drops, causes.next().unwrap_or_default(), |a, b| a + b))
    }

    /// Takes the ring buffer of packets that need a reply, once.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take().map(Events)
    }

    /// Runs a program on a frame without a port (`BPF_PROG_RUN`).
    pub fn run(&self, from: From, frame: &[u8]) -> Result<Outcome, Error> {
        let name = if from == From::Wan { WAN } else { AGENT };
        let program = self.object.program(name).ok_or(Error::Absent(name))?;
        let program: &SchedClassifier = program.try_into()?;
        let mut bytes = vec![0; frame.len() + 64];
        // `struct __sk_buff` of the kernel's interface; only the priority is read
        let mut context = [0; 192];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut bytes),
            ctx_out: Some(&mut context),
            ..TestRunOptions::new()
        };
        let result = program.test_run(options)?;
        bytes.truncate(result.data_size_out as usize);
        let priority = context.get(32..36).and_then(|field| field.first_chunk());
        let verdict = match result.return_value {
            0 => Verdict::Pass,
            7 => Verdict::Redirect,
            _ => Verdict::Drop,
        };
        Ok(Outcome { verdict, bytes, priority: priority.map_or(0, |p| u32::from_ne_bytes(*p)) })
    }
}

/// Verdict of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passed to the stack.
    Pass,
    /// Redirected to a port.
    Redirect,
    /// Dropped, or taken by the daemon.
    Drop,
}

/// Result of a program run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The frame after the run.
    pub bytes: Vec<u8>,
    /// `skb->priority` after the run.
    pub priority: u32,
}

/// Detaches the programs of any switch from a port. A port without them is no error.
pub fn detach(interface: &str) -> Result<(), Error> {
    for (name, place) in PROGRAMS {
        match tc::qdisc_detach_program(interface, place, name) {
            Err(error) if !absent(&error) => return Err(ProgramError::from(error).into()),
            _ => {}
        }
    }
    Ok(())
}

fn exists(error: &tc::TcError) -> bool {
    raw_os_error(error) == Some(libc::EEXIST) || matches!(error, tc::TcError::AlreadyAttached)
}

/// No such program, no clsact, or no such interface any more.
fn absent(error: &tc::TcError) -> bool {
    let not_found =
        matches!(error, tc::TcError::IoError(e) if e.kind() == std::io::ErrorKind::NotFound);
    not_found || matches!(raw_os_error(error), Some(libc::EINVAL | libc::ENOENT | libc::ENODEV))
}

fn raw_os_error(error: &tc::TcError) -> Option<i32> {
    match error {
        tc::TcError::NetlinkError(error) => error.raw_os_error(),
        tc::TcError::IoError(error) => error.raw_os_error(),
        _ => None,
    }
}

fn classifier<'a>(
    object: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, Error> {
    let program = object.program_mut(name).ok_or(Error::Absent(name))?;
    Ok(program.try_into()?)
}

/// The ring buffer of packets that need a reply.
pub struct Events(RingBuf<MapData>);

/// The start of a packet that needs a reply, from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The packet exceeds the MTU of a port.
    TooBig {
        /// MTU of the port.
        mtu: u32,
        /// The packet.
        packet: &'a [u8],
    },
    /// The packet is an ICMP error about a switched packet.
    IcmpError {
        /// The packet.
        packet: &'a [u8],
    },
}

impl Events {
    /// Passes the next event to `take`, if there is one.
    pub fn next<R>(&mut self, take: impl FnOnce(Event<'_>) -> R) -> Option<R> {
        let item = self.0.next()?;
        parse(&item).map(take)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn parse(item: &[u8]) -> Option<Event<'_>> {
    let (head, data) = item.split_at_checked(EVENT_HEAD)?;
    let field = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let length = usize::try_from(field(8)?).ok()?.min(layout::SNAP);
    let packet = data.get(..length)?;
    match field(0)? {
        codes::EVENT_TOO_BIG => Some(Event::TooBig { mtu: field(4)?, packet }),
        _ => Some(Event::IcmpError { packet }),
    }
}
