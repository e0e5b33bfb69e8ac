//! Any packets at any times make records that are finite and count each packet once, in a bounded table.
//!
//! The input is a sequence of steps: two bytes of time (milliseconds, signed), one of length, and the packet.

#![no_main]

use hawser_flowmeter::{FlowTable, Packet, Record, Settings, features::NAMES};
use libfuzzer_sys::fuzz_target;

const CAPACITY: u32 = 5;

fuzz_target!(|input: &[u8]| {
    let mut table = FlowTable::new(Settings { capacity: CAPACITY, ..Settings::default() });
    let (mut flows, mut packets) = (0_u64, 0.0);
    let mut count = |record: Record| {
        assert_eq!(record.features.len(), NAMES.len());
        assert!(record.features.iter().all(|value| value.is_finite() && *value >= 0.0));
        assert!(record.first <= record.last);
        if record.reason.is_last() {
            flows += 1;
            packets += record.features[0] + record.features[2];
        }
    };
    let (mut now, mut rest) = (1_u64 << 40, input);
    while let Some((&[a, b, length], after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        now = now.saturating_add_signed(i64::from(i16::from_be_bytes([a, b])) * 1000);
        if let Ok(packet) = Packet::parse(bytes) {
            table.observe(now, &packet, &mut count);
            assert!(table.len() <= CAPACITY as usize);
        }
    }
    table.finish(&mut count);
    assert_eq!(flows, table.counters().flows);
    assert!((packets - table.counters().packets as f64).abs() < 0.5);
});
