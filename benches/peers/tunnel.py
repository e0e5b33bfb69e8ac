"""Common parts of all tunnels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.lab import Daemon, Namespace, until
from harness.traffic import reachable


@dataclass(frozen=True)
class Tunnel:
    """A tunnel that is up: the inner address of its far end, and its processes."""

    server: str
    daemons: tuple[Daemon, ...] = ()


Start = Callable[[Namespace, Namespace], Tunnel]
"""Joins the namespaces of `Lab.pair`; returns once packets get through."""


def bare(_client: Namespace, _server: Namespace) -> Tunnel:
    """No tunnel: the bare veth link, the upper limit for every tunnel."""
    return Tunnel("198.18.0.2")


def wait_until_up(client: Namespace, address: str, *daemons: Daemon) -> None:
    """Wait until `address` answers through the tunnel.

    Raises:
        SampleError: a daemon exited, or nothing answered within ten seconds.
    """
    what = f"{address} answers through the tunnel"
    until(lambda: reachable(client, address), what, daemons=daemons)
