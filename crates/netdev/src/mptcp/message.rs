//! Generic netlink messages (`linux/genetlink.h`) of the MPTCP path manager (`linux/mptcp_pm.h`). No I/O.
//!
//! ```text
//!  nlmsghdr (16 bytes)   length (4), type (2), flags (2), sequence (4), port (4)
//!  genlmsghdr (4 bytes)  command (1), version (1), reserved (2)
//!  attributes            length (2), type (2), value, padded to 4 bytes
//! ```

use std::net::IpAddr;

/// Commands (`MPTCP_PM_CMD_*`).
pub(super) const SUBFLOW_CREATE: u8 = 10;
pub(super) const SUBFLOW_DESTROY: u8 = 11;

/// Attributes of a command (`MPTCP_PM_ATTR_*`).
pub(super) const LOCAL: u16 = 1;
pub(super) const TOKEN: u16 = 4;
pub(super) const REMOTE: u16 = 6;

/// Attributes of an address (`MPTCP_PM_ADDR_ATTR_*`).
mod address {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const ID: u16 = 2;
    pub(super) const ADDR4: u16 = 3;
    pub(super) const ADDR6: u16 = 4;
    pub(super) const PORT: u16 = 5;
    pub(super) const INTERFACE: u16 = 7;
}

/// The generic netlink controller, which resolves family names (`CTRL_*`).
mod controller {
    pub(super) const ID: u16 = 0x10;
    pub(super) const GETFAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const MCAST_GROUPS: u16 = 7;
    pub(super) const GROUP_NAME: u16 = 1;
    pub(super) const GROUP_ID: u16 = 2;
}

const NAME: &[u8] = b"mptcp_pm\0";
const EVENTS: &[u8] = b"mptcp_pm_events\0";

/// `NLM_F_REQUEST | NLM_F_ACK`.
const NLM_F_REQUEST_ACK: u16 = 5;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 1 << 15;

/// Length of `struct nlmsghdr` and of `struct genlmsghdr`, bytes.
const HEADER: usize = 16;
const GENERIC: usize = 4;

/// An address of a command.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) id: Option<u8>,
    /// Index of the interface that the subflow is bound to.
    pub(super) interface: Option<u32>,
}

impl Address {
    pub(super) fn new(ip: IpAddr) -> Self {
        Self { ip, port: None, id: None, interface: None }
    }
}

/// A request under construction.
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn new(family: u16, command: u8) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(family.to_ne_bytes());
        bytes.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
        bytes.extend([0; 8]); // sequence and port: one request at a time
        bytes.extend([command, 1, 0, 0]);
        Self(bytes)
    }

    pub(super) fn u32(mut self, kind: u16, value: u32) -> Self {
        put(&mut self.0, kind, &value.to_ne_bytes());
        self
    }

    pub(super) fn address(mut self, kind: u16, of: Address) -> Self {
        let Address { ip, port, id, interface } = of;
        let mut nested = Vec::new();
        let (family, attribute, octets) = match ip {
            IpAddr::V4(v4) => (libc::AF_INET, address::ADDR4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6, address::ADDR6, v6.octets().to_vec()),
        };
        put(&mut nested, address::FAMILY, &u16::try_from(family).unwrap_or(0).to_ne_bytes());
        if let Some(id) = id {
            put(&mut nested, address::ID, &[id]);
        }
        put(&mut nested, attribute, &octets);
        if let Some(port) = port {
            put(&mut nested, address::PORT, &port.to_ne_bytes());
        }
        if let Some(interface) = interface {
            put(&mut nested, address::INTERFACE, &interface.to_ne_bytes());
        }
        put(&mut self.0, kind | NLA_F_NESTED, &nested);
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.splice(..4, len.to_ne_bytes());
        self.0
    }
}

/// The request for the family `mptcp_pm`.
pub(super) fn find_family() -> Vec<u8> {
    let mut request = Request::new(controller::ID, controller::GETFAMILY);
    put(&mut request.0, controller::FAMILY_NAME, NAME);
    request.finish()
}

