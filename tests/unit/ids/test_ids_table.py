"""Model files: what is written is read, what is damaged is refused."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flow_models import CONTENT, sealed
from hawser.ids import render, table
from hawser.ids.errors import IdsError
from hawser.ids.explain import explain
from hawser.ids.features import NAMES


def features(**values: float) -> NDArray[np.float64]:
    row = np.zeros(len(NAMES))
    for name, value in values.items():
        row[NAMES.index(name)] = value
    return row


def test_scores_follow_the_comparisons() -> None:
    model = table.parse(sealed(CONTENT), "m")
    rows = [
        features(total_fpackets=4.5),
        features(total_fpackets=5, duration=1e6),
        features(total_fpackets=5, duration=1e6 + 0.01),  # the same in single precision
        features(total_fpackets=5, duration=1e6 + 1),
    ]
    assert model.score(np.array(rows)).tolist() == [0.0, 0.75, 0.75, 1.0]


def test_what_is_written_is_read() -> None:
    model = table.parse(sealed(CONTENT), "m")
    again = table.parse(table.write(model), "m")
    assert table.write(again) == table.write(model)


def test_contributions_add_up_to_the_score() -> None:
    found = explain(table.parse(sealed(CONTENT), "m"), features(total_fpackets=5, duration=2e6))
    assert found.score == 1.0
    assert found.is_malicious
    assert found.contributions == pytest.approx({"total_fpackets": 0.5, "duration": 0.1})
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.score)
    assert [(s.feature, s.value, s.is_above) for s in found.steps] == [
        ("total_fpackets", 5, True),
        ("duration", 2e6, True),
    ]


def test_rules_say_what_the_tree_does() -> None:
    model = table.parse(sealed(CONTENT), "m")
    assert render.rules(model).splitlines()[2:] == [
        "  total_fpackets <= 4.5: 0",
        "  total_fpackets > 4.5:",
        "    duration <= 1e+06: 0.75",
        "    duration > 1e+06: 1",
    ]
    assert 't0n0 -> t0n2 [label="no"]' in render.dot(model)


def changed(**fields: object) -> dict[str, Any]:
    return CONTENT | fields


def tree(**columns: object) -> dict[str, Any]:
    return changed(trees=[CONTENT["trees"][0] | columns])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (changed(schema=2), "schema: found 2"),
        (changed(features=["duration", "colour"]), "found 'colour'"),
        (changed(combine="median"), "combine"),
        (changed(threshold=1.5), "threshold"),
        (changed(more=1), "found 'more'"),
        (changed(trees=[]), "trees: found 0"),
        ({"schema": 1}, "no 'name'"),
        (7, "not a model"),
        (tree(left=[0, 0, 3, 0, 0]), "children after their parents"),
        (tree(right=[5, 0, 4, 0, 0]), "children after their parents"),
        (tree(feature=[2, -1, 0, -1, -1]), "less than the 2 features"),
        (tree(value=[0, 0, 0, 0.5, 1.5]), "probabilities"),
        (tree(value=[0, 0, 0, 0.5]), "one length"),
        (tree(threshold=[1e999, 0, 1, 0, 0]), "finite"),
        (tree(threshold=["1", 0, 1, 0, 0]), "lists of numbers"),
    ],
)
def test_a_bad_model_is_refused(content: object, problem: str) -> None:
    with pytest.raises(IdsError) as caught:
        table.parse(sealed(content), "m")
    assert problem in str(caught.value)


def test_a_tree_deeper_than_the_daemon_reads_is_refused() -> None:
    inner = 65
    at = range(inner)
    columns = {
        "feature": [0] * inner + [-1] * (inner + 1),
        "threshold": [0.0] * (2 * inner + 1),
        "left": [inner + 1 + n for n in at] + [0] * (inner + 1),
        "right": [*range(1, inner), inner, *[0] * (inner + 1)],
        "value": [0.5] * (2 * inner + 1),
    }
    with pytest.raises(IdsError, match="at most 64 comparisons"):
        table.parse(sealed(changed(trees=[columns])), "m")


def test_a_changed_byte_is_noticed() -> None:
    with pytest.raises(IdsError, match="sha256"):
        table.parse(sealed(CONTENT).replace(b"by hand", b"by hans"), "m")


WRITTEN = sealed(CONTENT)


@given(st.data())
def test_no_bytes_end_in_anything_but_a_model_or_its_error(data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(WRITTEN)))
    found = WRITTEN[:cut] + data.draw(st.binary(max_size=20)) + WRITTEN[cut:]
    content = found[found.find(b'"model":') + 9 : -1]
    resealed = b'{"sha256": "%b", "model": %b}' % (
        hashlib.sha256(content).hexdigest().encode(),
        content,
    )
    for each in (found, resealed):
        with contextlib.suppress(IdsError):
            assert table.parse(each, "m").trees
