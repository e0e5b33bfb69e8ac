//! Header compression over many paths: which packet of a flow the others are compressed with.
//!
//! Paths reorder and lose, so packets are not compressed with the one before them: a flow has one [`Context`], the beginning
//! of a packet of which the sender knows that it came. What overtakes what does not matter then. An end that does not
//! know a context, for it has begun anew, says so, and the sender takes another (RFC 2507 section 10.1).

use std::time::{Duration, Instant};

use hawser_wire::{
    Malformed,
    context::{Context, Restored, context_id},
    tunnel::Form,
};

use crate::FLOWS;

/// Whether a packet came that others are to be compressed with is known by then: it goes again for less long.
const PATIENCE: Duration = Duration::from_secs(1);

/// A context that is of no use is not replaced earlier: by then nothing is under way that was compressed with the one
/// before, of which the other end keeps one.
const LIFE: Duration = Duration::from_secs(10);

/// How a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// What stands behind its tunnel header.
    pub form: Form,
    /// It begins so many bytes later.
    pub spared: usize,
}

impl Packed {
    /// As it came.
    pub const PLAIN: Self = Self { form: Form::Plain, spared: 0 };
}

/// Makes packets shorter. One for each direction of a group, at the sender.
pub struct Compressor {
    flows: Box<[Option<Box<Sent>>]>,
}

struct Sent {
    context: Context,
    /// Number of the packet that it is the beginning of.
    sequence: u32,
    since: Instant,
    /// Whether the other end has it.
    known: bool,
    /// Bytes that have differed from it: they are carried from then on. Packets of the same length are to stay so, for
    /// where large ones are lost and smaller ones come, the MTU seems to have become smaller (RFC 8899 section 4.3).
    varying: u64,
}

impl Default for Compressor {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

impl Compressor {
    /// Compresses a packet in place, or takes its beginning as the context of others; that must be a packet of which
    /// will be [known](Self::came) that it came: one that is `kept`.
    pub fn pack(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        kept: bool,
        packet: &mut [u8],
    ) -> Packed {
        let Some(place) = self.flows.get_mut(usize::from(flow)) else { return Packed::PLAIN };
        let [.., name] = sequence.to_be_bytes();
        let is_free = match place {
            None => true,
            Some(sent) => {
                if let Some(spared) = sent.compress(packet) {
                    return Packed { form: Form::Compressed, spared };
                }
                let age = now.saturating_duration_since(sent.since);
                age > if sent.known { LIFE } else { PATIENCE } && sent.context.id() != name
            }
        };
        let context = Context::new(name, packet).filter(|_| kept && is_free);
        context.map_or(Packed::PLAIN, |context| {
            *place =
                Some(Box::new(Sent { context, sequence, since: now, known: false, varying: 0 }));
            Packed { form: Form::Context, spared: 0 }
        })
    }

    /// A packet that was kept came.
    pub fn came(&mut self, flow: u16, sequence: u32) {
        if let Some(Some(sent)) = self.flows.get_mut(usize::from(flow))
            && sent.sequence == sequence
        {
            sent.known = true;
        }
    }

    /// The other end does not know a flow's context.
    pub fn forget(&mut self, flow: u16) {
        if let Some(place) = self.flows.get_mut(usize::from(flow)) {
            *place = None;
        }
    }
}

impl Sent {
    fn compress(&mut self, packet: &mut [u8]) -> Option<usize> {
        self.known.then(|| self.context.compress(packet, &mut self.varying))?
    }
}

/// A packet cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The context of this flow is not known here.
    Context(u16),
    /// It is not a compressed packet.
    Malformed(Malformed),
}

/// Restores packets. One for each direction of a group, at the receiver.
pub struct Decompressor {
    flows: Box<[Option<Box<Known>>]>,
}

/// The contexts of a flow that came last, the newest first.
type Known = [Option<Context>; 2];

impl Default for Decompressor {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

impl Decompressor {
    /// A packet came whose beginning is the context of others; again, where it went twice.
    pub fn learn(&mut self, flow: u16, sequence: u32, packet: &[u8]) {
        let [.., name] = sequence.to_be_bytes();
        let (Some(context), Some(place)) =
            (Context::new(name, packet), self.flows.get_mut(usize::from(flow)))
        else {
            return;
        };
        let known = place.get_or_insert_default();
        if let Some(same) = known.iter_mut().flatten().find(|known| known.id() == name) {
            *same = context;
        } else {
            let [newest, older] = &mut **known;
            *older = newest.replace(context);
        }
    }

