"""Figures of merit, against ones computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flow_models import CONTENT, sealed
from flow_records import record
from flow_records import table as records_of
from hawser.ids import table
from hawser.ids.errors import IdsError
from hawser.ids.evaluate import evaluate
from hawser.ids.flows import group
from hawser.ids.records import Records
from hawser.ids.train import Labelled

S = 1_000_000


def model() -> table.Model:
    """Scores `dscp` / 100: 0, 0.2, 0.6 or 1."""
    tree = {
        "feature": [0, -1, 0, -1, 0, -1, -1],
        "threshold": [10.0, 0, 40.0, 0, 80.0, 0, 0],
        "left": [1, 0, 3, 0, 5, 0, 0],
        "right": [2, 0, 4, 0, 6, 0, 0],
        "value": [0.5, 0.0, 0.5, 0.2, 0.5, 0.6, 1.0],
    }
    return table.parse(sealed(CONTENT | {"features": ["dscp"], "trees": [tree]}), "m")


def found() -> Labelled:
    """An attack found after 1 of 5 s, one missed, one found at its end, a false alarm, a pass."""
    rows = [
        record(srcport=1, reason="early", last_us=S, total_fvolume=100.0, dscp=60.0),
        record(srcport=1, reason="closed", last_us=5 * S, total_fvolume=1000.0, dscp=100.0),
        record(srcport=2, reason="closed", last_us=S, total_fvolume=500.0, dscp=20.0),
        record(srcport=3, reason="closed", last_us=S // 2, total_fvolume=50.0, dscp=100.0),
        record(srcport=4, reason="window", last_us=S, total_bvolume=300.0, dscp=60.0),
        record(srcport=4, reason="ended", last_us=9 * S, total_bvolume=400.0),
        record(srcport=5, reason="ended", last_us=9 * S, total_bvolume=7000.0),
    ]
    records: Records = records_of(*rows)
    labels = np.array(["flood", "flood", "scan", "benign", "benign"], object)
    return Labelled(records, group(records), labels, 2)


def test_flows_volume_and_time() -> None:
    result = evaluate(found(), model())
    named, volume = result.all.flows, result.all.volume
    cells = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    assert [getattr(named, cell) for cell in cells] == [2, 1, 1, 1]
    assert [getattr(result.all.in_time, cell) for cell in cells] == [1, 1, 1, 2]
    assert [getattr(volume, cell) for cell in cells] == [900, 100, 7300, 650]
    assert named.accuracy == 3 / 5
    assert (named.precision, named.recall, named.false_alarms) == (2 / 3, 2 / 3, 1 / 2)
    assert result.all.detection_s == pytest.approx((0.75, 0.995))


def test_groups() -> None:
    result = evaluate(found(), model())
    assert (result.short.flows.true_positives, result.short.flows.false_negatives) == (1, 1)
    assert (result.long.flows.true_positives, result.long.flows.false_positives) == (1, 1)
    assert result.by_attack["flood"].flows.recall == 0.5
    assert result.by_attack["scan"].detection_s == (0.5, 0.5)
    assert result.by_attack["scan"].volume.recall == 0


def test_scores() -> None:
    result = evaluate(found(), model())
    assert result.average_precision == pytest.approx((1 + 1 + 3 / 4) / 3)
    assert (0.2, 1.0, 1) in result.calibration
    assert result.brier == pytest.approx((0.4**2 + 0.8**2 + 0.6**2) / 7)
    assert result.unlabelled == 2


def test_another_threshold() -> None:
    assert evaluate(found(), model(), 0.9).all.flows.false_positives == 0


def test_nothing_labelled_is_an_error() -> None:
    nothing = found().only(np.zeros(5, bool))
    with pytest.raises(IdsError, match="none of 2 flows has a label"):
        evaluate(nothing, model())
