"""Watching the database for what concerns gateways, whichever controller has written it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from hawser.controller.db.database import Database
from hawser.controller.errors import Invalid
from hawser.controller.inventory.gateway import approved, revoked_fingerprints
from hawser.controller.paths import chosen
from hawser.controller.policy import names, rollout
from hawser.controller.policy.configuration import Computer, Desired
from hawser.controller.policy.sync import Observed
from hawser.controller.policy.version import network_of, newest_number, version
from hawser.controller.telemetry.observation import all_observed
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.named import with_addresses
from hawser.spec.network import Network
from hawser.spec.pair import branch_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What gateways should have, and what they have."""

    version: int
    revoked: tuple[str, ...]
    desired: Mapping[str, Desired]
    """By the gateway's name."""
    approved: Mapping[int, str]
    """Names of approved gateways (`spec.pair`), by their numbers."""
    observed: Mapping[int, Observed]
    """By the gateways' numbers."""
    connected: frozenset[str]
    """Branches whose gateways are connected."""
    rollout: tuple[int, int, int] | None = None
    """Number, stage and base of the roll-out that is running."""
    chosen: int = 0
    """Number of the last change of automatically chosen paths."""
    resolved: int = 0
    """Number of the last change of addresses of DNS names."""


class Watch:
    """Keeps a plan. `refresh` reads the database, which is cheap where nothing has changed."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._computer = Computer()
        self._trying = threading.Lock()
        self._network: Network | None = None
        self._resolved: tuple[Network, int, Fabric] | None = None
        """What `in_force` gave last, and the change of chosen paths that it followed."""

    def plan(self) -> Plan:
        """Give the plan as of now."""
        with self._lock:
            self._plan = self._read(self._plan)
            return self._plan

    def in_force(self) -> tuple[Network, Fabric] | None:
        """Give the network in force, resolved; None where it cannot be used or is in stages."""
        plan = self.plan()
        with self._lock, self._database.read() as session:
            network, change = self._network, chosen.newest_number(session)
            if network is None or plan.rollout is not None:
                return None
            known = self._resolved
            if known is None or known[0] is not network or known[1] != change:
                found = self._computer.fabric(network, chosen.choice(session))
                known = self._resolved = (network, change, found)
            return network, known[2]

    def tried(self, network: Network) -> Mapping[str, Desired]:
        """Compute what gateways should have if a checked network were in force."""
        plan = self.plan()
        with self._database.read() as session:
            found, addresses = chosen.choice(session), names.resolved(session)
        with self._lock:
            computer = self._computer.copy()
        with self._trying:  # one at a time; gateways and other requests do not wait for it
            wanted = with_addresses(network, addresses)
            return computer.desired(wanted, plan.version + 1, plan.revoked, found)

    def _read(self, last: Plan | None) -> Plan:
        now = self._clock()
        with self._database.read() as session:
            members, number = approved(session), newest_number(session)
            revoked = tuple(revoked_fingerprints(session, now))
            seen = all_observed(session, now)
            staged = rollout.running(session)
            stage = (staged.number, staged.stage, staged.base) if staged else None
            change, answers = chosen.newest_number(session), names.newest_number(session)
            key = (number, revoked, stage, change, answers)
            wanted = last.desired if last and _key(last) == key else None
            if wanted is None:
                wanted = self._wanted(session, number, revoked)
        return Plan(
            version=number,
            revoked=revoked,
            desired=wanted,
            approved=members,
            observed=seen,
            connected=frozenset(
                branch_of(name) for each, name in members.items() if seen[each].connected
            ),
            rollout=stage,
            chosen=change,
            resolved=answers,
        )

    def _wanted(
        self, session: Session, number: int, revoked: tuple[str, ...]
    ) -> Mapping[str, Desired]:
        try:
            new = self._network = self._version(session, number)
            found, paths = rollout.running(session), chosen.choice(session)
            if found is None:
                return self._computer.desired(new, number, revoked, paths)
            old = self._version(session, found.base)
            return self._computer.desired_in_stages(
                (old, found.base), (new, number), rollout.moved(found), revoked, paths
            )
        except Invalid:
            # Written by a program that allowed more: gateways keep what they have.
            _log.exception("version %s of the network cannot be used", number)
            self._network = None
            return {}

    def _version(self, session: Session, number: int) -> Network:
        """Give a version of the network, with the addresses of its DNS names."""
        network = network_of(version(session, number).document)
        return with_addresses(network, names.resolved(session))


def _key(plan: Plan) -> object:
    """Give what the configurations of a plan follow from."""
    return plan.version, plan.revoked, plan.rollout, plan.chosen, plan.resolved
