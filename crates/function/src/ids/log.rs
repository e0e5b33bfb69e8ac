//! The record log: JSON lines in files of a bounded size and number, written by a thread of its own.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::document::Records;

/// Records between workers and the writer at most; each takes about 500 bytes.
const QUEUE: usize = 16_384;
/// Bytes that are collected before they are written.
const BUFFER: usize = 64 << 10;
/// Time between synchronisations.
const SYNC_PERIOD: Duration = Duration::from_secs(1);
/// Part of a file's end that is searched for its last whole record, bytes.
const TAIL: u64 = 1 << 20;
const PREFIX: &str = "records-";
const SUFFIX: &str = ".jsonl";

/// Something that becomes a line, when it is told its number.
pub(crate) trait Line: Send + 'static {
    /// Appends the line, without its end.
    fn write(&self, seq: u64, to: &mut Vec<u8>);
}

/// The way to the writer. It never waits.
pub(crate) struct Log<L: Line> {
    to: SyncSender<L>,
    counters: Arc<Counters>,
}

impl<L: Line> Clone for Log<L> {
    fn clone(&self) -> Self {
        Self { to: self.to.clone(), counters: Arc::clone(&self.counters) }
    }
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// What became of records.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Records in files.
    pub(crate) written: u64,
    /// Records lost, since the writer was behind.
    pub(crate) dropped: u64,
    /// Records lost, since the disk refused them.
    pub(crate) failed: u64,
}

impl<L: Line> Log<L> {
    /// Repairs the last file, begins the next one, and starts the writer, which ends after the last clone of the log.
    pub(crate) fn open(settings: &Records) -> io::Result<(Self, JoinHandle<()>)> {
        let counters = Arc::new(Counters::default());
        let (to, from) = mpsc::sync_channel(QUEUE);
        let files = Files::open(settings)?;
        let writer =
            Writer { files, counters: Arc::clone(&counters), buffer: Vec::new(), lines: 0 };
        let thread = thread::Builder::new().name("records".into());
        let thread = thread.spawn(move || writer.run(&from))?;
        Ok((Self { to, counters }, thread))
    }

    /// Hands a record over, or counts it as lost.
    pub(crate) fn write(&self, line: L) {
        if self.to.try_send(line).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of records so far.
    pub(crate) fn report(&self) -> Report {
        let Counters { written, dropped, failed } = &*self.counters;
        let [written, dropped, failed] =
            [written, dropped, failed].map(|count| count.load(Ordering::Relaxed));
        Report { written, dropped, failed }
    }
}

struct Writer {
    files: Files,
    counters: Arc<Counters>,
    buffer: Vec<u8>,
    lines: u64,
}

impl Writer {
    fn run<L: Line>(mut self, from: &Receiver<L>) {
        let (mut seq, mut gaps, mut synced) = (0, 0, Instant::now());
        loop {
            let next = match from.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.flush();
                    from.recv_timeout(SYNC_PERIOD)
                }
                other => other.map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(line) => {
                    let dropped = self.counters.dropped.load(Ordering::Relaxed);
                    seq += 1 + dropped - gaps; // readers see that some are missing
                    gaps = dropped;
                    self.append(&line, seq);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if synced.elapsed() >= SYNC_PERIOD {
                self.flush();
                self.files.sync();
                synced = Instant::now();
            }
        }
        self.flush();
        self.files.sync();
    }

    fn append<L: Line>(&mut self, line: &L, seq: u64) {
        line.write(seq, &mut self.buffer);
        self.buffer.push(b'\n');
        self.lines += 1;
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let counter = match self.files.append(&self.buffer) {
            Ok(()) => &self.counters.written,
            Err(error) => {
                tracing::error!(%error, lines = self.lines, "records are lost");
                &self.counters.failed
            }
        };
        counter.fetch_add(self.lines, Ordering::Relaxed);
        self.buffer.clear();
        self.lines = 0;
    }
}

/// The files of a log, of which the last is being written.
struct Files {
    folder: PathBuf,
    file_bytes: u64,
    kept: usize,
    number: u64,
    current: Option<(File, u64)>,
}

impl Files {
    fn open(settings: &Records) -> io::Result<Self> {
        let folder = PathBuf::from(&settings.folder);
        fs::create_dir_all(&folder)?;
        let number = numbers(&folder)?.last().copied().unwrap_or_default();
        if number > 0 {
            repair(&path(&folder, number))?;
        }
        let kept = usize::try_from(settings.files).unwrap_or(usize::MAX);
        let mut made =
            Self { folder, file_bytes: settings.file_bytes, kept, number, current: None };
        made.begin()?;
        Ok(made)
    }

    /// Appends whole lines, to the next file if this one is full. Nothing stays of what fails.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.current.as_ref().is_none_or(|(_, length)| *length >= self.file_bytes) {
            self.sync();
            self.begin()?;
        }
        let Some((file, length)) = &mut self.current else { return Ok(()) };
        if let Err(error) = file.write_all(lines) {
            if file.set_len(*length).is_err() || file.seek(SeekFrom::Start(*length)).is_err() {
                self.current = None;
            }
            return Err(error);
        }
        *length += lines.len() as u64;
        Ok(())
    }

    fn sync(&self) {
        if let Some((file, _)) = &self.current
            && let Err(error) = file.sync_data()
        {
            tracing::error!(%error, "records may not be on disk");
        }
    }

    /// Begins the next file, and removes the oldest ones.
    fn begin(&mut self) -> io::Result<()> {
        let next = self.number + 1;
        let options = OpenOptions::new().write(true).create_new(true).clone();
        self.current = Some((options.open(path(&self.folder, next))?, 0));
        self.number = next;
        File::open(&self.folder)?.sync_all()?;
        let known = numbers(&self.folder)?;
        let excess = known.len().saturating_sub(self.kept);
        known.iter().take(excess).try_for_each(|old| fs::remove_file(path(&self.folder, *old)))
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number:010}{SUFFIX}"))
}

/// Numbers of the files in a folder, in order.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        found.extend(number.and_then(|digits| digits.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Cuts off what a crash has left behind the last whole record.
fn repair(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    Read::by_ref(&mut file).take(TAIL).read_to_end(&mut tail)?;
    let whole = start + whole_lines(&tail) as u64;
    if whole < length {
        tracing::warn!(path = %path.display(), bytes = length - whole, "a torn record is cut off");
        file.set_len(whole)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Length of `tail` up to the end of its last line that is JSON, bytes; whatever may precede that.
fn whole_lines(tail: &[u8]) -> usize {
    let ends = tail.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let is_record = |end: &usize| {
        let before = tail.get(..*end).unwrap_or_default();
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
    };
    ends.map(|(end, _)| end).find(is_record).map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests;
