//! Packets out of the tunnel: received, decrypted, written to the device.

use std::{
    borrow::Cow,
    io,
    net::IpAddr,
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError},
    },
};

use hawser_esp::{self as esp, Inbound, Inbounds};
use hawser_netdev::tun::Tun;
use hawser_wire::{
    coalesce::{Checksum, Coalescer, has_valid_checksum},
    esp::{Plaintext, UdpEncapsulated},
    ipv4::{self, protocol},
};
use rustix::event::{PollFd, PollFlags, poll};

use super::{
    counters::{Cause, Counters},
    endpoint::Endpoint,
    keys::Event,
    relay::Relay,
    selectors::Selectors,
    socket::{Outer, ReceiveBuffer, Socket},
};

/// Receive calls before coalesced packets are flushed.
const ROUNDS: usize = 4;

/// The thread that decrypts.
pub(super) struct Inward {
    pub(super) socket: Arc<Socket>,
    pub(super) inside: Inside,
}

/// Everything but the socket.
pub(super) struct Inside {
    pub(super) tun: Arc<Tun>,
    pub(super) counters: Arc<Counters>,
    pub(super) events: Receiver<Event>,
    pub(super) associations: Inbounds<Selectors>,
    pub(super) endpoint: Arc<Endpoint>,
    /// To charon.
    pub(super) relay: Arc<Relay>,
    pub(super) join: Coalescer,
}

impl Inward {
    /// Carries packets until the key exchange ends.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut buffer = ReceiveBuffer::new();
        loop {
            poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None)?;
            if !self.inside.renew() {
                return Ok(());
            }
            for _ in 0..ROUNDS {
                let inside = &mut self.inside;
                let take = |datagram: &mut [u8], outer| inside.datagram(datagram, outer);
                if !self.socket.receive(&mut buffer, take) {
                    break;
                }
            }
            self.inside.flush();
        }
    }
}

impl Inside {
    /// Applies changes of SAs; returns whether charon still runs.
    fn renew(&mut self) -> bool {
        let held = &mut self.associations;
        loop {
            match self.events.try_recv() {
                Ok(Event::Inbound(spi, keys, selectors)) => {
                    if let Some(inbound) = Inbound::new(spi, &keys) {
                        held.add(inbound, selectors);
                    }
                }
                Ok(Event::InboundGone(spi)) => held.remove(spi),
                Ok(Event::Flushed) => held.clear(),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Handles a datagram to the port of UDP-encapsulated ESP (RFC 3948 section 2).
    fn datagram(&mut self, bytes: &mut [u8], outer: Outer) {
        if outer.source.ip() != IpAddr::V4(*self.endpoint.now().ip()) {
            self.counters.dropped(Cause::UnknownSource, 1);
            return;
        }
        let port = outer.source.port();
        let carried = match UdpEncapsulated::parse(bytes) {
            Ok(UdpEncapsulated::Keepalive) => Ok(()),
            Ok(UdpEncapsulated::Ike(_)) => self.ike(bytes, port),
            Ok(UdpEncapsulated::Esp(_)) => self.esp(bytes, outer),
            Err(_) => Err(Cause::Malformed),
        };
        if let Err(cause) = carried {
            self.counters.dropped(cause, 1);
        }
    }

    /// Passes an IKE message to charon, with its non-ESP marker.
    fn ike(&self, message: &[u8], port: u16) -> Result<(), Cause> {
        self.relay.inward(message, port).map_err(|_| Cause::SendFailed)?; // the remote end retransmits it
        self.counters.ike.add(1, message.len());
        Ok(())
    }

    fn esp(&mut self, bytes: &mut [u8], outer: Outer) -> Result<(), Cause> {
        let (opened, selectors) = match self.associations.open(bytes) {
            // An SA that came since the last look may be in use already.
            Err(esp::Cause::UnknownSpi) => {
                self.renew();
                self.associations.open(bytes)?
            }
            result => result?,
        };
        // A packet that the network has delayed tells an old port, as one that was captured and sent again does.
        if opened.newest {
            self.endpoint.follow(outer.source.port());
        }
        let packet = packet(&opened.plain)?;
        if !selectors.allow_inward(&packet) {
            return Err(Cause::Selector);
        }
        let packet = marked(packet.bytes(), outer.ecn)?;
        write(&mut self.join, &self.tun, &self.counters, &packet);
        Ok(())
    }

    fn flush(&mut self) {
        flush(&mut self.join, &self.tun, &self.counters);
    }
}

/// The inner IPv4 packet, without traffic flow confidentiality padding (RFC 4303 section 2.7).
fn packet<'a>(plain: &Plaintext<'a>) -> Result<ipv4::Packet<'a>, Cause> {
    if plain.next_header != protocol::IPIP {
        return Err(Cause::Selector);
    }
    let total = plain.data.get(2..4).and_then(|field| field.first_chunk().copied());
    let total = usize::from(total.map_or(0, u16::from_be_bytes));
    let packet = plain.data.get(..total).ok_or(Cause::Malformed)?;
    ipv4::Packet::parse(packet).map_err(|_| Cause::Malformed)
}

/// Copies a congestion mark of the outer header to the inner one (RFC 6040 section 4.2).
fn marked(packet: &[u8], ecn: u8) -> Result<Cow<'_, [u8]>, Cause> {
    if ecn != ipv4::ecn::CE {
        return Ok(packet.into());
    }
    let mut marked = packet.to_vec();
    if ipv4::mark_congestion(&mut marked) { Ok(marked.into()) } else { Err(Cause::Congestion) }
}

