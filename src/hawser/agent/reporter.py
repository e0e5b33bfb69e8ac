"""What a gateway reports each second: statistics, and whom it reaches."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hawser.agent.backlog import Backlog, Kept
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.measure import Interface, Reading, measure
from hawser.control.client import ControlError
from hawser.control.link import MAX_SERIES, Peers, Series
from hawser.control.series import Report, pack
from hawser.overlay.config.gateway import GatewayConfig

_INTERFACES = Path("/sys/class/net")


class Reporter:
    """Takes reports, and keeps them until they are acknowledged, over all connections."""

    def __init__(
        self,
        daemon: GatewayDaemon,
        monotonic: Callable[[], float],
        taken: Callable[[], Mapping[str, str]] = dict,
        interfaces: Path = _INTERFACES,
    ) -> None:
        """Take the daemon, a clock, and what gives interfaces that a switch has taken from it."""
        self._daemon = daemon
        self._monotonic = monotonic
        self._taken = taken
        self._interfaces = interfaces
        self._before: Reading | None = None
        self._names: tuple[str, ...] = ()
        self._sequence = 0
        self.run = secrets.token_hex(8)
        """Names this agent's reports: a later one counts from 0 again."""
        self.backlog = Backlog()
        self.peers: Mapping[str, bool] = {}
        """Other branches, and whether packets reach them."""

    def read(self) -> Reading | None:
        """Read the daemon's state and counters; None where it does not answer."""
        try:
            status, counters = self._daemon.numbers()
        except ControlError:
            return None
        config = self._daemon.config
        return Reading(
            self._monotonic(),
            status,
            counters,
            _classes(config) if config else {},
            dict(self._ports(config)) if config else {},
        )

    def take(self, second: int, now: Reading | None) -> None:
        """Take the report of a second.

        Args:
            second: seconds since 1970.
            now: what was read in it.
        """
        before, self._before = self._before, now
        if now is None:
            return
        self.peers = {str(each["branch"]): bool(each["up"]) for each in now.status["peers"]}
        found = measure(before, now)
        if not found.keys() <= set(self._names):
            self._names = tuple(sorted(found))[:MAX_SERIES]
        values = tuple(found.get(name, math.nan) for name in self._names)
        packed = pack(Report(self._sequence, second, values))
        self.backlog.put(Kept(self._sequence, self._names, packed))
        self._sequence += 1

    def _ports(self, config: GatewayConfig) -> Iterator[tuple[str, Interface]]:
        taken = self._taken()
        for port in config.switch.ports if config.switch else ():
            interface = taken.get(port.name, port.interface)
            folder = self._interfaces / interface / "statistics"
            try:
                counted = {name: int((folder / name).read_text()) for name in _COUNTED}
            except (OSError, ValueError):
                continue  # the interface is gone
            dropped = counted["tx_dropped"] + counted["rx_dropped"]
            yield port.name, Interface(counted["tx_bytes"], counted["rx_bytes"], dropped)


_COUNTED = ("tx_bytes", "rx_bytes", "tx_dropped", "rx_dropped")


def _classes(config: GatewayConfig) -> dict[tuple[str, int], str]:
    return {
        (peer.branch, group.id): str(group.traffic)
        for peer in config.peers
        for group in peer.groups
    }


class Sender:
    """Frames for one connection: names are sent where they differ from those sent last."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._names: tuple[str, ...] | None = None
        self._peers: Mapping[str, bool] | None = None
        self._sent = -1

    def frames(self) -> Iterator[str | bytes]:
        """Give the frames that were not sent on this connection."""
        reporter = self._reporter
        if reporter.peers != self._peers:
            self._peers = reporter.peers
            yield Peers(up=dict(self._peers)).model_dump_json()
        for kept in tuple(reporter.backlog.after(self._sent)):
            if kept.names != self._names:
                self._names = kept.names
                dropped = reporter.backlog.dropped
                yield Series(run=reporter.run, names=kept.names, dropped=dropped).model_dump_json()
            self._sent = kept.sequence
            yield kept.packed
