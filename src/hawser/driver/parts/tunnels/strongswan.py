"""IPsec by strongSwan: IKEv2, and ESP in UDP carried by its own userspace ESP (kernel-libipsec).

The kernel's ESP is not used even where there is one, so that a result means the same everywhere.
Where `hawserd` carries the packets of a function, this one is only told what is agreed on.
`charon-systemd` is taken because it writes nothing outside the files it is given; it does not need
systemd.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.driver.parts.tunnels.wait import listening, until
from hawser.node.base import Node, NodeError, Process, tail
from hawser.node.change import Device
from hawser.overlay.lab.plan import TunnelPlan

_PACKAGES = (
    "charon-systemd strongswan-swanctl libcharon-extra-plugins libstrongswan-standard-plugins"
    " libstrongswan-extra-plugins"
)
_CONNECT_SECONDS = 20
_DEVICE = "ipsec0"
"""Of kernel-libipsec."""
_EVERYTHING = "0.0.0.0/0"
COMMAND = ("charon-systemd",)
"""The program of an end."""

# The first that can do something does it: libipsec before netlink for ESP, and openssl, which uses
# the processor's AES, before the plugins that compute it in C.
_DAEMON = """\
charon-systemd {{
  load = random nonce openssl aes sha1 sha2 hmac kdf gcm curve25519 pem pkcs1 x509 pubkey \
kernel-libipsec kernel-netlink socket-default vici updown
  {carried}
  plugins {{ vici {{ socket = {socket} }} }}
  filelog {{ stderr {{
    default = 1
    {levels}
  }} }}
  journal {{ default = -1 }}
}}
swanctl {{ load = random openssl pem pkcs1 x509 pubkey }}
"""
PORT = 4501
"""UDP port of a charon whose packets `hawserd` carries."""
PEER_PORT = 4500
"""UDP port where that meets `hawserd` as if it were the other end."""
# charon insists on a second port. One that the kernel chooses for IPv6 may be taken for IPv4, by
# `hawserd`, and charon then does without IPv4.
_SPARE_PORT = 4502

# kernel-libipsec makes routes whatever it is told: then at least nobody looks at them.
_UNSEEN = "routing_table_prio = 40000"
_CARRIED = f"""{_UNSEEN}
  port = {_SPARE_PORT}
  port_nat_t = {PORT}"""
_KEYS = """chd = 4
    esp = 2"""
"""Levels at which the log has keys, and what was removed. Only `hawserd` may read it."""

_CONNECTION = """\
connections {{
  {name} {{
    version = 2
    mobike = no
    proposals = aes256gcm16-prfsha256-x25519
    {addresses}
    local {{
      auth = psk
      id = {node}
    }}
    remote {{
      auth = psk
      id = {peer}
    }}
    children {{
      {name} {{
        local_ts = {inside}
        remote_ts = {outside}
        esp_proposals = aes256gcm16
        updown = {updown}
      }}
    }}
  }}
}}
secrets {{
  ike-{name} {{
    secret = "{secret}"
  }}
}}
"""


def missing() -> None:
    """Look for the programs.

    Raises:
        DriverError: one is not installed.
    """
    for program in ("charon-systemd", "swanctl"):
        if shutil.which(program) is None:
            raise DriverError(f"program {program}: install the Debian packages {_PACKAGES}")


def start(
    directory: Path,
    ends: tuple[TunnelPlan, TunnelPlan],
    nodes: Mapping[str, Node],
    started: Callable[[Process], None],
) -> None:
    """Start both ends and connect them; see `hawser.driver.parts.tunnels`."""
    secret = secrets.token_hex(32)
    for end in ends:
        _daemon(directory / end.node, end, nodes[end.node], secret, started)
    for end in ends:
        load(directory / end.node, nodes[end.node])
    first = ends[0]
    folder = directory / first.node
    initiate(folder, nodes[first.node], first.name, _log(folder))
    for end in filter(_open, ends):
        nodes[end.node].apply(Device(name=_DEVICE, networks=end.outside))


def _open(end: TunnelPlan) -> bool:
    """Whether selectors are open and the routes ours.

    For each pair of networks kernel-libipsec makes a route, whose source must be an address of the
    node in the one inside: it refuses selectors of networks that are only behind the node.
    """
    return end.table is None and max(len(end.inside), len(end.outside)) > 1


def _daemon(
    folder: Path,
    end: TunnelPlan,
    node: Node,
    secret: str,
    started: Callable[[Process], None],
) -> None:
    write(folder, end, node, secret)
    log = _log(folder)
    process = node.start(COMMAND, log=log, env=environment(folder))
    started(process)
    until(
        listening(socket(folder)), f"{end.name}: start of charon on {end.node}", process, node, log
    )


def write(folder: Path, end: TunnelPlan, node: Node, secret: str) -> None:
    """Write the files of one end, which only root may read."""
    carried, levels = (_CARRIED, _KEYS) if end.table is not None else ("", "")
    carried = _UNSEEN if _open(end) else carried
    text = _DAEMON.format(socket=f"unix://{socket(folder)}", carried=carried, levels=levels)
    node.put(folder / "strongswan.conf", text.encode())
    node.put(_connections(folder), _connection(end, secret).encode())


def _connection(end: TunnelPlan, secret: str) -> str:
    return _CONNECTION.format(
        name=end.name,
        node=end.node,
        peer=end.peer,
        addresses=_addresses(end),
        inside=_EVERYTHING if _open(end) else ",".join(map(str, end.inside)),
        outside=_EVERYTHING if _open(end) else ",".join(map(str, end.outside)),
        secret=secret,
        updown="/bin/true",
    )


def _addresses(end: TunnelPlan) -> str:
    """Give the addresses between which keys are negotiated."""
    if end.table is None:
        return f"local_addrs = {end.local}\n    remote_addrs = {end.remote}"
    addresses = "local_addrs = 127.0.0.1\n    remote_addrs = 127.0.0.2"
    return f"{addresses}\n    local_port = {PORT}\n    remote_port = {PEER_PORT}"


def load(folder: Path, node: Node) -> None:
    """Give a running end its connection.

    Raises:
        NodeError: it does not take it.
    """
    _swanctl(folder, node, "--load-all", "--file", str(_connections(folder)))


def initiate(folder: Path, node: Node, name: str, log: Path) -> None:
    """Open a tunnel from one end.

    Args:
        folder: of the end's files.
        node: where it runs.
        name: of the tunnel.
        log: of charon.

    Raises:
        NodeError: the other end does not answer, or they do not agree; with the end of the log.
    """
    try:
        _swanctl(folder, node, "--initiate", "--child", name)
    except NodeError as error:
        raise NodeError(f"{error}{tail(node.get(log).decode(errors='replace'))}") from error


def rekey(folder: Path, name: str) -> list[str]:
    """Give the command that has an end renew the keys of a tunnel."""
    return _command(folder, "--rekey", "--child", name)


def _command(folder: Path, *arguments: str) -> list[str]:
    return ["swanctl", *arguments, "--uri", f"unix://{socket(folder)}"]


def _swanctl(folder: Path, node: Node, *arguments: str) -> None:
    command = _command(folder, *arguments)
    node.run(command, timeout=_CONNECT_SECONDS, env=environment(folder))


def socket(folder: Path) -> Path:
    """Give the control socket of an end."""
    return folder / "vici"


def _log(folder: Path) -> Path:
    return folder / "charon.log"


def _connections(folder: Path) -> Path:
    return folder / "swanctl.conf"


def environment(folder: Path) -> dict[str, str]:
    """Give what tells the programs of an end where its files are."""
    return {"STRONGSWAN_CONF": str(folder / "strongswan.conf"), "SWANCTL_DIR": str(folder)}
