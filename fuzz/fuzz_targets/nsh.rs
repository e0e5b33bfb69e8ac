//! Whatever parses as a network service header has the same values and payload after it is emitted.

#![no_main]

use hawser_wire::nsh::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::parse(bytes) else { return };
    let again = header.repr().emit().expect("parsed values fit their fields");
    assert_eq!(again.len() + header.payload().len(), bytes.len());
    let again = Header::parse(&again).expect("an emitted header parses");
    assert_eq!(again.repr(), header.repr());
});
