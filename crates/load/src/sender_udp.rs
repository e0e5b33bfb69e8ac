//! A sender with UDP sockets, one per flow, with all due datagrams of a flow per system call (UDP GSO).

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Mutex, PoisonError},
};

use hawser_bpf::layout::{Control, Flow, RUN_SHIFT, Shape};
use hawser_daemon::config::FieldError;
use quinn_udp::{Transmit, UdpSocketState};

use crate::{
    clock, compose, open,
    pacer::Pacer,
    plan::{FlowKey, Plan},
    sender::{FlowTally, SendTally, Sender, Stop, wait},
};

/// Flows at most: each needs a socket, and the usual limit of descriptors is 1024.
const FLOWS_MAX: usize = 900;
/// Frames that are collected before sending, so that flows in turn still fill GSO batches.
const BATCH: usize = 512;
/// Datagrams of one GSO batch (the kernel's `UDP_MAX_SEGMENTS`), and their bytes.
const SEGMENTS_MAX: usize = 64;
const SEND_MAX: usize = 60_000;

/// UDP sockets, each bound to the source of its flow.
pub(super) struct UdpSender {
    sockets: Vec<(UdpSocket, UdpSocketState, SocketAddr)>,
    state: Mutex<State>,
}

struct State {
    pacers: Vec<Pacer>,
    controls: Vec<Control>,
    flows: Vec<Flow>,
    shapes: Vec<Shape>,
    pattern: Vec<u32>,
    /// Datagrams of each flow that wait to be sent.
    waiting: Vec<Run>,
}

/// A GSO batch: datagrams of one flow and one size.
#[derive(Clone, Default)]
struct Run {
    size: usize,
    bytes: Vec<u8>,
}

impl UdpSender {
    /// A sender for a plan, whose source addresses must be local.
    pub(super) fn open(plan: &Plan) -> Result<Self, open::Error> {
        let keys: Vec<&FlowKey> = plan.streams.iter().flat_map(|stream| &stream.flows).collect();
        if keys.len() > FLOWS_MAX {
            let expected = format!("at most {FLOWS_MAX} flows with the backend udp");
            return Err(FieldError::new("send.traffic.streams", keys.len(), expected).into());
        }
        let tables = plan.tables.clone();
        let pairs = plan.streams.iter().zip(&tables.streams);
        Ok(Self {
            sockets: keys.iter().map(|key| socket(key)).collect::<Result<_, _>>()?,
            state: Mutex::new(State {
                pacers: pairs
                    .map(|(stream, control)| Pacer::new(stream.schedule, *control))
                    .collect(),
                waiting: vec![Run::default(); keys.len()],
                controls: tables.streams,
                flows: tables.flows,
                shapes: tables.shapes,
                pattern: tables.pattern,
            }),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_due(&self) -> io::Result<()> {
        let mut state = self.state();
        let now = clock::now_ns();
        for _ in 0..BATCH {
            let Some((index, size)) = state.next(now) else { break };
            let full = state.waiting.get(index).is_some_and(|run| run.is_full(size));
            if full {
                self.flush(index, &mut state)?;
            }
            state.append(index, size, now);
        }
        (0..self.sockets.len()).try_for_each(|index| self.flush(index, &mut state))
    }

    fn flush(&self, index: usize, state: &mut State) -> io::Result<()> {
        let (Some((socket, udp, target)), Some(run)) =
            (self.sockets.get(index), state.waiting.get_mut(index))
        else {
            return Ok(());
        };
        for part in run.bytes.chunks(run.size.max(1) * udp.max_gso_segments().max(1)) {
            let transmit = Transmit {
                destination: *target,
                ecn: None,
                contents: part,
                segment_size: Some(run.size),
                src_ip: None,
            };
            while let Err(error) = udp.try_send(socket.into(), &transmit) {
                match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                        std::thread::yield_now();
                    }
                    // No receiver yet: the datagram counts as lost.
                    io::ErrorKind::ConnectionRefused => break,
                    _ => return Err(error),
                }
            }
        }
        run.bytes.clear();
        Ok(())
    }
}

fn socket(key: &FlowKey) -> Result<(UdpSocket, UdpSocketState, SocketAddr), open::Error> {
    let source = SocketAddr::new(key.source, key.source_port);
    let socket = UdpSocket::bind(source).map_err(|error| {
        let expected = format!("addresses and ports that can be bound ({error})");
        FieldError::new("send.traffic.streams", source.to_string(), expected)
    })?;
    let state = UdpSocketState::new((&socket).into())?;
    let _ = state.set_send_buffer_size((&socket).into(), 4 << 20);
    Ok((socket, state, SocketAddr::new(key.target, key.target_port)))
}

impl Run {
    /// Whether a datagram of this size does not fit into the batch.
    fn is_full(&self, size: usize) -> bool {
        let other = self.size != size && !self.bytes.is_empty();
        other || self.bytes.len() + size > SEND_MAX.min(SEGMENTS_MAX * size)
    }
}

impl State {
    /// Flow and payload length of the next due frame of any stream.
    fn next(&mut self, now: u64) -> Option<(usize, usize)> {
        for (pacer, control) in self.pacers.iter_mut().zip(&self.controls) {
            if let Some(due) = pacer.next(now) {
                pacer.sent(now);
                let shape = *self.pattern.get((control.first_pattern + due.pattern) as usize)?;
                let shape = self.shapes.get(shape as usize)?;
                let size = shape.length as usize - usize::from(shape.header_length);
                let index = (control.first_flow + due.flow) as usize;
                let flow = self.flows.get_mut(index)?;
                flow.bytes += u64::from(shape.length);
                return Some((index, size));
            }
        }
        None
    }

    /// Adds a datagram to its flow's batch.
    fn append(&mut self, index: usize, size: usize, now: u64) {
        if let (Some(run), Some(flow)) = (self.waiting.get_mut(index), self.flows.get_mut(index)) {
            let number = u32::try_from(index).unwrap_or_default();
            let end = run.bytes.len() + size;
            run.size = size;
            run.bytes.extend(compose::payload(flow, number, now));
            run.bytes.resize(end, 0);
            flow.sequence += 1;
        }
    }
}

impl Sender for UdpSender {
    fn run(&self, stop: &Stop) -> anyhow::Result<()> {
        clock::minimise_timer_slack();
        while !stop.is_set() {
            let next = self.state().pacers.iter().filter_map(Pacer::next_ns).min();
            let Some(next) = next else { break };
            wait(next);
            self.send_due()?;
        }
        Ok(())
    }

    fn tally(&self) -> anyhow::Result<SendTally> {
        let state = self.state();
        let tally = |flow: &Flow| FlowTally {
            frames: flow.sequence & ((1 << RUN_SHIFT) - 1),
            bytes: flow.bytes,
        };
        Ok(SendTally {
            streams: state.pacers.iter().map(|pacer| pacer.progress).collect(),
            flows: state.flows.iter().map(tally).collect(),
            refused: 0,
        })
    }
}
