//! Only a packet that was sealed can be opened, and only once.

#![no_main]

use hawser_esp::{Cause, Inbound, Inbounds, Keys, Outbound, sealed_len};
use libfuzzer_sys::fuzz_target;

const SPI: u32 = 0x0101_0101;

fuzz_target!(|bytes: &[u8]| {
    let keys = Keys::new(&[7; 36]).expect("a key of 256 bits");
    let mut inbounds = Inbounds::default();
    inbounds.add(Inbound::new(SPI, &keys).expect("a usable key"), ());
    assert!(inbounds.open(&mut bytes.to_vec()).is_err());
    let mut addressed = [&SPI.to_be_bytes()[..], bytes].concat();
    assert!(inbounds.open(&mut addressed).is_err());

    let mut outbound = Outbound::new(SPI, &keys).expect("a usable key");
    let mut sealed = vec![0; sealed_len(bytes.len())];
    outbound.seal(4, bytes.len(), &mut sealed, |to| to.copy_from_slice(bytes)).expect("it fits");
    let mut changed = sealed.clone();
    let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % changed.len();
    changed[at] ^= 1 << (bytes.len() % 8);
    assert!(inbounds.open(&mut changed).is_err());
    let mut copy = sealed.clone();
    assert_eq!(inbounds.open(&mut copy).expect("it is authentic").0.plain.data, bytes);
    assert_eq!(inbounds.open(&mut sealed), Err(Cause::Replayed));
});
