"""How much of its month's quota each port has used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hawser.controller.alarms.condition import Condition, Kind, Level
from hawser.spec.network import Network
from hawser.spec.port import Port
from hawser.store.statistics.store import StatisticsStore

_HOUR_S: Final = 3600
_NEAR: Final = 0.8


@dataclass(frozen=True)
class Usage:
    """What a port with a quota has carried this month, both directions, 10^9 bytes."""

    branch: str
    port: Port
    used_gb: float
    quota_gb: float


def usages(network: Network, store: StatisticsStore, now: datetime) -> Iterator[Usage]:
    """Sum up the month (UTC) of all ports with a quota.

    Raises:
        StoreError: files of the statistics are damaged.
    """
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    span = int(month.timestamp()), int(now.timestamp()) + 1
    for port, line in network.ports.items():
        branch = network.branch_of(port.node)
        if line.quota_gb is not None and branch is not None:
            used = sum(_bytes(store, branch, port.name, way, span) for way in ("sent", "received"))
            yield Usage(branch, port, used / 1e9, line.quota_gb)


def _bytes(
    store: StatisticsStore, branch: str, port: str, way: str, span: tuple[int, int]
) -> float:
    """Give the bytes of a month: by the hour, and those of the hour that goes on by the second."""
    name = f"port/{port}/{way}"
    hour = span[1] // _HOUR_S * _HOUR_S
    found = 0.0
    for (begin, end), seconds in (((span[0], hour), _HOUR_S), ((hour, span[1]), 1)):
        if begin < end:
            means = store.history(branch, name, begin, end, seconds).mean
            found += math.fsum(float(each) for each in means if not math.isnan(each)) * seconds / 8
    return found


def quota_conditions(found: Mapping[Port, Usage]) -> Iterator[Condition]:
    """Give the ports that have used most of their quota."""
    for port, usage in found.items():
        share = usage.used_gb / usage.quota_gb
        if share >= _NEAR:
            level = Level.CRITICAL if share >= 1 else Level.WARNING
            place = f"{usage.branch}.{port.name}"
            used = f"{usage.used_gb:.3g} of {usage.quota_gb:.3g} GB"
            detail = f"port {port} of {usage.branch} has carried {used} this month"
            figures = {"used_gb": usage.used_gb, "quota_gb": usage.quota_gb}
            yield Condition(Kind.QUOTA_NEAR, place, level, (usage.branch,), place, detail, figures)
