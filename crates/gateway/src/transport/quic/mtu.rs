//! The MTU of the TUN device, which follows the paths (docs/design/path-mtu.md).

use hawser_netdev::mtu;
use hawser_tunnel::config::{Oversize, Peer};
use hawser_wire::ipv6::LEAST_MTU;
use ipnet::IpNet;

use crate::{config::Config, transport::Host};

/// The MTU of the paths that the device was last set for.
#[derive(Default)]
pub(super) struct DeviceMtu(Option<u16>);

impl DeviceMtu {
    /// Sets the device's MTU again, whatever it is.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// Brings the device's MTU in line with that of the paths, if it is known.
    pub(super) fn follow(&mut self, paths: Option<u16>, host: &Host) {
        let Some(found) = paths.filter(|_| paths != self.0) else { return };
        // What the kernel refuses is not tried again until the paths change.
        self.0 = paths;
        let (name, mtu) = (&host.config.document.tun.name, wanted(found, &host.config));
        match mtu::set(name, mtu) {
            Ok(()) => tracing::info!(device = name, mtu, paths = found, "MTU follows the paths"),
            Err(error) => tracing::warn!(device = name, mtu, %error, "MTU"),
        }
    }
}

/// The MTU of the device over paths that take inner packets of `paths` bytes.
fn wanted(paths: u16, config: &Config) -> u16 {
    let largest = config.document.tun.mtu;
    if config.document.transport.oversize == Oversize::Fragment {
        return largest;
    }
    // Linux takes IPv6 off a device with less (RFC 8200 section 5); what is in between goes in
    // fragments.
    let least = if has_ipv6(config) { LEAST_MTU } else { 0 };
    paths.max(least).min(largest)
}

fn has_ipv6(config: &Config) -> bool {
    let is_v6 = |prefix: &IpNet| matches!(prefix, IpNet::V6(_));
    let behind = |peer: &Peer| peer.prefixes.iter().any(is_v6);
    config.source6.is_some()
        || config.address.as_ref().is_some_and(is_v6)
        || config.peers.iter().any(behind)
}