/// Coalesces a packet with those that wait for the device, or queues it behind them.
fn write(join: &mut Coalescer, tun: &Tun, counters: &Counters, packet: &[u8]) {
    let checksum = if has_valid_checksum(packet) { Checksum::Valid } else { Checksum::Unknown };
    if !join.push(packet, checksum) {
        flush(join, tun, counters);
        join.push(packet, checksum);
    }
}

fn flush(join: &mut Coalescer, tun: &Tun, counters: &Counters) {
    let parts = join.segments();
    let Some((packet, cut)) = join.finish() else { return };
    match tun.write(packet, cut) {
        Ok(()) => counters.opened.add(parts, packet.len()),
        Err(_) => counters.dropped(Cause::WriteFailed, parts),
    }
    join.clear();
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ipv4(tos: u8) -> Vec<u8> {
        let any = Ipv4Addr::LOCALHOST;
        let repr = ipv4::Repr { source: any, destination: any, protocol: 99, ttl: 9 };
        let mut packet = repr.emit(4).unwrap().to_vec();
        packet[1] = tos;
        packet.extend([1, 2, 3, 4]);
        packet
    }

    #[test]
    fn only_ipv4_comes_out_and_no_more_than_it_says() {
        let data = [&ipv4(0)[..], &[0; 50]].concat();
        let bytes = |next_header, data| {
            packet(&Plaintext { next_header, data }).map(|packet| packet.bytes().to_vec())
        };
        assert_eq!(bytes(4, &data), Ok(data[..24].to_vec()));
        assert_eq!(bytes(41, &data), Err(Cause::Selector));
        for len in [0, 3, 19, 23] {
            assert_eq!(bytes(4, &data[..len]), Err(Cause::Malformed), "{len}");
        }
    }

    #[test]
    fn congestion_is_told_where_it_can_be() {
        assert_eq!(marked(&ipv4(0b10), 0b10), Ok(ipv4(0b10).into()));
        assert_eq!(marked(&ipv4(0b00), 0b11), Err(Cause::Congestion));
        for ecn in [0b01, 0b10, 0b11] {
            let packet = ipv4(0xb8 | ecn);
            let after = marked(&packet, 0b11).unwrap();
            assert_eq!(after[1], 0xb8 | 0b11);
        }
    }
}
