//! Packets of a capture file, one after the other, however long it is.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::Path,
    time::Duration,
};

use hawser_wire::ethernet::{self, ethertype};
use pcap_file::{
    DataLink, PcapError,
    pcap::PcapReader,
    pcapng::{
        Block, PcapNgReader,
        blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
    },
};

/// The first bytes of a pcapng file.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Calls `visit` with each frame's time, microseconds, and the IP packet in it if there is one.
pub(crate) fn read(path: &Path, mut visit: impl FnMut(u64, Option<&[u8]>)) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|_| io::Error::other("neither pcap nor pcapng"))?;
    file.rewind()?;
    if magic == PCAPNG {
        read_pcapng(file, &mut visit).map_err(unreadable)
    } else {
        read_pcap(file, &mut visit).map_err(unreadable)
    }
}

fn read_pcap(
    file: BufReader<File>,
    visit: &mut impl FnMut(u64, Option<&[u8]>),
) -> Result<(), PcapError> {
    let mut reader = PcapReader::new(file)?;
    let link = reader.header().datalink;
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        visit(microseconds(packet.timestamp), ip_packet(link, &packet.data));
    }
    Ok(())
}

fn read_pcapng(
    file: BufReader<File>,
    visit: &mut impl FnMut(u64, Option<&[u8]>),
) -> Result<(), PcapError> {
    let mut reader = PcapNgReader::new(file)?;
    let mut interfaces: Vec<(DataLink, u64)> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(block) => {
                interfaces.push((block.linktype, per_second(&block)));
            }
            Block::EnhancedPacket(packet) => {
                let interface = usize::try_from(packet.interface_id).ok();
                let interface = interface.and_then(|at| interfaces.get(at)).copied();
                let (link, per_second) =
                    interface.ok_or(PcapError::InvalidInterfaceId(packet.interface_id))?;
                // The library takes the units for nanoseconds, whatever the interface says.
                let units = packet.timestamp.as_nanos();
                let time = units.saturating_mul(1_000_000) / u128::from(per_second);
                visit(u64::try_from(time).unwrap_or(u64::MAX), ip_packet(link, &packet.data));
            }
            _ => (), // without a time, or no packet
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
    let (base, exponent) =
        if resolution & 0x80 == 0 { (10_u64, resolution) } else { (2, resolution & 0x7f) };
    base.checked_pow(exponent.into()).unwrap_or(u64::MAX)
}

/// The IP packet in a frame. Frames of unknown link layers have none.
fn ip_packet(link: DataLink, data: &[u8]) -> Option<&[u8]> {
    match link {
        DataLink::ETHERNET => {
            let frame = ethernet::Frame::parse(data)?;
            matches!(frame.ethertype(), ethertype::IPV4 | ethertype::IPV6).then(|| frame.payload())
        }
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Some(data),
        _ => None,
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn unreadable(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(format!("not a capture: {error}")),
    }
}
