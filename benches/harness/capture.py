"""One-way delays from captures at both ends, using the kernel's timestamps."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from harness.bench import SampleError
from harness.lab import Daemon, Namespace, until

_NANOSECONDS = 0xA1B2_3C4D
"""Magic number of a pcap file with nanosecond timestamps (draft-ietf-opsawg-pcap section 4)."""
_PAYLOAD = 14 + 20 + 8
_NUMBER = 12
"""Length of iperf3's time and sequence number at the start of a datagram; unique per packet."""


def capture(end: Namespace, device: str, file: Path) -> Daemon:
    """Capture the iperf3 datagrams that pass a device."""
    what = ["udp", "and", "dst", "port", "5201"]
    options = [
        "--immediate-mode",
        "--time-stamp-precision=nano",
        "-B",
        "65536",
        "-s",
        "64",
        "-Z",
        "root",
    ]
    process = end.start(["tcpdump", "-n", "-i", device, *options, "-w", str(file), *what])
    until(lambda: "listening on" in process.said(), "tcpdump listens", daemons=[process])
    return process


def delays(sent: Path, received: Path) -> list[float]:
    """One-way delay of every packet that is in both files, in microseconds.

    Raises:
        SampleError: a file is not a capture, or no packet is in both.
    """
    departures = dict(_packets(sent))
    found = [
        (arrival - departures[number]) / 1000
        for number, arrival in _packets(received)
        if number in departures
    ]
    if not found:
        raise SampleError("no packet was captured at both ends")
    return found


def _packets(file: Path) -> Iterator[tuple[bytes, int]]:
    """Yield iperf3's header and the timestamp (ns) of every packet."""
    content = file.read_bytes()
    if len(content) < 24 or struct.unpack_from("=I", content)[0] != _NANOSECONDS:
        raise SampleError(f"{file.name} is no capture with nanoseconds")
    at = 24
    while at + 16 <= len(content):
        seconds, nanoseconds, length, _ = struct.unpack_from("=IIII", content, at)
        packet = content[at + 16 : at + 16 + length]
        yield packet[_PAYLOAD : _PAYLOAD + _NUMBER], seconds * 1_000_000_000 + nanoseconds
        at += 16 + length
