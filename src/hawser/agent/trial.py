"""Judging a new configuration: kept if the gateway stays healthy and the controller confirms. Pure.

A configuration can be valid and still cut a branch off. Nobody could then send a better one, so the
gateway goes back by itself to the one that it had: a confirmed commit (RFC 6241 section 8.4) that
also asks whether packets arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from hawser.control.model import GatewayStatus

SETTLE_S = 4.0
"""Time during which the gateway has to be healthy. An idle path sends a packet each second, and
counts as down when its acknowledgement is overdue (docs/design/path-liveness.md); with `mptcp`
after 3 s. A shorter trial would not see that a path is cut."""
REASONS = 3
"""Reasons that are given, at most."""
PATIENCE_S = 15.0
"""Time after which a configuration that is not kept is given up."""


class Verdict(Enum):
    """What to do now."""

    WAIT = auto()
    ASK = auto()
    """Healthy: the controller has to confirm."""
    KEEP = auto()
    RETURN = auto()


@dataclass
class Trial:
    """One configuration on trial."""

    started: float
    """Time of any clock, seconds."""
    before: frozenset[str]
    """Branches that were reached before and should be reached still; one of them has to be."""
    confirmed: bool = False
    """Whether the controller has confirmed it."""
    _healthy_since: float | None = field(default=None, init=False)
    _lack: str = field(default="the daemon does not answer", init=False)

    @classmethod
    def begin(
        cls,
        now: float,
        before: GatewayStatus | None,
        peers: Iterable[str],
        expected: Iterable[str],
    ) -> Trial:
        """Begin a trial.

        Args:
            now: the time.
            before: the gateway's status before the change; None if it did not run.
            peers: branches in the new configuration.
            expected: branches whose gateways are connected to the controller.
        """
        reached = {peer.branch for peer in before.peers if peer.answers} if before else set()
        return cls(now, frozenset(reached & set(peers) & set(expected)))

    def judge(self, now: float, status: GatewayStatus | None) -> Verdict:
        """Judge by the status of the gateway now."""
        lack = self._lacks(status)
        if lack:
            self._healthy_since, self._lack = None, lack
        elif self._healthy_since is None:
            self._healthy_since = now
        settled = self._settled(now)
        if settled and self.confirmed:
            return Verdict.KEEP
        if now - self.started >= PATIENCE_S:
            return Verdict.RETURN
        return Verdict.ASK if settled else Verdict.WAIT

    @property
    def reason(self) -> str:
        """Why the configuration is given up."""
        if self._healthy_since is None:
            return self._lack
        return "the controller did not confirm it"

    def _settled(self, now: float) -> bool:
        if self._healthy_since is None:
            return False
        # A gateway that reached nobody before has nothing to lose.
        return not self.before or now - self._healthy_since >= SETTLE_S

    def _lacks(self, status: GatewayStatus | None) -> str:
        if status is None:
            return "the daemon does not answer"
        if not status.ready:
            return "the daemon is not ready"
        up = {peer.branch for peer in status.peers if peer.answers}
        if self.before and not self.before & up:
            why = f" ({'; '.join(status.missing[:REASONS])})" if status.missing else ""
            return f"{', '.join(sorted(self.before))}: reached before, and not any more{why}"
        return ""
