//! The hello at the start of a connection.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Malformed;

const MAGIC: [u8; 4] = *b"HWSQ";
/// Versions 1 to 7 had other formats.
const VERSION: u8 = 8;
/// Version of a hello that offers the TCP proxy.
const VERSION_PROXY: u8 = 9;
/// Length of the fields before the addresses or the name, bytes.
const FIXED_LEN: usize = 25;
/// Length of the sender's addresses, bytes.
const ADDRESSES_LEN: usize = 20;

/// Longest branch name, bytes: that of a DNS label (RFC 1035 section 2.3.4).
pub const MAX_NAME_LEN: usize = 63;

/// Length of the longest [`Hello`], bytes.
pub const HELLO_MAX_LEN: usize = FIXED_LEN + ADDRESSES_LEN + MAX_NAME_LEN;

/// A gateway's own addresses. Its peers do not proxy connections to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    /// IPv4 address, if it has one.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address, if it has one.
    pub v6: Option<Ipv6Addr>,
}

impl OwnAddresses {
    fn from_octets(&[a, b, c, d, ref v6 @ ..]: &[u8; ADDRESSES_LEN]) -> Self {
        let (v4, v6) = (Ipv4Addr::new(a, b, c, d), Ipv6Addr::from(*v6));
        Self { v4: (!v4.is_unspecified()).then_some(v4), v6: (!v6.is_unspecified()).then_some(v6) }
    }

    fn octets(self) -> Vec<u8> {
        let v4 = self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        let v6 = self.v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets();
        [v4.as_slice(), &v6].concat()
    }
}

/// Identifies the sender of a connection, and its member path. It fills its direction of the stream.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------------------------------------------------------+
/// |                        Magic ("HWSQ")                         |
/// +---------------+-------------------------------+---------------+
/// |Version (8, 9) |           Branch ID           |  Path Group   |
/// +---------------+-------------------------------+---------------+
/// | Member Path   |                                               |
/// +---------------+                                               +
/// |   Session (16 bytes)                                          |
/// +               +-----------------------------------------------+
/// |               |   Version 9 only: IPv4 address (4 bytes),     |
/// +---------------+   IPv6 address (16 bytes); all zero: none     |
/// +---------------------------------------------------------------+
/// |   Branch Name (1 to 63 bytes, UTF-8)                          |
/// +---------------------------------------------------------------+
/// ```
///
/// Version 9 offers the TCP proxy ([`crate::proxy`]) and adds the sender's [`OwnAddresses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Number of the sender's branch.
    pub id: u16,
    /// Path group.
    pub group: u8,
    /// Member path of the group, from 0.
    pub member: u8,
    /// Random number, chosen when the sender starts and when the group changes. It ties the paths of a group
    /// together; a new one means that sequence numbers start anew.
    pub session: [u8; 16],
    /// The sender's addresses, if it offers the TCP proxy.
    pub proxy: Option<OwnAddresses>,
    /// Name of the sender's branch, 1 to [`MAX_NAME_LEN`] bytes.
    pub branch: &'a str,
}

impl<'a> Hello<'a> {
    /// Parses all bytes of the stream.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found, expected| Malformed { field, offset, found, expected };
        let short = wrong("hello length", 0, bytes.len() as u64, "26 to 108");
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or(short)?;
        if bytes.len() <= FIXED_LEN {
            return Err(short);
        }
        if *magic != MAGIC {
            return Err(wrong("hello magic", 0, u32::from_be_bytes(*magic).into(), "HWSQ"));
        }
        let ([version, high, low, group, member], rest) =
            rest.split_first_chunk::<5>().ok_or(short)?;
        let (session, rest) = rest.split_first_chunk::<16>().ok_or(short)?;
        let (proxy, name) = match *version {
            VERSION => (None, rest),
            VERSION_PROXY => {
                let (addresses, name) = rest.split_first_chunk().ok_or(short)?;
                (Some(OwnAddresses::from_octets(addresses)), name)
            }
            _ => return Err(wrong("hello version", 4, (*version).into(), "8 or 9")),
        };
        if !(1..=MAX_NAME_LEN).contains(&name.len()) {
            return Err(short);
        }
        let start = bytes.len() - name.len();
        let branch = std::str::from_utf8(name)
            .map_err(|e| wrong("branch name", start, e.valid_up_to() as u64, "UTF-8 text"))?;
        let (id, group, member) = (u16::from_be_bytes([*high, *low]), *group, *member);
        Ok(Self { id, group, member, session: *session, proxy, branch })
    }

    /// The hello's bytes. A name that is too long is truncated.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let name = self.branch.as_bytes();
        let version = if self.proxy.is_some() { VERSION_PROXY } else { VERSION };
        let [high, low] = self.id.to_be_bytes();
        let fixed = [version, high, low, self.group, self.member];
        let addresses = self.proxy.map(OwnAddresses::octets);
        let name = name.get(..MAX_NAME_LEN).unwrap_or(name);
        [MAGIC.as_slice(), &fixed, &self.session, &addresses.unwrap_or_default(), name].concat()
    }
}
