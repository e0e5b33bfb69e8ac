//! The hello at the start of a connection.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Malformed;

const MAGIC: [u8; 4] = *b"HWSQ";
/// Form of a hello of wire versions 1 and 2. Forms 1 to 7 are older than these, and not understood.
const FORM: u8 = 8;
/// The same with the TCP proxy.
const FORM_PROXY: u8 = 9;
/// Form of a hello since wire version 3.
const FORM_CAPABILITIES: u8 = 10;
/// Length of the fields before the addresses or the name, bytes.
const FIXED_LEN: usize = 25;
/// Length of wire versions and capabilities, bytes.
const ABILITIES_LEN: usize = 6;
/// Length of the sender's addresses, bytes.
const ADDRESSES_LEN: usize = 20;

/// Wire versions of the tunnel that are spoken here: oldest and newest. The two ends of a connection use the
/// newest common one, agreed on by ALPN (RFC 7301) in the TLS handshake.
///
/// 1: packets whole. 2: also in [fragments](crate::fragment). 3: a hello with [`Abilities`].
pub const WIRE_VERSIONS: (u8, u8) = (1, 3);

/// Longest branch name, bytes: that of a DNS label (RFC 1035 section 2.3.4).
pub const MAX_NAME_LEN: usize = 63;

/// Length of the longest [`Hello`], bytes.
pub const HELLO_MAX_LEN: usize = FIXED_LEN + ABILITIES_LEN + ADDRESSES_LEN + MAX_NAME_LEN;

/// Optional parts of the tunnel that a gateway takes from its peers, as bits. Unknown ones are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Compressed headers.
    pub const HEADER_COMPRESSION: Self = Self(1);
    /// Retransmittable packets, for which it waits.
    pub const RECOVERY: Self = Self(1 << 1);
    /// Messages of the TCP proxy.
    pub const TCP_PROXY: Self = Self(1 << 2);
    /// Inner packets of IPv6.
    pub const IPV6: Self = Self(1 << 3);
    /// Packets without TCP checksum.
    pub const CHECKSUM_OMITTED: Self = Self(1 << 4);
    /// Fragments of the tunnel.
    pub const FRAGMENTS: Self = Self(1 << 5);
    /// Messages of the rendezvous, and relayed datagrams ([`crate::rendezvous`]).
    pub const RENDEZVOUS: Self = Self(1 << 6);
    /// Messages of trains ([`crate::train`]).
    pub const TRAINS: Self = Self(1 << 7);
    /// What every gateway with wire version 1 takes.
    pub const FIRST: Self = Self(
        Self::HEADER_COMPRESSION.0 | Self::RECOVERY.0 | Self::IPV6.0 | Self::CHECKSUM_OMITTED.0,
    );

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and others.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What the sender of a hello speaks and takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Oldest and newest wire version.
    pub versions: (u8, u8),
    /// Optional parts.
    pub capabilities: Capabilities,
}

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
/// | Form (8 to 10)|           Branch ID           |  Path Group   |
/// +---------------+-------------------------------+---------------+
/// | Member Path   |                                               |
/// +---------------+                                               +
/// |   Session (16 bytes)                                          |
/// +               +-----------------------------------------------+
/// |               |   Form 10 only: oldest and newest wire        |
/// +---------------+   version (1 byte each), capabilities (4)     |
/// +---------------------------------------------------------------+
/// |   Forms 9 and 10: IPv4 address (4 bytes), IPv6 address        |
/// |   (16 bytes); all zero: none                                  |
/// +---------------------------------------------------------------+
/// |   Branch Name (1 to 63 bytes, UTF-8)                          |
/// +---------------------------------------------------------------+
/// ```
///
/// Form 9 offers the TCP proxy ([`crate::proxy`]), as the capability does in form 10; the addresses are the
/// sender's [`OwnAddresses`].
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
    /// What the sender speaks and takes; since wire version 3.
    pub abilities: Option<Abilities>,
    /// The sender's addresses, if it offers the TCP proxy.
    pub proxy: Option<OwnAddresses>,
    /// Name of the sender's branch, 1 to [`MAX_NAME_LEN`] bytes.
    pub branch: &'a str,
}

impl Abilities {
    fn split(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let wrong =
            |field, found, expected| Err(Malformed { field, offset: FIXED_LEN, found, expected });
        let Some((&[oldest, newest, a, b, c, d], rest)) = bytes.split_first_chunk() else {
            return wrong("hello length", bytes.len() as u64, "6 more");
        };
        if !(1..=newest).contains(&oldest) {
            return wrong("oldest wire version", oldest.into(), "1 to the newest");
        }
        let capabilities = Capabilities(u32::from_be_bytes([a, b, c, d]));
        Ok((Self { versions: (oldest, newest), capabilities }, rest))
    }

    /// Its bytes; the TCP proxy is offered or not, whatever the capabilities say.
    fn emit(self, proxy: bool) -> [u8; ABILITIES_LEN] {
        let (oldest, newest) = self.versions;
        let offered = if proxy { Capabilities::TCP_PROXY.0 } else { 0 };
        let bits = self.capabilities.0 & !Capabilities::TCP_PROXY.0 | offered;
        let [a, b, c, d] = bits.to_be_bytes();
        [oldest, newest, a, b, c, d]
    }
}

