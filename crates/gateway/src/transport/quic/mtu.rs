//! The MTU of the TUN device, which follows the paths (docs/design/path-mtu.md).

use hawser_netdev::mtu;
use hawser_tunnel::config::Oversize;
use hawser_wire::ipv6::LEAST_MTU;

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
    let least = if config.has_ipv6() { LEAST_MTU } else { 0 };
    paths.max(least).min(largest)
}
