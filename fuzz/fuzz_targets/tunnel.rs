//! Whatever comes through the tunnel is a header and a packet, or an error: nothing panics, what is read
//! is written the same, compressed packets are restored or refused, and the resequencer stays within its bounds.

#![no_main]

use std::time::{Duration, Instant};

use hawser_multipath::{Decompressor, Resequencer, Tag};
use hawser_wire::{
    rendezvous::{Message, Relayed},
    train,
    tunnel::{Form, HEADER_LEN, Header, Hello},
};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 64;

fuzz_target!(|input: &[u8]| {
    if let Ok(hello) = Hello::parse(input) {
        assert_eq!(hello.emit(), input);
    }
    if let Some(Ok(message)) = Message::parse(input) {
        assert_eq!(message.emit(), input);
    }
    if let Some(Ok(relayed)) = Relayed::parse(input) {
        assert_eq!(relayed.emit(), input);
    }
    if let Some(Ok(message)) = train::Message::parse(input) {
        let is_frame = matches!(message, train::Message::Frame { .. });
        assert!(is_frame && input.starts_with(&message.emit()) || message.emit() == input);
    }
    let mut now = Instant::now();
    let (mut came, mut passed) = (0, 0);
    let mut resequencer = Resequencer::new(LIMIT);
    let mut decompressor = Decompressor::default();
    for (number, datagram) in input.chunks(HEADER_LEN).enumerate() {
        let Ok((header, _)) = Header::parse(datagram) else { continue };
        assert_eq!(header.emit(), datagram[..HEADER_LEN]);
        let Header { flow, form, sequence, behind, paths, retransmittable, .. } = header;
        let behind_it = &input[number * HEADER_LEN + HEADER_LEN..];
        match form {
            Form::Plain => {}
            Form::Context => decompressor.learn(flow, sequence, behind_it),
            Form::Compressed => {
                let _ = decompressor.restore(flow, behind_it);
            }
        }
        came += 1;
        let tag = Tag { flow, sequence, behind, paths, retransmittable };
        resequencer.push(now, number % 17, tag, ((), number % 3 > 0), &mut |()| passed += 1);
        assert!(resequencer.buffered() <= LIMIT + 1);
        now += Duration::from_millis(3);
        resequencer.expire(now, &mut |()| passed += 1);
    }
    resequencer.expire(now + Duration::from_secs(1), &mut |()| passed += 1);
    let duplicates = usize::try_from(resequencer.counters().duplicates).unwrap();
    assert_eq!((resequencer.buffered(), passed + duplicates), (0, came));
});
