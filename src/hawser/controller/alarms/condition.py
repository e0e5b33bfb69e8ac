"""Conditions that an operator has to know about, and how long each has to last. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """How urgent an alarm is."""

    INFO = "info"
    """To be known."""
    WARNING = "warning"
    """To be looked at in working hours."""
    CRITICAL = "critical"
    """Traffic is lost, or soon will be: somebody has to be woken."""


_ORDER: Final = {level: number for number, level in enumerate(Level)}


def is_at_least(level: Level, least: Level) -> bool:
    """Tell whether a level is as urgent as another one."""
    return _ORDER[level] >= _ORDER[least]


class Kind(StrEnum):
    """What is wrong."""

    PATH_DOWN = "path_down"
    """The peer does not answer on a member path."""
    PATH_DEGRADED = "path_degraded"
    """A member path loses packets, or its round-trip time has grown."""
    SLA_BROKEN = "sla_broken"
    """Some paths of a class do not meet its thresholds."""
    NO_COMPLIANT_PATH = "no_compliant_path"
    """None of the paths of a class meets its thresholds."""
    CERTIFICATE_ENDS = "certificate_ends"
    """A certificate ends soon, though it should have been renewed."""
    GATEWAY_SILENT = "gateway_silent"
    """An approved gateway is not connected to any controller."""
    QUOTA_NEAR = "quota_near"
    """A port has used most of its quota of the month."""
    CLOCK_OFF = "clock_off"
    """A gateway's clock differs from the controller's."""
    VERSION_OLD = "version_old"
    """A gateway runs an older version than the controller."""


@dataclass(frozen=True)
class Rule:
    """How long a condition has to last, seconds."""

    raise_after: float
    """Before the alarm is raised."""
    clear_after: float
    """How long the condition has to be absent before the alarm is cleared."""


_PATHS: Final = Rule(10, 30)
_AT_ONCE: Final = Rule(0, 0)
RULES: Final[Mapping[Kind, Rule]] = {
    Kind.PATH_DOWN: _PATHS,
    Kind.PATH_DEGRADED: Rule(30, 60),
    Kind.SLA_BROKEN: _PATHS,
    Kind.NO_COMPLIANT_PATH: _PATHS,
    Kind.CERTIFICATE_ENDS: _AT_ONCE,
    Kind.GATEWAY_SILENT: Rule(60, 30),  # a controller that has just started has none for 15 s
    Kind.QUOTA_NEAR: _AT_ONCE,
    Kind.CLOCK_OFF: _AT_ONCE,
    Kind.VERSION_OLD: _AT_ONCE,
}
REPORTED: Final = frozenset(
    {
        Kind.PATH_DOWN,
        Kind.PATH_DEGRADED,
        Kind.SLA_BROKEN,
        Kind.NO_COMPLIANT_PATH,
        Kind.QUOTA_NEAR,
    }
)
"""Judged by the controller that has the first branch's reports; the others by every controller."""
ROUTED: Final = frozenset({Kind.PATH_DEGRADED, Kind.SLA_BROKEN, Kind.NO_COMPLIANT_PATH})
"""Judged only where one network is in force: routes and classes of paths have to be known."""


@dataclass(frozen=True)
class Condition:
    """Something that is wrong now."""

    kind: Kind
    subject: str
    """What it is about; with the kind, it identifies the alarm."""
    level: Level
    branches: tuple[str, ...]
    """Branches concerned; the first one's gateway measures it. Empty for the controller itself."""
    group: str
    """Alarms of one group go into one message: a branch, a port, or two branches."""
    detail: str
    figures: Mapping[str, float] = field(default_factory=dict)
    affected: int = 1
    """How many paths have it. An alarm follows this number and the level, not each figure."""

    @property
    def key(self) -> str:
        """Identify the alarm."""
        return f"{self.kind.value}/{self.subject}"
