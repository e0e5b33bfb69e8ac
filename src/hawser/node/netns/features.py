"""Kernel features, tried in a scratch namespace.

A probe returns, or raises the kernel's error.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from pyroute2 import GenericNetlinkSocket, IPRoute, NetlinkError
from pyroute2.netlink import genlmsg
from pyroute2.protocols import ETH_P_ALL

from hawser.node.base import NodeError
from hawser.node.netns import namespace, nft, tc
from hawser.node.netns import seg6 as segment_routing
from hawser.overlay.lab.plan import ClassPlan, NatPlan, ShaperPlan, VrfPlan
from hawser.spec.topology import Nat

_TUNSETIFF = 0x4004_54CA
_IFF_TUN_NO_PI = 0x1001
_IPPROTO_MPTCP = 262

_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_BPF_PROG_LOAD = 5
_PROG_TYPE_SCHED_CLS = 3
_PROG_TYPE_XDP = 6
_XDP_PASS = 2
_XDP_FLAGS_DRV_MODE = 1 << 2

_A, _B = "a", "b"


def fault(probe: Callable[[], None]) -> str | None:
    """Try a feature in a scratch namespace: None if it exists, else the kernel's error."""
    try:
        namespace.scratch(probe)
    except NetlinkError as error:
        return os.strerror(error.code)
    except OSError as error:
        return error.strerror or str(error)
    except NodeError as error:
        return str(error)
    return None


def namespaces() -> None:
    """The scratch namespace itself."""


def veth() -> None:
    """A pair of virtual Ethernet ports."""
    with IPRoute() as route:
        _pair(route)


def tun() -> None:
    """A TUN device (linux/if_tun.h)."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", b"t0", _IFF_TUN_NO_PI))
    finally:
        os.close(handle)


def mptcp() -> None:
    """Multipath TCP sockets (RFC 8684), and their path manager in user space (Linux 5.19)."""
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()
    Path("/proc/sys/net/mptcp/pm_type").read_bytes()


def htb() -> None:
    """Hierarchical token bucket."""
    _qdisc("htb", handle=0x1_0000, default=0)


def tbf() -> None:
    """Token bucket filter."""
    _qdisc("tbf", handle=0x1_0000, limit=3000, burst=1522)


def bfifo() -> None:
    """Queue limited in bytes."""
    _qdisc("bfifo", handle=0x1_0000, limit=3000)


def netem() -> None:
    """The kernel's emulator of delay, jitter and loss."""
    _qdisc("netem", handle=0x1_0000, delay=1000)


def ingress() -> None:
    """Filters for incoming packets."""
    _qdisc("ingress", handle=0xFFFF_0000)


def mirred() -> None:
    """Redirection of incoming packets to another port."""
    with IPRoute() as route:
        index = _pair(route)
        tc.redirect(route, index, index)


def u32() -> None:
    """Classifier on bytes of the packet: a whole shaper as labs use it."""
    with IPRoute() as route:
        shaper = ShaperPlan(node=_A, interface=_A, name=_A, classes=(ClassPlan(name=_A),))
        tc.build(route, _pair(route), 1500, shaper)


def cls_bpf() -> None:
    """Programs in eBPF as classifiers."""
    program = _load(_PROG_TYPE_SCHED_CLS)
    try:
        with IPRoute() as route:
            index = _pair(route)
            route.tc("add", "htb", index, 0x1_0000, default=0)
            route.tc(
                "add-filter",
                "bpf",
                index,
                parent=0x1_0000,
                fd=program,
                name="probe",
                classid=0x1_0001,
                protocol=ETH_P_ALL,
                prio=1,
            )
    finally:
        os.close(program)


def xdp() -> None:
    """Programs in eBPF in the driver of a virtual Ethernet port."""
    program = _load(_PROG_TYPE_XDP)
    try:
        with IPRoute() as route:
            attributes = {
                "attrs": [("IFLA_XDP_FD", program), ("IFLA_XDP_FLAGS", _XDP_FLAGS_DRV_MODE)]
            }
            route.link("set", index=_pair(route), xdp=attributes)
    finally:
        os.close(program)


def ipip() -> None:
    """IP in IP tunnel devices (RFC 2003)."""
    with IPRoute() as route:
        route.link("add", ifname="t0", kind="ipip", ipip_local="192.0.2.1", ipip_remote="192.0.2.2")


def seg6() -> None:
    """Segment routing headers (RFC 8754)."""
    with IPRoute() as route:
        index = _pair(route)
        route.link("set", index=index, state="up")
        route.route(
            "add",
            dst="2001:db8:1::/64",
            oif=index,
            encap={"type": "seg6", "mode": "encap", "segs": "2001:db8::1"},
        )


def vrf() -> None:
    """VRF devices, which segments can use (End.DT4, End.DT46)."""
    with IPRoute() as route:
        segment_routing.vrf(route, VrfPlan(name=_A, table=100))


def openvswitch() -> None:
    """Open vSwitch's datapath in the kernel."""
    with GenericNetlinkSocket() as control:
        try:
            control.bind("ovs_datapath", genlmsg)
        except NetlinkError:
            raise
        except Exception as error:  # pyroute2 wraps what the kernel says
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error


def tproxy() -> None:
    """Transparent redirection of TCP connections to a program (TPROXY of nftables)."""
    rules = """
        table inet probe {
            chain probe {
                type filter hook prerouting priority mangle
                meta l4proto tcp socket transparent 1 accept
                meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:9 accept
            }
        }
    """
    nft.apply(rules)


def nftables() -> None:
    """Packet filters of nftables for IPv6, with counters."""
    nft.refuse_segments([_A])


def nat() -> None:
    """Translation of addresses by nftables, to random ports too."""
    nft.translate(NatPlan(outside=_A, mapping=Nat.ADDRESS_AND_PORT_DEPENDENT))


def _pair(route: IPRoute) -> int:
    route.link("add", ifname=_A, kind="veth", peer=_B)
    return int(route.link_lookup(ifname=_A)[0])


def _qdisc(kind: str, handle: int, **options: int) -> None:
    with IPRoute() as route:
        route.tc("add", kind, _pair(route), handle, **options)


def _load(kind: int) -> int:
    """Load a program of two instructions, `return XDP_PASS`, by bpf(2)."""
    instructions = struct.pack("<BBhiBBhi", 0xB7, 0, 0, _XDP_PASS, 0x95, 0, 0, 0)
    code = ctypes.create_string_buffer(instructions)
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack("=IIQQ", kind, 2, ctypes.addressof(code), ctypes.addressof(licence))
    argument = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    number = _SYS_BPF.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    handle = int(libc.syscall(number, _BPF_PROG_LOAD, argument, 128))
    if handle < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return handle
