"""ICMP errors about rewritten packets: led back as the `bpf` switch does it, whatever comes."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_openflow_wire import Datapath

import worked_example
from hawser.openflow import message
from hawser.openflow.errors import PER_SECOND, Errors
from hawser.openflow.icmp import MOST, Found, Translated, checksum, returns, translate
from hawser.overlay.config.openflow import OpenFlowSwitch, mac
from worked_example import AGENT, address, label, wide_entries, wide_ports

ROUTER = "203.0.113.1"


def switch(number: int, *, wide: bool = False) -> OpenFlowSwitch:
    example = worked_example.switch(number) | {"socket": "of"}
    return OpenFlowSwitch.model_validate(
        example | {"entries": wide_entries(number)} if wide else example
    )


def ip(source: str, destination: str, number: int, body: bytes, ttl: int = 60) -> bytes:
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(body), 7, 0x4000, ttl, number)
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    return start + checksum(start + bytes(2) + ends).to_bytes(2) + ends + body


def segment(source: str, destination: str, there: tuple[int, int], number: int = 6) -> bytes:
    """A packet of TCP or UDP with right checksums."""
    payload = b"some payload, odd"
    if number == 6:
        head, at = struct.pack("!HHIIBBHHH", *there, 1, 2, 0x50, 16, 500, 0, 0), 16
    else:
        head, at = struct.pack("!HHHH", *there, 8 + len(payload), 0), 6
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    pseudo = ends + struct.pack("!HH", number, len(head + payload))
    total = checksum(pseudo + head + payload)
    whole = head[:at] + total.to_bytes(2) + head[at + 2 :] + payload
    return ip(source, destination, number, whole)


def error(quoted: bytes, to: str, kind: int = 3, source: str = ROUTER) -> bytes:
    """Fragmentation needed (RFC 1191), or another error of a router."""
    body = bytes([kind, 4, 0, 0, 0, 0, 5, 120]) + quoted
    return ip(source, to, 1, body[:2] + checksum(body).to_bytes(2) + body[4:])


WAYS: dict[str, tuple[int, tuple[str, str, tuple[int, int]], tuple[str, str, tuple[int, int]]]] = {
    "source": (
        1,
        (address("1a"), address("3a"), (4000, label(1))),
        (address("1a"), address("2a"), (4000, AGENT)),
    ),
    "transit": (
        3,
        (address("3a"), address("2a"), (4000, label(1))),
        (address("1a"), address("3a"), (4000, label(1))),
    ),
    "return source": (
        2,
        (address("2a"), address("3a"), (label(1), 4000)),
        (address("2a"), address("1a"), (AGENT, 4000)),
    ),
    "return transit": (
        3,
        (address("3a"), address("1a"), (label(1), 4000)),
        (address("2a"), address("3a"), (label(1), 4000)),
    ),
}
"""Gateway, its packet on the wire, and the packet as it came to it."""


@pytest.mark.parametrize("number", [6, 17])
@pytest.mark.parametrize("way", WAYS)
@given(length=st.integers(14, 28).map(lambda words: 2 * words), kind=st.sampled_from([3, 11, 12]))
def test_an_error_is_about_the_packet_as_it_came(
    way: str, number: int, length: int, kind: int
) -> None:
    """Of however much is quoted: checksums and all are those of the packet before."""
    gateway, sent, came = WAYS[way]
    before = segment(*came, number)
    packet = error(segment(*sent, number)[:length], sent[0], kind)
    found = translate(packet + bytes(6), returns(switch(gateway).entries), 9)
    assert isinstance(found, Translated)
    told = found.packet
    assert checksum(told[:20]) == checksum(told[20:]) == 0
    assert int.from_bytes(told[2:4]) == len(told)
    own = "transit" not in way
    assert told[12:16] == socket.inet_aton(ROUTER if own else came[1])
    assert told[16:20] == socket.inet_aton(came[0])
    assert told[20:22] == packet[20:22]
    assert told[24:28] == packet[24:28]
    assert told[28:] == before[:length]


@pytest.mark.parametrize("way", WAYS)
def test_an_error_about_a_wide_label_is_led_back_and_ports_stay(way: str) -> None:
    gateway, (source, destination, _), (came_from, came_to, _) = WAYS[way]
    there = wide_ports(1)[:: -1 if "return" in way else 1]
    table = returns(switch(gateway, wide=True).entries)
    sent, before = (
        segment(*ends, there, 17) for ends in ((source, destination), (came_from, came_to))
    )
    found = translate(error(sent, source), table, 9)
    assert isinstance(found, Translated)
    assert found.packet[28:] == before
    assert checksum(found.packet[20:]) == 0
    assert translate(error(segment(source, destination, there), source), table, 9) is Found.OWN


TABLE = returns(switch(3).entries)
GATEWAY, SENT, _ = WAYS["transit"]
GOOD = error(segment(*SENT), SENT[0])


def changed(at: int, value: bytes, packet: bytes = GOOD) -> bytes:
    """A packet with other bytes and right checksums of the outer headers."""
    new = packet[:at] + value + packet[at + len(value) :]
    new = new[:22] + bytes(2) + new[24:]
    new = new[:22] + checksum(new[20:]).to_bytes(2) + new[24:]
    new = new[:10] + bytes(2) + new[12:]
    return new[:10] + checksum(new[:20]).to_bytes(2) + new[12:]


@pytest.mark.parametrize(
    ("packet", "found"),
    [
        (b"", Found.MALFORMED),
        (GOOD[:-1], Found.MALFORMED),
        (GOOD[:30] + b"\xff" + GOOD[31:], Found.MALFORMED),
        (changed(0, b"\x46"), Found.MALFORMED),
        (changed(6, b"\x20"), Found.MALFORMED),
        (changed(9, b"\x06"), Found.MALFORMED),
        (changed(20, b"\x08"), Found.MALFORMED),
        (changed(28, b"\x46"), Found.OWN),
        (changed(35, b"\x01"), Found.OWN),
        (changed(37, b"\x2f"), Found.OWN),
        (changed(40, b"\x09"), Found.OWN),
        (changed(50, (label(4)).to_bytes(2)), Found.OWN),
        (error(segment(*SENT)[:27], SENT[0]), Found.OWN),
        (error(segment(*SENT), address("3b")), Found.OWN),
        (error(segment(*SENT) + bytes(MOST), SENT[0]), Found.MALFORMED),
    ],
)
def test_what_is_not_led_back(packet: bytes, found: Found) -> None:
    assert isinstance(translate(GOOD, TABLE, 0), Translated)
    assert translate(packet, TABLE, 0) is found


@given(
    data=st.one_of(
        st.binary(max_size=700),
        st.builds(
            lambda at, value: GOOD[:at] + value + GOOD[at + len(value) :],
            st.integers(0, len(GOOD)),
            st.binary(min_size=1, max_size=8),
        ),
        st.builds(changed, st.integers(12, len(GOOD) - 8), st.binary(min_size=1, max_size=8)),
    )
)
def test_no_bytes_fail(data: bytes) -> None:
    """What is translated goes to whom an entry names, from an own address; all else nowhere."""
    found = translate(data, TABLE, 1)
    if isinstance(found, Translated):
        assert IPv4Address(found.packet[12:16]) == found.entry.write.source
        assert IPv4Address(found.packet[16:20]) == found.entry.write.destination


def test_errors_go_out_by_the_port_where_the_packet_came_in() -> None:
    errors = Errors(clock=lambda: 5.0)
    assert errors.take(bytes(14) + GOOD) is None, "no entries yet"
    errors.configure(switch(3))
    taken = errors.take(bytes(14) + GOOD)
    assert taken is not None
    port, frame = taken
    assert port == 501
    stations = mac(IPv4Address(address("3a", 1))) + mac(IPv4Address(address("3a")))
    assert frame[:12].hex() == stations.replace(":", "")
    assert frame[14:] == getattr(translate(GOOD, TABLE, 1), "packet", None)
    errors.configure(switch(1))
    sent = WAYS["source"][1]
    port, frame = errors.take(bytes(14) + error(segment(*sent), sent[0])) or (0, b"")
    assert port == 1001
    assert frame[:6].hex() == mac(IPv4Address(address("1a"))).replace(":", "")


def test_no_more_than_the_budget_of_a_second() -> None:
    now = [10.0]
    errors = Errors(clock=lambda: now[0])
    errors.configure(switch(3))
    taken = [errors.take(bytes(14) + GOOD) for _ in range(PER_SECOND + 50)]
    assert sum(each is not None for each in taken) == PER_SECOND
    now[0] += 1
    assert errors.take(bytes(14) + GOOD[:-1]) is None
    assert errors.take(b"") is None
    expected = {"translated": PER_SECOND, "own": 0, "malformed": 2, "limited": 50}
    assert errors.counts() == expected


def test_messages_are_what_a_switch_reads() -> None:
    """Types 29, 29 and 20: two changes of a meter, and a barrier (OpenFlow 1.3.5, A.1)."""

    def written(made: Any) -> bytes:  # noqa: ANN401 (os-ken has no types)
        made.set_xid(1)
        made.serialize()
        return bytes(made.buf)

    sent = [written(each) for each in message.limit(Datapath, 100)]
    assert [each[1] for each in sent] == [29, 29, 20]
    assert sent[1][8:16] == struct.pack("!HHI", 0, 0b0110, 0xFFFFFFFE)
    out = written(message.sending(Datapath, 501, b"frame"))
    assert (out[1], out[-5:]) == (13, b"frame")
