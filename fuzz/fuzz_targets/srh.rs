//! Whatever parses as a segment routing header has the same values after it is emitted.

#![no_main]

use std::net::Ipv6Addr;

use hawser_wire::srh::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::parse(bytes) else { return };
    let _ =
        (header.next_segment(), header.tlvs().count(), header.signed_text(Ipv6Addr::LOCALHOST, 1));
    let again = header.repr().emit().expect("parsed values fit their fields");
    let again = Header::parse(&again).expect("an emitted header parses");
    assert_eq!(again.repr(), header.repr());
});
