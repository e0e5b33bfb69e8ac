//! Collects the errors of a configuration, and parses addresses.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use hawser_daemon::config::FieldError;
use ipnet::IpNet;
use serde_json::Value;

/// Form of an interface's name.
pub(super) const INTERFACE: &str = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$";

/// Default values are left out of a document that is shown.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Collects errors.
#[derive(Default)]
pub(super) struct Check {
    pub(super) errors: Vec<FieldError>,
    prefixes: BTreeSet<IpNet>,
}

impl Check {
    pub(super) fn error(&mut self, field: &str, found: impl Into<Value>, expected: &str) {
        self.errors.push(FieldError::new(field, found, expected));
    }

    /// Parses an address or prefix.
    pub(super) fn read<T: std::str::FromStr>(
        &mut self,
        field: &str,
        text: &str,
        example: &str,
    ) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            self.error(field, text, &format!("an address such as {example}"));
        }
        value
    }

    pub(super) fn network(&mut self, field: &str, text: &str) -> Option<IpNet> {
        let net: IpNet = self.read(field, text, "10.2.0.0/24")?;
        if net.addr() != net.network() {
            self.error(field, text, &format!("{}, without host bits", net.trunc()));
            return None;
        }
        Some(net)
    }

    pub(super) fn prefix(&mut self, field: &str, text: &str) -> Option<IpNet> {
        let net = self.network(field, text)?;
        if !self.prefixes.insert(net) {
            self.error(field, text, "a prefix that is not already behind a branch");
            return None;
        }
        Some(net)
    }

    pub(super) fn host(&mut self, field: &str, text: &str) -> Option<IpAddr> {
        let address: IpAddr = self.read(field, text, "198.18.0.2")?;
        self.is_host(field, text, address).then_some(address)
    }

    pub(super) fn host_v4(&mut self, field: &str, text: &str) -> Option<Ipv4Addr> {
        let address: Ipv4Addr = self.read(field, text, "198.18.0.2")?;
        self.is_host(field, text, address.into()).then_some(address)
    }

    pub(super) fn host_v6(&mut self, field: &str, text: &str) -> Option<Ipv6Addr> {
        let address: Ipv6Addr = self.read(field, text, "2001:db8::2")?;
        self.is_host(field, text, address.into()).then_some(address)
    }

    fn is_host(&mut self, field: &str, text: &str, address: IpAddr) -> bool {
        let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        let single = !(address.is_unspecified() || address.is_multicast() || broadcast);
        if !single {
            self.error(field, text, "the address of one host");
        }
        single
    }
}
