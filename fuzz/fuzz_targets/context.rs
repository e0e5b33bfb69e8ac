//! Any compressed packet is restored or refused, and a packet is the same after compression and restoration.

#![no_main]

use hawser_wire::context::{CONTEXT_LEN, Context, Restored};
use libfuzzer_sys::fuzz_target;

fn restored(context: &Context, compressed: &[u8]) -> Option<Vec<u8>> {
    let Restored { head, rest } = context.restore(compressed).ok()?;
    Some([head.as_slice(), rest].concat())
}

fuzz_target!(|input: (u8, [u8; CONTEXT_LEN], bool, u64, &[u8])| {
    let (id, first, compressed, mut varying, bytes) = input;
    let context = Context::new(id, &first).unwrap();
    if compressed {
        let packet = restored(&context, bytes);
        assert!(packet.is_none_or(|packet| packet.len() >= CONTEXT_LEN));
        return;
    }
    let mut packet = bytes.to_vec();
    match context.compress(&mut packet, &mut varying) {
        Some(start) => assert_eq!(restored(&context, &packet[start..]).as_deref(), Some(bytes)),
        None => assert_eq!(packet, bytes),
    }
});
