from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.run import Patience, run
from harness.samples import Samples
from hawser.node.turn import VARIABLE, TurnError, Turns


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.delenv(VARIABLE, raising=False)
    return Turns("test", place=tmp_path)


def bench(**cases: Measure) -> Bench:
    peers = [Peer(name, cases={"idle": measure}) for name, measure in cases.items()]
    metrics = (Metric("rtt", "us", "RTT"),)
    return Bench("x", "X", "", metrics, peers, checks=lambda _samples: [])


def always_quiet() -> Patience:
    stat = iter(f"cpu 0 0 0 {number} 0 0 0 0 0 0" for number in range(1000))
    return Patience(0, read=lambda: next(stat), sleep=lambda _seconds: None)


def test_a_sample_that_fails_is_noted_and_taken_once_more(turns: Turns) -> None:
    calls = 0

    def flaky() -> Mapping[str, float]:
        nonlocal calls
        calls += 1
        if calls in {1, 2, 4}:
            raise SampleError("no answer")
        return {"rtt": calls}

    written = io.StringIO()
    outcome = run(
        bench(flaky=flaky, steady=lambda: {"rtt": 7.0}),
        Console(file=written),
        rounds=3,
        seed=1,
        patience=always_quiet(),
        turns=turns,
    )

    failed = [(f.peer, f.round, f.reason) for f in outcome.failures]
    assert failed == [("flaky", round_, "no answer") for round_ in (0, 1, 0)]
    assert outcome.samples.of("flaky", "rtt") == {2: 3, 1: 5}
    assert outcome.samples.of("steady", "rtt") == {0: 7, 1: 7, 2: 7}
    assert (outcome.rounds, outcome.taken, outcome.disturbed) == (3, 8, 0)
    assert "round 2/3: flaky, idle: failed: no answer" in written.getvalue()


def test_a_mistake_in_a_bench_is_not_taken_for_a_failed_sample(turns: Turns) -> None:
    def broken() -> Mapping[str, float]:
        raise KeyError("rtt")

    with pytest.raises(KeyError):
        run(
            bench(broken=broken),
            Console(file=io.StringIO()),
            rounds=1,
            seed=1,
            patience=always_quiet(),
            turns=turns,
        )


def test_derived_metrics_join_the_samples(turns: Turns) -> None:
    def derive(samples: Samples) -> None:
        samples.add("a", 0, {"added": samples.of("a", "rtt")[0] - 1})

    one = bench(a=lambda: {"rtt": 5.0})
    derived = Bench(one.name, one.title, "", one.metrics, one.peers, one.checks, derive)
    outcome = run(
        derived, Console(file=io.StringIO()), rounds=1, seed=1, patience=always_quiet(), turns=turns
    )
    assert outcome.samples.of("a", "added") == {0: 4}


def test_a_sample_is_a_turn(tmp_path: Path, turns: Turns) -> None:
    """While it is taken, another measurement would have to wait."""
    other = Turns("other", place=tmp_path, longest=0)

    def alone() -> bool:
        try:
            with other.take():
                return False
        except TurnError:
            return True

    outcome = run(
        bench(a=lambda: {"rtt": float(alone())}),
        Console(file=io.StringIO()),
        rounds=1,
        seed=1,
        patience=always_quiet(),
        turns=turns,
    )
    assert outcome.samples.of("a", "rtt") == {0: 1.0}
    assert not alone()


class Machine:
    """Readings of /proc/stat, and a clock that passes as they say."""

    def __init__(self, *passed: str) -> None:
        self._passed = [[int(part) for part in text.split()] for text in passed]
        self._now = [0, 0, 0]

    def read(self) -> str:
        busy, niced, idle = self._now
        return f"cpu {busy} {niced} 0 {idle} 0 0 0 0 0 0"

    def sleep(self, _seconds: float = 0) -> None:
        step = self._passed.pop(0) if len(self._passed) > 1 else self._passed[0]
        self._now = [now + more for now, more in zip(self._now, step, strict=True)]

    def clock(self) -> float:
        return float(sum(self._now))

    def patience(self, budget: float) -> Patience:
        return Patience(budget, read=self.read, sleep=self.sleep, clock=self.clock)


def test_patience_waits_for_quiet() -> None:
    #         busy niced idle: a busy window, a quiet one, then the sample
    machine = Machine("90 0 10", "0 0 100", "100 0 0")
    assert machine.patience(10).undisturbed(machine.sleep)


def test_patience_has_a_disturbed_sample_taken_again() -> None:
    machine = Machine("0 0 100", "50 50 0", "0 0 100", "100 0 0")
    taken = 0

    def take() -> None:
        nonlocal taken
        taken += 1
        machine.sleep()

    assert machine.patience(1000).undisturbed(take)
    assert taken == 2


def test_patience_ends_with_its_budget() -> None:
    machine = Machine("50 50 0")
    patience = machine.patience(150)
    taken = 0

    def take() -> None:
        nonlocal taken
        taken += 1
        machine.sleep()

    assert not patience.undisturbed(take)
    assert taken == 1
    assert not patience.undisturbed(take)
    assert taken == 2


def test_a_disturbed_sample_is_counted_and_kept(turns: Turns) -> None:
    machine = Machine("50 50 0")
    outcome = run(
        bench(a=lambda: {"rtt": 1.0}),
        Console(file=io.StringIO()),
        rounds=2,
        seed=1,
        patience=machine.patience(0),
        turns=turns,
    )
    assert outcome.disturbed == 2
    assert outcome.samples.of("a", "rtt") == {0: 1.0, 1: 1.0}
