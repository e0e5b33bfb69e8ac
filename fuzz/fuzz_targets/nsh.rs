//! Whatever parses as a network service header keeps its values and its payload when it is written again.

#![no_main]

use hawser_wire::nsh::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::parse(bytes) else { return };
    let again = header.repr().emit().expect("what was read has room");
    assert_eq!(again.len() + header.payload().len(), bytes.len());
    let again = Header::parse(&again).expect("what was written can be read");
    assert_eq!(again.repr(), header.repr());
});
