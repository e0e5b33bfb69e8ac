//! Reads security associations (SA) and their keys from charon's log.
//!
//! Level 4 of group `CHD` contains the keys of each child SA when they are derived, followed by the SPIs that they
//! belong to; group `ESP` reports SAs that charon's user-space ESP removes. All lines of one exchange come from one
//! thread of charon, whose number begins each line.

use std::collections::BTreeMap;

use hawser_esp::Keys;

/// The only supported cipher, by charon's name.
const CIPHER: &str = "AES_GCM_16";

/// Longest key that is read, bytes.
const KEY_MAX: usize = 64;

/// Bytes of a key in one line.
const ROW: usize = 16;

/// SAs at most that are registered but not yet installed.
const REGISTERED_MAX: usize = 16;

/// A change of an SA.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An inbound SA with this SPI is installed.
    Inbound(u32, Keys),
    /// An outbound SA with this SPI is installed, and replaces the one before.
    Outbound(u32, Keys),
    /// The inbound SA is removed.
    InboundGone(u32),
    /// The outbound SA is removed.
    OutboundGone(u32),
    /// All SAs are removed.
    Flushed,
    /// An SA with an unsupported cipher is installed.
    Unusable(u32),
}

/// The kind of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message that may be logged.
    Public,
    /// A line about keys or single SAs, which must not be logged.
    Secret(Option<Event>),
}

/// Reads the log.
#[derive(Default)]
pub(super) struct Reader {
    threads: BTreeMap<u8, Thread>,
    /// Keys of SAs that are installed later.
    registered: BTreeMap<u32, Keys>,
}

/// State of one of charon's threads.
#[derive(Default)]
struct Thread {
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
#[derive(Clone, Copy)]
enum Adding {
    Inbound,
    Outbound,
    Registered,
}

impl Reader {
    /// Takes a line.
    pub(super) fn line(&mut self, line: &str) -> Line {
        let Some((thread, group, text)) = parts(line) else { return Line::Public };
        match group {
            "CHD" => Line::Secret(self.child(thread, text)),
            "ESP" => Line::Secret(removed(text)),
            "ENC" => {
                // "parsed CREATE_CHILD_SA response 2 [ SA No TSi TSr ]"
                let mut words = text.split(' ');
                if words.next() == Some("parsed") {
                    let initiator = words.nth(1) == Some("response");
                    *self.threads.entry(thread).or_default() =
                        Thread { initiator, ..Thread::default() };
                }
                Line::Public
            }
            "CFG" => {
                // "selected proposal: ESP:AES_GCM_16_256/NO_EXT_SEQ"
                if let Some(proposal) = text.strip_prefix("selected proposal: ESP:") {
                    let extended = !proposal.contains("NO_EXT_SEQ");
                    self.threads.entry(thread).or_default().extended = extended;
                }
                Line::Public
            }
            _ => Line::Public,
        }
    }

    fn child(&mut self, number: u8, text: &str) -> Option<Event> {
        let thread = self.threads.entry(number).or_default();
        match text.trim_start() {
            "adding inbound ESP SA" => thread.adding = Some(Adding::Inbound),
            "adding outbound ESP SA" => thread.adding = Some(Adding::Outbound),
            "registering outbound ESP SA" => thread.adding = Some(Adding::Registered),
            text => {
                if let Some(rest) = text.strip_prefix("SPI 0x") {
                    return self.spi(number, rest);
                }
                thread.detail(text);
            }
        }
        None
    }

    /// Matches an SPI with its keys.
    fn spi(&mut self, number: u8, text: &str) -> Option<Event> {
        let spi = hexadecimal(text.split([',', ' ']).next()?)?;
        let thread = self.threads.get_mut(&number)?;
        let adding = thread.adding.take()?;
        let known = if thread.cipher {
            let from_initiator = thread.initiator == !matches!(adding, Adding::Inbound);
            thread.keys.get_mut(usize::from(!from_initiator))
        } else {
            None
        };
        let event = match adding {
            Adding::Inbound => known.and_then(Option::take).map(|keys| Event::Inbound(spi, keys)),
            Adding::Outbound => {
                let keys = self.registered.remove(&spi).or_else(|| known.and_then(Option::take));
                keys.map(|keys| Event::Outbound(spi, keys))
            }
            Adding::Registered => {
                if let Some(keys) = known.and_then(Option::take) {
                    while self.registered.len() >= REGISTERED_MAX {
                        self.registered.pop_first();
                    }
                    self.registered.insert(spi, keys);
                }
                return None;
            }
        };
        Some(event.unwrap_or(Event::Unusable(spi)))
    }
}

impl Thread {
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
        let event = |line| match reader.line(line) {
            Line::Secret(event) => event,
            Line::Public => None,
        };
        log.lines().filter_map(event).collect()
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
                Event::Inbound(spi, _) => ("in", *spi),
                Event::Outbound(spi, _) => ("out", *spi),
                Event::InboundGone(spi) => ("in gone", *spi),
                Event::OutboundGone(spi) => ("out gone", *spi),
                Event::Flushed => ("flushed", 0),
                Event::Unusable(spi) => ("unusable", *spi),
            })
            .collect();
        let expected = [
            ("in", 0xc53c_89d2),
            ("out", 0x0133_af07),
            ("in", 0x3e42_1972),
            ("out", 0xb44a_2c25),
            ("out gone", 0x0133_af07),
            ("in", 0x1db9_78ee),
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
        let all = events(LOG);
        let begun = keys(
            "43 43 8C 6D 3B 17 D6 35 DE 5E 85 04 8B 40 96 3F 27 1B 16 75 95 7F A0 72 28 D5 C1 4E A4 B9 40 B7 F4 04 48 24",
        );
        assert_eq!(
            all[0],
            Event::Inbound(0xc53c_89d2, begun),
            "the responder's: we are the initiator"
        );
        let asked = keys(
            "A3 77 38 BE FA 06 F2 57 2C 3A 6B DB 08 ED 2C 56 D7 D2 2C A2 B5 7D B7 D4 4C B7 9B D0 B6 40 D5 3A A8 E4 7D 29",
        );
        assert_eq!(
            all[5],
            Event::Inbound(0x1db9_78ee, asked),
            "the initiator's: we are the responder"
        );
        let later = keys(
            "FA 60 44 C2 3E 95 3D E8 3C A1 E9 3B D1 B1 30 2A 1C 1E DB F4 62 F1 96 16 19 FF D3 24 AB F8 A7 07 C7 3D 5D E4",
        );
        assert_eq!(all[6], Event::Outbound(0x4482_4fd1, later), "another thread puts it in force");
    }

    #[test]
    fn lines_with_keys_are_secret() {
        let mut reader = Reader::default();
        for line in LOG.lines() {
            let public = reader.line(line) == Line::Public;
            assert_eq!(public, !line.contains("[CHD]") && !line.contains("[ESP]"), "{line}");
        }
    }

    #[test]
    fn another_cipher_cannot_be_used() {
        let log = LOG.replace("using AES_GCM_16 for", "using CHACHA20_POLY1305 for");
        assert_eq!(events(&log)[0], Event::Unusable(0xc53c_89d2));
        let log = LOG.replace("NO_EXT_SEQ", "EXT_SEQ");
        assert_eq!(events(&log)[0], Event::Unusable(0xc53c_89d2));
        let log = LOG.replace("45 85 F8", "45 8X F8");
        assert!(matches!(events(&log)[1], Event::Unusable(0x0133_af07)));
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
            }
        }
    }
}
