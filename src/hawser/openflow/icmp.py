"""Translates ICMP errors about rewritten packets for the senders of the original packets.

Open vSwitch cannot match on the packet that an error quotes. It therefore sends errors for the
gateway to the controller, which translates them as the `bpf` switch does (docs/design/switch.md).
A reply to the quoted packet would match a flow entry. The addresses and port which that entry
writes, with source and destination swapped, are those of the packet before it was rewritten.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hawser.overlay.config.entry import Entry

MOST = 640
"""Longest error that is translated, bytes from the IP header; the `bpf` switch has the same."""

_HEADER = 20
"""Bytes of an IPv4 header without options."""
_ICMP_HEADER = 8
_QUOTED_LEAST = _HEADER + 8
"""Fewest bytes that an error quotes (RFC 792): the IP header and 8 bytes after it."""
_ICMP, _TCP, _UDP = 1, 6, 17
_ERRORS = (3, 11, 12)
"""Destination unreachable, time exceeded, parameter problem."""
_TTL = 64
_SOURCE_PORT, _DESTINATION_PORT = 0, 2
"""Offsets of the ports in TCP and UDP headers."""
_BOTH_PORTS = -1
"""Stands for a wide label: both UDP ports, the source port in the upper 16 bits."""
_OPPOSITE = {_SOURCE_PORT: _DESTINATION_PORT, _DESTINATION_PORT: _SOURCE_PORT}

Key = tuple[bytes, bytes, int, int]
"""Source and destination address, the label, and the offset of the port that holds it."""
Returns = Mapping[Key, Entry]


class Found(StrEnum):
    """Outcome of an error that the switch sent to the controller."""

    TRANSLATED = "translated"
    OWN = "own"
    """Quotes no packet of an entry. It concerns the gateway's stack, which has it already."""
    MALFORMED = "malformed"
    """Cut short, too long, or with a wrong checksum."""
    LIMITED = "limited"
    """Beyond the rate limit."""


@dataclass(frozen=True)
class Translated:
    """An error about the original packet, for that packet's sender."""

    packet: bytes
    """From the IP header."""
    entry: Entry
    """The entry that a reply to the quoted packet matches; the error takes the same way."""


def returns(entries: Iterable[Entry]) -> Returns:
    """Index the entries that replies match: those for packets from the WAN."""
    return {_key(entry): entry for entry in entries if entry.match.from_ == "wan"}


def translate(packet: bytes, table: Returns, identification: int) -> Translated | Found:
    """Turn an error about a rewritten packet into one about the original packet.

    Args:
        packet: an IPv4 packet, from its header; padding may follow.
        table: the switch's `returns`.
        identification: IPv4 identification of the new packet (RFC 791), 16 bits.

    Returns:
        The translated error, or why there is none.
    """
    error = _whole(packet)
    if error is None:
        return Found.MALFORMED
    quoted = error[_HEADER + _ICMP_HEADER :]
    found = _answered(error, quoted, table)
    if found is None:
        return Found.OWN
    entry, place = found
    write = entry.write
    sent = _Swap(write.destination.packed, write.source.packed, write.port)
    message = error[_HEADER : _HEADER + 2] + bytes(2) + error[_HEADER + 4 : _HEADER + _ICMP_HEADER]
    message += _rewritten(quoted, sent, place)
    message = message[:2] + checksum(message).to_bytes(2) + message[4:]
    own = entry.output == "agent"
    source = error[12:16] if own else write.source.packed
    head = _header(source, write.destination.packed, len(message), identification)
    return Translated(head + message, entry)


