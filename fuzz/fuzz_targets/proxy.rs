//! Whatever a peer says of TCP connections is a message or an error: nothing panics, what is read is
//! written the same, and a connection's bytes are put together within its window.

#![no_main]

use hawser_multipath::Inbound;
use hawser_wire::proxy::{Kind, Message};
use libfuzzer_sys::fuzz_target;

const WINDOW: u64 = 4096;

fuzz_target!(|input: &[u8]| {
    let mut inbound = Inbound::new(WINDOW);
    let mut read = 0;
    for bytes in input.split(|byte| *byte == 0xfe) {
        let Ok((message, payload)) = Message::parse(bytes) else { continue };
        assert_eq!([message.emit().as_slice(), payload].concat(), bytes);
        let Kind::Data { offset, end } = message.kind else { continue };
        if inbound.insert(offset, payload, end).is_err() {
            return;
        }
        assert!(inbound.held() <= WINDOW);
        let ready = inbound.ready().map_or(0, <[u8]>::len).min(usize::from(bytes[4]));
        inbound.consume(ready);
        read += ready as u64;
        assert!(read <= inbound.limit());
    }
});
