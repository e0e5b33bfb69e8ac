//! MSS clamping of any packet changes only the MSS of a SYN and its checksum; and no packet supersedes itself.
//!
//! The first two bytes of the input are the MTU.

#![no_main]

use hawser_wire::tcp::{clamp_mss, supersedes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mtu, packet)) = input.split_first_chunk::<2>() else { return };
    let mtu = u16::from_be_bytes(*mtu);
    let mut bytes = packet.to_vec();
    let clamped = clamp_mss(&mut bytes, mtu);
    let changed: Vec<usize> = (0..packet.len()).filter(|at| bytes[*at] != packet[*at]).collect();
    assert!(clamped || changed.is_empty());
    assert!(changed.len() <= 4);
    assert!(!clamp_mss(&mut bytes, mtu), "once is enough");
    assert!(!supersedes(&bytes, packet), "the numbers are the same");
});
