//! What the `quic` transport puts around inner packets, and how each side says who it is.
//!
//! One QUIC connection is one member path. Its first bidirectional stream carries a [`Hello`] each way;
//! a DATAGRAM frame (RFC 9221) carries an inner IP packet behind a [`Header`].

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Malformed;

/// Bytes of a [`Header`].
pub const HEADER_LEN: usize = 10;

/// Flows that are told apart: 12 bits.
pub const FLOW_MAX: u16 = 0xfff;

const UNSUMMED: u16 = 0x1000;
const KEPT: u16 = 0x2000;
const CONTEXT: u16 = 0x4000;
const COMPRESSED: u16 = 0x8000;
const FORM: u16 = CONTEXT | COMPRESSED;

/// First byte of a datagram for nobody, with which a path is filled to learn what it carries: both bits of the
/// [`Form`] are set, as in no [`Header`].
pub const FILLER: u8 = 0xc0;

/// First byte of a datagram that says of which flow a context is not known.
const UNKNOWN: u8 = 0xc1;

/// Whether a datagram is one for nobody.
#[must_use]
pub fn is_filler(datagram: &[u8]) -> bool {
    datagram.first() == Some(&FILLER)
}

/// The datagram that says that a packet of this flow could not be restored: bytes 1 and 2 are the flow's number.
#[must_use]
pub const fn unknown_context(flow: u16) -> [u8; 3] {
    let [high, low] = flow.to_be_bytes();
    [UNKNOWN, high, low]
}

/// The flow of which a datagram says that its context is not known; none where it says nothing of that kind.
#[must_use]
pub fn flow_of_unknown_context(datagram: &[u8]) -> Option<u16> {
    match datagram {
        &[UNKNOWN, high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// What stands behind a [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A packet.
    Plain,
    /// A packet whose beginning is the context of others of its flow.
    Context,
    /// A packet that was compressed with a [`Context`](crate::context::Context).
    Compressed,
}

impl Form {
    fn from_bits(word: u16) -> Option<Self> {
        match word & FORM {
            0 => Some(Self::Plain),
            CONTEXT => Some(Self::Context),
            COMPRESSED => Some(Self::Compressed),
            _ => None,
        }
    }

    const fn bits(self) -> u16 {
        match self {
            Self::Plain => 0,
            Self::Context => CONTEXT,
            Self::Compressed => COMPRESSED,
        }
    }
}

/// The header before an inner packet.
///
/// ```text
/// byte  0 .. 1                                                 2 .. 5             6 .. 7     8 .. 9
///       2 bits form, 1 bit kept, 1 bit unsummed, 12 bits flow  sequence number    behind     paths
/// ```
///
/// The form is 0 plain, 1 context, 2 compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flow of the packet.
    pub flow: u16,
    /// What stands behind the header.
    pub form: Form,
    /// Whether its TCP checksum was left out (its field is 0), as of segments of a larger packet: the packet is
    /// protected by the connection, and who puts segments together again needs none of theirs.
    pub unsummed: bool,
    /// Whether it goes again if it is lost.
    pub kept: bool,
    /// Number within the flow.
    pub sequence: u32,
    /// When the packet left, the flow's packets before it that had not left yet, or may go again, began so far
    /// back; 0: none. 65535: not known.
    pub behind: u16,
    /// Paths on which packets of the flow may be under way: bit `i` for member path `i`.
    pub paths: u16,
}

impl Header {
    /// Splits a datagram into header and inner packet.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((&[f1, f0, s3, s2, s1, s0, b1, b0, p1, p0], packet)) =
            datagram.split_first_chunk()
        else {
            let found = datagram.len() as u64;
            return Err(Malformed {
                field: "datagram length",
                offset: 0,
                found,
                expected: "10 or more",
            });
        };
        let word = u16::from_be_bytes([f1, f0]);
        let Some(form) = Form::from_bits(word) else {
            let found = u64::from(word >> 14);
            return Err(Malformed { field: "form", offset: 0, found, expected: "0 to 2" });
        };
        let header = Self {
            flow: word & FLOW_MAX,
            form,
            unsummed: word & UNSUMMED != 0,
            kept: word & KEPT != 0,
            sequence: u32::from_be_bytes([s3, s2, s1, s0]),
            behind: u16::from_be_bytes([b1, b0]),
            paths: u16::from_be_bytes([p1, p0]),
        };
        Ok((header, packet))
    }

    /// As it stands before the packet.
    #[must_use]
    pub const fn emit(&self) -> [u8; HEADER_LEN] {
        let unsummed = if self.unsummed { UNSUMMED } else { 0 };
        let kept = if self.kept { KEPT } else { 0 };
        let word = self.flow & FLOW_MAX | unsummed | kept | self.form.bits();
        let [f1, f0] = word.to_be_bytes();
        let [s3, s2, s1, s0] = self.sequence.to_be_bytes();
        let [b1, b0] = self.behind.to_be_bytes();
        let [p1, p0] = self.paths.to_be_bytes();
        [f1, f0, s3, s2, s1, s0, b1, b0, p1, p0]
    }
}

const MAGIC: [u8; 4] = *b"HWSQ";
const VERSION: u8 = 8;
const FIXED_LEN: usize = 25;

/// A hello of this version says more, before the name.
const VERSION_LANE: u8 = 9;
const LANE_LEN: usize = 20;

/// Longest branch name: that of a DNS label (RFC 1035 section 2.3.4).
pub const MAX_NAME_LEN: usize = 63;

/// Bytes of the longest [`Hello`].
pub const HELLO_MAX_LEN: usize = FIXED_LEN + LANE_LEN + MAX_NAME_LEN;

