//! Reads security associations (SA), their keys and their selectors from charon's log.
//!
//! Level 4 of group `CHD` contains the keys of each child SA when they are derived, followed by the SPIs that they
//! belong to; group `IKE` says when an SA is established, and with which traffic selectors; group `ESP` reports SAs
//! that charon's user-space ESP removes. All lines of one exchange come from one thread of charon, whose number begins
//! each line, and the first of group `NET` says where its message came from.

use std::collections::BTreeMap;

use hawser_esp::Keys;

use super::selectors::{Names, Selectors};

/// The only supported cipher, by charon's name.
const CIPHER: &str = "AES_GCM_16";

/// Longest key that is read, bytes.
const KEY_MAX: usize = 64;

/// Bytes of a key in one line.
const ROW: usize = 16;

/// SAs at most whose keys are known and which are not yet established.
const PENDING_MAX: usize = 16;

/// A change of an SA.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An inbound SA with this SPI is established.
    Inbound(u32, Keys, Selectors),
    /// An outbound SA with this SPI is established, and replaces the one before.
    Outbound(u32, Keys, Selectors),
    /// The inbound SA is removed.
    InboundGone(u32),
    /// The outbound SA is removed.
    OutboundGone(u32),
    /// All SAs are removed.
    Flushed,
    /// An SA with an unsupported cipher is installed, or one with selectors that are not understood is established.
    Unusable(u32),
    /// An SA was established by an authenticated message from this port.
    Heard(u16),
}

/// What a line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Whether it is about keys or single SAs, and must not be logged.
    pub(super) secret: bool,
    pub(super) events: Vec<Event>,
}

/// Reads the log.
#[derive(Default)]
pub(super) struct Reader {
    names: Names,
    threads: BTreeMap<u8, Thread>,
    inbound: Pending,
    outbound: Pending,
}

/// Keys of SAs that are not yet established, by SPI.
#[derive(Default)]
struct Pending(BTreeMap<u32, Keys>);

impl Pending {
    fn insert(&mut self, spi: u32, keys: Keys) {
        while self.0.len() >= PENDING_MAX {
            self.0.pop_first();
        }
        self.0.insert(spi, keys);
    }
}

/// State of one of charon's threads.
#[derive(Default)]
struct Thread {
    /// Port from which the message that it handles came.
    from: Option<u16>,
    /// Whether this end is the initiator of the exchange.
    initiator: bool,
    /// Whether extended sequence numbers (64 bits) were negotiated.
    extended: bool,
    /// Whether the cipher is supported.
    cipher: bool,
    /// Keys of packets from the initiator and from the responder.
    keys: [Option<Keys>; 2],
    dump: Option<Dump>,
    adding: Option<Adding>,
}

/// A key that is being read, line by line.
struct Dump {
    /// Index in [`Thread::keys`].
    sender: usize,
    len: usize,
    bytes: Vec<u8>,
}

/// The SA whose SPI is in the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adding {
    Inbound,
    Outbound,
}

impl Reader {
    /// A reader of a log with these names of protocols and services.
    pub(super) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// Takes a line.
    pub(super) fn line(&mut self, line: &str) -> Line {
        let Some((thread, group, text)) = parts(line) else { return Line::default() };
        match group {
            "CHD" => Line { secret: true, events: Vec::from_iter(self.child(thread, text)) },
            "ESP" => Line { secret: true, events: Vec::from_iter(removed(text)) },
            "IKE" => Line { secret: false, events: self.established(thread, text) },
            "NET" | "ENC" | "CFG" => {
                self.threads.entry(thread).or_default().exchange(text);
                Line::default()
            }
            _ => Line::default(),
        }
    }

    fn child(&mut self, number: u8, text: &str) -> Option<Event> {
        let thread = self.threads.entry(number).or_default();
        match text.trim_start() {
            "adding inbound ESP SA" => thread.adding = Some(Adding::Inbound),
            "adding outbound ESP SA" | "registering outbound ESP SA" => {
                thread.adding = Some(Adding::Outbound);
            }
            text => {
                if let Some(rest) = text.strip_prefix("SPI 0x") {
                    return self.spi(number, rest);
                }
                thread.detail(text);
            }
        }
        None
    }

