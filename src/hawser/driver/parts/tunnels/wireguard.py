"""WireGuard by wireguard-go, configured through the cross-platform userspace API.

Its sockets lie in one folder for the whole machine, under the interface's name; so that name is
made anew for every tunnel.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hawser.driver.base import DriverError
from hawser.driver.parts.tunnels.wait import listening, until
from hawser.node.base import Node, Process
from hawser.node.change import Device
from hawser.overlay.lab.plan import TunnelPlan

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_SOCKETS = Path("/var/run/wireguard")
_PORT = 51820
_MTU = 1420
"""What wg-quick sets on a link of 1500."""
_ANSWER = 65_536


def program() -> Path:
    """The daemon: `$WIREGUARD_GO`, on the path, or as the benches build it.

    Raises:
        DriverError: it is not there.
    """
    built = Path(__file__).resolve().parents[5] / "target" / "peers" / "bin" / "wireguard"
    found = os.environ.get("WIREGUARD_GO") or shutil.which("wireguard-go") or str(built)
    if not os.access(found, os.X_OK):
        raise DriverError(
            "program wireguard-go: build it with `go install golang.zx2c4.com/wireguard@latest` and"
            " let WIREGUARD_GO name it, or install the Debian package wireguard-go (much slower)"
        )
    return Path(found)


def missing() -> None:
    """Look for the program.

    Raises:
        DriverError: it is not there.
    """
    program()


def start(
    directory: Path,
    ends: tuple[TunnelPlan, TunnelPlan],
    nodes: Mapping[str, Node],
    started: Callable[[Process], None],
) -> None:
    """Start both ends and wait for their handshake; see `hawser.driver.parts.tunnels`."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    keys = {end.node: X25519PrivateKey.generate() for end in ends}
    first, second = ends
    # The one that opens comes last: two that open at once over a distance refuse each other.
    _daemon(directory, second, nodes[second.node], _settings(second, keys), started)
    opening = _settings(first, keys, keepalive=True)
    control, process = _daemon(directory, first, nodes[first.node], opening, started)
    log = _log(directory, first)
    until(lambda: _shaken(control), f"{first.name}: handshake", process, nodes[first.node], log)


def _daemon(
    directory: Path,
    end: TunnelPlan,
    node: Node,
    settings: str,
    started: Callable[[Process], None],
) -> tuple[Path, Process]:
    """Start one end: its control socket and its process."""
    name, log = f"wg{secrets.token_hex(5)}", _log(directory, end)
    process = node.start([str(program()), "-f", name], log=log, env={"LOG_LEVEL": "error"})
    started(process)
    control = node.socket(_SOCKETS / f"{name}.sock")
    until(listening(control), f"{end.name}: start on {end.node}", process, node, log)
    _ask(control, settings)
    node.apply(Device(name=name, mtu=_MTU, networks=end.outside))
    return control, process


def _log(directory: Path, end: TunnelPlan) -> Path:
    return directory / f"{end.node}.log"


def _settings(
    end: TunnelPlan, keys: Mapping[str, X25519PrivateKey], *, keepalive: bool = False
) -> str:
    """Write an end's configuration; with `keepalive` it does not wait for traffic to open."""
    mine, other = keys[end.node], keys[end.peer]
    alive = "persistent_keepalive_interval=25\n" if keepalive else ""
    networks = "".join(f"allowed_ip={network}\n" for network in end.outside)
    return (
        "set=1\n"
        f"private_key={mine.private_bytes_raw().hex()}\n"
        f"listen_port={_PORT}\n"
        f"public_key={other.public_key().public_bytes_raw().hex()}\n"
        f"endpoint={end.remote}:{_PORT}\n"
        f"{alive}"
        f"{networks}\n"
    )


def _ask(control: Path, request: str) -> str:
    """Ask the daemon something (wireguard.com/xplatform).

    Raises:
        DriverError: it refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(str(control))
            connection.sendall(request.encode())
            answer = connection.recv(_ANSWER).decode()
    except OSError as error:
        raise DriverError(f"wireguard-go does not answer: {error.strerror or error}") from error
    if "errno=0" not in answer:
        raise DriverError(f"wireguard-go refused its configuration: {answer.strip()}")
    return answer


def _shaken(control: Path) -> bool:
    lines = _ask(control, "get=1\n\n").splitlines()
    times = [line.partition("=")[2] for line in lines if line.startswith("last_handshake_time_sec")]
    return any(int(time) > 0 for time in times)
