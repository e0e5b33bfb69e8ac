//! Whole tunnels of two gateways, QUIC connections included: whatever comes in whatever order (packets, datagrams of
//! anybody, timeouts, configurations, streams, paths that are cut or become narrow, gateways that begin anew), nothing
//! panics or waits for ever, no packet comes twice, and what waits stays within its bounds.

#![no_main]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hawser_sim::gateways::{Gateways, OPTIONS, StreamEnd, Wire, number_of, segment};
use hawser_tunnel::Train;
use libfuzzer_sys::fuzz_target;

/// Steps, and packets of one of them, at most.
const STEPS: usize = 96;
const BURST: u32 = 32;

/// Bytes that a group's queue holds at most.
const QUEUE: u64 = 1_000_000;

fuzz_target!(|input: &[u8]| {
    let Some((&[options, seed], steps)) = input.split_first_chunk() else { return };
    let mut wire = Wire::new(20.0, 5.0).loss(f64::from(options & 3));
    wire.late = (f64::from(options >> 2 & 3), 8.0);
    wire.duplicate_percent = f64::from(options >> 4 & 1);
    let options = hawser_tunnel::config::Options {
        resequence: options & 0x20 == 0,
        header_compression: options & 0x40 == 0,
        proxy: options & 0x80 == 0,
        ..OPTIONS
    };
    let epoch = Instant::now();
    let mut world = World {
        gateways: Gateways::new(epoch, &[wire; 2], seed.into(), options).unwrap(),
        ends: Vec::new(),
        number: 0,
    };
    for step in steps.chunks(3).take(STEPS) {
        if let &[what, a, b] = step {
            world.step(what, a, b);
        }
    }
    world.check_received();
});

/// Some train.
fn train(length: u8) -> Train {
    let frames = u16::from(length) * 4 + 1;
    Train::new(128 + frames, (frames, 20_000_000), (frames / 2, 40_000_000)).unwrap()
}

struct World {
    gateways: Gateways,
    /// Ends of streams that clients have made, with their gateway.
    ends: Vec<(usize, StreamEnd)>,
    number: u32,
}

impl World {
    /// No packet has come twice, as long as the gateway that got them knows of them: one that begins anew may get
    /// again what was retransmitted.
    fn check_received(&mut self) {
        let (mut numbers, mut pieces) = (BTreeSet::new(), BTreeSet::new());
        for packet in self.gateways.take_received(1) {
            if let Some(number) = number_of(&packet) {
                assert!(numbers.insert(number), "{number:?} came twice");
            } else {
                assert!(!pieces.contains(&packet), "a piece came twice: {packet:02x?}");
                pieces.insert(packet);
            }
        }
    }

    fn step(&mut self, what: u8, a: u8, b: u8) {
        let (side, path) = (usize::from(a & 1), usize::from(a >> 1 & 1));
        if matches!(what % 12, 6 | 7) {
            self.check_received();
        }
        let gateways = &mut self.gateways;
        match what % 12 {
            0 if a >= 0xf0 => drop(gateways.start_train(side, path, train(b))),
            0 => gateways.run(Duration::from_millis(u64::from(b) * 4)),
            1 => gateways.run(Duration::from_micros(u64::from(b))),
            2 => {
                for _ in 0..u32::from(b) % BURST {
                    self.number += 1;
                    let len = 40 + usize::from(a) * 6;
                    gateways.send(0, &segment(0, (a & 7).into(), self.number, len));
                }
            }
            3 => gateways.send(side, &[a, b, 0x45, what].repeat(b.into())),
            4 if b & 6 == 6 => {
                let own = if side == 0 { 1 } else { 2 };
                gateways.set_address(side, path, (b & 1 == 0).then_some(own));
            }
            4 => gateways.cut(path, b & 1 == 0),
            5 => gateways.set_mtu(path, 1200 + usize::from(b) * 2),
            6 if b & 7 == 0 => gateways.restart(side),
            7 => gateways.configure(side, [&[0][..], &[1], &[0, 1]][usize::from(b % 3)]),
            8 => {
                let end = gateways.connect(side, 1024 + u16::from(b));
                end.send(&[b; 3000]);
                self.ends.push((side, end));
            }
            9 => self.touch(usize::from(a), b),
            10 => gateways.inject(side, path, &[a, b, what, 0xc0].repeat(b.into())),
            _ => gateways.call_out_of_turn(side, b),
        }
        assert!([0, 1].map(|side| self.gateways.queued(side)).iter().all(|bytes| *bytes <= QUEUE));
    }

    /// Something happens to a stream.
    fn touch(&mut self, which: usize, how: u8) {
        let reached = [0, 1].map(|side| {
            let ends = self.gateways.opened_streams(side).iter();
            ends.map(|end| (side, end.clone())).collect::<Vec<_>>()
        });
        let all: Vec<_> = reached.concat().into_iter().chain(self.ends.iter().cloned()).collect();
        let Some((side, end)) = all.get(which % all.len().max(1)) else { return };
        match how % 4 {
            0 => end.send(&[how; 70_000]),
            1 => end.send(&[how]),
            2 => end.end(),
            _ => end.reset(),
        }
        self.gateways.wake(*side, end);
    }
}
