from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.bench import Bench, Case, Peer, order


def case(name: str) -> Case:
    return Case(name, "idle", dict)


@given(st.lists(st.text(), unique=True, max_size=8), st.integers(1, 6), st.integers())
def test_every_case_comes_once_a_round_and_rounds_follow_each_other(
    names: list[str], rounds: int, seed: int
) -> None:
    plan = order([case(name) for name in names], rounds, seed)

    assert [round_ for round_, _ in plan] == sorted(list(range(rounds)) * len(names))
    assert Counter((round_, c.peer) for round_, c in plan) == Counter(
        (round_, name) for round_ in range(rounds) for name in names
    )


def test_the_seed_decides_the_order() -> None:
    cases = [case(str(number)) for number in range(6)]
    assert order(cases, 5, 1) == order(cases, 5, 1)
    assert order(cases, 5, 1) != order(cases, 5, 2)


def test_rounds_have_orders_of_their_own() -> None:
    plan = order([case(str(number)) for number in range(6)], 5, 1)
    rounds = {tuple(c.peer for round_, c in plan if round_ == n) for n in range(5)}
    assert len(rounds) > 1


def test_a_missing_peer_has_no_cases() -> None:
    bench = Bench(
        name="x",
        title="X",
        about="",
        metrics=(),
        peers=[Peer("there", cases={"idle": dict}), Peer("away", missing="not installed")],
        checks=lambda _samples: [],
    )
    assert [c.peer for c in bench.cases()] == ["there"]