impl<'a> Hello<'a> {
    /// Parses all bytes of the stream.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found, expected| Malformed { field, offset, found, expected };
        let short = wrong("hello length", 0, bytes.len() as u64, "26 to 114");
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or(short)?;
        if bytes.len() <= FIXED_LEN {
            return Err(short);
        }
        if *magic != MAGIC {
            return Err(wrong("hello magic", 0, u32::from_be_bytes(*magic).into(), "HWSQ"));
        }
        let ([form, high, low, group, member], rest) =
            rest.split_first_chunk::<5>().ok_or(short)?;
        let (session, rest) = rest.split_first_chunk::<16>().ok_or(short)?;
        let (abilities, rest) = match *form {
            FORM | FORM_PROXY => (None, rest),
            FORM_CAPABILITIES => {
                let (abilities, rest) = Abilities::split(rest)?;
                (Some(abilities), rest)
            }
            _ => return Err(wrong("hello form", 4, (*form).into(), "8 to 10")),
        };
        let (proxy, name) = if *form == FORM {
            (None, rest)
        } else {
            let (addresses, name) = rest.split_first_chunk().ok_or(short)?;
            (Some(OwnAddresses::from_octets(addresses)), name)
        };
        let offered = abilities.is_none_or(|a| a.capabilities.contains(Capabilities::TCP_PROXY));
        if !offered && proxy != Some(OwnAddresses::default()) {
            return Err(wrong(
                "hello addresses",
                FIXED_LEN + ABILITIES_LEN,
                1,
                "none without proxy",
            ));
        }
        let proxy = proxy.filter(|_| offered);
        if !(1..=MAX_NAME_LEN).contains(&name.len()) {
            return Err(short);
        }
        let start = bytes.len() - name.len();
        let branch = std::str::from_utf8(name)
            .map_err(|e| wrong("branch name", start, e.valid_up_to() as u64, "UTF-8 text"))?;
        let (id, group, member) = (u16::from_be_bytes([*high, *low]), *group, *member);
        Ok(Self { id, group, member, session: *session, abilities, proxy, branch })
    }

    /// The hello's bytes. A name that is too long is truncated.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let name = self.branch.as_bytes();
        let form = match (self.abilities, self.proxy) {
            (Some(_), _) => FORM_CAPABILITIES,
            (None, Some(_)) => FORM_PROXY,
            (None, None) => FORM,
        };
        let [high, low] = self.id.to_be_bytes();
        let fixed = [form, high, low, self.group, self.member];
        let abilities = self.abilities.map(|abilities| abilities.emit(self.proxy.is_some()));
        let abilities = abilities.as_ref().map(<[u8; ABILITIES_LEN]>::as_slice).unwrap_or_default();
        let proxy = self.proxy.or(self.abilities.map(|_| OwnAddresses::default()));
        let addresses = proxy.map(OwnAddresses::octets).unwrap_or_default();
        let name = name.get(..MAX_NAME_LEN).unwrap_or(name);
        [MAGIC.as_slice(), &fixed, &self.session, abilities, &addresses, name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<_> = hexadecimal.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Hellos as gateways of earlier versions sent them.
    const RECORDED: [&str; 3] = [
        "48575351 08 0001 00 03 000102030405060708090a0b0c0d0e0f 6231",
        "48575351 09 0001 00 03 000102030405060708090a0b0c0d0e0f 0a010001
         20010db8000100000000000000000001 6231",
        "48575351 0a 0001 00 03 000102030405060708090a0b0c0d0e0f 0103 0000003f 0a010001
         20010db8000100000000000000000001 6231",
    ];

    #[test]
    fn recorded_hellos_are_understood() {
        let session = std::array::from_fn(|number| u8::try_from(number).unwrap());
        let own = OwnAddresses {
            v4: Some([10, 1, 0, 1].into()),
            v6: Some("2001:db8:1::1".parse().unwrap()),
        };
        let all = Abilities { versions: (1, 3), capabilities: Capabilities(0x3f) };
        for (text, proxy, abilities) in [
            (RECORDED[0], None, None),
            (RECORDED[1], Some(own), None),
            (RECORDED[2], Some(own), Some(all)),
        ] {
            let hello =
                Hello { id: 1, group: 0, member: 3, session, abilities, proxy, branch: "b1" };
            assert_eq!(Hello::parse(&bytes(text)), Ok(hello));
            assert_eq!(hello.emit(), bytes(text));
            assert!(abilities.is_none_or(|all| !all.capabilities.contains(Capabilities::TRAINS)));
        }
    }

    #[test]
    fn forms_of_the_first_versions_and_of_later_ones_are_refused() {
        for form in (0..FORM).chain(FORM_CAPABILITIES + 1..=u8::MAX) {
            let mut recorded = bytes(RECORDED[0]);
            recorded[4] = form;
            let error = Hello::parse(&recorded).unwrap_err();
            assert_eq!((error.field, error.found), ("hello form", form.into()));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (at, value, field) in [
            (25, 4, "oldest wire version"),
            (25, 0, "oldest wire version"),
            (30, 0x3b, "hello addresses"),
        ] {
            let mut recorded = bytes(RECORDED[2]);
            recorded[at] = value;
            assert_eq!(Hello::parse(&recorded).unwrap_err().field, field);
        }
        let mut later = bytes(RECORDED[2]);
        later[27] = 0xff;
        let parsed = Hello::parse(&later).unwrap();
        assert_eq!(parsed.emit(), later, "unknown capabilities are ignored");
    }
}
