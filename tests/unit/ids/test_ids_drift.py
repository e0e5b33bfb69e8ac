"""Drift is seen where there is some, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from flow_models import CONTENT, sealed
from flow_records import random
from hawser.ids.drift import LIMIT, SCORE, drift, reference
from hawser.ids.errors import IdsError
from hawser.ids.features import NAMES
from hawser.ids.records import Records
from hawser.ids.table import Model, parse


def model(records: Records) -> Model:
    made = parse(sealed(CONTENT), "m")
    scores = made.score(records.features)
    return made.with_(training={"reference": reference(records, made.features, scores)})


def test_records_of_another_seed_have_not_drifted() -> None:
    rows = drift(random(3000, seed=2), model(random(3000)))
    assert {row.column for row in rows} == {"duration", "total_fpackets", SCORE}
    assert max(row.index for row in rows) < 0.05


def test_a_column_that_moved_is_first() -> None:
    found = random(3000, seed=2)
    found.features[:, NAMES.index("duration")] *= 3
    first, *others = drift(found, model(random(3000)))
    assert first.column == "duration"
    assert first.index > LIMIT
    assert first.distance > 0.3
    assert all(row.index < LIMIT for row in others if row.column != SCORE)


def test_the_index_is_that_of_its_definition() -> None:
    before, now = np.full(10, 0.1), np.array([0.19, 0.01] + [0.1] * 8)
    made = model(random(1000))
    edges = [float(edge) for edge in range(1, 10)]
    described = {"duration": {"edges": edges, "shares": before.tolist()}}
    found = random(1000)
    values = np.repeat(np.arange(10) + 0.5, (now * 1000).round().astype(int))
    found.features[:, NAMES.index("duration")] = values
    (row,) = drift(found, made.with_(training={"reference": described}))
    assert row.index == pytest.approx(((now - before) * np.log(now / before)).sum())
    assert row.distance == pytest.approx(0.09)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(IdsError, match="found 10, expected at least 500"):
        drift(random(10), model(random(1000)))
    with pytest.raises(IdsError, match="no `reference`"):
        drift(random(1000), parse(sealed(CONTENT), "m"))
    broken = model(random(1000)).with_(training={"reference": {"duration": {"edges": [1]}}})
    with pytest.raises(IdsError, match="reference"):
        drift(random(1000), broken)
