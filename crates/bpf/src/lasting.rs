//! XDP programs that stay at an interface when the process dies, attached by netlink (`IFLA_XDP`).
//!
//! A link (`BPF_LINK_CREATE`) ends with the process that holds it. What is attached here forwards on by its maps until
//! another process takes its place, which loses no packet, or somebody detaches it (`ip link set DEVICE xdp off`).

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

const RTM_SETLINK: u16 = 19;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_EXPECTED_FD: u16 = 8;
const XDP_FLAGS_REPLACE: u32 = 1 << 4;
/// Length of the header of a message, and of an interface's, bytes.
const HEADER: usize = 16;
/// No program.
const NONE: RawFd = -1;

/// Attaches a program to an interface, in place of one that was attached in the same way.
pub(crate) fn attach(interface: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    set(interface, &[(IFLA_XDP_FD, program.as_raw_fd().to_ne_bytes())])
}

/// Detaches a program, if it is still the one at this interface.
pub(crate) fn detach(interface: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    set(
        interface,
        &[
            (IFLA_XDP_FD, NONE.to_ne_bytes()),
            (IFLA_XDP_FLAGS, XDP_FLAGS_REPLACE.to_ne_bytes()),
            (IFLA_XDP_EXPECTED_FD, program.as_raw_fd().to_ne_bytes()),
        ],
    )
}

/// Sends a message to `NETLINK_ROUTE`, the protocol of number 0, and reads the answer.
fn set(interface: u32, attributes: &[(u16, [u8; 4])]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    send(&socket, &request(interface, attributes), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    outcome(answer.get(..length).unwrap_or_default())
}

/// A message that changes the XDP program of an interface; attributes are all of four bytes.
fn request(interface: u32, attributes: &[(u16, [u8; 4])]) -> Vec<u8> {
    let nested: Vec<u8> =
        attributes.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
    let xdp = attribute(IFLA_XDP | NLA_F_NESTED, &nested);
    let length = u32::try_from(2 * HEADER + xdp.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(RTM_SETLINK.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    message.extend([0; 8]); // sequence number, port
    message.extend([0; 4]); // family, device type
    message.extend(interface.to_ne_bytes());
    message.extend([0; 8]); // flags
    message.extend(xdp);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

/// What the kernel answers: an error number, 0 if it is done.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let number = |at: usize| answer.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk::<2>());
    match (kind.map(|kind| u16::from_ne_bytes(*kind)), number(HEADER)) {
        (Some(NLMSG_ERROR), Some(error)) => match i32::from_ne_bytes(*error) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        },
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is no answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_it_says() {
        let message = request(7, &[(IFLA_XDP_FD, [1, 0, 0, 0]), (IFLA_XDP_FLAGS, [0; 4])]);
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, message.len());
        assert_eq!(message.len(), 16 + 16 + 4 + 8 + 8);
        assert_eq!(u32::from_ne_bytes(message[20..24].try_into().unwrap()), 7);
    }

    #[test]
    fn an_answer_is_an_error_number() {
        let answer =
            |error: i32| [&[36, 0, 0, 0, 2, 0], &[0; 10][..], &error.to_ne_bytes()].concat();
        outcome(&answer(0)).unwrap();
        assert_eq!(outcome(&answer(-16)).unwrap_err().raw_os_error(), Some(16));
        outcome(&[2; 9]).unwrap_err();
        outcome(&[]).unwrap_err();
    }
}
