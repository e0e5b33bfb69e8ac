"""What each side sends of a capture, when, and with which labels."""

from __future__ import annotations

import struct
import time
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe.attacks.packets import CaptureError, packets, records
from hawser.probe.replay.recording import moved, split, times_ns, within
from hawser.probe.replay.sender import send_all
from hawser.store.labels import Label

FORWARD, BACK = bytes(range(12)), bytes(range(12, 24))
HOST, SERVER = "192.0.2.7", "198.51.100.9"


def ipv4(source: str, target: str, ports: tuple[int, int] = (1000, 53), fragment: int = 0) -> bytes:
    ends = ip_address(source).packed + ip_address(target).packed
    above = struct.pack(">HHHH", *ports, 28, 0) + bytes(20)
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(above), 0, fragment, 64, 17, 0)
    return b"x" * 12 + b"\x08\x00" + header + ends + above


ARP = b"x" * 12 + b"\x08\x06" + bytes(28)


def pcap(*frames: tuple[float, bytes], cut: int = 1 << 16, link: int = 1) -> bytes:
    content = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, cut, link)
    for moment, frame in frames:
        kept = frame[:cut]
        times = int(moment), round(moment % 1 * 1e6)
        content += struct.pack("<IIII", *times, len(kept), len(frame)) + kept
    return content


def sent(content: bytes) -> list[tuple[int, bytes]]:
    return [(each.time_ns, content[each.at : each.end]) for each in records(content)]


def test_a_flow_leaves_on_the_side_of_who_began_it() -> None:
    asked, answer = ipv4(HOST, SERVER), ipv4(SERVER, HOST, (53, 1000))
    other = ipv4(SERVER, HOST, (7, 8))
    found = split(pcap((5, asked), (5.5, answer), (6, other), (6.5, asked)), FORWARD, BACK)
    assert sent(bytes(found.forward.content)) == [
        (5_000_000_000, FORWARD + asked[12:]),
        (6_000_000_000, FORWARD + other[12:]),
        (6_500_000_000, FORWARD + asked[12:]),
    ]
    assert sent(bytes(found.back.content)) == [(5_500_000_000, BACK + answer[12:])]
    assert (found.forward.frames, found.back.frames) == (3, 1)
    assert (found.first_ns, found.last_ns) == (5_000_000_000, 6_500_000_000)


def test_later_fragments_leave_where_their_packet_does() -> None:
    asked, answer = ipv4(HOST, SERVER), ipv4(SERVER, HOST, (53, 1000))
    rest = ipv4(SERVER, HOST, fragment=3)
    found = split(pcap((1, asked), (2, answer), (3, rest)), FORWARD, BACK)
    assert (found.forward.frames, found.back.frames) == (1, 2)


@pytest.mark.parametrize(("link", "head"), [(101, b""), (113, b"c" * 14 + b"\x08\x00")])
def test_other_headers_become_ethernet(link: int, head: bytes) -> None:
    asked = ipv4(HOST, SERVER)
    found = split(pcap((1, head + asked[14:]), link=link), FORWARD, BACK)
    assert sent(bytes(found.forward.content)) == [(1_000_000_000, FORWARD + asked[12:])]


def test_frames_are_sorted_by_time() -> None:
    late, early = ipv4(SERVER, HOST, (53, 1000)), ipv4(HOST, SERVER)
    found = split(pcap((2, late), (1, early)), FORWARD, BACK)
    assert (found.first_ns, found.forward.frames, found.back.frames) == (1_000_000_000, 1, 1)


def test_what_was_cut_off_is_zeros_and_what_is_no_ip_is_left_out() -> None:
    found = split(pcap((1, ipv4(HOST, SERVER)), (2, ARP), cut=46), FORWARD, BACK)
    ((_, frame),) = sent(bytes(found.forward.content))
    assert len(frame) == len(ipv4(HOST, SERVER))
    assert frame[46:] == bytes(len(frame) - 46)
    assert (found.padded, found.skipped) == (1, 1)


@pytest.mark.parametrize("content", [b"", b"pcap?" * 10, pcap()])
def test_what_has_no_frames_is_refused(content: bytes) -> None:
    with pytest.raises(CaptureError):
        times_ns(content)
    with pytest.raises(CaptureError):
        split(content, FORWARD, BACK)


@given(st.lists(st.binary(max_size=80), max_size=5), st.integers(0, 40))
def test_anything_is_split_or_skipped(frames: list[bytes], cut: int) -> None:
    content = pcap(*((1 + place, frame) for place, frame in enumerate(frames)), cut=cut)
    try:
        found = split(content, FORWARD, BACK)
    except CaptureError:
        assert not frames
        return
    assert found.forward.frames + found.back.frames + found.skipped == len(frames)
    assert found.forward.frames + found.back.frames == len(list(packets(content)))


@given(st.floats(0.001, 1000), st.integers(0, 1 << 50), st.integers(0, 1 << 40))
def test_labels_keep_their_place_in_the_recording(speed: float, began: int, offset: int) -> None:
    zero = 1_421_927_414_000_000
    row = Label("scan", zero + offset, zero + offset + 999_999, source=ip_network(HOST))
    found = moved(row, zero, began, speed)
    assert found.first_us == began + round(offset / speed)
    assert (found.first_us <= found.last_us, found.source) == (True, row.source)


def test_labels_of_other_times_are_left_out() -> None:
    rows = [Label(name, first, first + 10) for name, first in (("a", 0), ("b", 20), ("c", 40))]
    assert [row.label for row in within(rows, 25_000, 35_000)] == ["b"]
    assert [row.label for row in within(rows, 10_000, 40_999)] == ["a", "b", "c"]


def test_frames_are_sent_in_time_and_what_is_not_taken_is_counted() -> None:
    begin, taken = time.monotonic_ns() + 20_000_000, []

    def send(frame: bytes) -> None:
        if len(frame) > 2:
            raise OSError
        taken.append((time.monotonic_ns() - begin, frame))

    frames = [(0, b"a"), (30_000_000, b"long"), (60_000_000, b"b")]
    found = send_all(frames, send, lambda at: begin + at)
    assert (found["sent"], found["unsent"]) == (2, 1)
    assert [frame for _, frame in taken] == [b"a", b"b"]
    assert [moment >= due for (moment, _), due in zip(taken, (0, 60_000_000), strict=True)] == [
        True,
        True,
    ]