def checksum(data: bytes) -> int:
    """Give the Internet checksum (RFC 1071); 0 for data that includes a correct one."""
    total = sum(_words(data + bytes(len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True)
class _Swap:
    """Addresses and port to write. The port is None for a wide label, which stays as it is."""

    source: bytes
    destination: bytes
    port: int | None


def _key(entry: Entry) -> Key:
    match = entry.match
    if match.source_port and match.destination_port:
        ports = match.source_port << 16 | match.destination_port
        return match.source.packed, match.destination.packed, ports, _BOTH_PORTS
    place = _SOURCE_PORT if match.destination_port is None else _DESTINATION_PORT
    port = match.destination_port or match.source_port or 0
    return match.source.packed, match.destination.packed, port, place


def _whole(packet: bytes) -> bytes | None:
    """Strip the padding from an ICMP error; None if the packet is damaged or no such error."""
    if len(packet) < _HEADER + _ICMP_HEADER or packet[0] != 0x45 or packet[9] != _ICMP:
        return None
    total = int.from_bytes(packet[2:4])
    if not _HEADER + _ICMP_HEADER <= total <= min(len(packet), MOST):
        return None
    if int.from_bytes(packet[6:8]) & 0x3FFF or packet[_HEADER] not in _ERRORS:
        return None
    whole = packet[:total]
    sums = checksum(whole[:_HEADER]), checksum(whole[_HEADER:])
    return None if any(sums) else whole


def _answered(error: bytes, quoted: bytes, table: Returns) -> tuple[Entry, int] | None:
    """Find the entry that a reply to the quoted packet matches, and the place of its label."""
    if not _has_ports(quoted) or quoted[12:16] != error[16:20]:
        return None
    source, destination = _words(quoted[_HEADER : _HEADER + 4])
    places = {_DESTINATION_PORT: source, _SOURCE_PORT: destination}
    if quoted[9] == _UDP:
        places = {_BOTH_PORTS: destination << 16 | source, **places}
    for place, ports in places.items():
        entry = table.get((quoted[16:20], quoted[12:16], ports, place))
        if entry is not None:
            return entry, place
    return None


def _has_ports(quoted: bytes) -> bool:
    """Whether this is the start of a TCP or UDP packet: no IP options, not a later fragment."""
    return (
        len(quoted) >= _QUOTED_LEAST
        and quoted[0] == 0x45
        and int.from_bytes(quoted[2:4]) >= len(quoted)
        and not int.from_bytes(quoted[6:8]) & 0x1FFF
        and quoted[9] in (_TCP, _UDP)
    )


def _rewritten(quoted: bytes, write: _Swap, place: int) -> bytes:
    """Write addresses and the port opposite to `place` into a quoted packet.

    Checksums are updated, not recomputed (RFC 1624, equation 3): a damaged packet stays damaged.
    """
    result = bytearray(quoted)
    written = _words(write.source + write.destination)
    addresses = list(zip(_words(quoted[12:20]), written, strict=True))
    ports: list[tuple[int, int]] = []
    if write.port is not None:
        at = _HEADER + _OPPOSITE[place]
        ports = [(int.from_bytes(quoted[at : at + 2]), write.port)]
        result[at : at + 2] = write.port.to_bytes(2)
    _update(result, 10, addresses, may_be_absent=False)
    udp = quoted[9] == _UDP
    _update(result, _HEADER + (6 if udp else 16), addresses + ports, may_be_absent=udp)
    result[12:20] = write.source + write.destination
    return bytes(result)


def _update(
    packet: bytearray, at: int, changes: Iterable[tuple[int, int]], *, may_be_absent: bool
) -> None:
    """Update a checksum, if it is quoted. A UDP checksum of 0 means none (RFC 768)."""
    total = int.from_bytes(packet[at : at + 2])
    if len(packet) < at + 2 or (may_be_absent and not total):
        return
    for old, new in changes:
        summed = (~total & 0xFFFF) + (~old & 0xFFFF) + new
        summed = (summed & 0xFFFF) + (summed >> 16)
        total = ~((summed & 0xFFFF) + (summed >> 16)) & 0xFFFF
    packet[at : at + 2] = (total or (0xFFFF if may_be_absent else 0)).to_bytes(2)


def _words(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"!{len(data) // 2}H", data)


def _header(source: bytes, destination: bytes, size: int, identification: int) -> bytes:
    """Give the IPv4 header of an ICMP message of `size` bytes."""
    start = struct.pack("!BBHHHBB", 0x45, 0, _HEADER + size, identification, 0, _TTL, _ICMP)
    sums = checksum(start + bytes(2) + source + destination)
    return start + sums.to_bytes(2) + source + destination