    /// Matches an SPI with its keys. An outbound SA may be registered first, and added by another thread.
    fn spi(&mut self, number: u8, text: &str) -> Option<Event> {
        let spi = hexadecimal(text.split([',', ' ']).next()?)?;
        let thread = self.threads.get_mut(&number)?;
        let adding = thread.adding.take()?;
        let pending = match adding {
            Adding::Inbound => &mut self.inbound,
            Adding::Outbound => &mut self.outbound,
        };
        if adding == Adding::Outbound && pending.0.contains_key(&spi) {
            return None;
        }
        match thread.keys_of(adding) {
            Some(keys) => {
                pending.insert(spi, keys);
                None
            }
            None => Some(Event::Unusable(spi)),
        }
    }

    /// `inbound CHILD_SA t{2} established with SPIs 3e421972_i b44a2c25_o and TS 10.0.0.0/24 === 10.1.0.0/24`;
    /// without the first word it is both directions.
    fn established(&mut self, number: u8, text: &str) -> Vec<Event> {
        let (begin, rest) = match text.split_once(" established with SPIs ") {
            Some((begin, rest)) if begin.contains("CHILD_SA ") => (begin, rest),
            _ => return Vec::new(),
        };
        let Some((spis, selectors)) = rest.split_once(" and TS ") else { return Vec::new() };
        let selectors = Selectors::parse(selectors, &self.names);
        let port = self.threads.get(&number).and_then(|thread| thread.from);
        let mut events = Vec::from_iter(port.map(Event::Heard));
        for spi in spis.split(' ') {
            let is_inbound = match spi.split_once('_') {
                Some((_, "i")) if !begin.starts_with("outbound") => true,
                Some((_, "o")) if !begin.starts_with("inbound") => false,
                _ => continue,
            };
            let pending = if is_inbound { &mut self.inbound } else { &mut self.outbound };
            let spi = spi.split('_').next().and_then(hexadecimal);
            let known = spi.and_then(|spi| pending.0.remove_entry(&spi));
            events.extend(known.map(|(spi, keys)| match selectors.clone() {
                Some(selectors) if is_inbound => Event::Inbound(spi, keys, selectors),
                Some(selectors) => Event::Outbound(spi, keys, selectors),
                None => Event::Unusable(spi),
            }));
        }
        events
    }
}

impl Thread {
    /// A line about the exchange that the thread handles.
    fn exchange(&mut self, text: &str) {
        if let Some(addresses) = text.strip_prefix("received packet: from ") {
            // "127.0.0.2[4500] to 127.0.0.1[4501] (190 bytes)"
            let port = addresses.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            self.from = port.and_then(|(port, _)| port.parse().ok());
        } else if let Some(message) = text.strip_prefix("parsed ") {
            // "parsed CREATE_CHILD_SA response 2 [ SA No TSi TSr ]"
            let initiator = message.split(' ').nth(1) == Some("response");
            *self = Self { from: self.from, initiator, ..Self::default() };
        } else if let Some(proposal) = text.strip_prefix("selected proposal: ESP:") {
            // "selected proposal: ESP:AES_GCM_16_256/NO_EXT_SEQ"
            self.extended = !proposal.contains("NO_EXT_SEQ");
        }
    }

    /// Takes the keys of one direction, if the cipher is supported.
    fn keys_of(&mut self, adding: Adding) -> Option<Keys> {
        let from_initiator = self.initiator == (adding == Adding::Outbound);
        if self.cipher { self.keys.get_mut(usize::from(!from_initiator))?.take() } else { None }
    }

    /// A line about keys.
    fn detail(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("using ") {
            if let Some(cipher) = rest.strip_suffix(" for encryption") {
                self.cipher = cipher == CIPHER && !self.extended;
            }
        } else if let Some(rest) = text.strip_prefix("encryption initiator key => ") {
            self.begin(0, rest);
        } else if let Some(rest) = text.strip_prefix("encryption responder key => ") {
            self.begin(1, rest);
        } else if let Some((_, row)) = text.split_once(": ")
            && let Some(dump) = &mut self.dump
        {
            if dump.row(row).is_none() {
                self.dump = None;
            } else if dump.bytes.len() == dump.len
                && let Some(dump) = self.dump.take()
                && let Some(place) = self.keys.get_mut(dump.sender)
            {
                *place = Keys::new(&dump.bytes);
            }
        }
    }

