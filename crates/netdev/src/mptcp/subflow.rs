//! State of the subflows of a connection (`linux/mptcp.h`: `MPTCP_SUBFLOW_ADDRS` and `MPTCP_TCPINFO`, Linux
//! 5.16).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use libc::c_int;
use socket2::Socket;

use super::{SOL_MPTCP, option};

const MPTCP_TCPINFO: c_int = 2;
const MPTCP_SUBFLOW_ADDRS: c_int = 3;

/// Length of `struct mptcp_subflow_data`, which precedes the elements, in bytes.
const HEADER: usize = 16;

/// Subflows that are read: twice the paths of a group, because closing subflows are still listed.
const MAX: usize = 32;

/// Length of `struct mptcp_subflow_addrs`, two `struct sockaddr_storage`, in bytes.
const ADDRESSES: usize = 256;

/// Bytes of `struct tcp_info` that are read: up to and including `tcpi_dsack_dups`.
const INFO: usize = 220;

/// Offsets of fields of `struct tcp_info`; a test compares them with libc's.
mod field {
    pub(super) const STATE: usize = 0;
    pub(super) const UNACKED: usize = 24;
    pub(super) const RTT: usize = 68;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const MIN_RTT: usize = 148;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const DELIVERED: usize = 192;
    pub(super) const DSACK_DUPS: usize = 216;
}

/// Values of `tcpi_state`.
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;

/// State of a subflow's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Whether the state is ESTABLISHED.
    pub established: bool,
    /// Segments in flight (`tcpi_unacked`).
    pub unacked: u32,
    /// Segments delivered, by ACK or SACK (`tcpi_delivered`). Wraps.
    pub delivered: u32,
    /// Retransmitted segments less those reported as duplicates (D-SACK, RFC 2883), that is, estimated losses.
    /// May decrease; wraps.
    pub lost: u32,
    /// Data segments received (`tcpi_data_segs_in`). Wraps.
    pub received: u32,
    /// Smoothed RTT.
    pub rtt: Duration,
    /// Minimum RTT in the kernel's window (`tcp_min_rtt_wlen`, 300 s by default).
    pub min_rtt: Duration,
}

/// All subflows; `None` if they changed while being read.
pub(super) fn all(socket: &Socket) -> io::Result<Option<Vec<Subflow>>> {
    let before = elements::<ADDRESSES>(socket, MPTCP_SUBFLOW_ADDRS)?;
    let infos = elements::<INFO>(socket, MPTCP_TCPINFO)?;
    let after = elements::<ADDRESSES>(socket, MPTCP_SUBFLOW_ADDRS)?;
    if before != after || before.len() != infos.len() {
        return Ok(None);
    }
    Ok(Some(before.iter().zip(&infos).filter_map(|(ends, info)| subflow(ends, info)).collect()))
}

/// One element per subflow.
fn elements<const SIZE: usize>(socket: &Socket, name: c_int) -> io::Result<Vec<[u8; SIZE]>> {
    let mut buffer = vec![0; HEADER + MAX * SIZE];
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes();
    let request = [size(HEADER), [0; 4], [0; 4], size(SIZE)].concat();
    buffer.splice(..HEADER, request);
    let len = option(socket, SOL_MPTCP, name, &mut buffer)?;
    let elements = buffer.get(HEADER..len.max(HEADER)).unwrap_or_default();
    Ok(elements.as_chunks().0.to_vec())
}

fn subflow(ends: &[u8; ADDRESSES], info: &[u8; INFO]) -> Option<Subflow> {
    let (local, remote) = ends.split_at(ADDRESSES / 2);
    // The kernel keeps the socket of the first subflow until the connection ends.
    let state = info.get(field::STATE);
    if state == Some(&TCP_CLOSE) {
        return None;
    }
    let number = |offset| number(info, offset);
    Some(Subflow {
        local: address(local)?,
        remote: address(remote)?,
        established: state == Some(&TCP_ESTABLISHED),
        unacked: number(field::UNACKED)?,
        delivered: number(field::DELIVERED)?,
        lost: number(field::TOTAL_RETRANS)?.wrapping_sub(number(field::DSACK_DUPS)?),
        received: number(field::DATA_SEGS_IN)?,
        rtt: Duration::from_micros(number(field::RTT)?.into()),
        min_rtt: Duration::from_micros(number(field::MIN_RTT)?.into()),
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Parses a `struct sockaddr_in` or `struct sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match c_int::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read() {
        let mut v4 = [0; 128];
        v4[0] = 2;
        v4[2..8].copy_from_slice(&[0x20, 4, 198, 18, 0, 2]);
        assert_eq!(address(&v4), Some("198.18.0.2:8196".parse().unwrap()));
        let mut v6 = [0; 128];
        v6[0] = 10;
        v6[2..4].copy_from_slice(&[0, 80]);
        v6[23] = 1;
        assert_eq!(address(&v6), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address(&[0; 128]), None);
    }

    #[test]
    fn offsets_are_those_of_the_kernel() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::tcp_info, tcpi_state), field::STATE);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_unacked), field::UNACKED);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), field::RTT);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_min_rtt), field::MIN_RTT);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_data_segs_in), field::DATA_SEGS_IN);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), field::TOTAL_RETRANS);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_delivered), field::DELIVERED);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_dsack_dups), field::DSACK_DUPS);
    }
}
