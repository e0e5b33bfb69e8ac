"""A maker of labs that is killed at any moment leaves nothing that `destroy` does not find.

   pytest --> nursery --fork--> maker --deploy--> h1 -- gw1 ==a,b== internet ==a,b== gw2 -- h2
                                  ^                                    ||a,b
                               SIGKILL                                gw3 -- h3

The lab is `branches(3)` of lab/plans/small.py; a stand-in plays the gateway daemons.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticSerializationError

from hawser.driver import state
from hawser.driver.local import LocalDriver
from hawser.node.netns import cgroup, namespace
from hawser.node.process import started
from lab import PROGRAMS, ROOT
from lab.plans.small import branches
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

_NURSERY = """
import os, signal, sys
from lab.plans.small import branches, gateway_daemon
from hawser.driver.local import LocalDriver
plan = branches(3)
daemons = tuple(gateway_daemon(f"gw{n}", f"gw{n}", f"b{n}") for n in (1, 2, 3))
driver = LocalDriver()
driver.missing(plan)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        print(os.getpid(), flush=True)
        lab = driver.deploy(line.strip(), plan.model_copy(update={"daemons": daemons}))
        lab.nodes["h1"].start(["sleep", "600"])
        print("deployed", flush=True)
        signal.pause()
"""
"""Imports once, and forks a maker for every lab name it reads."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")]),
        "HAWSERD": str(PROGRAMS / "fake_gateway.py"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _NURSERY],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate()


@pytest.fixture
def maker(nursery: subprocess.Popen[str], lab_name: str) -> int:
    """A process that is about to deploy a lab."""
    assert nursery.stdin is not None
    nursery.stdin.write(f"{lab_name}\n")
    nursery.stdin.flush()
    return int(next(line for line in said(nursery) if line != "deployed"))  # of one before


def said(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: started(pid) is None)


@dataclass(frozen=True)
class Remains:
    """Everything on this machine that has the lab's name."""

    namespaces: tuple[str, ...] = ()
    mounted: bool = False
    groups: tuple[str, ...] = ()
    directory: bool = False
    processes: tuple[int, ...] = ()
    listed: bool = False


NOTHING = Remains()


def remains(name: str) -> Remains:
    pids = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return Remains(
        namespaces=namespace.names(f"hawser.{name}."),
        groups=cgroup.names(f"hawser.{name}."),
        mounted=f"hawser.{name}." in Path("/proc/self/mountinfo").read_text(),
        directory=(Path("/run/hawser") / name).exists(),
        processes=tuple(int(path.name) for path in pids if f"/{name}/" in _command(path)),
        listed=name in LocalDriver().labs(),
    )


def _command(path: Path) -> str:
    try:
        return (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_a_random_moment(
    driver: LocalDriver, lab_name: str, maker: int, seed: int
) -> None:
    time.sleep(random.Random(seed).uniform(0, 0.4))  # noqa: S311 (a moment, not a secret)
    kill(maker)
    driver.destroy(lab_name)
    assert remains(lab_name) == NOTHING


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize("seed", range(12))
def test_interrupted_at_a_random_moment(driver: LocalDriver, lab_name: str, seed: int) -> None:
    """A signal's exception can occur anywhere; what was made is removed before it propagates.

    Where it comes in pydantic or in a `__del__`, these replace or swallow it. In the latter case
    the lab stands, and a second signal ends it.
    """
    before = signal.signal(signal.SIGUSR1, _interrupt)
    moment = random.Random(seed).uniform(0.002, 0.12)  # noqa: S311 (a moment, not a secret)
    timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises((KeyboardInterrupt, PydanticSerializationError)):
            _deployed_until_interrupted(driver, lab_name, timer)
        assert remains(lab_name) == NOTHING
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("number", range(4))
def test_interrupted_while_the_name_is_claimed(
    driver: LocalDriver, lab_name: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Of the lab's directory only the folders before this one are there."""
    folder, mkdir = state._FOLDERS[number], Path.mkdir

    def interrupted(path: Path, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        if path.name == folder and path.parent.name == lab_name:
            raise KeyboardInterrupt
        mkdir(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        driver.deploy(lab_name, branches(1))
    assert remains(lab_name) == NOTHING


def _deployed_until_interrupted(driver: LocalDriver, name: str, timer: threading.Timer) -> None:
    timer.start()
    lab = driver.deploy(name, branches(3))
    try:
        timer.join()
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(PATIENCE)
    finally:
        lab.destroy()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def test_killed_when_deployed(
    driver: LocalDriver, lab_name: str, nursery: subprocess.Popen[str], maker: int
) -> None:
    assert next(said(nursery)) == "deployed"
    before = remains(lab_name)
    assert len(before.namespaces) == 7
    assert len(before.processes) == 3
    kill(maker)
    node = driver.attach(lab_name).nodes["h1"]
    inside = node.run(["ip", "netns", "pids", node.namespace], timeout=PATIENCE).stdout.split()
    assert len(inside) == 2  # `sleep`, and `ip` itself
    driver.destroy(lab_name)
    assert remains(lab_name) == NOTHING
    assert not any("sleep" in _command(Path("/proc") / pid) for pid in inside)


def test_a_destroyer_killed_half_way_is_followed_by_another(
    driver: LocalDriver, lab_name: str, nursery: subprocess.Popen[str], maker: int
) -> None:
    """Some namespaces have lost their names; the daemons in them are found by their records."""
    assert next(said(nursery)) == "deployed"
    kill(maker)
    for name in namespace.names(f"hawser.{lab_name}.")[:3]:
        namespace.remove(name)
    assert lab_name in driver.labs()
    driver.destroy(lab_name)
    assert remains(lab_name) == NOTHING
