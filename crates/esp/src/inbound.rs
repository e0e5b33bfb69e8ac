//! The receiver's side of an SA.

use aws_lc_rs::aead::Aad;
use hawser_wire::esp::{HEADER_LEN, Packet, Plaintext};

use crate::{
    FRONT,
    keys::{Cipher, Keys},
    window::Window,
};

/// Protocol number of dummy packets (RFC 4303 section 2.6).
const NO_NEXT_HEADER: u8 = 59;

/// Inbound SAs at most. A tunnel needs one, and two while it is rekeyed.
const MOST: usize = 16;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Too short, SPI 0, or wrong padding.
    Malformed,
    /// There is no SA with its SPI.
    UnknownSpi,
    /// Its sequence number was received before, or is older than the window.
    Replayed,
    /// The integrity check failed.
    NotAuthentic,
    /// A dummy packet, for traffic flow confidentiality (RFC 4303 section 2.6).
    Dummy,
}

/// A decrypted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Payload and its protocol.
    pub plain: Plaintext<'a>,
    /// Whether no packet with a higher sequence number was received before with this SA.
    pub newest: bool,
}

/// An inbound SA.
pub struct Inbound {
    spi: u32,
    cipher: Cipher,
    window: Window,
}

impl Inbound {
    /// A new SA; `None` if the keys cannot be used.
    #[must_use]
    pub fn new(spi: u32, keys: &Keys) -> Option<Self> {
        Some(Self { spi, cipher: keys.cipher()?, window: Window::default() })
    }

    /// Security parameters index.
    #[must_use]
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Decrypts a packet in place: checks sequence number, integrity, then padding (RFC 4303 section 3.4).
    pub fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<Opened<'a>, Cause> {
        let repr = Packet::parse(packet).map_err(|_| Cause::Malformed)?.repr();
        if repr.spi != self.spi {
            return Err(Cause::UnknownSpi);
        }
        if !self.window.may_come(repr.sequence) {
            return Err(Cause::Replayed);
        }
        let (front, body) = packet.split_first_chunk_mut::<FRONT>().ok_or(Cause::Malformed)?;
        let (header, iv) = front.split_first_chunk::<HEADER_LEN>().ok_or(Cause::Malformed)?;
        let iv = iv.first_chunk().copied().ok_or(Cause::Malformed)?;
        let (nonce, aad) = (self.cipher.nonce(iv), Aad::from(*header));
        let opened = self.cipher.key.open_in_place(nonce, aad, body);
        let opened = opened.map_err(|_| Cause::NotAuthentic)?;
        let newest = self.window.mark(repr.sequence);
        let plain = Plaintext::parse(opened).map_err(|_| Cause::Malformed)?;
        if plain.next_header == NO_NEXT_HEADER {
            return Err(Cause::Dummy);
        }
        Ok(Opened { plain, newest })
    }
}

/// All inbound SAs, each with its policy. While a tunnel is rekeyed, packets arrive with the old and the new SPI.
pub struct Inbounds<P>(Vec<(Inbound, P)>);

impl<P> Default for Inbounds<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P> Inbounds<P> {
    /// Adds an SA and replaces one with the same SPI. Beyond 16, the oldest is removed.
    pub fn add(&mut self, inbound: Inbound, policy: P) {
        self.remove(inbound.spi);
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push((inbound, policy));
    }

    /// Removes an SA, if it exists.
    pub fn remove(&mut self, spi: u32) {
        self.0.retain(|(held, _)| held.spi != spi);
    }

    /// Removes all SAs.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Decrypts a packet in place with the SA of its SPI; also returns the policy of that SA.
    pub fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<(Opened<'a>, &P), Cause> {
        let spi = Packet::parse(packet).map_err(|_| Cause::Malformed)?.spi();
        let found = self.0.iter_mut().rev().find(|(held, _)| held.spi == spi);
        let (inbound, policy) = found.ok_or(Cause::UnknownSpi)?;
        Ok((inbound.open(packet)?, policy))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Outbound, sealed_len};

    fn keys(bits: usize, seed: u8) -> Keys {
        Keys::new(&vec![seed; bits / 8 + 4]).unwrap()
    }

    fn pair(spi: u32, keys: &Keys) -> (Outbound, Inbound) {
        (Outbound::new(spi, keys).unwrap(), Inbound::new(spi, keys).unwrap())
    }