/// The family `mptcp_pm`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) id: u16,
    /// Multicast group of its events.
    pub(super) event_group: u32,
}

/// Parses the controller's reply.
pub(super) fn family(reply: &[u8]) -> Option<Family> {
    let id = find(reply, controller::FAMILY_ID)?;
    let groups = find(reply, controller::MCAST_GROUPS)?;
    let mut groups = attributes(groups).map(|(_, group)| group);
    let events = groups.find(|group| find(group, controller::GROUP_NAME) == Some(EVENTS))?;
    Some(Family {
        id: u16::from_ne_bytes(*id.first_chunk()?),
        event_group: u32::from_ne_bytes(*find(events, controller::GROUP_ID)?.first_chunk()?),
    })
}

/// A message from the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// A reply, with its attributes.
    Reply(&'a [u8]),
    /// The acknowledgement: 0, or an error number.
    Done(i32),
}

/// The messages of a datagram.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let len = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let body = bytes.get(HEADER..len)?;
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
        Some(match kind {
            NLMSG_ERROR => Part::Done(-i32::from_ne_bytes(*body.first_chunk()?)),
            _ => Part::Reply(body.get(GENERIC..)?),
        })
    })
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(aligned(bytes.len()), 0);
}

fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & !NLA_F_NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_as_the_kernel_expects_it() {
        let own = Address::new("198.18.0.2".parse().unwrap());
        let request = Request::new(0x1f, SUBFLOW_CREATE)
            .u32(TOKEN, 0x0102_0304)
            .address(LOCAL, Address { id: Some(1), ..own })
            .address(REMOTE, Address { port: Some(8196), ..own })
            .finish();
        let len = u32::try_from(request.len()).unwrap();
        assert_eq!(request[..4], len.to_ne_bytes());
        let body = &request[HEADER + GENERIC..];
        assert_eq!(find(body, TOKEN), Some(&0x0102_0304_u32.to_ne_bytes()[..]));
        let remote = find(body, REMOTE).unwrap();
        assert_eq!(find(remote, address::PORT), Some(&8196_u16.to_ne_bytes()[..]));
        assert_eq!(find(remote, address::ADDR4), Some(&[198, 18, 0, 2][..]));
        let local = find(body, LOCAL).unwrap();
        assert_eq!(find(local, address::ID), Some(&[1][..]));
        assert_eq!(find(local, address::PORT), None);
    }

    #[test]
    fn the_event_group_is_found_by_its_name() {
        let group = |name: &[u8], id: u32| {
            let mut bytes = Vec::new();
            put(&mut bytes, controller::GROUP_NAME, name);
            put(&mut bytes, controller::GROUP_ID, &id.to_ne_bytes());
            bytes
        };
        let (mut groups, mut reply) = (Vec::new(), Vec::new());
        put(&mut groups, 1, &group(b"mptcp_pm_cmds\0", 5));
        put(&mut groups, 2, &group(EVENTS, 6));
        put(&mut reply, controller::FAMILY_ID, &30_u16.to_ne_bytes());
        put(&mut reply, controller::MCAST_GROUPS, &groups);
        assert_eq!(family(&reply), Some(Family { id: 30, event_group: 6 }));
        assert_eq!(family(&reply[..8]), None);
    }

    #[test]
    fn errors_and_success_are_distinguished() {
        let message = |code: i32| {
            let mut bytes = 36_u32.to_ne_bytes().to_vec();
            bytes.extend(NLMSG_ERROR.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes.resize(36, 0);
            bytes
        };
        let both = [message(0), message(-libc::ESRCH)].concat();
        let found: Vec<_> = messages(&both).collect();
        assert_eq!(found, [Part::Done(0), Part::Done(libc::ESRCH)]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = family(&bytes);
            prop_assert!(messages(&bytes).take(1000).count() < 1000);
        }
    }
}
