//! What the kernel tells of each subflow of a connection (linux/mptcp.h: `MPTCP_SUBFLOW_ADDRS` and
//! `MPTCP_TCPINFO`, Linux 5.16).

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

/// Bytes of struct `mptcp_subflow_data`, which stands before the elements.
const HEADER: usize = 16;

/// Subflows of a connection that are looked at, at most: twice the paths of a group, because subflows
/// that end may still be there.
const MAX: usize = 32;

/// Bytes of struct `mptcp_subflow_addrs`: two of struct `sockaddr_storage`.
const ADDRESSES: usize = 256;

/// Bytes of struct `tcp_info` that are asked for, up to and with `tcpi_dsack_dups`.
const INFO: usize = 220;

const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;

/// A subflow, as its kernel socket is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Own address and port.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// Whether its handshake is done and neither side has closed it.
    pub established: bool,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Segments that have arrived, acknowledged selectively or not; wraps.
    pub delivered: u32,
    /// Segments that had to be sent again: less what the other end then had twice; may shrink, and wraps.
    pub lost: u32,
    /// Segments with data that came from the other end; wraps.
    pub received: u32,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Shortest round trip of the last minutes.
    pub min_rtt: Duration,
}

/// All subflows; None where they changed while they were read.
pub(super) fn all(socket: &Socket) -> io::Result<Option<Vec<Subflow>>> {
    let before = elements::<ADDRESSES>(socket, MPTCP_SUBFLOW_ADDRS)?;
    let infos = elements::<INFO>(socket, MPTCP_TCPINFO)?;
    let after = elements::<ADDRESSES>(socket, MPTCP_SUBFLOW_ADDRS)?;
    if before != after || before.len() != infos.len() {
        return Ok(None);
    }
    Ok(Some(before.iter().zip(&infos).filter_map(|(ends, info)| subflow(ends, info)).collect()))
}

/// One element of each subflow.
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
    // The kernel keeps the socket of the first subflow to the end of the connection.
    if info.first() == Some(&TCP_CLOSE) {
        return None;
    }
    Some(Subflow {
        local: address(local)?,
        remote: address(remote)?,
        established: info.first() == Some(&TCP_ESTABLISHED),
        unacked: number(info, 24)?,
        delivered: number(info, 192)?,
        lost: number(info, 100)?.wrapping_sub(number(info, 216)?),
        received: number(info, 152)?,
        rtt: Duration::from_micros(number(info, 68)?.into()),
        min_rtt: Duration::from_micros(number(info, 148)?.into()),
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a struct `sockaddr_in` or `sockaddr_in6`.
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
        assert_eq!(offset_of!(libc::tcp_info, tcpi_unacked), 24);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_min_rtt), 148);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_data_segs_in), 152);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_delivered), 192);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_dsack_dups), 216);
    }
}