/// Addresses of a gateway's own: connections to them are not for the TCP lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Of IPv4, if it has one.
    pub v4: Option<Ipv4Addr>,
    /// Of IPv6, if it has one.
    pub v6: Option<Ipv6Addr>,
}

impl Own {
    fn from_octets(&[a, b, c, d, ref v6 @ ..]: &[u8; LANE_LEN]) -> Self {
        let (v4, v6) = (Ipv4Addr::new(a, b, c, d), Ipv6Addr::from(*v6));
        Self { v4: (!v4.is_unspecified()).then_some(v4), v6: (!v6.is_unspecified()).then_some(v6) }
    }

    fn octets(self) -> Vec<u8> {
        let v4 = self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        let v6 = self.v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets();
        [v4.as_slice(), &v6].concat()
    }
}

/// Who speaks on a connection, and which path it is. It fills its direction of the stream.
///
/// ```text
/// byte  0 .. 3   4         5 .. 6      7       8        9 .. 24   25 ...
///       "HWSQ"   version   branch id   group   member   session   branch name
/// ```
///
/// The version is 8. In version 9, who speaks takes the TCP lane ([`crate::lane`]), and the name stands from
/// byte 45 on: bytes 25 .. 28 and 29 .. 44 are the [`Own`] addresses, of IPv4 and of IPv6 (all 0: none). Versions 6 and 7
/// left no checksum out, versions 3 and 5 had no compressed packets, version 4 no IPv6 address, versions 1 and 2 one byte for the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Number of the speaker's branch.
    pub id: u16,
    /// Path group.
    pub group: u8,
    /// Member path of the group, from 0.
    pub member: u8,
    /// Chosen by chance when the speaker starts, and another for a group that is changed: what ties the paths of a
    /// group together. Another one says that its numbers begin anew.
    pub session: [u8; 16],
    /// Where the speaker takes the TCP lane: addresses to which that does not lead.
    pub lane: Option<Own>,
    /// Name of the speaker's branch, 1 to [`MAX_NAME_LEN`] bytes.
    pub branch: &'a str,
}

impl<'a> Hello<'a> {
    /// Reads all that came on the stream.
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
        let (lane, name) = match *version {
            VERSION => (None, rest),
            VERSION_LANE => {
                let (own, name) = rest.split_first_chunk().ok_or(short)?;
                (Some(Own::from_octets(own)), name)
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
        Ok(Self { id, group, member, session: *session, lane, branch })
    }

    /// As it is sent. A name that is too long is cut.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let name = self.branch.as_bytes();
        let version = if self.lane.is_some() { VERSION_LANE } else { VERSION };
        let [high, low] = self.id.to_be_bytes();
        let fixed = [version, high, low, self.group, self.member];
        let own = self.lane.map(Own::octets);
        let name = name.get(..MAX_NAME_LEN).unwrap_or(name);
        [MAGIC.as_slice(), &fixed, &self.session, &own.unwrap_or_default(), name].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_survives(flow in 0..=FLOW_MAX, form in 0..3_usize, unsummed: bool, kept: bool, sequence: u32, behind: u16, paths: u16, packet: Vec<u8>) {
            let form = [Form::Plain, Form::Context, Form::Compressed][form];
            let header = Header { flow, form, unsummed, kept, sequence, behind, paths };
            let bytes = [header.emit().as_slice(), &packet].concat();
            prop_assert_eq!(Header::parse(&bytes), Ok((header, packet.as_slice())));
        }

        #[test]
        fn a_hello_survives(id: u16, group: u8, member: u8, session: [u8; 16], lane: bool, v4 in 1_u32.., v6 in 1_u128.., has: (bool, bool), branch in "[a-z]{1,63}") {
            let own = Own { v4: has.0.then(|| v4.into()), v6: has.1.then(|| v6.into()) };
            let lane = lane.then_some(own);
            let hello = Hello { id, group, member, session, lane, branch: &branch };
            let bytes = hello.emit();
            prop_assert_eq!(Hello::parse(&bytes), Ok(hello));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Header::parse(&bytes);
            let _ = Hello::parse(&bytes);
        }

        #[test]
        fn an_unknown_context_is_no_packet(flow in 0..=FLOW_MAX) {
            let datagram = unknown_context(flow);
            prop_assert_eq!(flow_of_unknown_context(&datagram), Some(flow));
            prop_assert!(Header::parse(&[datagram.as_slice(), &[0; HEADER_LEN]].concat()).is_err());
            prop_assert!(!is_filler(&datagram) && flow_of_unknown_context(&[FILLER; 3]).is_none());
        }
    }

    #[test]
    fn errors_name_the_field() {
        let (session, lane) = ([7; 16], None);
        let good = Hello { id: 1, group: 0, member: 3, session, lane, branch: "b1" }.emit();
        for (byte, field) in [(0, "hello magic"), (4, "hello version"), (25, "branch name")] {
            let mut bad = good.clone();
            bad[byte] = 0xff;
            assert_eq!(Hello::parse(&bad).unwrap_err().field, field);
        }
        for len in [0, 3, 4, 24, 25] {
            assert_eq!(Hello::parse(&good[..len]).unwrap_err().field, "hello length");
        }
        assert_eq!(
            Hello::parse(&[good, vec![b'a'; 62]].concat()).unwrap_err().field,
            "hello length"
        );
        assert_eq!(Header::parse(&[0xff; HEADER_LEN]).unwrap_err().field, "form");
        assert_eq!(Header::parse(&[0; HEADER_LEN - 1]).unwrap_err().field, "datagram length");
    }
}
