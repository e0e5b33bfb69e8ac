//! Sends a packet through an adjacent function and waits for it to return.

use std::{
    io,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use hawser_netdev::{interface, packet::plain::PacketSocket};
use hawser_wire::{ethernet, ipv4, udp};
use tokio::task::spawn_blocking;

/// Reason of a failure.
pub(super) const LOST: &str = "the packet did not come back";
/// Port of the discard service (RFC 863), so that a host that receives the packet ignores it.
const PORT: u16 = 9;
/// Time to live of the packet.
const TTL: u8 = 64;
/// Bytes that identify the packet of a check.
const TOKEN_LEN: usize = 16;
/// Receive buffer, bytes.
const BUFFER: i32 = 1 << 20;
/// Bytes of a frame that are read.
const FRAME_LEN: usize = 256;

/// A check that a function forwards.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    interface: String,
    mac: [u8; 6],
    address: Ipv4Addr,
    returns: String,
    timeout: Duration,
    /// Packets sent.
    sent: u64,
}

impl Probe {
    pub(crate) fn new(interface: &str, mac: [u8; 6], address: Ipv4Addr, returns: &str) -> Self {
        let (interface, returns) = (interface.into(), returns.into());
        Self { interface, mac, address, returns, timeout: Duration::ZERO, sent: 0 }
    }

    /// The same with this timeout.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub(crate) async fn check(&mut self) -> Result<(), String> {
        self.sent += 1;
        let probe = self.clone();
        let done = spawn_blocking(move || probe.round_trip()).await;
        let done = done.map_err(|error| error.to_string())?;
        let back = done.map_err(|error| format!("{}: {error}", self.interface))?;
        if back { Ok(()) } else { Err(LOST.into()) }
    }

    /// Sends a packet and returns whether it came back in time.
    fn round_trip(&self) -> io::Result<bool> {
        let (out, back) = (interface::find(&self.interface)?, interface::find(&self.returns)?);
        let token = self.token();
        let frame = self.frame(out.address, &token).ok_or(io::ErrorKind::InvalidInput)?;
        let receiver = PacketSocket::receiver(back.index, BUFFER)?;
        let deadline = Instant::now() + self.timeout;
        PacketSocket::sender(out.index)?.send(&[&frame])?;
        let (mut buffers, mut lengths) = (vec![vec![0; FRAME_LEN]; 16], Vec::new());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left < Duration::from_millis(1) {
                return Ok(false);
            }
            receiver.set_timeout(left)?;
            match receiver.receive(&mut buffers, &mut lengths) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let frames = buffers.iter().zip(&lengths);
            let mut frames = frames.filter_map(|(frame, length)| frame.get(..*length));
            if frames.any(|frame| self.is_ours(frame, &token)) {
                return Ok(true);
            }
        }
    }

    /// Process and number, which identify the packet among those of earlier checks and other processes.
    fn token(&self) -> [u8; TOKEN_LEN] {
        let mut token = *b"hawser..........";
        let number = u64::from(std::process::id()) << 32 | self.sent & 0xffff_ffff;
        if let Some(place) = token.get_mut(8..) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        token
    }

    fn frame(&self, own: [u8; 6], token: &[u8]) -> Option<Vec<u8>> {
        let (destination, ethertype) = (self.mac, ethernet::ethertype::IPV4);
        let ethernet = ethernet::Repr { source: own, destination, tags: Vec::new(), ethertype };
        let udp = udp::Repr { source_port: PORT, destination_port: PORT }.emit(token.len())?;
        let (source, destination) = (self.address, self.address);
        let ip = ipv4::Repr { source, destination, protocol: ipv4::protocol::UDP, ttl: TTL };
        let ip = ip.emit(udp.len() + token.len())?;
        Some([&ethernet.emit()[..], &ip, &udp, token].concat())
    }

    fn is_ours(&self, frame: &[u8], token: &[u8]) -> bool {
        let packet = ethernet::Frame::parse(frame)
            .filter(|frame| frame.ethertype() == ethernet::ethertype::IPV4)
            .and_then(|frame| ipv4::Packet::parse(frame.payload()).ok());
        let ours = |packet: &ipv4::Packet<'_>| {
            packet.destination() == self.address && packet.protocol() == ipv4::protocol::UDP
        };
        let datagram =
            packet.filter(ours).and_then(|packet| udp::Datagram::parse(packet.payload()));
        datagram.is_some_and(|datagram| datagram.payload() == token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packet_of_the_check_matches() {
        let address = "192.0.2.1".parse().unwrap();
        let mut probe = Probe::new("f0", [2; 6], address, "f0");
        let frame = probe.frame([4; 6], &probe.token()).unwrap();
        assert_eq!((&frame[..6], &frame[6..12]), (&[2; 6][..], &[4; 6][..]));
        assert!(probe.is_ours(&frame, &probe.token()));
        for at in [12, 16, 23, 33, frame.len() - 1] {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert!(!probe.is_ours(&other, &probe.token()), "{at}");
        }
        assert!((0..frame.len()).all(|length| !probe.is_ours(&frame[..length], &probe.token())));
        probe.sent += 1;
        assert!(!probe.is_ours(&frame, &probe.token()));
    }
}
