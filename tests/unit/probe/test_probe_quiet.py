"""A look at the machine: what of other programs is too much to measure beside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe import quiet
from hawser.probe.quiet import Load, Reading

TICK = os.sysconf("SC_CLK_TCK")


def proc(folder: Path, *, cpu: str, memory: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(
        f"cpu  {10 * TICK} {TICK} {TICK} 999 0 {TICK} {TICK} {3 * TICK} 0 0\n"
    )
    (folder / "pressure").mkdir(exist_ok=True)
    (folder / "pressure/cpu").write_text(cpu)
    if memory is not None:
        (folder / "pressure/memory").write_text(memory)
    return folder


def test_the_counters_are_those_of_the_kernel(tmp_path: Path) -> None:
    line = "some avg10=7.83 avg60=7.41 avg300=21.98 total=1500000\nfull avg10=0.00 total=9\n"
    found = quiet.read(proc(tmp_path / "proc", cpu=line), clock=lambda: 5.0)
    assert found == Reading(at=5.0, busy=14.0, steal=3.0, cpu_wait=1.5, memory_wait=None)


@given(text=st.text(max_size=40) | st.from_regex(r"some .*total=.*", fullmatch=True))
def test_pressure_that_is_not_understood_is_not_known(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("proc", numbered=True)
    found = quiet.read(proc(folder, cpu=text)).cpu_wait
    assert found is None or found >= 0


def test_this_machine_can_be_read() -> None:
    assert quiet.read().busy > 0


START = Reading(at=100.0, busy=50.0, steal=1.0, cpu_wait=10.0, memory_wait=3.0)


def load(cores: int = 2, own: float = 0.0, **after: float) -> Load:
    """What is found after a second in which counters rose by so much."""
    values = {name: getattr(START, name) + added for name, added in ({"at": 1.0} | after).items()}
    late = Reading(**{**START.__dict__, **values})
    return Load.between(START, late, cores, own)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (load(), ""),
        (load(busy=0.5), ""),
        (load(busy=1.3), "others use 1.3 of 2 processors"),
        (load(busy=1.3, cores=8), ""),
        (load(busy=1.3, own=1.0), ""),
        (load(steal=0.1), "the host takes 5% of the time"),
        (load(cpu_wait=0.9), "programs wait for a processor 90% of the time"),
        (load(memory_wait=0.2), "programs wait for memory 20% of the time"),
        (
            load(busy=2.0, cpu_wait=1.0),
            "others use 2.0 of 2 processors, programs wait for a processor 100% of the time",
        ),
    ],
)
def test_what_disturbs_is_said(found: Load, why: str) -> None:
    assert found.disturbs == why


def test_a_kernel_without_pressure_is_judged_by_the_rest() -> None:
    blind = Reading(**{**START.__dict__, "cpu_wait": None, "memory_wait": None})
    late = Reading(**{**blind.__dict__, "at": 101.0, "busy": 52.0})
    assert Load.between(blind, late, 2).disturbs == "others use 2.0 of 2 processors"


def test_a_look_takes_half_a_second() -> None:
    slept: list[float] = []
    readings = iter([START, Reading(**{**START.__dict__, "at": 100.5, "busy": 50.9})])
    found = quiet.look(slept.append, lambda: next(readings))
    assert slept == [0.5]
    assert found.others == pytest.approx(1.8)
