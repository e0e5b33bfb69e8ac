//! A receiver with a packet socket.

use std::{
    fs::File,
    io::{self, BufWriter},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hawser_netdev::packet::plain::{BATCH, PacketSocket};

use crate::{
    capture::CaptureFile,
    clock,
    config::StreamFlows,
    receiver::{ReceiveTally, Receiver},
    receiver_socket::{Counters, find_payload},
    sender::Stop,
};

/// Bytes captured of a frame.
const SNAP: usize = 2048;
/// Socket buffer, bytes, for frames that arrive while the thread is not scheduled: about 80 000 small frames.
const BUFFER: i32 = 64 << 20;

/// A packet socket, and the thread that reads it.
pub(super) struct PacketReceiver {
    counters: Arc<Counters>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl PacketReceiver {
    /// Starts the thread.
    pub(super) fn start(
        interface: u32,
        run: u16,
        streams: &[StreamFlows],
        window_bits: u32,
        mut capture: Option<CaptureFile<BufWriter<File>>>,
    ) -> io::Result<Self> {
        let socket = PacketSocket::receiver(interface, BUFFER)?;
        socket.set_timeout(Duration::from_millis(20))?;
        let counters = Arc::new(Counters::new(run, streams, window_bits));
        let stop = Arc::new(Stop::default());
        let (shared, stopped) = (Arc::clone(&counters), Arc::clone(&stop));
        let thread = thread::Builder::new().name("receive".into()).spawn(move || {
            let mut buffers = vec![vec![0; SNAP]; BATCH];
            let mut lengths = Vec::with_capacity(BATCH);
            while !stopped.is_set() {
                if socket.receive(&mut buffers, &mut lengths).is_ok() {
                    count(&shared, &buffers, &lengths, capture.as_mut());
                }
                if let Ok(dropped) = socket.dropped() {
                    shared.lock().tally.uncaptured += u64::from(dropped);
                }
            }
            if let Some(Err(error)) = capture.map(CaptureFile::finish) {
                tracing::error!(%error, "the capture file is incomplete");
            }
        })?;
        Ok(Self { counters, stop, thread: Some(thread) })
    }
}

fn count(
    counters: &Counters,
    buffers: &[Vec<u8>],
    lengths: &[usize],
    mut capture: Option<&mut CaptureFile<BufWriter<File>>>,
) {
    let now = clock::now_ns();
    let mut state = counters.lock();
    for (buffer, &length) in buffers.iter().zip(lengths) {
        let frame = buffer.get(..length).unwrap_or(buffer);
        match find_payload(frame) {
            Some(payload) => state.observe(&payload, length, now),
            None => state.observe_other(length),
        }
        if let Some(file) = &mut capture {
            let whole = u32::try_from(length).unwrap_or(u32::MAX);
            match file.write(now, whole, frame) {
                Ok(()) => state.tally.captured += 1,
                Err(_) => state.tally.uncaptured += 1,
            }
        }
    }
}

impl Receiver for PacketReceiver {
    fn tally(&self) -> anyhow::Result<ReceiveTally> {
        Ok(self.counters.tally())
    }
}

impl Drop for PacketReceiver {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
