//! Whatever parses as VXLAN-GPE has the same values after it is emitted.

#![no_main]

use hawser_wire::vxlan_gpe::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::parse(bytes) else { return };
    let again = header.repr().emit().expect("parsed values fit their fields");
    let again = Header::parse(&again).expect("an emitted header parses");
    assert_eq!(again.repr(), header.repr());
});
