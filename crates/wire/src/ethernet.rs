//! Ethernet II with IEEE 802.1Q tags.

/// Length of a header without tags.
pub const HEADER_LEN: usize = 14;
/// Length of a tag.
pub const TAG_LEN: usize = 4;
/// Length of the frame check sequence, which software does not see.
pub const CHECK_LEN: usize = 4;
/// Shortest frame, without frame check sequence.
pub const FRAME_MIN: usize = 60;

/// Types (IANA) that are looked at.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// IEEE 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Network service header (RFC 8300 section 6).
    pub const NSH: u16 = 0x894f;
    /// IEEE 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
}

/// A frame: the type of what it carries, and that, behind any tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    ethertype: u16,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame; none where it is too short for its header and tags.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (_, mut rest) = bytes.split_at_checked(HEADER_LEN - 2)?;
        loop {
            let (ethertype, payload) = rest.split_first_chunk::<2>()?;
            match u16::from_be_bytes(*ethertype) {
                ethertype::VLAN | ethertype::QINQ => rest = payload.get(2..)?,
                ethertype => return Some(Self { ethertype, payload }),
            }
        }
    }

    /// What the payload is.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// What follows the header and its tags, with any padding.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 or 0x88a8.
    pub ethertype: u16,
    /// VLAN identifier, 12 bits.
    pub id: u16,
    /// Priority code point, 3 bits.
    pub priority: u8,
}

/// The values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where it comes from.
    pub source: [u8; 6],
    /// Where it goes.
    pub destination: [u8; 6],
    /// From the outside in.
    pub tags: Vec<Tag>,
    /// What follows.
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
        fn tags_are_passed(ids in prop::collection::vec((0u16..4096, 0u8..8), 0..4), payload: Vec<u8>) {
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
        fn anything_can_be_read(bytes: Vec<u8>) {
            let _ = Frame::parse(&bytes);
        }
    }
}
