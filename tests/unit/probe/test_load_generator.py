"""Trials of the load generator that are repeated, without frames."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from hawser.probe.base import ProbeError
from hawser.probe.load import samples
from hawser.probe.load.config import Amount
from hawser.probe.load.daemon import Received, Sent
from hawser.probe.load.generator import Generator, Outcome
from hawser.probe.load.port import SendingPort
from hawser.spec.measurement import Load

SECOND = Amount(frames=1000, rate=1000.0)


class Interrupted(Generator):
    """A generator that leaves so many frames unsent, attempt by attempt, and loses so many more."""

    def __init__(self, unsent: Sequence[int], lost: int = 0) -> None:
        node: Any = None
        traffic = Load.model_validate(
            {
                "probe": "load",
                "from": "a",
                "to": "b",
                "sizes": {"fixed": "60 B"},
                "rate": "1 Mbit/s",
            }
        )
        super().__init__(
            traffic,
            (node, node),
            (SendingPort("eth0", "02:00:00:00:00:02"), "eth0"),
            (ip_address("10.0.0.1"), ip_address("10.0.0.2")),
            "xdp",
            hawserd=Path("hawserd"),
            drain=0,
            clock=lambda: self.now,
        )
        self.now = 0.0
        self._unsent = list(unsent)
        self._lost = lost

    def _once(self, amount: Amount) -> Outcome:
        unsent = self._unsent.pop(0)
        self.now += amount.frames / (amount.rate or 1)
        sent = amount.frames - unsent
        return Outcome(
            Sent(scheduled=amount.frames, frames=sent, unsent=unsent, refused=0, cpu_s=0.1),
            Received.model_construct(unique=sent - self._lost),
        )


def test_a_trial_says_how_often_it_was_repeated() -> None:
    generator = Interrupted([400, 20, 1, 7])
    assert generator.trial(SECOND).discarded == (400, 20)
    with pytest.raises(IndexError):  # nothing is left: the fourth is not a repetition
        generator.trial(SECOND)


def test_a_trial_at_once_was_not_repeated() -> None:
    outcome = Interrupted([0]).trial(SECOND)
    assert outcome.discarded == ()
    assert samples.repeated("m", [outcome.discarded]).value == 0


def test_repetitions_of_all_trials_are_one_sample() -> None:
    sample = samples.repeated("m", [(400, 20), (), (3,)])
    assert (sample.metric, sample.value, sample.unit) == ("trials_repeated", 3, "trials")


def test_a_generator_that_never_keeps_up_is_an_error() -> None:
    with pytest.raises(ProbeError, match=r"in 8 attempts: 8 of 1000 frames were not sent"):
        Interrupted([8] * 9).trial(SECOND)


def test_no_repetition_lasts_beyond_the_end() -> None:
    generator = Interrupted([8] * 9)
    with pytest.raises(ProbeError, match=r"in 3 attempts"):
        generator.trial(SECOND, end=3.5)
    assert generator.now == 3.0


@pytest.mark.parametrize(
    ("lost", "losses", "attempts"),
    [
        pytest.param(110, (0.1,), 1, id="more than a tenth, though the interruption cost as many"),
        pytest.param(108, (0.1,), 2, id="the interruption may have lost what is beyond a tenth"),
        pytest.param(2, (0.01,), 1, id="a hundredth at most, though what was not sent were lost"),
        pytest.param(3, (0.01,), 2, id="what was not sent decides"),
        pytest.param(50, (0.0, 0.1), 1, id="between both, whatever became of the rest"),
        pytest.param(0, (0.0, 0.1), 2, id="what was not sent decides one of two"),
        pytest.param(900, (), 2, id="compared with nothing"),
    ],
)
def test_frames_not_sent_may_not_matter(
    lost: int, losses: tuple[float, ...], attempts: int
) -> None:
    generator = Interrupted([8, 0], lost=lost)
    outcome = generator.trial(SECOND, losses=losses)
    assert generator.now == attempts
    assert outcome.sent.unsent == (8 if attempts == 1 else 0)
    assert outcome.lost == lost