    /// "36 bytes @ 0x7f8e68002af0"
    fn begin(&mut self, sender: usize, text: &str) {
        let len = text.split(' ').next().and_then(|number| number.parse().ok());
        let len = len.filter(|len| (1..=KEY_MAX).contains(len));
        self.dump = len.map(|len| Dump { sender, len, bytes: Vec::with_capacity(KEY_MAX) });
    }
}

impl Dump {
    /// Reads a line; `None` if it is malformed.
    fn row(&mut self, text: &str) -> Option<()> {
        let more = (self.len - self.bytes.len()).min(ROW);
        let mut digits = text.split(' ').filter(|digits| !digits.is_empty());
        for _ in 0..more {
            let digits = digits.next().filter(|digits| digits.len() == 2)?;
            self.bytes.push(u8::from_str_radix(digits, 16).ok()?);
        }
        Some(())
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.bytes.fill(0);
        std::hint::black_box(&self.bytes); // so that the zeros are written
    }
}

/// Thread, group and text: "10[CHD]   SPI 0xc53c89d2, src 192.0.2.2 dst 192.0.2.1".
fn parts(line: &str) -> Option<(u8, &str, &str)> {
    let (thread, rest) = line.split_once('[')?;
    let (group, text) = rest.split_once("] ")?;
    Some((thread.parse().ok()?, group, text))
}

