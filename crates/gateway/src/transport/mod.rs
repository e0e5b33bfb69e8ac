//! Transports: how packets are carried to other branches. They are siblings behind one trait,
//! driven by the [agent](crate::agent).

pub(crate) mod ipip;
pub(crate) mod mptcp;
pub(crate) mod quic;

use std::{
    io,
    net::IpAddr,
    time::{Duration, Instant},
};

use hawser_netdev::{
    poll::{Poller, Ready},
    tun::Tun,
};
use hawser_tls::Identity;
use hawser_tunnel::{
    PathId, Reach,
    counters::{TunCounters, UnauthenticatedCounters},
};
use rustix::io::Errno;

use crate::{
    command::Answer,
    config::Config,
    status::{PeerCounters, PeerStatus},
    trains::{Request, TrainRefused},
};

/// Interval at which transports check timers that are not urgent.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// What the agent owns and a transport works with.
pub(crate) struct Host {
    /// Configuration in force.
    pub(crate) config: Config,
    pub(crate) tun: Tun,
    pub(crate) poller: Poller,
    pub(crate) device: TunCounters,
    /// What peers may reach.
    pub(crate) reach: Reach,
}

/// Whether a socket could not be opened for something that may change: an address, an interface or a
/// route is missing.
pub(crate) fn may_change(error: &io::Error) -> bool {
    let missing = [Errno::ADDRNOTAVAIL, Errno::NODEV, Errno::NETUNREACH, Errno::HOSTUNREACH];
    Errno::from_io_error(error).is_some_and(|error| missing.contains(&error))
        || matches!(
            error.kind(),
            io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
        )
}

/// A transport. Everything it owns belongs to the agent's loop.
pub(crate) trait Transport {
    /// Applies a configuration with the same fixed fields: path groups that are the same in both
    /// stay, others are closed, new ones created. On error nothing has changed.
    fn configure(
        &mut self,
        host: &mut Host,
        config: &Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()>;

    /// The paths of the configuration in force have other addresses, or what kept a socket from being
    /// opened may be gone.
    fn relocate(&mut self, host: &mut Host, now: Instant);

    /// Local addresses whose sockets cannot be opened at present, and why.
    fn problems(&self) -> Vec<(IpAddr, String)>;

    /// Paths that this side connects and on which nothing arrives.
    fn silent_paths(&self, now: Instant) -> Vec<PathId>;

    /// MTU that the device and, as far as known, all paths support.
    fn mtu(&self, config: &Config) -> u16 {
        config.mtu()
    }

    /// What peers may reach.
    fn reach<'a>(&'a mut self, host: &'a mut Host) -> &'a mut Reach {
        &mut host.reach
    }

    /// The device is readable: reads and carries packets, within a budget.
    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()>;

    /// A descriptor that the transport gave to the poller is ready.
    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant);

    /// When [`Self::advance`] is due at the latest.
    fn poll_timeout(&mut self, now: Instant) -> Instant;

    /// Does what is due and sends what may be sent; called after each wait.
    fn advance(&mut self, host: &mut Host, now: Instant);

    /// Sends a train on a path.
    fn start_train(&mut self, _: Request, reply: Answer, _: Instant) {
        drop(reply.send(Err(TrainRefused::Transport)));
    }

    /// Status of its peers.
    fn status(&self, now: Instant) -> Vec<PeerStatus>;

    /// Counters of its peers' path groups.
    fn counters(&self) -> Vec<PeerCounters>;

    /// Counters of unauthenticated connections.
    fn unauthenticated(&self) -> UnauthenticatedCounters;

    /// Closes the connections to all peers.
    fn close(&mut self, host: &mut Host, now: Instant);
}
