"""Blocking by several policies, on records made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flow_models import CONTENT, sealed
from flow_records import record
from flow_records import table as records_of
from hawser.ids import table
from hawser.ids.flows import group
from hawser.ids.replay import Policy, Replayed, replay
from hawser.ids.train import Labelled

S = 1_000_000
ATTACKER, CLIENT, OTHER = "10.0.0.66", "10.0.0.1", "10.0.0.7"


def model() -> table.Model:
    """Calls malicious what has a `dscp` over 40."""
    tree = {
        "feature": [0, -1, -1],
        "threshold": [40.0, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "value": [0.5, 0.0, 1.0],
    }
    return table.parse(sealed(CONTENT | {"features": ["dscp"], "trees": [tree]}), "m")


def flow(  # noqa: ANN201
    source: str, port: int, begin: float, length: float, *named_after: float, packets: float = 8
):
    """Records of a flow of 1000 bytes, of which those after some times are malicious."""
    first, last = round(begin * S), round((begin + length) * S)
    common = {"srcip": source, "srcport": port, "first_us": first}
    rows = [record(**common, reason="ended", last_us=last, total_fvolume=1000.0)]
    for after in named_after:
        at = first + round(after * S)
        early = {"reason": "early", "last_us": at, "total_fpackets": packets, "dscp": 60.0}
        rows.append(record(**common, **early))
    return rows


def replayed(policy: Policy, *flows) -> Replayed:  # noqa: ANN002
    records = records_of(*(row for rows in flows for row in rows))
    grouped = group(records)
    sources = records.texts("srcip")[grouped.first_row]
    label = np.where(sources == ATTACKER, "flood", "benign").astype(object)
    (result,) = replay(Labelled(records, grouped, label, 0), model(), [policy])
    return result


FALSE_ALARM = [flow(CLIENT, 1, 0, 10, 5), *(flow(CLIENT, port, 0, 60) for port in range(2, 8))]
FLOOD = [flow(ATTACKER, port, port * 0.1, 1, 0.05) for port in range(1, 31)]


def test_one_flow_is_enough_for_a_source_or_not() -> None:
    hasty, patient = (replayed(Policy(flows, 10), *FALSE_ALARM, *FLOOD) for flows in (1, 5))
    assert (hasty.benign_blocked, hasty.sources_blocked) == (7, 1)
    assert (patient.benign_blocked, patient.sources_blocked, patient.benign) == (1, 0, 7)
    assert (hasty.malicious_blocked, patient.malicious_blocked) == (30, 30)
    assert 0.9 < patient.malicious_volume_blocked < hasty.malicious_volume_blocked


def test_flows_count_within_the_time_alone() -> None:
    every_2_s = [flow(CLIENT, port, 2 * port, 0.2, 0.1) for port in range(1, 30)]
    quiet = flow(CLIENT, 100, 0, 200)
    assert replayed(Policy(5, 7), *every_2_s, quiet).sources_blocked == 0
    assert replayed(Policy(5, 9), *every_2_s, quiet).sources_blocked == 1


def test_answers_of_a_blocked_source_are_blocked_too() -> None:
    rows = flow(OTHER, 9, 0, 60)
    asked = [row | {"dstip": ATTACKER, "dstport": 22} for row in rows]
    assert replayed(Policy(5, 10), *FLOOD, asked).benign_blocked == 1


def test_what_is_named_at_its_end_is_not_blocked() -> None:
    over = flow(ATTACKER, 1, 0, 1)
    over[0]["dscp"] = 60.0
    result = replayed(Policy(5, 10), over)
    assert (result.malicious_blocked, result.malicious_volume_blocked) == (0, 0)


def test_half_of_a_flow_is_half_of_its_volume() -> None:
    result = replayed(Policy(5, 10), flow(ATTACKER, 1, 0, 10, 5))
    assert result.malicious_volume_blocked == pytest.approx(0.5, abs=0.01)


def test_a_short_record_blocks_its_flow_with_a_second_one_alone() -> None:
    once, twice = (flow(CLIENT, 1, 0, 40, *named, packets=5) for named in ((5,), (5, 15)))
    apart = flow(CLIENT, 1, 0, 40, 5, 16, packets=5)
    blocked = [replayed(Policy(5, 10), rows).benign_blocked for rows in (once, twice, apart)]
    assert blocked == [0, 1, 0]
    assert replayed(Policy(5, 10, records=1), once).benign_blocked == 1
    assert replayed(Policy(5, 10, packets=5), once).benign_blocked == 1


def test_short_records_of_several_flows_block_their_source() -> None:
    short = [flow(ATTACKER, port, port * 0.1, 0.08, 0.05, packets=1) for port in range(1, 31)]
    result = replayed(Policy(5, 10), *short)
    assert result.malicious_blocked == 26, "the first four pass, and what follows is blocked"
