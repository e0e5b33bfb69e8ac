//! A receiver with an XDP program.

use std::{
    fs::File,
    io::BufWriter,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hawser_bpf::{
    layout,
    meter::{Captures, Meter},
};
use hawser_meter::{flow::Count, histogram::Histogram};

use crate::{
    capture::CaptureFile,
    receiver::{ReceiveTally, Receiver},
    sender::Stop,
};

/// A meter on its port.
pub(super) struct XdpReceiver {
    meter: Meter,
    streams: u32,
    _writer: Option<Writer>,
}

impl XdpReceiver {
    /// A receiver with an attached meter. Captured frames are written to `file`.
    pub(super) fn new(
        mut meter: Meter,
        streams: u32,
        file: Option<CaptureFile<BufWriter<File>>>,
    ) -> Self {
        let captures = meter.take_captures();
        let writer = file.zip(captures).map(|(file, captures)| Writer::start(captures, file));
        Self { meter, streams, _writer: writer }
    }
}

impl Receiver for XdpReceiver {
    fn tally(&self) -> anyhow::Result<ReceiveTally> {
        let counts = self.meter.counts()?;
        let port = self.meter.port()?;
        let histograms = (0..self.streams).map(|stream| {
            let delays = Histogram::from_counts(self.meter.delays(stream)?);
            Ok((delays, Histogram::from_counts(self.meter.variations(stream)?)))
        });
        let active = || counts.iter().filter(|count| count.first_ns > 0);
        let first = active().map(|count| count.first_ns).min();
        Ok(ReceiveTally {
            span_ns: first.zip(active().map(|count| count.last_ns).max()),
            histograms: histograms.collect::<Result<_, hawser_bpf::Error>>()?,
            flows: counts.iter().map(count).collect(),
            foreign: port.foreign,
            other: port.other,
            other_bytes: port.other_bytes,
            captured: port.captured,
            uncaptured: port.uncaptured,
        })
    }
}

fn count(count: &layout::Count) -> Count {
    let has_delay = count.delay_min_inverted > 0;
    Count {
        received: count.received,
        bytes: count.bytes,
        duplicated: count.duplicated,
        reordered: count.reordered,
        late: count.late,
        delay_sum: count.delay_sum,
        delay_range: has_delay.then_some((!count.delay_min_inverted, count.delay_max)),
    }
}

/// A thread that moves captured frames from the ring to the file.
struct Writer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(mut captures: Captures, mut file: CaptureFile<BufWriter<File>>) -> Self {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            loop {
                let last = stopped.is_set();
                while let Some(written) =
                    captures.next(|frame| file.write(frame.time_ns, frame.length, frame.data))
                {
                    if let Err(error) = written {
                        tracing::error!(%error, "the capture has ended");
                        return;
                    }
                }
                if last {
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
            if let Err(error) = file.finish() {
                tracing::error!(%error, "the capture file is incomplete");
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
