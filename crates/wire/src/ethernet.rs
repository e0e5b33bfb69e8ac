//! Ethernet II frames with IEEE 802.1Q and 802.1ad tags, without the frame check sequence.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                      Destination Address                      |
//! +                               +-------------------------------+
//! |                               |                               |
//! +-------------------------------+        Source Address         +
//! |                                                               |
//! +-------------------------------+-----+-+-----------------------+
//! |  TPID (0x8100 or 0x88a8)      | PCP |D|        VLAN ID        |   0 to n tags
//! +-------------------------------+-----+-+-----------------------+
//! |           EtherType           |  Payload ...
//! +-------------------------------+
//! ```

/// Length of a header without tags, bytes.
pub const HEADER_LEN: usize = 14;
/// Length of a tag, bytes.
pub const TAG_LEN: usize = 4;
/// Length of the frame check sequence, bytes. Software does not see it.
pub const FCS_LEN: usize = 4;
/// Shortest frame without its frame check sequence, bytes (IEEE 802.3: 64 with it).
pub const FRAME_MIN: usize = 60;

/// Length of the two addresses, bytes.
const ADDRESSES_LEN: usize = 12;

/// `EtherType` values (IANA, IEEE).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// IEEE 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Network service header (RFC 8300).
    pub const NSH: u16 = 0x894f;
    /// IEEE 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
}

/// A view of a frame behind its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    ethertype: u16,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses a frame. `None` if it is too short for its header and tags.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (_, mut rest) = bytes.split_at_checked(ADDRESSES_LEN)?;
        loop {
            let (ethertype, payload) = rest.split_first_chunk::<2>()?;
            match u16::from_be_bytes(*ethertype) {
                ethertype::VLAN | ethertype::QINQ => rest = payload.get(2..)?,
                ethertype => return Some(Self { ethertype, payload }),
            }
        }
    }

    /// `EtherType` of the payload.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// The payload, with any padding.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Tag protocol identifier: 0x8100 or 0x88a8.
    pub ethertype: u16,
    /// VLAN identifier, 12 bits.
    pub id: u16,
    /// Priority code point, 3 bits.
    pub priority: u8,
}

/// The values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: [u8; 6],
    /// Destination address.
    pub destination: [u8; 6],
    /// Tags, outermost first.
    pub tags: Vec<Tag>,
    /// `EtherType` of the payload.
    pub ethertype: u16,
}

impl Repr {
    /// The header with its tags.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = [self.destination, self.source].concat();
        for tag in &self.tags {
            bytes.extend(tag.ethertype.to_be_bytes());
            bytes.extend((u16::from(tag.priority & 7) << 13 | tag.id & 0xfff).to_be_bytes());
        }
        bytes.extend(self.ethertype.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tags_are_skipped(ids in prop::collection::vec((0u16..4096, 0u8..8), 0..4), payload: Vec<u8>) {
            let tags = ids.iter().map(|&(id, priority)| Tag { ethertype: ethertype::VLAN, id, priority });
            let repr = Repr {
                source: [2; 6],
                destination: [4; 6],
                tags: tags.collect(),
                ethertype: ethertype::IPV6,
            };
            let bytes = [repr.emit(), payload.clone()].concat();
            let frame = Frame::parse(&bytes).unwrap();
            prop_assert_eq!((frame.ethertype(), frame.payload()), (ethertype::IPV6, &payload[..]));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = Frame::parse(&bytes);
        }
    }
}
