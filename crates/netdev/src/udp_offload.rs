//! A self-test of UDP GSO, which some kernels have implemented incorrectly.

use std::{
    io::{self, IoSliceMut},
    net::{Ipv4Addr, UdpSocket},
};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Number of datagrams of the test, and their length in bytes: QUIC's minimum (RFC 9000 section 14).
const SEGMENTS: usize = 5;
const SIZE: usize = 1200;

/// Longest time that a datagram may take over the loopback.
const TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Sends a batch over the loopback and compares what arrives. Returns true if the loopback is down, in which
/// case nothing is known.
#[must_use]
pub fn works() -> bool {
    test().unwrap_or(true)
}

fn test() -> io::Result<bool> {
    let (from, to) = (socket()?, socket()?);
    let from_state = UdpSocketState::new((&from).into())?;
    let to_state = UdpSocketState::new((&to).into())?;
    if from_state.max_gso_segments() < SEGMENTS {
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
    from_state.try_send((&from).into(), &batch)?;
    let mut received = Vec::new();
    while received.len() < sent.len() {
        let mut fds = [PollFd::new(&to, PollFlags::IN)];
        if poll(&mut fds, Some(&TIMEOUT))? == 0 || !receive(&to_state, &to, &mut received)? {
            return Ok(false);
        }
    }
    Ok(received == sent)
}

fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
}

/// Receives one batch (GRO). Returns whether its datagrams have the right length.
fn receive(state: &UdpSocketState, socket: &UdpSocket, received: &mut Vec<u8>) -> io::Result<bool> {
    let (mut buffer, mut metas) = (vec![0; 1 << 16], [RecvMeta::default()]);
    state.recv(socket.into(), &mut [IoSliceMut::new(&mut buffer)], &mut metas)?;
    let [meta] = metas;
    received.extend_from_slice(buffer.get(..meta.len).unwrap_or_default());
    Ok(meta.stride == SIZE || meta.len < SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_passes() {
        assert!(test().unwrap());
    }
}
