//! Environment of the agent: device, routes, identity files.

use std::net::IpAddr;

use anyhow::Context;
use hawser_daemon::config::{FieldError, Invalid};
use hawser_netdev::{
    routes::{self, Routes},
    tun::{Offload, Tun},
};
use hawser_tls::{Identity, Part, Revoked};
use hawser_tunnel::config::Peer;
use ipnet::IpNet;

use super::{
    breakout,
    config::{Config, Kind, TlsDocument},
    transport::quic,
};

/// Packets queued in the TUN device. The kernel's 500 are too few for bursts at several Gbit/s.
const TUN_QUEUE_LEN: u32 = 4096;

/// Opens the TUN device.
pub(super) fn open_tun(config: &Config) -> anyhow::Result<Tun> {
    let offload = match config.document.transport.kind {
        Kind::Mptcp | Kind::Quic => Offload::Tcp,
        Kind::Ipip => Offload::None,
    };
    let name = &config.document.tun.name;
    Tun::open(name, offload).with_context(|| format!("TUN device {name}"))
}

/// Reads the identity's files, if the transport is encrypted.
pub(super) fn identity(config: &Config) -> Result<Option<Identity>, Invalid> {
    let Some(tls) = &config.document.transport.tls else { return Ok(None) };
    let revoked = revoked(tls)?;
    let identity =
        Identity::load(&tls.certificate, &tls.key, &tls.ca, revoked).map_err(|error| {
            let (field, file) = match error.part() {
                Part::Certificate => ("certificate", &tls.certificate),
                Part::Key => ("key", &tls.key),
                Part::Authority => ("ca", &tls.ca),
            };
            let found = file.to_string_lossy().into_owned();
            let expected = format!("a valid PEM file ({error})");
            Invalid {
                errors: vec![FieldError::new(&format!("transport.tls.{field}"), found, expected)],
            }
        })?;
    Ok(Some(identity))
}

/// Revoked certificates.
fn revoked(tls: &TlsDocument) -> Result<Revoked, Invalid> {
    const EXPECTED: &str = "a SHA-256 fingerprint: 64 hexadecimal digits";
    let mut revoked = Revoked::default();
    let mut errors = Vec::new();
    for (index, text) in tls.revoked.iter().enumerate() {
        if !revoked.add(text) {
            let field = format!("transport.tls.revoked[{index}]");
            errors.push(FieldError::new(&field, text.as_str(), EXPECTED));
        }
    }
    if let Some(path) = &tls.revoked_file {
        let (field, found) = ("transport.tls.revoked_file", path.to_string_lossy().into_owned());
        match std::fs::read_to_string(path) {
            Ok(text) => {
                for (number, line) in (1..).zip(text.lines()) {
                    let line = line.split('#').next().unwrap_or_default().trim();
                    if !line.is_empty() && !revoked.add(line) {
                        let place = format!("{field}, line {number}");
                        errors.push(FieldError::new(&place, line, EXPECTED));
                    }
                }
            }
            Err(error) => {
                errors.push(FieldError::new(field, found, format!("a text file ({error})")));
            }
        }
    }
    if errors.is_empty() { Ok(revoked) } else { Err(Invalid { errors }) }
}

/// Brings the device up with this MTU and adds the routes.
pub(super) async fn set_network(config: &Config, mtu: u16) -> anyhow::Result<()> {
    let (routes, interface) = network(config)?;
    routes.bring_up(interface, mtu, TUN_QUEUE_LEN).await?;
    if let Some(address) = config.address {
        routes.add_address(interface, address).await?;
    }
    add_routes(&routes, interface, config, |_| true).await?;
    for prefix in &config.prohibited {
        routes.prohibit(*prefix).await?;
    }
    quic::set(&routes, config).await?;
    breakout::set(&routes, None, config).await
}

/// Removes what would outlive the device.
pub(super) async fn unset_network(config: &Config) -> anyhow::Result<()> {
    let routes = Routes::open().context("netlink")?;
    for prefix in &config.prohibited {
        routes.allow(*prefix).await?;
    }
    let proxy = quic::remove(&routes, config).await;
    breakout::remove(&routes, config).await.and(proxy)
}

/// Applies the differences from `old`.
pub(super) async fn change_network(old: &Config, new: &Config) -> anyhow::Result<()> {
    let (routes, interface) = network(new)?;
    // With `quic` the agent sets it, as the paths are.
    if old.mtu() != new.mtu() && new.document.transport.kind != Kind::Quic {
        routes.bring_up(interface, new.mtu(), TUN_QUEUE_LEN).await?;
    }
    if old.address != new.address {
        if let Some(address) = old.address {
            routes.remove_address(interface, address).await?;
        }
        if let Some(address) = new.address {
            routes.add_address(interface, address).await?;
        }
    }
    // These replace the routes to former peers, so that no packet leaves by another in between.
    for prefix in new.prohibited.iter().filter(|prefix| !old.prohibited.contains(prefix)) {
        routes.prohibit(*prefix).await?;
    }
    for prefix in old.peers.iter().flat_map(|peer| &peer.prefixes).filter(|p| !has(new, p)) {
        routes.remove(interface, *prefix).await?;
    }
    let source_changed = (old.source, old.source6) != (new.source, new.source6);
    add_routes(&routes, interface, new, |prefix| source_changed || !has(old, prefix)).await?;
    for prefix in old.prohibited.iter().filter(|prefix| !new.prohibited.contains(prefix)) {
        routes.allow(*prefix).await?;
    }
    quic::set(&routes, new).await?;
    breakout::set(&routes, Some(old), new).await
}

fn has(config: &Config, prefix: &IpNet) -> bool {
    config.peers.iter().any(|peer| peer.prefixes.contains(prefix))
}

fn network(config: &Config) -> anyhow::Result<(Routes, u32)> {
    let name = &config.document.tun.name;
    let interface = routes::interface(name).with_context(|| format!("interface {name}"))?;
    Ok((Routes::open().context("netlink")?, interface))
}

async fn add_routes(
    routes: &Routes,
    interface: u32,
    config: &Config,
    wanted: impl Fn(&IpNet) -> bool,
) -> anyhow::Result<()> {
    let prefixes = |peer: &Peer| peer.prefixes.clone();
    for prefix in config.peers.iter().flat_map(prefixes).filter(wanted) {
        let source = match prefix {
            IpNet::V4(_) => config.source.map(IpAddr::V4),
            IpNet::V6(_) => config.source6.map(IpAddr::V6),
        };
        routes.add(interface, prefix, source).await?;
    }
    Ok(())
}
