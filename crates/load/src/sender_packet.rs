//! A sender with a packet socket.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use hawser_bpf::layout::{Control, Flow, Frame, RUN_SHIFT, Shape};
use hawser_netdev::packet::plain::{BATCH, PacketSocket};

use crate::{
    clock,
    compose::compose,
    pacer::{Due, Pacer},
    plan::Plan,
    schedule::Schedule,
    sender::{FlowTally, SendTally, Sender, Stop, wait},
};

/// A packet socket on its port.
pub(super) struct PacketSender {
    socket: PacketSocket,
    state: Mutex<State>,
}

struct State {
    pacers: Vec<Pacer>,
    controls: Vec<Control>,
    source: Source,
}

enum Source {
    Made { flows: Vec<Flow>, shapes: Vec<Shape>, pattern: Vec<u32> },
    Recorded(Vec<Frame>),
}

impl PacketSender {
    /// A sender for a plan.
    pub(super) fn open(interface: u32, plan: &Plan) -> io::Result<Self> {
        let tables = plan.tables.clone();
        let pairs = plan.streams.iter().zip(&tables.streams);
        let state = State {
            pacers: pairs.map(|(stream, control)| Pacer::new(stream.schedule, *control)).collect(),
            controls: tables.streams,
            source: Source::Made {
                flows: tables.flows,
                shapes: tables.shapes,
                pattern: tables.pattern,
            },
        };
        Ok(Self { socket: PacketSocket::sender(interface)?, state: Mutex::new(state) })
    }

    /// A sender for a recording.
    pub(super) fn replay(
        interface: u32,
        schedule: Schedule,
        control: Control,
        frames: Vec<Frame>,
    ) -> io::Result<Self> {
        let state = State {
            pacers: vec![Pacer::new(schedule, control)],
            controls: vec![control],
            source: Source::Recorded(frames),
        };
        Ok(Self { socket: PacketSocket::sender(interface)?, state: Mutex::new(state) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender for PacketSender {
    fn run(&self, stop: &Stop) -> anyhow::Result<()> {
        clock::minimise_timer_slack();
        let mut frames = vec![Vec::new(); BATCH];
        while !stop.is_set() {
            let next = self.state().pacers.iter().filter_map(Pacer::next_ns).min();
            let Some(next) = next else { break };
            wait(next);
            self.state().send_due(&self.socket, &mut frames)?;
        }
        Ok(())
    }

    fn tally(&self) -> anyhow::Result<SendTally> {
        let state = self.state();
        let flows: &[Flow] =
            if let Source::Made { flows, .. } = &state.source { flows } else { &[] };
        let tally = |flow: &Flow| FlowTally {
            frames: flow.sequence & ((1 << RUN_SHIFT) - 1),
            bytes: flow.bytes,
        };
        Ok(SendTally {
            streams: state.pacers.iter().map(|pacer| pacer.progress).collect(),
            flows: flows.iter().map(tally).collect(),
            refused: 0,
        })
    }
}

impl State {
    /// Sends the frames that are due, up to one batch.
    fn send_due(&mut self, socket: &PacketSocket, frames: &mut [Vec<u8>]) -> io::Result<()> {
        let now = clock::now_ns();
        let mut count = 0;
        for index in 0..self.pacers.len() {
            while let Some(frame) = frames.get_mut(count) {
                let Some(pacer) = self.pacers.get_mut(index) else { break };
                let Some(due) = pacer.next(now) else { break };
                if self.write(frame, index, due, now).is_some() {
                    count += 1;
                }
            }
        }
        let batch: Vec<&[u8]> = frames.iter().take(count).map(Vec::as_slice).collect();
        send_all(socket, &batch)
    }

    fn write(&mut self, frame: &mut Vec<u8>, stream: usize, due: Due, now: u64) -> Option<()> {
        let control = self.controls.get(stream)?;
        match &mut self.source {
            Source::Made { flows, shapes, pattern } => {
                let shape = *pattern.get((control.first_pattern + due.pattern) as usize)?;
                let shape = shapes.get(shape as usize)?;
                let index = control.first_flow + due.flow;
                let flow = flows.get_mut(index as usize)?;
                compose(frame, shape, flow, index, now).then_some(())?;
                flow.sequence += 1;
                flow.bytes += u64::from(shape.length);
            }
            Source::Recorded(frames) => {
                let recorded = frames.get(due.pattern as usize)?;
                frame.clear();
                frame.extend_from_slice(recorded.data.get(..recorded.length as usize)?);
            }
        }
        self.pacers.get_mut(stream)?.sent(now);
        Some(())
    }
}

/// Sends all frames of a batch, and waits while the device's queue is full.
fn send_all(socket: &PacketSocket, mut frames: &[&[u8]]) -> io::Result<()> {
    while !frames.is_empty() {
        match socket.send(frames) {
            Ok(sent) => frames = frames.get(sent..).unwrap_or_default(),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                std::thread::yield_now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
