"""Probe that estimates the bandwidth of a gateway's paths from the traffic that they carry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hawser.control.client import ControlError
from hawser.driver.base import Daemon
from hawser.optimise.measured import LOADED, WAITING
from hawser.probe.bandwidth.samples import samples
from hawser.probe.base import Context, ProbeError
from hawser.spec.measurement import Bandwidth
from hawser.spec.port import node_of
from hawser.stats.bandwidth import Estimate, passive
from hawser.store.sample import Sample

_INTERVAL_S: Final = 1.0
"""Of readings: shorter ones would see the same congestion control twice."""


class PassiveBandwidthProbe:
    """Reads what the gateway measures of its paths to another one, once a second."""

    def __init__(
        self,
        spec: Bandwidth,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._sleep = sleep
        self._clock = clock

    def measure(self, context: Context) -> list[Sample]:
        """Read for the duration; each path is a subject.

        Raises:
            ProbeError: an end is no gateway, it has no path to the other one, or does not answer.
        """
        source, target = (
            _gateway(context, node_of(end)) for end in (self._spec.source, self._spec.target)
        )
        peer = str(_status(target).get("branch"))
        context.started()
        begin, before = self._clock(), _paths(_status(source), peer)
        rates: dict[str, list[float]] = {path: [] for path in before}
        at = begin
        while self._clock() - begin < self._spec.duration:
            self._sleep(_INTERVAL_S)
            now, later = self._clock(), _paths(_status(source), peer)
            for path, reading in later.items():
                if is_limit(before.get(path), reading, now - at):
                    rates.setdefault(path, []).append(reading["rate_bps"])
            before, at = later, now
        if not rates:
            place = f"bandwidth {self._spec.source} -> {self._spec.target}"
            raise ProbeError(f"{place}: the gateway measures no paths; its transport is not quic")
        seconds = self._clock() - begin
        found = {path: passive(values, self._spec.port) for path, values in rates.items()}
        return list(_samples(context.measurement, found, seconds))

    def seconds(self) -> float:
        """Time over which is read, in seconds."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """None."""
        return ()


def _gateway(context: Context, node: str) -> Daemon:
    for daemon in context.lab.daemons.values():
        if daemon.node == node and daemon.role == "gateway":
            return daemon
    raise ProbeError(f"{node} is no gateway: traffic is read at those of the overlay")


def _status(daemon: Daemon) -> Mapping[str, Any]:
    try:
        with daemon.client() as client:
            return client.raw_status()
    except ControlError as error:
        raise ProbeError(f"daemon {daemon.name}: {error}") from error


def _paths(status: Mapping[str, Any], peer: str) -> dict[str, dict[str, float]]:
    """Give what is known of each path, and what waits for its group."""
    return {
        f"group:{group['id']}:path:{path['member']}": {
            "rate_bps": float(path["rate_bps"]),
            "sent_bytes": float(path["sent_bytes"]),
            "waiting": float(group["queued_bytes"]),
        }
        for each in status.get("peers", ())
        if each["branch"] == peer
        for group in each["groups"]
        for path in group["paths"]
    }


def is_limit(before: Mapping[str, float] | None, now: Mapping[str, float], seconds: float) -> bool:
    """Tell whether a path, and not its traffic, limited what it carried in an interval."""
    if before is None or now["rate_bps"] <= 0 or seconds <= 0:
        return False
    sent = 8 * (now["sent_bytes"] - before["sent_bytes"]) / seconds
    waited = min(before["waiting"], now["waiting"]) >= WAITING
    return waited and sent >= LOADED * now["rate_bps"]


def _samples(measurement: str, found: Mapping[str, Estimate], seconds: float) -> Iterator[Sample]:
    for path, estimate in found.items():
        taken = {"probe_traffic": 0.0, "probe_time": seconds}
        yield from samples(measurement, estimate, taken, subject=path)
