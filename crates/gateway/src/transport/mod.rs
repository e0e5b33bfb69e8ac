//! Transports: how packets are carried to other branches. Each is a sibling behind one trait; the
//! [agent](crate::agent) drives it.

pub(crate) mod ipip;
pub(crate) mod mptcp;
pub(crate) mod quic;

use std::{
    io,
    time::{Duration, Instant},
};

use hawser_netdev::{
    poll::{Poller, Ready},
    tun::Tun,
};
use hawser_tls::Identity;
use hawser_tunnel::counters::{StrangerCounters, TunCounters};

use crate::{
    config::Config,
    status::{PeerCounters, PeerStatus},
};

/// How often transports look at timers that are in no hurry.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// What a transport works with, and the agent owns.
pub(crate) struct Host {
    /// The configuration that the transport has taken on.
    pub(crate) config: Config,
    pub(crate) tun: Tun,
    pub(crate) poller: Poller,
    pub(crate) device: TunCounters,
}

/// What a transport does. All that it owns belongs to the agent's loop.
pub(crate) trait Transport {
    /// Takes on a configuration with the same fixed parts: path groups that are the same in both stay, others end, new ones
    /// begin. On an error nothing has changed.
    fn configure(
        &mut self,
        host: &mut Host,
        config: &Config,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<()>;

    /// The largest packet that the device and, as far as is known, all paths take.
    fn mtu(&self, config: &Config) -> u16 {
        config.mtu()
    }

    /// Packets of this branch have come to the device: reads and carries them, within a budget.
    fn handle_device(&mut self, host: &mut Host, now: Instant) -> io::Result<()>;

    /// Something has happened to one of the descriptors that the transport gave to the poller.
    fn handle_ready(&mut self, host: &mut Host, event: Ready, now: Instant);

    /// When [`Self::advance`] is to be called at the latest.
    fn poll_timeout(&mut self, now: Instant) -> Instant;

    /// Does what is due, and sends what may be sent; called after each wait.
    fn advance(&mut self, host: &mut Host, now: Instant);

    /// The state of its peers.
    fn status(&self, now: Instant) -> Vec<PeerStatus>;

    /// What its peers' path groups count.
    fn counters(&self) -> Vec<PeerCounters>;

    /// What it counts of connections from others than peers.
    fn strangers(&self) -> StrangerCounters;

    /// Tells all peers that this is the end.
    fn close(&mut self, host: &mut Host, now: Instant);
}
