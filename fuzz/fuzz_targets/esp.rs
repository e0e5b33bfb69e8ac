//! Whatever parses as ESP, encrypted or decrypted, is emitted unchanged.

#![no_main]

use hawser_wire::esp::{Plaintext, UdpEncapsulated};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(UdpEncapsulated::Esp(packet)) = UdpEncapsulated::parse(bytes) {
        let header = packet.repr().emit().expect("an index that was read is not 0");
        assert_eq!([&header[..], packet.body()].concat(), bytes);
    }
    if let Ok(plain) = Plaintext::parse(bytes) {
        let again = plain.emit(4).expect("padding to 4 bytes is short");
        assert_eq!(Plaintext::parse(&again).expect("what was written can be read"), plain);
    }
});
