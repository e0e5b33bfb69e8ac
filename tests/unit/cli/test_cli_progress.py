"""What a run says while it goes on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from hawser.cli.output import duration
from hawser.cli.progress import Bar, Lines
from hawser.store.manifest import TrialPlan

TRIAL = TrialPlan(trial=2, variant={"transport": "[red]x"}, repeat=1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def drawn(bar: Bar, console: Console) -> str:
    bar._progress.refresh()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    console.file.truncate(0)
    return text.rpartition("trial ")[2]


def test_the_bar_shows_what_is_done_and_the_time_left() -> None:
    clock, console = (
        Clock(),
        Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False),
    )
    with Bar(console, clock) as bar:
        bar.begun(Path("runs/x"), 0, 4, 40.0)
        bar.trial(TRIAL, 10.0)
        bar.stage("tcp")
        clock.now += 5
        text = drawn(bar, console)
        assert "2/4  [red]x  tcp" in text
        assert "35 s left" in text
        assert "12%" in text
        clock.now += 60  # late: the trial should long be over, the others are still to come
        assert "30 s left" in drawn(bar, console)
        bar.ended(TRIAL, None, 4, 50.0)
        bar.stage("tcp")
        assert "50 s left" in drawn(bar, console)


def test_a_void_trial_is_told_above_the_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    with Bar(console) as bar:
        bar.ended(TRIAL, "ping: no answer", 4, 1.0)
    assert isinstance(console.file, io.StringIO)
    assert "trial 2 ([red]x) is void: ping: no answer" in console.file.getvalue()


def test_without_a_terminal_there_are_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as lines:
        lines.begun(Path("runs/x"), 1, 4, 61.0)
        lines.trial(TRIAL, 10.0)
        lines.stage("tcp")
        lines.ended(TRIAL, None, 4, 51.0)
        lines.ended(TRIAL, "no answer", 4, 51.0)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "runs/x: 4 trials, 1 done already, about 1 min 1 s",
        "trial 2 ([red]x) is void: no answer",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3599, "59 min 59 s"),
        (3600, "1 h"), (7500, "2 h 5 min"),
    ],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
