//! Whether the kernel cuts batches of datagrams rightly (UDP GSO): some kernels have cut them wrongly.

use std::{
    io::{self, IoSliceMut},
    net::{Ipv4Addr, UdpSocket},
};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SEGMENTS: usize = 5;
const SIZE: usize = 1200;

/// How long datagrams may be under way on the loopback.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Sends a batch over the loopback, and looks whether it comes out as it should. Where the loopback is
/// down nothing is known, and the kernel is believed.
#[must_use]
pub fn works() -> bool {
    try_out().unwrap_or(true)
}

fn try_out() -> io::Result<bool> {
    let (from, to) = (socket()?, socket()?);
    let sender = UdpSocketState::new((&from).into())?;
    let receiver = UdpSocketState::new((&to).into())?;
    if sender.max_gso_segments() < SEGMENTS {
        return Ok(false);
    }
    // The last segment is shorter, as the last of a batch may be.
    let sent: Vec<u8> = (0..=250).cycle().take(SEGMENTS * SIZE - 100).collect();
    let batch = Transmit {
        destination: to.local_addr()?,
        ecn: None,
        contents: &sent,
        segment_size: Some(SIZE),
        src_ip: None,
    };
    sender.try_send((&from).into(), &batch)?;
    let mut came = Vec::new();
    while came.len() < sent.len() {
        let mut fds = [PollFd::new(&to, PollFlags::IN)];
        if poll(&mut fds, Some(&PATIENCE))? == 0 || !receive(&receiver, &to, &mut came)? {
            return Ok(false);
        }
    }
    Ok(came == sent)
}

fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
}

/// Receives one piece; whether its datagrams have the right length.
fn receive(state: &UdpSocketState, socket: &UdpSocket, came: &mut Vec<u8>) -> io::Result<bool> {
    let (mut room, mut metas) = (vec![0; 1 << 16], [RecvMeta::default()]);
    state.recv(socket.into(), &mut [IoSliceMut::new(&mut room)], &mut metas)?;
    let [meta] = metas;
    came.extend_from_slice(room.get(..meta.len).unwrap_or_default());
    Ok(meta.stride == SIZE || meta.len < SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_cuts_rightly() {
        assert!(try_out().unwrap());
    }
}
