"""WireGuard in user space: wireguard-go and boringtun.

Both are configured through the cross-platform userspace API (wireguard.com/xplatform): text over a
Unix socket that is named after the interface.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from harness.bench import SampleError
from harness.lab import Daemon, Namespace, until
from peers.tunnel import Start, Tunnel, wait_until_up

_SOCKETS = Path("/var/run/wireguard")
_PORT = 51820
_MTU = 1420  # the MTU that wg-quick sets if the link has 1500
_numbers = itertools.count()


@dataclass(frozen=True)
class _End:
    namespace: Namespace
    outer: str
    inner: str
    key: X25519PrivateKey


def wireguard(command: Sequence[str]) -> Start:
    """A tunnel between two daemons `COMMAND INTERFACE`, which stay in the foreground."""

    def start(client: Namespace, server: Namespace) -> Tunnel:
        a = _End(client, "198.18.0.1", "10.9.0.1", X25519PrivateKey.generate())
        b = _End(server, "198.18.0.2", "10.9.0.2", X25519PrivateKey.generate())
        daemons = (_start(command, a, b), _start(command, b, a))
        wait_until_up(client, b.inner, *daemons)
        return Tunnel(b.inner, daemons)

    return start


def _start(command: Sequence[str], end: _End, other: _End) -> Daemon:
    name = f"wg{os.getpid()}n{next(_numbers)}"  # all namespaces share one socket directory
    daemon = end.namespace.start([*command, name])
    control = _SOCKETS / f"{name}.sock"
    until(control.is_socket, f"{command[0]} opens its socket", daemons=[daemon])
    _configure(control, _settings(end, other))
    end.namespace.ip("address", "add", f"{end.inner}/24", "dev", name)
    end.namespace.ip("link", "set", name, "mtu", str(_MTU), "up")
    return daemon


def _settings(end: _End, other: _End) -> str:
    return (
        "set=1\n"
        f"private_key={end.key.private_bytes_raw().hex()}\n"
        f"listen_port={_PORT}\n"
        f"public_key={other.key.public_key().public_bytes_raw().hex()}\n"
        f"endpoint={other.outer}:{_PORT}\n"
        f"allowed_ip={other.inner}/32\n\n"
    )


def _configure(control: Path, settings: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(str(control))
        connection.sendall(settings.encode())
        answer = connection.recv(1024).decode()
    if "errno=0" not in answer:
        raise SampleError(f"{control.name} refused its configuration: {answer.strip()}")
