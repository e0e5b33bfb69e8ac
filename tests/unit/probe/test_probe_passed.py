"""What got through a chain, from captures made by hand; and captures that are none."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe.attacks.packets import CaptureError, Way, packets
from hawser.probe.attacks.passed import compare, compared, samples
from hawser.probe.base import ProbeError
from hawser.spec.workflow import Scenario
from hawser.store.labels import Label, Labels, write

HOST, OTHER, SERVER = "10.0.0.1", "10.0.0.2", "10.0.0.9"
Sent = tuple[float, str, int, str, int, int]
"""Seconds, source, its port, target, its port, bytes of the IP packet."""


def udp(sent: Sent) -> bytes:
    _, source, source_port, target, target_port, size = sent
    ends = ip_address(source).packed + ip_address(target).packed
    header = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 17, 0) + ends
    ports = struct.pack(">HHHH", source_port, target_port, size - 20, 0)
    return bytes(12) + b"\x08\x00" + header + ports


def pcap(every: Iterable[Sent], order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    content = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 96, 1)
    unit = 1_000_000 if magic == 0xA1B2C3D4 else 1_000_000_000
    for sent in every:
        frame, whole = udp(sent), int(sent[0])
        fraction = round((sent[0] - whole) * unit)
        content += struct.pack(f"{order}IIII", whole, fraction, len(frame), 14 + sent[5]) + frame
    return content


def flow(
    begin: float, count: int, source: str = HOST, port: int = 1000, gap: float = 0.1
) -> list[Sent]:
    return [(begin + number * gap, source, port, SERVER, 53, 100) for number in range(count)]


ATTACK = Label(
    "udp-flood", 10_000_000, 20_000_000, "hping3", None, ip_network(HOST), None, ip_network(SERVER)
)


def found(before: Sequence[Sent], behind: Sequence[Sent]) -> dict[tuple[str, str], float]:
    rows = samples(compare(packets(pcap(before)), packets(pcap(behind)), Labels([ATTACK])))
    return {(row.subject, row.metric): row.value for row in rows}


def test_the_confusion_matrix_and_volumes() -> None:
    flood, benign = flow(10, 60), flow(10, 10, OTHER)
    other = flow(12, 10, port=1001)
    values = found(sorted([*flood, *other, *benign]), sorted([*flood[:15], *other, *benign]))
    assert (values["", "malicious_blocked"], values["", "malicious_passed"]) == (1, 1)
    assert (values["", "benign_blocked"], values["", "benign_passed"]) == (0, 1)
    assert values["", "accuracy"] == pytest.approx(200 / 3)
    assert (values["", "malicious_flows_blocked"], values["", "benign_flows_blocked"]) == (50, 0)
    assert values["", "malicious_volume_blocked"] == pytest.approx(100 * 45 / 70)
    assert values["", "flood_volume_blocked"] == 100
    assert values["attack:udp-flood", "late_volume_blocked"] == 100
    assert values["", "time_to_block"] == pytest.approx(1400)
    assert values["flows:short", "malicious_passed"] == 1
    assert values["flows:short", "malicious_blocked"] == 0


def test_a_benign_flow_that_is_blocked_counts_against_accuracy() -> None:
    values = found(flow(10, 5, OTHER), flow(10, 4, OTHER))
    assert (values["", "benign_blocked"], values["", "accuracy"]) == (1, 0)
    assert values["", "benign_flows_blocked"] == 100


def test_what_passes_late_is_told() -> None:
    flood = flow(10, 60)
    values = found(flood, [*flood[:10], *flood[50:]])
    assert values["", "late_volume_blocked"] == pytest.approx(100 * 20 / 30)


def test_merged_packets_are_not_missing() -> None:
    merged = [(10.0, OTHER, 1000, SERVER, 53, 28 + 3 * 72)]
    values = found(flow(10, 3, OTHER), merged)
    assert (values["", "benign_blocked"], values["", "accuracy"]) == (0, 100)


def test_answers_belong_to_the_flow_that_they_answer() -> None:
    asked = flow(10, 3)
    answers: list[Sent] = [(10.05, SERVER, 53, HOST, 1000, 500)]
    values = found(sorted([*asked, *answers]), asked)
    assert (values["", "malicious_passed"], values["", "malicious_blocked"]) == (1, 0)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_files_of_both_orders_and_units_are_read(order: str, magic: int) -> None:
    (packet,) = packets(pcap([(7.25, HOST, 1, SERVER, 2, 300)], order, magic))
    assert (packet.time_us, packet.size, packet.payload) == (7_250_000, 300, 300 - 28)
    assert packet.way == Way(17, ip_address(HOST).packed, 1, ip_address(SERVER).packed, 2)
    assert packet.way.back.back == packet.way


def test_tags_are_skipped_and_other_frames_are_none() -> None:
    content = bytearray(pcap([]))
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    tagged = udp((0, HOST, 1, SERVER, 2, 100))
    tagged = tagged[:12] + b"\x81\x00\x00\x05" + tagged[12:]
    for frame in (arp, tagged, b"short"):
        content += struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame
    assert [packet.way.source_port for packet in packets(bytes(content))] == [1]


@given(st.binary(max_size=200))
def test_no_bytes_fail_otherwise(tail: bytes) -> None:
    for content in (tail, pcap([]) + tail, pcap(flow(1, 1)) + tail, pcap(flow(1, 1))[: len(tail)]):
        try:
            assert all(packet.size < 1 << 17 for packet in packets(content))
        except CaptureError:
            continue


def test_a_full_capture_is_refused(tmp_path: Path) -> None:
    scenario = Scenario.model_validate(
        {
            "topology": {"nodes": {"a": {}, "b": {}}, "links": {"x": {"ends": ["a.e", "b.e"]}}},
            "measurements": {"rtt": {"probe": "ping", "from": "a", "to": "b"}},
            "capture": {
                "one": {"at": "a.e", "size": "2 kB", "snap": 96},
                "two": {"at": "b.e", "size": "1 MB", "snap": 96},
            },
            "attacks": {"from": ["a"], "to": ["b"], "passed": {"before": "one", "behind": "two"}},
        }
    )
    write(tmp_path / "labels.csv", [ATTACK])
    (tmp_path / "capture-two.pcap").write_bytes(pcap(flow(10, 30)))
    (tmp_path / "capture-one.pcap").write_bytes(pcap(flow(10, 36)))
    with pytest.raises(ProbeError, match="one is full"):
        compared(scenario, tmp_path, all_labelled=True)
    (tmp_path / "capture-one.pcap").write_bytes(pcap(flow(10, 30)))
    assert {row.metric: row.value for row in compared(scenario, tmp_path, all_labelled=True)}[
        "accuracy"
    ] == 0
    said = tmp_path / "capture-two.txt"
    said.write_text("36 packets received by filter\n0 packets dropped by kernel\n")
    assert compared(scenario, tmp_path, all_labelled=True)
    said.write_text("36 packets received by filter\n6 packets dropped by kernel\n")
    with pytest.raises(ProbeError, match="two lacks 6 packets"):
        compared(scenario, tmp_path, all_labelled=True)
    said.unlink()
    (tmp_path / "capture-one.pcap").write_bytes(b"")
    with pytest.raises(ProbeError, match="found no header"):
        compared(scenario, tmp_path, all_labelled=True)
