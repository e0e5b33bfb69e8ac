//! Any text is a trace or an error, and a channel with that trace delivers every packet eventually.

#![no_main]

use std::sync::Arc;

use hawser_impair::{Bottleneck, Channel, Instant, Profile, Service, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(trace) = Trace::parse(text) else { return };
    let bottleneck = Bottleneck { service: Service::Trace(Arc::new(trace)), queue: 100_000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..Profile::default() };
    let mut channel = Channel::new(Instant::from_nanos(0), profile, 0);
    let mut left = 0;
    for (packet, size) in [1, 1504, 1505, 9000, 65_535].into_iter().enumerate() {
        left +=
            usize::from(channel.enqueue(Instant::from_nanos(packet as u64), size, packet).is_ok());
    }
    while let Some(due) = channel.poll_timeout() {
        while channel.pop_due(due).is_some() {
            left -= 1;
        }
    }
    assert_eq!(left, 0, "a packet was never delivered");
});
