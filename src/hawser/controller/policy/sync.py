"""The difference between what a gateway should have and what it has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hawser.controller.policy.configuration import Desired


class Sync(StrEnum):
    """How the configuration of a gateway stands to the one it should have."""

    IN_FORCE = "in_force"
    """It has it."""
    APPLYING = "applying"
    """It is connected, and gets it."""
    OFFLINE = "offline"
    """It gets it when it connects."""
    FAILED = "failed"
    """It refused it or returned from it, and it is not tried again before it changes."""
    WAITING = "waiting"
    """It returned from it, and it is tried again later."""
    NONE = "none"
    """It should have none: its branch is not part of the network."""


@dataclass(frozen=True)
class Observed:
    """What is known of a gateway, as far as its configuration goes."""

    connected: bool
    applied: str | None
    """Digest of the configuration in force."""
    failed: str | None = None
    """Digest of the configuration that failed last."""
    retry: datetime | None = None
    """When that is tried again."""


def sync(desired: Desired | None, observed: Observed, now: datetime) -> Sync:
    """Compare."""
    if desired is None:
        return Sync.NONE
    if observed.applied == desired.digest:
        return Sync.IN_FORCE
    if observed.failed == desired.digest:
        if observed.retry is None:
            return Sync.FAILED
        if observed.retry > now:
            return Sync.WAITING
    return Sync.APPLYING if observed.connected else Sync.OFFLINE
