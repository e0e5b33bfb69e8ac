"""Captures of seeded traffic with known labels, packet by packet.

Benign: web-like TCP conversations, and DNS over UDP. Attacks: a port scan, a SYN flood, and slow
requests. The hosts of both kinds are in the same networks, so that no address gives a label away.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from random import Random

from hawser.store import labels as label_files
from hawser.store.labels import Label, Ports

START_US = 1_780_000_000_000_000
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Ends:
    """A conversation: client, server, protocol."""

    client: tuple[str, int]
    server: tuple[str, int]
    protocol: int


@dataclass(frozen=True)
class Frame:
    """A packet at its time."""

    time_us: int
    packet: bytes


def write(folder: Path, seed: int, flows: int, attacks: float = 0.3) -> tuple[Path, Path]:
    """Write `seed.pcap` and `seed.csv`, the labels; a share of the flows are attacks."""
    rng = Random(seed)  # noqa: S311 (traffic)
    frames: list[Frame] = []
    rows: list[Label] = []
    for number in range(flows):
        is_attack = rng.random() < attacks
        make = rng.choice(_ATTACKS if is_attack else _BENIGN)
        start = START_US + rng.randrange(60_000_000)
        ends, made = make(rng, number, start)
        made = list(made)
        frames += made
        text = make.__name__.strip("_") if is_attack else label_files.BENIGN
        rows.append(_label(ends, text, made))
    capture, labels = folder / f"{seed}.pcap", folder / f"{seed}.csv"
    capture.write_bytes(_pcap(sorted(frames, key=lambda frame: frame.time_us)))
    label_files.write(labels, rows)
    return capture, labels


def _label(ends: Ends, text: str, frames: list[Frame]) -> Label:
    (client, client_port), (server, server_port) = ends.client, ends.server
    return Label(
        label=text,
        first_us=min(frame.time_us for frame in frames),
        last_us=max(frame.time_us for frame in frames),
        protocol=ends.protocol,
        source=ip_network(client),
        source_ports=Ports(client_port, client_port),
        target=ip_network(server),
        target_ports=Ports(server_port, server_port),
    )


Maker = Callable[[Random, int, int], tuple[Ends, Iterator[Frame]]]


def _ends(rng: Random, number: int, protocol: int, port: int) -> Ends:
    client = f"10.1.{number >> 8 & 255}.{number & 255}"
    return Ends(
        (client, rng.randrange(1024, 65536)), (f"10.2.0.{rng.randrange(1, 9)}", port), protocol
    )


def _web(rng: Random, number: int, start: int) -> tuple[Ends, Iterator[Frame]]:
    ends = _ends(rng, number, 6, 443)

    def frames() -> Iterator[Frame]:
        at, rtt = start, rng.randrange(2_000, 80_000)
        yield Frame(at, _tcp(ends, True, SYN, 0))
        yield Frame(at + rtt, _tcp(ends, False, SYN | ACK, 0))
        yield Frame(at + rtt + 50, _tcp(ends, True, ACK, 0))
        for _ in range(rng.randrange(1, 6)):
            at += rtt + rng.randrange(1_000, 700_000)
            yield Frame(at, _tcp(ends, True, PSH | ACK, rng.randrange(80, 900)))
            for part in range(rng.randrange(1, 12)):
                yield Frame(at + rtt + part * 120, _tcp(ends, False, ACK, 1448))
                yield Frame(at + rtt + part * 120 + 40, _tcp(ends, True, ACK, 0))
        at += 2 * rtt
        yield Frame(at, _tcp(ends, True, FIN | ACK, 0))
        yield Frame(at + rtt, _tcp(ends, False, FIN | ACK, 0))
        yield Frame(at + rtt + 60, _tcp(ends, True, ACK, 0))

    return ends, frames()


def _dns(rng: Random, number: int, start: int) -> tuple[Ends, Iterator[Frame]]:
    ends = _ends(rng, number, 17, 53)
    delay = rng.randrange(500, 60_000)
    question = Frame(start, _udp(ends, True, rng.randrange(30, 60)))
    answer = Frame(start + delay, _udp(ends, False, rng.randrange(60, 400)))
    return ends, iter((question, answer))


def _scan(rng: Random, number: int, start: int) -> tuple[Ends, Iterator[Frame]]:
    ends = _ends(rng, number, 6, rng.randrange(1, 10_000))
    refused = Frame(start + rng.randrange(300, 3_000), _tcp(ends, False, RST | ACK, 0))
    return ends, iter((Frame(start, _tcp(ends, True, SYN, 0)), refused))


def _flood(rng: Random, number: int, start: int) -> tuple[Ends, Iterator[Frame]]:
    ends = _ends(rng, number, 6, 443)
    count, gap = rng.randrange(20, 60), rng.randrange(50_000, 120_000)
    return ends, (Frame(start + i * gap, _tcp(ends, True, SYN, 0)) for i in range(count))


def _slow(rng: Random, number: int, start: int) -> tuple[Ends, Iterator[Frame]]:
    ends = _ends(rng, number, 6, 443)

    def frames() -> Iterator[Frame]:
        yield Frame(start, _tcp(ends, True, SYN, 0))
        yield Frame(start + 900, _tcp(ends, False, SYN | ACK, 0))
        yield Frame(start + 950, _tcp(ends, True, ACK, 0))
        at = start + 1_000
        for _ in range(rng.randrange(8, 20)):
            at += rng.randrange(400_000, 900_000)
            yield Frame(at, _tcp(ends, True, PSH | ACK, rng.randrange(8, 24)))
            yield Frame(at + 200, _tcp(ends, False, ACK, 0))

    return ends, frames()


_BENIGN: tuple[Maker, ...] = (_web, _dns)
_ATTACKS: tuple[Maker, ...] = (_scan, _flood, _slow)


def _tcp(ends: Ends, forward: bool, flags: int, payload: int) -> bytes:
    source, destination = (ends.client, ends.server) if forward else (ends.server, ends.client)
    header = struct.pack(">HHIIBBHHH", source[1], destination[1], 0, 0, 0x50, flags, 64240, 0, 0)
    return _ip(source[0], destination[0], 6, header + bytes(payload))


def _udp(ends: Ends, forward: bool, payload: int) -> bytes:
    source, destination = (ends.client, ends.server) if forward else (ends.server, ends.client)
    header = struct.pack(">HHHH", source[1], destination[1], 8 + payload, 0)
    return _ip(source[0], destination[0], 17, header + bytes(payload))


def _ip(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    ends = b"".join(bytes(map(int, each.split("."))) for each in (source, destination))
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0)
    return head + ends + payload


_RAW = 101
"""Link type of captures of IP packets."""


def _pcap(frames: list[Frame]) -> bytes:
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, _RAW)]
    for frame in frames:
        seconds, us = divmod(frame.time_us, 1_000_000)
        parts += (
            struct.pack("<IIII", seconds, us, len(frame.packet), len(frame.packet)),
            frame.packet,
        )
    return b"".join(parts)
