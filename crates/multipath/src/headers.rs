//! Header compression over multiple paths (docs/design/header-compression.md).
//!
//! Paths reorder and lose packets, so a packet is not compressed against its predecessor (RFC 2507,
//! RFC 5795). Each flow has one [`Context`], the first bytes of a packet that is known to have
//! arrived. A receiver that lacks a context, for instance after a restart, reports it, and the
//! sender picks another (RFC 2507 section 10.2).

use std::time::{Duration, Instant};

use hawser_wire::{
    Malformed,
    context::{Context, Restored, context_id},
    tunnel::Form,
};

use crate::FLOWS;

/// Time after which a context that was not acknowledged is replaced: longer than its packet is
/// retransmitted.
const CONTEXT_ACK_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum age at which an unusable context is replaced. By then no packet in flight refers to the
/// one before, of which the receiver keeps one.
const CONTEXT_MIN_AGE: Duration = Duration::from_secs(10);

/// How a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Format of what follows the tunnel header.
    pub form: Form,
    /// Bytes by which the packet is shorter; it begins that much later in its buffer.
    pub saved: usize,
}

impl Compression {
    /// Not compressed.
    pub const PLAIN: Self = Self { form: Form::Plain, saved: 0 };
}

/// Compresses the packets of one direction of a path group.
pub struct Compressor {
    flows: Box<[Option<Box<FlowContext>>]>,
}

/// The context of one flow at the sender.
struct FlowContext {
    context: Context,
    /// Sequence number of the packet that it was taken from.
    sequence: u32,
    since: Instant,
    /// Whether the receiver has it.
    acked: bool,
    /// Bitmap of bytes that have ever differed; these are always sent, so that packets of equal
    /// length stay of equal length. Otherwise loss of the longer ones looks like a smaller MTU (RFC
    /// 8899 section 4.3).
    changing_bytes: u64,
}

impl Default for Compressor {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

impl Compressor {
    /// Compresses a packet in place, or makes it the context of its flow. Only a `retransmittable`
    /// packet can become a context, since its arrival must be [reported](Self::on_acked).
    pub fn compress(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        retransmittable: bool,
        packet: &mut [u8],
    ) -> Compression {
        let Some(place) = self.flows.get_mut(usize::from(flow)) else { return Compression::PLAIN };
        let [.., name] = sequence.to_be_bytes();
        let is_free = match place {
            None => true,
            Some(sent) => {
                if let Some(saved) = sent.compress(packet) {
                    return Compression { form: Form::Compressed, saved };
                }
                let age = now.saturating_duration_since(sent.since);
                age > if sent.acked { CONTEXT_MIN_AGE } else { CONTEXT_ACK_TIMEOUT }
                    && sent.context.id() != name
            }
        };
        let context = Context::new(name, packet).filter(|_| retransmittable && is_free);
        context.map_or(Compression::PLAIN, |context| {
            *place = Some(Box::new(FlowContext {
                context,
                sequence,
                since: now,
                acked: false,
                changing_bytes: 0,
            }));
            Compression { form: Form::Context, saved: 0 }
        })
    }

    /// A retransmittable packet was acknowledged.
    pub fn on_acked(&mut self, flow: u16, sequence: u32) {
        if let Some(Some(sent)) = self.flows.get_mut(usize::from(flow))
            && sent.sequence == sequence
        {
            sent.acked = true;
        }
    }

    /// The receiver reported that it lacks the flow's context.
    pub fn invalidate(&mut self, flow: u16) {
        if let Some(place) = self.flows.get_mut(usize::from(flow)) {
            *place = None;
        }
    }
}

impl FlowContext {
    fn compress(&mut self, packet: &mut [u8]) -> Option<usize> {
        self.acked.then(|| self.context.compress(packet, &mut self.changing_bytes))?
    }
}

/// Why a packet cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressError {
    /// The context of this flow is unknown.
    Context(u16),
    /// It is not a compressed packet.
    Malformed(Malformed),
}

/// Decompresses the packets of one direction of a path group.
pub struct Decompressor {
    flows: Box<[Option<Box<Known>>]>,
}

/// The last two contexts of a flow, newest first.
type Known = [Option<Context>; 2];

impl Default for Decompressor {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

impl Decompressor {
    /// Stores the context taken from a packet, which may arrive more than once.
    pub fn learn(&mut self, flow: u16, sequence: u32, packet: &[u8]) {
        let [.., name] = sequence.to_be_bytes();
        let (Some(context), Some(place)) =
            (Context::new(name, packet), self.flows.get_mut(usize::from(flow)))
        else {
            return;
        };
        let stored = place.get_or_insert_default();
        if let Some(same) = stored.iter_mut().flatten().find(|stored| stored.id() == name) {
            *same = context;
        } else {
            let [newest, older] = &mut **stored;
            *older = newest.replace(context);
        }
    }

