//! Any bytes are messages of the TCP proxy or errors: nothing panics, parsed messages are emitted unchanged,
//! and a connection's bytes are reassembled within its window.

#![no_main]

use hawser_multipath::RecvStream;
use hawser_wire::proxy::{Kind, Message};
use libfuzzer_sys::fuzz_target;

const WINDOW: u64 = 4096;

fuzz_target!(|input: &[u8]| {
    let mut stream = RecvStream::new(WINDOW);
    let mut read = 0;
    for bytes in input.split(|byte| *byte == 0xfe) {
        let Ok((message, payload)) = Message::parse(bytes) else { continue };
        assert_eq!([message.emit().as_slice(), payload].concat(), bytes);
        let Kind::Data { offset, end } = message.kind else { continue };
        if stream.insert(offset, payload, end).is_err() {
            return;
        }
        assert!(stream.buffered() <= WINDOW);
        let ready = stream.ready().map_or(0, <[u8]>::len).min(usize::from(bytes[4]));
        stream.consume(ready);
        read += ready as u64;
        assert!(read <= stream.max_offset());
    }
});
