"""What a daemon of the lab uses, and what it counts itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hawser.control.client import ControlError
from hawser.control.model import FunctionCounters, WanCounters
from hawser.driver.base import Daemon
from hawser.driver.roles import ROLES
from hawser.node.base import NodeError
from hawser.probe.base import ProbeError

Counters = Mapping[tuple[str, str], int]
"""Part of the daemon and name of the count -> value."""


@dataclass(frozen=True)
class State:
    """One daemon at one moment."""

    pid: int
    cpu_seconds: float
    """User and system time of all its threads."""
    peak_memory: int
    """Largest resident set since it began, bytes (`VmHWM` of proc_pid_status(5))."""
    counters: Counters
    wan: WanCounters | None = None
    """Of a WAN emulator: everything it counts."""
    function: FunctionCounters | None = None
    """Of a part of service chains: everything it counts."""


def read(daemon: Daemon) -> State:
    """Read one daemon.

    Raises:
        ProbeError: it is gone or does not answer.
    """
    pid = daemon.pid
    try:
        used = daemon.usage()
        with daemon.client() as client:
            form = ROLES[daemon.role].counters
            wan = client.wan_counters() if form == "wan" else None
            function = client.function_counters() if form == "function" else None
            counters = flatten(client.counters()) if form == "parts" else {}
    except (NodeError, ControlError) as error:
        raise ProbeError(f"daemon {daemon.name}: {error}") from error
    return State(pid, used.cpu_seconds, used.memory_peak, counters, wan, function)


_PREFIX = {
    "read": "rx_",
    "received": "rx_",
    "written": "tx_",
    "sent": "tx_",
    "drops": "drop_",
    "ends": "end_",
}
"""What the control API has in a table of this name is a count whose name begins so."""

_LABELS = ("branch", "id", "name")


def flatten(document: Mapping[str, object]) -> Counters:
    """Counters of the control API by part and name, such as `peer:b2:group:0` and `tx_bytes`.

    An element of a list is named by its field `branch`, `id` or `name`.
    """
    return dict(_flatten(document, "", ""))


def _flatten(document: object, part: str, prefix: str) -> Iterator[tuple[tuple[str, str], int]]:
    for name, value in document.items() if isinstance(document, Mapping) else ():
        inner = f"{part}:{name}".strip(":")
        if isinstance(value, Mapping):
            known = name in _PREFIX
            yield from _flatten(value, part if known else inner, _PREFIX.get(name, ""))
        elif isinstance(value, list):
            for element in value:
                yield from _flatten(element, f"{_singular(inner)}:{_label(element)}", "")
        elif isinstance(value, int) and not isinstance(value, bool) and name not in _LABELS:
            yield (part, f"{prefix}{name}"), value


def _singular(plural: str) -> str:
    return f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")


def _label(element: object) -> str:
    named = element if isinstance(element, Mapping) else {}
    return str(next((named[label] for label in _LABELS if label in named), ""))