    /// Decompresses a packet.
    ///
    /// # Errors
    /// Its context is unknown, or it is malformed.
    pub fn restore<'a>(
        &self,
        flow: u16,
        compressed: &'a [u8],
    ) -> Result<Restored<'a>, DecompressError> {
        let stored = self.flows.get(usize::from(flow)).and_then(Option::as_ref);
        let name = context_id(compressed);
        let mut contexts = stored.into_iter().flat_map(|stored| stored.iter().flatten());
        let context = contexts.find(|context| Some(context.id()) == name);
        context
            .ok_or(DecompressError::Context(flow))?
            .restore(compressed)
            .map_err(DecompressError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet that differs little from one number to the next.
    fn packet(number: u32) -> Vec<u8> {
        let mut packet = vec![0x45; 200];
        packet[24..28].copy_from_slice(&number.to_be_bytes());
        packet
    }

    fn restored(
        decompressor: &Decompressor,
        flow: u16,
        bytes: &[u8],
    ) -> Result<Vec<u8>, DecompressError> {
        let Restored { head, rest } = decompressor.restore(flow, bytes)?;
        Ok([head.as_slice(), rest].concat())
    }

    proptest! {
        /// Whatever is lost, reordered or duplicated: what is restored is what was sent.
        #[test]
        fn every_packet_that_arrives_is_restored(steps in proptest::collection::vec((0..4_u16, any::<bool>(), 0..5_usize, 0..40_u64), 1..400)) {
            let (mut sender, mut receiver) = (Compressor::default(), Decompressor::default());
            let (mut now, mut under_way) = (Instant::now(), Vec::new());
            let mut numbers = [0; 4];
            for (flow, retransmittable, what, wait) in steps {
                now += Duration::from_millis(wait * wait * 10);
                let sequence = numbers[usize::from(flow)];
                numbers[usize::from(flow)] += 1;
                let mut bytes = packet(sequence);
                let Compression { form, saved } = sender.compress(now, flow, sequence, retransmittable, &mut bytes);
                prop_assert!(form != Form::Context || retransmittable);
                under_way.push((now, (flow, sequence, form, bytes.split_off(saved))));
                under_way.retain(|(sent, _)| now - *sent < CONTEXT_ACK_TIMEOUT);
                let next = under_way.len() * what / 5;
                let (_, (flow, sequence, form, bytes)) = under_way[next].clone();
                match form {
                    Form::Plain => prop_assert_eq!(bytes, packet(sequence)),
                    Form::Context => {
                        receiver.learn(flow, sequence, &bytes);
                        sender.on_acked(flow, sequence);
                        prop_assert_eq!(bytes, packet(sequence));
                    }
                    Form::Compressed => prop_assert_eq!(restored(&receiver, flow, &bytes), Ok(packet(sequence))),
                }
            }
        }
    }

    #[test]
    fn packets_are_compressed_once_the_context_was_acknowledged() {
        let (mut sender, mut receiver) = (Compressor::default(), Decompressor::default());
        let now = Instant::now();
        let form = |sender: &mut Compressor, sequence, retransmittable| {
            let mut bytes = packet(sequence);
            let packed = sender.compress(now, 5, sequence, retransmittable, &mut bytes);
            (packed.form, bytes.split_off(packed.saved))
        };
        assert_eq!(form(&mut sender, 0, false).0, Form::Plain);
        assert_eq!(form(&mut sender, 1, true).0, Form::Context);
        assert_eq!(form(&mut sender, 2, true).0, Form::Plain);
        sender.on_acked(5, 2);
        assert_eq!(form(&mut sender, 3, true).0, Form::Plain);
        sender.on_acked(5, 1);
        let (form_of, bytes) = form(&mut sender, 4, false);
        assert_eq!((form_of, bytes.len()), (Form::Compressed, 200 - 64 + 9 + 1));
        assert_eq!(receiver.restore(5, &bytes), Err(DecompressError::Context(5)));
        receiver.learn(5, 1, &packet(1));
        assert_eq!(restored(&receiver, 5, &bytes), Ok(packet(4)));
        assert!(matches!(receiver.restore(5, &bytes[..5]), Err(DecompressError::Malformed(_))));
        sender.invalidate(5);
        assert_eq!(form(&mut sender, 6, true).0, Form::Context);
    }

    #[test]
    fn an_unusable_context_is_replaced() {
        let mut sender = Compressor::default();
        let start = Instant::now();
        let form = |sender: &mut Compressor, seconds, sequence, byte| {
            let now = start + Duration::from_secs(seconds);
            sender.compress(now, 5, sequence, true, &mut [byte; 100]).form
        };
        assert_eq!(form(&mut sender, 0, 1, 1), Form::Context);
        assert_eq!(form(&mut sender, 1, 2, 1), Form::Plain);
        assert_eq!(form(&mut sender, 2, 3, 1), Form::Context, "what on_acked is not acked");
        sender.on_acked(5, 3);
        assert_eq!(form(&mut sender, 3, 4, 1), Form::Compressed);
        assert_eq!(form(&mut sender, 3, 5, 2), Form::Plain);
        assert_eq!(form(&mut sender, 13, 256 + 3, 2), Form::Plain, "of the same name");
        assert_eq!(form(&mut sender, 13, 256 + 4, 2), Form::Context);
    }

    #[test]
    fn the_previous_context_is_still_known() {
        let mut receiver = Decompressor::default();
        let context = |number: u8| Context::new(number, &packet(number.into())).unwrap();
        let bytes = [1, 2, 3].map(|number| {
            receiver.learn(5, number.into(), &packet(number.into()));
            let mut bytes = packet(9);
            let saved = context(number).compress(&mut bytes, &mut 0).unwrap();
            bytes.split_off(saved)
        });
        receiver.learn(5, 2, &packet(2));
        let acked = bytes.map(|bytes| restored(&receiver, 5, &bytes).is_ok());
        assert_eq!(acked, [false, true, true]);
    }
}
