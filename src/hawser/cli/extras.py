"""Python packages that only some commands need, installed on first use."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hawser.engine.errors import LackingError

if TYPE_CHECKING:
    from hawser.spec.workflow import Workflow

_ROOT: Final = Path(__file__).resolve().parents[3]
_MODULES: Final = {
    "agent": ("websockets",),
    "controller": ("aiosmtplib", "alembic", "dns"),
    "ids": ("sklearn",),
    "openflow": ("os_ken",),
    "png": ("matplotlib",),
    "query": ("duckdb",),
    "search": ("MLRsearch",),
    "spark": ("pyspark", "confluent_kafka"),
    "streams": ("confluent_kafka",),
}
"""Modules of each extra: if all can be imported, the extra is installed."""


def need(name: str, root: Path = _ROOT) -> None:
    """Install an extra into the launcher's environment unless it is there.

    Raises:
        LackingError: it is missing and cannot be installed.
    """
    if _is_installed(name):
        return
    setup = root / "tools" / "setup"
    if Path(sys.prefix) != root / ".venv" or not setup.exists():
        raise LackingError([f"Python packages: pip install -r requirements-{name}.lock"])
    done = subprocess.run([str(setup), "--extra", name], stdin=subprocess.DEVNULL, check=False)
    importlib.invalidate_caches()
    if done.returncode or not _is_installed(name):
        raise LackingError(
            [f"Python packages of requirements-{name}.lock: tools/setup --extra {name}, online"]
        )


def _is_installed(name: str) -> bool:
    return all(find_spec(module) for module in _MODULES[name])


def need_for(workflow: Workflow) -> None:
    """Install the extras that a workflow's switches and searches need.

    Raises:
        LackingError: one is missing and cannot be installed.
    """
    for name in sorted(set(_of(workflow))):
        need(name)
    for name in sorted(_collected(workflow)):
        _fetch(name)


def _of(workflow: Workflow) -> Iterator[str]:
    for variant in workflow.variants:
        scenario = variant.scenario
        overlay = scenario.overlay
        if overlay is not None and overlay.switch == "openflow":
            yield "openflow"
        for measurement in scenario.measurements.values():
            if measurement.probe == "throughput" and measurement.mode == "mlr":
                yield "search"
        if scenario.collector is not None:
            yield "spark" if scenario.collector.model is not None else "streams"


def _collected(workflow: Workflow) -> set[str]:
    """What collectors run; they have no way to the internet to fetch it themselves."""
    found = [v.scenario.collector for v in workflow.variants if v.scenario.collector is not None]
    spark = any(each.model is not None for each in found)
    return {"kafka", "spark"} if spark else {"kafka"} if found else set()


def _fetch(name: str) -> None:
    from hawser.ids.cluster import jars
    from hawser.ids.errors import IdsError, Lacking

    try:
        jars.java()
        jars.folder(name)
    except (IdsError, Lacking) as error:
        raise LackingError([str(error)]) from error
