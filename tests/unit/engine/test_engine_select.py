"""Parts of a workflow."""

from __future__ import annotations

import pytest
from engine_fakes import workflow

import synthetic
from hawser.engine import select
from hawser.engine.errors import InputError
from hawser.spec.measurement import Iperf3, Ping
from hawser.spec.units import Duration
from hawser.spec.workflow import Assertion, Variant

TABLE = synthetic.table1()


@pytest.mark.parametrize(
    ("patterns", "count"),
    [
        (["tcp-ipomp"], 4),
        (["scheme=tcp-ipomp,udp-ipomp"], 8),
        (["tcp-ipomp,udp-ipomp"], 8),
        (["1:2:4:33", "tcp-ipomp, udp-ipomp"], 2),
        (["rates=1:2:4:33"], 5),
    ],
)
def test_only(patterns: list[str], count: int) -> None:
    assert len(select.only(TABLE, patterns).variants) == count


def test_what_is_said_of_other_variants_goes() -> None:
    kept = select.only(TABLE, ["scheme=tcp-ipomp"])
    assert {r.variant["scheme"] for r in kept.reference} == {"tcp-ipomp"}
    assert len(kept.reference) == 4
    quick = select.only(synthetic.quickstart(), ["ipip-best"])
    assert [assertion.metric for assertion in quick.assertions] == ["rtt"]


@pytest.mark.parametrize(("kept", "asserted"), [("1,2,3", 1), ("1,3", 0)])
def test_a_line_goes_where_too_few_points_are_left(kept: str, asserted: int) -> None:
    whole = synthetic.quickstart()
    scenario = whole.variants[0].scenario
    variants = tuple(Variant(labels={"length": v}, scenario=scenario) for v in "1234")
    line = (Assertion(metric="rtt", linear_in="length", at_least=0.98),)
    changed = whole.model_copy(update={"variants": variants, "assertions": line, "reference": ()})
    assert len(select.only(changed, [kept]).assertions) == asserted


@pytest.mark.parametrize(
    ("patterns", "complaint"),
    [
        (["tcp"], "found 'tcp', expected a value of a variant: rates=10:10:10:10, "),
        (["tcp-ipomp", "udp-ipomp"], "no variant satisfies all of them"),
        (["scheme=1:2:4:33"], "found 'scheme=1:2:4:33'"),
        ([""], "found ''"),
    ],
)
def test_what_selects_nothing_is_told(patterns: list[str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        select.only(TABLE, patterns)


def test_lasting_changes_what_has_a_duration() -> None:
    changed = select.lasting(synthetic.quickstart(), Duration(3))
    for variant in changed.variants:
        tcp, rtt = variant.scenario.measurements["tcp"], variant.scenario.measurements["rtt"]
        assert isinstance(tcp, Iperf3)
        assert isinstance(rtt, Ping)
        assert (tcp.duration, tcp.warmup, rtt.echoes) == (3, 2, 20)


def test_a_workflow_without_axes_has_nothing_to_select() -> None:
    plain = workflow("a")
    bare = plain.model_copy(
        update={"variants": (plain.variants[0].model_copy(update={"labels": {}}),)}
    )
    with pytest.raises(InputError, match="expected a value of a variant: none"):
        select.only(bare, ["x"])
