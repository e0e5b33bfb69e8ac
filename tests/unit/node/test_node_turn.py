"""Turns to measure on this machine, between processes that are really there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hawser.node import turn
from hawser.node.turn import VARIABLE, TurnError, Turns

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


HOLDER = """
import sys
from pathlib import Path
from hawser.node.turn import Turns
with Turns("bench tunnel", place=Path(sys.argv[1])).take():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_free_machine_is_not_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    with Turns("run a", place=tmp_path).take(said.append) as waited:
        assert waited < PATIENCE
        assert turn.measuring(tmp_path).startswith(f"run a (process {os.getpid()}, since ")
    assert said == []
    assert turn.measuring(tmp_path) == ""


def test_the_second_says_for_whom_it_waits_and_for_how_long(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    said: list[str] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    turns = Turns("run b", place=tmp_path, longest=30, sleep=sleep, clock=lambda: now[0])
    with pytest.raises(TurnError, match="bench tunnel") as caught, turns.take(said.append):
        pass
    assert f"(process {holder.pid}, since " in str(caught.value)
    assert "after a wait of 30 s" in str(caught.value)
    assert len(said) == 1
    assert said[0].startswith(f"waiting for bench tunnel (process {holder.pid}, since ")
    assert now[0] == pytest.approx(30, abs=0.5)


def test_a_killed_holder_keeps_nobody_waiting(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    def sleep(_: float) -> None:
        holder.kill()
        holder.wait(PATIENCE)

    said: list[str] = []
    with Turns("run b", place=tmp_path, sleep=sleep).take(said.append):
        assert turn.measuring(tmp_path).startswith("run b")
    assert len(said) == 1


def test_an_interrupted_wait_gives_everything_back(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Turns("run b", place=tmp_path, sleep=sleep).take():
        pass
    assert holder.stdin is not None
    holder.communicate("\n")
    with Turns("run c", place=tmp_path, longest=0).take():
        pass


def test_turns_alternate(tmp_path: Path) -> None:
    """A run of many trials does not keep another one out until its end."""
    order: list[str] = []
    begun = threading.Barrier(2)

    def measure(name: str) -> None:
        turns = Turns(name, place=tmp_path)
        begun.wait(PATIENCE)
        for _ in range(4):
            with turns.take():
                order.append(name)
                # long enough that the other one waits by the end
                threading.Event().wait(0.5)

    threads = [threading.Thread(target=measure, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(order) == ["a"] * 4 + ["b"] * 4
    assert "".join(order) in ("abababab", "babababa")


def test_what_a_measurement_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    said: list[str] = []
    with Turns("test of a run", place=tmp_path).take():
        code = HOLDER.replace("sys.stdin.readline()", "pass")
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert done.stdout == "held\n"
    assert said == []
    assert not turn.inherited()


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"what": 1, "pid": "x"}'])
def test_a_damaged_lock_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / ".measuring").write_text(text)
    assert turn.measuring(tmp_path) == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    place = tmp_path / "place"
    place.mkdir()
    (place / ".measuring").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"), Turns("run a", place=place).take():
        pass
    assert (tmp_path / "precious").read_text() == "data"