    fn seal(outbound: &mut Outbound, next_header: u8, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; sealed_len(data.len())];
        outbound.seal(next_header, data.len(), &mut out, |to| to.copy_from_slice(data)).unwrap();
        out
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_once(
            spi in 1..=u32::MAX, seed: u8, long: bool,
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..10),
        ) {
            let keys = keys(if long { 256 } else { 128 }, seed);
            let (mut outbound, mut inbound) = pair(spi, &keys);
            for (number, data) in (1..).zip(&packets) {
                let sealed = seal(&mut outbound, 4, data);
                prop_assert_eq!(sealed.len() % 4, 0);
                let header = Packet::parse(&sealed).unwrap().repr();
                prop_assert_eq!((header.spi, header.sequence), (spi, number));
                let mut copy = sealed.clone();
                let Opened { plain, newest } = inbound.open(&mut copy).unwrap();
                prop_assert!(newest);
                prop_assert_eq!((plain.next_header, plain.data), (4, &data[..]));
                let mut again = sealed;
                prop_assert_eq!(inbound.open(&mut again), Err(Cause::Replayed));
            }
        }

        #[test]
        fn a_changed_bit_is_seen(data: Vec<u8>, bit: proptest::sample::Index) {
            let (mut outbound, mut inbound) = pair(300, &keys(256, 9));
            let sealed = seal(&mut outbound, 4, &data);
            let mut changed = sealed.clone();
            let bit = bit.index(sealed.len() * 8);
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(inbound.open(&mut changed).is_err());
            prop_assert!(inbound.open(&mut sealed.clone()).is_ok(), "and leaves no trace");
        }

        #[test]
        fn anything_can_come(mut bytes: Vec<u8>) {
            let mut inbounds = Inbounds::default();
            inbounds.add(Inbound::new(300, &keys(128, 1)).unwrap(), ());
            prop_assert!(inbounds.open(&mut bytes).is_err());
            let mut addressed = [&300_u32.to_be_bytes()[..], &[0, 0, 0, 1], &bytes].concat();
            prop_assert!(inbounds.open(&mut addressed).is_err());
        }
    }

    #[test]
    fn old_and_new_keys_serve_side_by_side() {
        let (mut old, old_in) = pair(300, &keys(256, 1));
        let (mut new, new_in) = pair(400, &keys(256, 2));
        let mut inbounds = Inbounds::default();
        inbounds.add(old_in, "old");
        let mut late = seal(&mut old, 4, b"late");
        let opened = |data, newest| Opened { plain: Plaintext { next_header: 4, data }, newest };
        assert_eq!(inbounds.open(&mut seal(&mut old, 4, b"x")), Ok((opened(b"x", true), &"old")));
        assert_eq!(inbounds.open(&mut seal(&mut new, 4, b"x")), Err(Cause::UnknownSpi));
        inbounds.add(new_in, "new");
        assert_eq!(inbounds.open(&mut seal(&mut new, 4, b"x")), Ok((opened(b"x", true), &"new")));
        assert_eq!(inbounds.open(&mut late), Ok((opened(b"late", false), &"old")));
        inbounds.remove(300);
        assert_eq!(inbounds.open(&mut seal(&mut old, 4, b"x")), Err(Cause::UnknownSpi));
    }

    #[test]
    fn there_is_an_end_to_associations() {
        let mut inbounds = Inbounds::default();
        for spi in 256..10_000 {
            inbounds.add(Inbound::new(spi, &keys(128, 1)).unwrap(), ());
        }
        assert_eq!(inbounds.0.len(), MOST);
        inbounds.clear();
        assert!(inbounds.0.is_empty());
    }

    #[test]
    fn dummies_end_here() {
        let (mut outbound, mut inbound) = pair(300, &keys(128, 1));
        let mut dummy = seal(&mut outbound, NO_NEXT_HEADER, b"");
        assert_eq!(inbound.open(&mut dummy), Err(Cause::Dummy));
    }

    /// Encrypted by OpenSSL 3, with an initialization vector that is not a counter.
    #[test]
    fn a_packet_of_others_opens() {
        let material: Vec<u8> = (0..32).chain(0xa0..0xa4).collect();
        let mut sealed = hex(concat!(
            "00004321876543214956ed7e3b244cfe9aef33a394709aeb52ec5ee5a5b781f2",
            "4af8682a24efabb147b002af95804c636e06fd88",
        ));
        let mut inbound = Inbound::new(0x4321, &Keys::new(&material).unwrap()).unwrap();
        let plain = inbound.open(&mut sealed).unwrap().plain;
        assert_eq!((plain.next_header, plain.data), (4, &b"an inner packet"[..]));
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }
}
