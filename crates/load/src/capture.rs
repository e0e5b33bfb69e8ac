//! Capture files: writing what was received, reading what is replayed.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hawser_bpf::layout::{FRAME_MAX, Frame};
use hawser_daemon::capture;
use pcap_file::{
    DataLink, TsResolution,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};

use crate::clock;

/// Longest recording, frames: half a gigabyte of kernel memory.
const FRAMES_MAX: usize = 1 << 18;

/// A pcap file of Ethernet frames, open for writing.
pub(super) struct CaptureFile<W: Write> {
    writer: PcapWriter<W>,
    snap_length: usize,
    /// Difference from `CLOCK_MONOTONIC` to `CLOCK_REALTIME`.
    offset: Duration,
}

impl CaptureFile<BufWriter<File>> {
    /// Creates a file with timestamps in nanoseconds, of `snap_length` bytes of each frame.
    pub(super) fn create(path: &Path, snap_length: u32) -> io::Result<Self> {
        Self::new(BufWriter::new(File::create(path)?), snap_length)
    }
}

impl<W: Write> CaptureFile<W> {
    fn new(output: W, snap_length: u32) -> io::Result<Self> {
        let header = PcapHeader {
            snaplen: snap_length,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(output, header).map_err(io::Error::other)?;
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let offset = day.saturating_sub(Duration::from_nanos(clock::now_ns()));
        let snap_length = usize::try_from(snap_length).unwrap_or(usize::MAX);
        Ok(Self { writer, snap_length, offset })
    }

    /// Appends a frame of `length` bytes, of which `data` was captured, perhaps more than is kept.
    pub(super) fn write(&mut self, time_ns: u64, length: u32, data: &[u8]) -> io::Result<()> {
        let kept = data.get(..self.snap_length).unwrap_or(data);
        let packet = PcapPacket {
            timestamp: self.offset + Duration::from_nanos(time_ns),
            orig_len: length,
            data: Cow::Borrowed(kept),
        };
        self.writer.write_packet(&packet).map(drop).map_err(io::Error::other)
    }

    /// Flushes the file.
    pub(super) fn finish(self) -> io::Result<()> {
        self.writer.into_writer().flush()
    }
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] capture::Error),
    /// It has no frames.
    #[error("no frames in it")]
    Empty,
    /// It has too many frames.
    #[error("more than {FRAMES_MAX} frames in it")]
    Long,
    /// A frame is too long, or was truncated by the capture.
    #[error(
        "frame {0} has {1} bytes, of which {2} were captured: 14 to {FRAME_MAX} whole bytes are needed"
    )]
    Frame(usize, u32, usize),
}

/// Reads the frames of a pcap or pcapng file.
pub(super) fn read(path: &Path) -> Result<Vec<Frame>, Error> {
    let mut frames = Vec::new();
    capture::read(path, |captured| add(&mut frames, captured.length, captured.data))?;
    if frames.is_empty() { Err(Error::Empty) } else { Ok(frames) }
}

fn add(frames: &mut Vec<Frame>, length: u32, data: &[u8]) -> Result<(), Error> {
    if frames.len() == FRAMES_MAX {
        return Err(Error::Long);
    }
    let mut frame = Frame { length, pad: 0, data: [0; FRAME_MAX] };
    let whole = data.len() >= 14 && u32::try_from(data.len()) == Ok(length);
    match frame.data.get_mut(..data.len()) {
        Some(room) if whole => room.copy_from_slice(data),
        _ => return Err(Error::Frame(frames.len() + 1, length, data.len())),
    }
    frames.push(frame);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_to_the_length_kept_of_them() {
        let mut file = CaptureFile::new(Vec::new(), 96).unwrap();
        file.write(1, 1514, &[1; 1514]).unwrap();
        file.write(2, 60, &[2; 60]).unwrap();
        let bytes = file.writer.into_writer();
        assert_eq!(bytes.len(), 24 + (16 + 96) + (16 + 60));
        let lengths = [0, 0, 0, 96, 0, 0, 5, 0xea];
        assert_eq!(bytes[24 + 8..][..8], lengths, "what is kept, and what was on the wire");
    }
}
