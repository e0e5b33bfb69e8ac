"""What a server serves: web pages, streams and uploads, SSH, a database, and the tunnel's far end.

All listen at one address of their node only. Their keys and files are the lab's and go with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hawser.node.base import Node, NodeError, Process, tail
from hawser.probe.attacks.schedule import seeded
from hawser.probe.base import ProbeError
from hawser.probe.port import listening, wait
from hawser.spec.attack import Application, AttackKind

WEB, SSH, DATABASE, TUNNEL = 80, 22, 6379, 53
SITES: Final = 12
OBJECTS: Final = 8
SEGMENTS: Final = 6
URLS: Final = tuple(
    f"/site{site}/object{number}" for site in range(SITES) for number in range(OBJECTS)
)
"""Objects of pages."""
STREAM: Final = tuple(f"/stream/segment{number}" for number in range(SEGMENTS))
"""Segments of streams."""
TUNNEL_DOMAIN, TUNNEL_SECRET = "t.example", "lab"
TUNNEL_SERVER, _TUNNEL_NETWORK = "192.0.2.1", "192.0.2.1/27"
"""Addresses inside the tunnel: for documentation (RFC 5737), so no lab has them."""
_LARGEST_OBJECT: Final = 400_000
_SEGMENT: Final = (100_000, 400_000)
_READY_SECONDS: Final = 20.0
_SETUP_SECONDS: Final = 20.0

_NGINX = """\
daemon off;
user root;
worker_processes 1;
pid nginx.pid;
error_log error.log crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  default_type application/octet-stream;
  client_body_temp_path temporary; proxy_temp_path temporary; fastcgi_temp_path temporary;
  uwsgi_temp_path temporary; scgi_temp_path temporary;
  client_max_body_size 100m;
  server {{
    listen {address}:{port};
    root objects;
    location /upload/ {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""
_SSHD = """\
ListenAddress {address}:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication yes
AllowUsers root
"""
"""Root's password is asked for, so that it can be guessed at, and never accepted."""


@dataclass(frozen=True)
class Place:
    """Where a server runs."""

    node: Node
    address: str
    folder: Path
    seed: int


def needed(
    kinds: Collection[AttackKind], applications: Collection[Application]
) -> dict[int, Callable[[Place], Process]]:
    """Give the servers that attacks and applications need, by port."""
    found = {
        port
        for port, (of_kinds, of_applications) in _USERS.items()
        if not of_kinds.isdisjoint(kinds) or not of_applications.isdisjoint(applications)
    }
    return {port: start for port, start in _SERVERS.items() if port in found}


@contextmanager
def serving(place: Place, servers: Mapping[int, Callable[[Place], Process]]) -> Iterator[None]:
    """Serve while the block runs.

    Raises:
        ProbeError: a server did not get ready.
        NodeError: one cannot be started.
    """
    with ExitStack() as stack:
        for port, start in servers.items():
            if port in listening(place.node):
                raise ProbeError(f"port {port} of {place.node.name} is taken")
            process = start(place)
            stack.callback(process.stop)
            _until_listening(place, port, process)
        yield


def _until_listening(place: Place, port: int, process: Process) -> None:
    def ready() -> bool:
        return port in listening(place.node) or not process.running()

    wait(ready, time.sleep, _READY_SECONDS)
    if not process.running() or port not in listening(place.node):
        said = _log(place, port)
        raise ProbeError(f"server at port {port} of {place.node.name} did not get ready{said}")


def _log(place: Place, port: int) -> str:
    try:
        return tail(place.node.get(_log_file(place, port)).decode(errors="replace"))
    except NodeError:
        return ""


def _log_file(place: Place, port: int) -> Path:
    return place.folder / f"{port}.log"


def _start(place: Place, port: int, command: list[str]) -> Process:
    log = _log_file(place, port)
    place.node.put(log, b"")
    return place.node.start(command, log=log, folder=place.folder)


def _nginx(place: Place) -> Process:
    chance = seeded(place.seed)
    sizes = {url: min(_LARGEST_OBJECT, round(chance.lognormvariate(9, 1.3))) for url in URLS}
    sizes |= {url: chance.randrange(*_SEGMENT) for url in STREAM}
    for url, size in sizes.items():
        place.node.put(place.folder / "objects" / url.lstrip("/"), chance.randbytes(size + 64))
    config = _NGINX.format(address=place.address, port=WEB)
    place.node.put(place.folder / "nginx.conf", config.encode())
    command = ["nginx", "-p", str(place.folder), "-c", "nginx.conf", "-e", "error.log"]
    return _start(place, WEB, command)


def _sshd(place: Place) -> Process:
    _keygen(place.node, place.folder / "host")
    # The directory that sshd changes to without privileges; its package makes it at boot.
    place.node.run(["mkdir", "-p", "-m", "755", "/run/sshd"], timeout=_SETUP_SECONDS)
    config = _SSHD.format(address=place.address, port=SSH, folder=place.folder)
    place.node.put(place.folder / "sshd_config", config.encode())
    # It starts itself anew for each connection, and therefore wants to be called by its full name.
    command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(place.folder / "sshd_config")]
    return _start(place, SSH, command)


@dataclass(frozen=True)
class Keys:
    """A pair of keys of SSH."""

    private: bytes
    public: bytes


def client_key(node: Node, folder: Path) -> Keys:
    """Make the keys with which hosts log in.

    Raises:
        NodeError: it cannot be made.
    """
    _keygen(node, folder / "client")
    return Keys(node.get(folder / "client"), node.get(folder / "client.pub"))


def _keygen(node: Node, file: Path) -> None:
    node.run(["mkdir", "-p", str(file.parent)], timeout=_SETUP_SECONDS)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
    node.run(command, timeout=_SETUP_SECONDS)


def _redis(place: Place) -> Process:
    bounds = ["--save", "", "--appendonly", "no", "--maxmemory", "64mb"]
    # Whoever reaches the address may use it: that is the lab, and nobody else.
    at = ["--bind", place.address, "--port", str(DATABASE), "--protected-mode", "no"]
    return _start(place, DATABASE, ["redis-server", *at, *bounds])


def _iodined(place: Place) -> Process:
    options = ["-f", "-c", "-P", TUNNEL_SECRET, "-l", place.address, "-d", "tunnel"]
    return _start(place, TUNNEL, ["iodined", *options, _TUNNEL_NETWORK, TUNNEL_DOMAIN])


_SERVERS: Final[Mapping[int, Callable[[Place], Process]]] = {
    WEB: _nginx,
    SSH: _sshd,
    DATABASE: _redis,
    TUNNEL: _iodined,
}
_USERS: Final[Mapping[int, tuple[frozenset[AttackKind], frozenset[Application]]]] = {
    WEB: (
        frozenset(AttackKind)
        - {AttackKind.PASSWORD_GUESSING, AttackKind.DNS_TUNNEL, AttackKind.UDP_SCAN},
        frozenset({Application.WEB, Application.VIDEO, Application.BACKUP}),
    ),
    SSH: (frozenset({AttackKind.PASSWORD_GUESSING}), frozenset({Application.SSH})),
    DATABASE: (frozenset(), frozenset({Application.DATABASE})),
    TUNNEL: (frozenset({AttackKind.DNS_TUNNEL}), frozenset()),
}
"""Which attacks and applications use a server; scans and floods are answered by the web's."""
