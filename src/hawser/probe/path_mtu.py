"""Largest packet that passes whole, found as a host finds it: by what routers tell (RFC 1191)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hawser.node.base import NodeError
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import Endpoint, endpoints
from hawser.spec.measurement import PathMtu
from hawser.store.sample import Sample

_HEADERS = {4: 28, 6: 48}
"""Bytes of IP and ICMP before the payload of an echo, by IP version."""
_TOLD = re.compile(r"\bmtu ?= ?(?P<mtu>\d+)")
_RECEIVED = re.compile(r"^\d+ packets transmitted, (?P<received>\d+) received", re.MULTILINE)
_ECHOES = 3
"""Of one size: the first may pay for address resolution, or be what the router answers."""
_INTERVAL = 0.3
_WAIT_SECONDS = 2
_ROUNDS = 8
"""Sizes tried; each router on the way may tell a smaller one."""


@dataclass(frozen=True)
class Answer:
    """What became of echoes of one size."""

    answered: bool
    told: int | None
    """MTU that a router, or the host's own kernel, told."""


class PathMtuProbe:
    """Runs ping with packets that must not be fragmented, and takes the size that is told next."""

    def __init__(self, spec: PathMtu) -> None:
        self._spec = spec

    def measure(self, context: Context) -> list[Sample]:
        """Find the largest packet that is answered.

        Raises:
            ProbeError: ping failed, or a size that was not answered was not told to be too large.
        """
        source, target = endpoints(context.lab, self._spec)
        context.started()
        size, seen = self._spec.size, list[str]()
        try:
            for _ in range(_ROUNDS):
                text = self._ping(source, target, size)
                seen.append(text)
                answer = parse(text)
                if answer.answered:
                    return [_sample(context.measurement, size)]
                size = self._smaller(size, answer)
        finally:
            (context.raw / f"{context.measurement}.ping.txt").write_text(
                "\n".join(seen), encoding="utf-8"
            )
        raise ProbeError(f"{self._place}: after {_ROUNDS} sizes, {size} bytes still do not pass")

    @property
    def _headers(self) -> int:
        return _HEADERS[self._spec.family]

    @property
    def _place(self) -> str:
        return f"path MTU {self._spec.source} -> {self._spec.target}"

    def _smaller(self, size: int, answer: Answer) -> int:
        if answer.told is None or not self._headers <= answer.told < size:
            told = "nothing" if answer.told is None else f"{answer.told} bytes"
            raise ProbeError(f"{self._place}: {size} bytes do not pass, and {told} was told")
        return answer.told

    def _ping(self, source: Endpoint, target: Endpoint, size: int) -> str:
        command = [
            "ping", "-n", "-M", "do",
            "-c", str(_ECHOES),
            "-i", str(_INTERVAL),
            "-s", str(size - self._headers),
            "-W", str(_WAIT_SECONDS),
            "-I", source.address,
            target.address,
        ]  # fmt: skip
        limit = _ECHOES * _INTERVAL + _WAIT_SECONDS + 10
        try:
            done = source.node.run(command, timeout=limit, check=False, env={"LC_ALL": "C"})
        except NodeError as error:
            raise ProbeError(f"{self._place}: {error}") from error
        if done.returncode not in (0, 1):  # 1: not every echo was answered
            raise ProbeError(f"{self._place}: ping ended with code {done.returncode}")
        return done.stdout + done.stderr

    def seconds(self) -> float:
        """Of two sizes, the first of which is too large."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """`ping` of iputils."""
        return ("ping",)


def parse(text: str) -> Answer:
    """Read the output of ping.

    Raises:
        ProbeError: it is cut off.
    """
    summary = _RECEIVED.search(text)
    if summary is None:
        raise ProbeError(f"ping's output has no summary: {text.strip()[-200:]!r}")
    told = [int(match["mtu"]) for match in _TOLD.finditer(text)]
    return Answer(int(summary["received"]) > 0, told[-1] if told else None)


def _sample(measurement: str, size: int) -> Sample:
    return Sample(
        measurement=measurement, metric="path_mtu", unit="bytes", value=size, direction="both"
    )
