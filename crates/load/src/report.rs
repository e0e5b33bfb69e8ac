//! Computes the result of a trial from its counters.

use std::net::SocketAddr;

use hawser_bpf::layout::Progress;
use hawser_meter::flow::Count;

use crate::{
    config::{Backend, Config, Traffic},
    open,
    plan::{FlowKey, Planned},
    receiver::ReceiveTally,
    result::{
        Distribution, LoadResult, Received, ReceivedFlow, ReceivedStream, Sent, SentFlow,
        SentStream,
    },
    sender::{FlowTally, SendTally},
};

/// The result of a trial.
pub(super) fn result(
    config: &Config,
    send_tally: Option<(&Vec<Planned>, SendTally)>,
    receive_tally: Option<ReceiveTally>,
    reflected: Option<u64>,
) -> LoadResult {
    let sent = send_tally.map(|(planned, tally)| sent(config, planned, &tally));
    let mut received = receive_tally.map(|tally| received(config, &tally));
    if let (Some(sent), Some(received)) = (&sent, &mut received) {
        for (sent, flow) in sent.flows.iter().zip(&mut received.flows) {
            flow.lost = Some(difference(sent.frames, flow.unique()));
        }
    }
    let accounted = config.send.as_ref().is_some_and(|s| matches!(s.traffic, Traffic::Streams(_)));
    let pair = sent.as_ref().zip(received.as_ref()).filter(|_| accounted);
    LoadResult {
        version: 1,
        run: config.run,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        lost: pair.map(|(sent, received)| difference(sent.frames, received.unique)),
        sent,
        received,
        reflected,
    }
}

/// `sent - received`.
fn difference(sent: u64, received: u64) -> i64 {
    sent.cast_signed().wrapping_sub(received.cast_signed())
}

fn sent(config: &Config, planned: &[Planned], tally: &SendTally) -> Sent {
    let send = config.send.as_ref();
    let backend = send.map_or(Backend::Xdp, |send| send.backend);
    let mut flows = tally.flows.iter();
    let mut streams = Vec::new();
    let mut by_flow = Vec::new();
    for (stream, progress) in planned.iter().zip(&tally.streams) {
        let own: Vec<_> = flows.by_ref().take(stream.flows.len()).copied().collect();
        streams.push(sent_stream(stream, progress, &own));
        let counts = (0..).zip(&stream.flows).zip(&own);
        by_flow.extend(counts.map(|((index, key), tally)| {
            let mut flow = sent_flow(key, tally);
            let share = share(stream.schedule.frames, stream.flows.len() as u64, index);
            flow.unsent = share.saturating_sub(tally.frames);
            flow
        }));
    }
    let scheduled = streams.iter().map(|stream| stream.scheduled).sum();
    let frames =
        streams.iter().map(|stream| stream.frames).sum::<u64>().saturating_sub(tally.refused);
    Sent {
        backend,
        cpu: send.and_then(|send| send.cpu),
        scheduled,
        frames,
        unsent: scheduled - frames,
        refused: tally.refused,
        cpu_s: 0.0,
        streams,
        flows: by_flow,
    }
}

/// Frames of a schedule that belong to one flow, as flows are used in turn.
fn share(frames: u64, flows: u64, index: u64) -> u64 {
    frames / flows + u64::from(index < frames % flows)
}

fn sent_stream(stream: &Planned, progress: &Progress, flows: &[FlowTally]) -> SentStream {
    let schedule = &stream.schedule;
    let seconds = (progress.last_ns - progress.first_ns) as f64 / 1e9;
    let spaced = progress.sent > 1 && seconds > 0.0;
    SentStream {
        name: stream.name.clone(),
        scheduled: schedule.frames,
        frames: progress.sent,
        unsent: schedule.frames - progress.sent,
        bytes: flows.iter().map(|flow| flow.bytes).sum(),
        intended_frames_per_s: schedule.start.zip(schedule.end).map(|(a, b)| f64::midpoint(a, b)),
        frames_per_s: spaced.then(|| (progress.sent - 1) as f64 / seconds),
        seconds,
    }
}

fn sent_flow(key: &FlowKey, tally: &FlowTally) -> SentFlow {
    SentFlow {
        source: SocketAddr::new(key.source, key.source_port),
        target: SocketAddr::new(key.target, key.target_port),
        frames: tally.frames,
        unsent: 0,
        bytes: tally.bytes,
    }
}

fn received(config: &Config, tally: &ReceiveTally) -> Received {
    let sum = |of: fn(&Count) -> u64| tally.flows.iter().map(of).sum::<u64>();
    let backend = config.receive.as_ref().map_or(Backend::Xdp, |receive| receive.backend);
    let names = open::received_streams(config).into_iter().map(|stream| stream.name);
    let streams = names.zip(&tally.histograms).map(|(name, (delays, variations))| ReceivedStream {
        name,
        delay: Distribution::from(delays),
        variation: Distribution::from(variations),
    });
    Received {
        backend,
        frames: sum(|count| count.received),
        bytes: sum(|count| count.bytes),
        unique: sum(Count::unique),
        duplicated: sum(|count| count.duplicated),
        reordered: sum(|count| count.reordered),
        late: sum(|count| count.late),
        foreign: tally.foreign,
        other: tally.other,
        other_bytes: tally.other_bytes,
        seconds: tally.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9),
        captured: tally.captured,
        uncaptured: tally.uncaptured,
        streams: streams.collect(),
        flows: tally.flows.iter().map(ReceivedFlow::new).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (frames, flows) in [(0, 3), (7, 3), (1, 100), (1000, 7)] {
            assert_eq!((0..flows).map(|index| share(frames, flows, index)).sum::<u64>(), frames);
        }
    }
}
