//! Reads capture files, pcap and pcapng, frame by frame, however long they are.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::Path,
    time::Duration,
};

pub use pcap_file::DataLink;
use pcap_file::{
    PcapError,
    pcap::PcapReader,
    pcapng::{
        Block, PcapNgReader,
        blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
    },
};

/// The first bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// A frame, as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// When; `None` in a block that does not say it.
    pub time: Option<Duration>,
    /// What the frame begins with.
    pub link: DataLink,
    /// Length of the frame, bytes.
    pub length: u32,
    /// The part of it that was captured.
    pub data: &'a [u8],
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no capture file.
    #[error("neither pcap nor pcapng: {0}")]
    Format(PcapError),
}

impl From<PcapError> for Error {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(error) => Self::Io(error),
            error => Self::Format(error),
        }
    }
}

/// Calls `visit` with each frame of a file, until it fails.
pub fn read<E: From<Error>>(
    path: &Path,
    mut visit: impl FnMut(Captured<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufReader::new(File::open(path).map_err(Error::from)?);
    let mut magic = [0; 4];
    let short = |_| io::Error::other("neither pcap nor pcapng: less than 4 bytes");
    file.read_exact(&mut magic).map_err(short).and_then(|()| file.rewind()).map_err(Error::from)?;
    if magic == PCAPNG { read_pcapng(file, &mut visit) } else { read_pcap(file, &mut visit) }
}

fn read_pcap<E: From<Error>>(
    file: BufReader<File>,
    visit: &mut impl FnMut(Captured<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = PcapReader::new(file).map_err(Error::from)?;
    let header = reader.header();
    let link = header.datalink;
    while let Some(packet) = reader.next_raw_packet() {
        // Not against the header's length: frames that were cut (`tcpdump -s`) are longer than that.
        let checked =
            packet.and_then(|raw| raw.try_into_pcap_packet(header.ts_resolution, u32::MAX));
        let packet = checked.map_err(Error::from)?;
        let time = Some(packet.timestamp);
        visit(Captured { time, link, length: packet.orig_len, data: &packet.data })?;
    }
    Ok(())
}

fn read_pcapng<E: From<Error>>(
    file: BufReader<File>,
    visit: &mut impl FnMut(Captured<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = PcapNgReader::new(file).map_err(Error::from)?;
    let mut interfaces: Vec<(DataLink, u64)> = Vec::new();
    let known = |interfaces: &[(DataLink, u64)], id: u32| {
        let found = usize::try_from(id).ok().and_then(|at| interfaces.get(at)).copied();
        found.ok_or(Error::Format(PcapError::InvalidInterfaceId(id)))
    };
    while let Some(block) = reader.next_block() {
        match block.map_err(Error::from)? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(block) => {
                interfaces.push((block.linktype, per_second(&block)));
            }
            Block::EnhancedPacket(packet) => {
                let (link, per_second) = known(&interfaces, packet.interface_id)?;
                let time = Some(time_of(packet.timestamp, per_second));
                visit(Captured { time, link, length: packet.original_len, data: &packet.data })?;
            }
            Block::SimplePacket(packet) => {
                let (link, _) = known(&interfaces, 0)?;
                let length = packet.original_len;
                visit(Captured { time: None, link, length, data: &packet.data })?;
            }
            _ => (),
        }
    }
    Ok(())
}

/// Units of an interface's times in a second (option `if_tsresol`).
fn per_second(block: &InterfaceDescriptionBlock<'_>) -> u64 {
    let resolution = block.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow((resolution & 0x7f).into()).unwrap_or(u64::MAX)
}

/// A time in units of an interface, which the library takes for nanoseconds whatever they are.
fn time_of(units: Duration, per_second: u64) -> Duration {
    let nanos = units.as_nanos().saturating_mul(1_000_000_000) / u128::from(per_second);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a capture: length on the wire, and bytes in the file.
    fn frames(name: &str, content: &[u8]) -> Result<Vec<(u32, usize)>, Error> {
        let file = std::env::temp_dir().join(format!("hawser-{}-{name}.pcap", std::process::id()));
        std::fs::write(&file, content)?;
        let mut found = Vec::new();
        let read = read::<Error>(&file, |frame| {
            found.push((frame.length, frame.data.len()));
            Ok(())
        });
        std::fs::remove_file(&file)?;
        read.map(|()| found)
    }

    /// A file of one frame, as `tcpdump -s 96` writes it.
    fn cut(length: u32, captured: u32) -> Vec<u8> {
        let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 96, 1];
        let packet = [1_700_000_000, 5, captured, length];
        let words = header.iter().chain(&packet).flat_map(|word: &u32| word.to_le_bytes());
        words.chain(std::iter::repeat_n(7, captured as usize)).collect()
    }

    #[test]
    fn frames_that_were_cut_are_read() {
        assert_eq!(frames("cut", &cut(1514, 96)).unwrap(), [(1514, 96)]);
        assert_eq!(frames("whole", &cut(60, 60)).unwrap(), [(60, 60)]);
    }

    #[test]
    fn frames_longer_than_they_were_are_refused() {
        let error = frames("long", &cut(60, 61)).unwrap_err();
        assert!(error.to_string().contains("incl_len > orig_len"), "{error}");
    }
}