    /// What a compressed packet was.
    ///
    /// # Errors
    /// Its context is not known, or it is not a compressed packet.
    pub fn restore<'a>(&self, flow: u16, compressed: &'a [u8]) -> Result<Restored<'a>, Unknown> {
        let known = self.flows.get(usize::from(flow)).and_then(Option::as_ref);
        let name = context_id(compressed);
        let mut contexts = known.into_iter().flat_map(|known| known.iter().flatten());
        let context = contexts.find(|context| Some(context.id()) == name);
        context.ok_or(Unknown::Context(flow))?.restore(compressed).map_err(Unknown::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of which little changes from one number to the next.
    fn packet(number: u32) -> Vec<u8> {
        let mut packet = vec![0x45; 200];
        packet[24..28].copy_from_slice(&number.to_be_bytes());
        packet
    }

    fn restored(decompressor: &Decompressor, flow: u16, bytes: &[u8]) -> Result<Vec<u8>, Unknown> {
        let Restored { head, rest } = decompressor.restore(flow, bytes)?;
        Ok([head.as_slice(), rest].concat())
    }

    proptest! {
        /// Whatever is lost, overtakes, comes late or twice: what is restored is what was sent.
        #[test]
        fn every_packet_that_comes_is_restored(steps in proptest::collection::vec((0..4_u16, any::<bool>(), 0..5_usize, 0..40_u64), 1..400)) {
            let (mut sender, mut receiver) = (Compressor::default(), Decompressor::default());
            let (mut now, mut under_way) = (Instant::now(), Vec::new());
            let mut numbers = [0; 4];
            for (flow, kept, what, wait) in steps {
                now += Duration::from_millis(wait * wait * 10);
                let sequence = numbers[usize::from(flow)];
                numbers[usize::from(flow)] += 1;
                let mut bytes = packet(sequence);
                let Packed { form, spared } = sender.pack(now, flow, sequence, kept, &mut bytes);
                prop_assert!(form != Form::Context || kept);
                under_way.push((now, (flow, sequence, form, bytes.split_off(spared))));
                under_way.retain(|(sent, _)| now - *sent < PATIENCE);
                let next = under_way.len() * what / 5;
                let (_, (flow, sequence, form, bytes)) = under_way[next].clone();
                match form {
                    Form::Plain => prop_assert_eq!(bytes, packet(sequence)),
                    Form::Context => {
                        receiver.learn(flow, sequence, &bytes);
                        sender.came(flow, sequence);
                        prop_assert_eq!(bytes, packet(sequence));
                    }
                    Form::Compressed => prop_assert_eq!(restored(&receiver, flow, &bytes), Ok(packet(sequence))),
                }
            }
        }
    }

    #[test]
    fn others_are_compressed_once_the_first_came() {
        let (mut sender, mut receiver) = (Compressor::default(), Decompressor::default());
        let now = Instant::now();
        let form = |sender: &mut Compressor, sequence, kept| {
            let mut bytes = packet(sequence);
            let packed = sender.pack(now, 5, sequence, kept, &mut bytes);
            (packed.form, bytes.split_off(packed.spared))
        };
        assert_eq!(form(&mut sender, 0, false).0, Form::Plain);
        assert_eq!(form(&mut sender, 1, true).0, Form::Context);
        assert_eq!(form(&mut sender, 2, true).0, Form::Plain);
        sender.came(5, 2);
        assert_eq!(form(&mut sender, 3, true).0, Form::Plain);
        sender.came(5, 1);
        let (form_of, bytes) = form(&mut sender, 4, false);
        assert_eq!((form_of, bytes.len()), (Form::Compressed, 200 - 64 + 9 + 1));
        assert_eq!(receiver.restore(5, &bytes), Err(Unknown::Context(5)));
        receiver.learn(5, 1, &packet(1));
        assert_eq!(restored(&receiver, 5, &bytes), Ok(packet(4)));
        assert!(matches!(receiver.restore(5, &bytes[..5]), Err(Unknown::Malformed(_))));
        sender.forget(5);
        assert_eq!(form(&mut sender, 6, true).0, Form::Context);
    }

    #[test]
    fn a_context_that_is_of_no_use_is_replaced() {
        let mut sender = Compressor::default();
        let start = Instant::now();
        let form = |sender: &mut Compressor, seconds, sequence, byte| {
            let now = start + Duration::from_secs(seconds);
            sender.pack(now, 5, sequence, true, &mut [byte; 100]).form
        };
        assert_eq!(form(&mut sender, 0, 1, 1), Form::Context);
        assert_eq!(form(&mut sender, 1, 2, 1), Form::Plain);
        assert_eq!(form(&mut sender, 2, 3, 1), Form::Context, "what came is not known");
        sender.came(5, 3);
        assert_eq!(form(&mut sender, 3, 4, 1), Form::Compressed);
        assert_eq!(form(&mut sender, 3, 5, 2), Form::Plain);
        assert_eq!(form(&mut sender, 13, 256 + 3, 2), Form::Plain, "of the same name");
        assert_eq!(form(&mut sender, 13, 256 + 4, 2), Form::Context);
    }

    #[test]
    fn the_context_before_is_still_known() {
        let mut receiver = Decompressor::default();
        let context = |number: u8| Context::new(number, &packet(number.into())).unwrap();
        let bytes = [1, 2, 3].map(|number| {
            receiver.learn(5, number.into(), &packet(number.into()));
            let mut bytes = packet(9);
            let spared = context(number).compress(&mut bytes, &mut 0).unwrap();
            bytes.split_off(spared)
        });
        receiver.learn(5, 2, &packet(2));
        let known = bytes.map(|bytes| restored(&receiver, 5, &bytes).is_ok());
        assert_eq!(known, [false, true, true]);
    }
}