fn removed(text: &str) -> Option<Event> {
    if text == "flushing SAD" {
        return Some(Event::Flushed);
    }
    let (direction, spi) =
        text.strip_prefix("deleted ")?.split_once("bound SAD entry with SPI ")?;
    let spi = hexadecimal(spi)?;
    Some(if direction == "in" { Event::InboundGone(spi) } else { Event::OutboundGone(spi) })
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From charon 5.9.8: it opens a connection, renews its keys, and has them renewed by the other end.
    const LOG: &str = include_str!("charon.log");

    fn events(log: &str) -> Vec<Event> {
        let mut reader = Reader::default();
        log.lines().flat_map(|line| reader.line(line).events).collect()
    }

    fn keys(hex: &str) -> Keys {
        let bytes = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap());
        Keys::new(&bytes.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn associations_follow_the_log() {
        let all = events(LOG);
        let short: Vec<_> = all
            .iter()
            .map(|event| match event {
                Event::Inbound(spi, ..) => ("in", *spi),
                Event::Outbound(spi, ..) => ("out", *spi),
                Event::InboundGone(spi) => ("in gone", *spi),
                Event::OutboundGone(spi) => ("out gone", *spi),
                Event::Flushed => ("flushed", 0),
                Event::Unusable(spi) => ("unusable", *spi),
                Event::Heard(port) => ("heard", u32::from(*port)),
            })
            .collect();
        let expected = [
            ("heard", 4500),
            ("in", 0xc53c_89d2),
            ("out", 0x0133_af07),
            ("heard", 4500),
            ("in", 0x3e42_1972),
            ("heard", 4500),
            ("out", 0xb44a_2c25),
            ("out gone", 0x0133_af07),
            ("heard", 4500),
            ("in", 0x1db9_78ee),
            ("heard", 4500),
            ("out", 0x4482_4fd1),
            ("out gone", 0xb44a_2c25),
            ("in gone", 0x1db9_78ee),
            ("out gone", 0x4482_4fd1),
            ("in gone", 0x3e42_1972),
            ("in gone", 0xc53c_89d2),
            ("flushed", 0),
        ];
        assert_eq!(short, expected);
    }

    #[test]
    fn each_direction_has_its_key() {
        let inbound = |event: &Event| match event {
            Event::Inbound(spi, keys, _) => Some((*spi, keys.clone())),
            _ => None,
        };
        let outbound = |event: &Event| match event {
            Event::Outbound(spi, keys, _) => Some((*spi, keys.clone())),
            _ => None,
        };
        let all = events(LOG);
        let inbound: Vec<_> = all.iter().filter_map(inbound).collect();
        let outbound: Vec<_> = all.iter().filter_map(outbound).collect();
        let begun = keys(
            "43 43 8C 6D 3B 17 D6 35 DE 5E 85 04 8B 40 96 3F 27 1B 16 75 95 7F A0 72 28 D5 C1 4E A4 B9 40 B7 F4 04 48 24",
        );
        assert_eq!(inbound[0], (0xc53c_89d2, begun), "the responder's: we are the initiator");
        let asked = keys(
            "A3 77 38 BE FA 06 F2 57 2C 3A 6B DB 08 ED 2C 56 D7 D2 2C A2 B5 7D B7 D4 4C B7 9B D0 B6 40 D5 3A A8 E4 7D 29",
        );
        assert_eq!(inbound[2], (0x1db9_78ee, asked), "the initiator's: we are the responder");
        let later = keys(
            "FA 60 44 C2 3E 95 3D E8 3C A1 E9 3B D1 B1 30 2A 1C 1E DB F4 62 F1 96 16 19 FF D3 24 AB F8 A7 07 C7 3D 5D E4",
        );
        assert_eq!(outbound[2], (0x4482_4fd1, later), "another thread puts it in force");
    }

    #[test]
    fn lines_with_keys_are_secret() {
        let mut reader = Reader::default();
        for line in LOG.lines() {
            let secret = reader.line(line).secret;
            assert_eq!(secret, line.contains("[CHD]") || line.contains("[ESP]"), "{line}");
        }
    }

    #[test]
    fn another_cipher_cannot_be_used() {
        let log = LOG.replace("using AES_GCM_16 for", "using CHACHA20_POLY1305 for");
        assert_eq!(events(&log)[0], Event::Unusable(0xc53c_89d2));
        let log = LOG.replace("NO_EXT_SEQ", "EXT_SEQ");
        assert_eq!(events(&log)[0], Event::Unusable(0xc53c_89d2));
        let log = LOG.replace("45 85 F8", "45 8X F8");
        assert_eq!(events(&log)[0], Event::Unusable(0x0133_af07));
    }

    #[test]
    fn an_association_has_the_selectors_of_its_line() {
        let named = |local: &str| LOG.replace("TS 0.0.0.0/0 ===", &format!("TS {local} ==="));
        let own = Selectors::parse("10.0.0.0/24 === 0.0.0.0/0", &Names::default()).unwrap();
        let all = events(&named("10.0.0.0/24"));
        let all = all.iter().filter_map(|event| match event {
            Event::Inbound(_, _, selectors) | Event::Outbound(_, _, selectors) => Some(selectors),
            _ => None,
        });
        assert_eq!(all.collect::<Vec<_>>(), vec![&own; 6]);
        let unknown = events(&named("10.0.0.0/24[what]"));
        assert_eq!(unknown[1..3], [0xc53c_89d2, 0x0133_af07].map(Event::Unusable));
    }

    #[test]
    fn an_association_comes_from_the_port_of_its_message() {
        let log = LOG.replace(
            "10[NET] received packet: from 192.0.2.2[4500]",
            "10[NET] received packet: from 192.0.2.2[7]",
        );
        assert_eq!(events(&log)[0], Event::Heard(7));
    }

    proptest! {
        #[test]
        fn no_line_panics(lines in proptest::collection::vec(".{0,80}", 0..20)) {
            let mut reader = Reader::default();
            for line in &lines {
                let _ = reader.line(line);
                let _ = reader.line(&format!("10[CHD] {line}"));
                let _ = reader.line(&format!("10[CHD] encryption initiator key => {line}"));
                let _ = reader.line(&format!("10[CHD]    0: {line}"));
                let _ = reader.line(&format!("10[NET] received packet: from {line}"));
                let _ = reader.line(&format!("10[IKE] CHILD_SA established with SPIs {line}"));
            }
        }
    }
}
