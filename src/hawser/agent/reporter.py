"""What a gateway reports each second: statistics, and whom it reaches."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.agent.daemon import GatewayDaemon
from hawser.control.client import ControlError
from hawser.control.link import MAX_SERIES, Peers, Series
from hawser.control.series import Sample, pack, series


class Reporter:
    """Reports on one connection; names are sent where they differ from those sent last."""

    def __init__(self, daemon: GatewayDaemon) -> None:
        self._daemon = daemon
        self._names: tuple[str, ...] | None = None
        self._peers: dict[str, bool] | None = None
        self._sequence = 0

    def report(self, now: float) -> Iterator[str | bytes]:
        """Give the frames to send. Nothing where the daemon does not answer.

        Args:
            now: seconds since 1970.
        """
        try:
            status, counters = self._daemon.numbers()
        except ControlError:
            return
        peers = {str(peer["branch"]): bool(peer["up"]) for peer in status.get("peers", ())}
        if peers != self._peers:
            self._peers = peers
            yield Peers(up=peers).model_dump_json()
        found = series(status, counters)
        names = tuple(found)[:MAX_SERIES]
        if names != self._names:
            self._names = names
            yield Series(names=names).model_dump_json()
        values = tuple(found[name] for name in names)
        yield pack(Sample(self._sequence, now, values))
        self._sequence += 1
