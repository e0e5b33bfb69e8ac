"""Hawser gateways: a pair, or a hub with one branch on each of its links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.bench import SampleError
from harness.lab import Daemon, Lab, Namespace, until
from harness.pki import Authority
from hawser.control.client import ControlError, DaemonClient
from hawser.control.model import GatewayStatus
from peers.tunnel import Start, Tunnel, wait_until_up

Transport = Literal["mptcp", "mptcp+tls", "quic", "quic+lane", "ipip"]
_ENCRYPTED = ("mptcp+tls", "quic", "quic+lane")


@dataclass(frozen=True)
class _Branch:
    """A branch: its gateway's addresses as seen by each other branch (by id), and its hosts."""

    id: int
    namespace: Namespace
    outer: dict[int, tuple[str, ...]]
    hosts: tuple[str, ...] = ()

    @property
    def inner(self) -> str:
        return f"10.{self.id}.0.1"


def gateways(program: str, transport: Transport, paths: int = 1) -> Start:
    """A tunnel between two gateways over the first `paths` links, one path per link."""

    def start(client: Namespace, server: Namespace) -> Tunnel:
        a = _Branch(1, client, {2: tuple(f"198.18.{path}.1" for path in range(paths))})
        b = _Branch(2, server, {1: tuple(f"198.18.{path}.2" for path in range(paths))})
        daemons = _start(program, transport, a, [b])
        return Tunnel(b.inner, daemons)

    return start


@dataclass(frozen=True)
class Site:
    """Hosts behind two gateways, because a gateway's own connections do not use the lane."""

    client: Namespace
    server: Namespace
    tunnel: Tunnel


def lane(lab: Lab, program: str, ends: tuple[Namespace, Namespace], paths: int = 1) -> Site:
    """A host behind each of two gateways. The gateways terminate the hosts' TCP connections."""
    a, b = ends
    (client, near), (server, far) = _host(lab, a, "client"), _host(lab, b, "server")
    outer = [tuple(f"198.18.{path}.{end}" for path in range(paths)) for end in (1, 2)]
    first, second = _Branch(1, a, {2: outer[0]}, (near,)), _Branch(2, b, {1: outer[1]}, (far,))
    daemons = _start(program, "quic+lane", first, [second])
    rules = ["nft", "list", "table", "inet", "hawser_lane"]
    until(lambda: far in a.run(rules), "the gateway takes connections", daemons=daemons)
    return Site(client, server, Tunnel(far, daemons))


def _host(lab: Lab, gateway: Namespace, label: str) -> tuple[Namespace, str]:
    host = lab.namespace(label)
    address, router = lab.link(host, gateway)
    host.ip("route", "add", "default", "via", router)
    gateway.run(["sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1"])
    return host, address


@dataclass(frozen=True)
class Hub:
    """A gateway that is connected to the gateways of several branches."""

    namespace: Namespace
    branches: tuple[tuple[Namespace, str], ...]
    gateway: Daemon


def hub(lab: Lab, program: str, transport: Transport, branches: int) -> Hub:
    """Connect a gateway to `branches` branches, each over its own link."""
    center = _Branch(1, lab.namespace("hub"), {})
    others = []
    for number in range(2, branches + 2):
        namespace = lab.namespace(f"b{number}")
        here, there = lab.link(center.namespace, namespace)
        center.outer[number] = (here,)
        others.append(_Branch(number, namespace, {1: (there,)}))
    daemons = _start(program, transport, center, others)
    ends = tuple((branch.namespace, branch.inner) for branch in others)
    return Hub(center.namespace, ends, daemons[0])


def _start(
    program: str, transport: Transport, center: _Branch, others: Sequence[_Branch]
) -> tuple[Daemon, ...]:
    authority = Authority(center.namespace.directory)
    first = _gateway(program, transport, authority, center, others)
    rest = [_gateway(program, transport, authority, branch, [center]) for branch in others]
    for branch in others:
        wait_until_up(center.namespace, branch.inner, first, *rest)
    if encrypted(center.namespace) != (transport in _ENCRYPTED):
        raise SampleError(f"{transport}: the gateway says that it encrypts otherwise")
    return (first, *rest)


def encrypted(gateway: Namespace) -> bool:
    """Whether a gateway reports that it encrypts its traffic to every branch.

    Raises:
        SampleError: the gateway does not answer.
    """
    try:
        status = DaemonClient(_control(gateway)).status()
    except ControlError as error:
        raise SampleError(str(error)) from error
    if not isinstance(status, GatewayStatus):
        raise SampleError(f"{_control(gateway)} is not a gateway's")
    return all(group.encrypted for peer in status.peers for group in peer.groups)


def _control(gateway: Namespace) -> Path:
    return gateway.directory / "gateway.sock"


def _gateway(
    program: str,
    transport: Transport,
    authority: Authority,
    own: _Branch,
    others: Sequence[_Branch],
) -> Daemon:
    file = own.namespace.directory / "gateway.json"
    configuration = {
        "version": 1,
        "branch": f"b{own.id}",
        "id": own.id,
        "control": str(_control(own.namespace)),
        "tun": {"name": "hawser0", "mtu": 1500, "address": f"{own.inner}/24"},
        "source": own.inner,
        "transport": _transport(transport, authority, f"b{own.id}"),
        "peers": [_peer(own, other) for other in others],
    }
    file.write_text(json.dumps(configuration, indent=1))
    return own.namespace.start([program, "gateway", "--config", str(file)])


def _transport(transport: Transport, authority: Authority, name: str) -> dict[str, object]:
    if transport == "ipip":
        return {"kind": "ipip", "insecure": True}
    if transport == "mptcp":
        return {"kind": "mptcp", "tls": None, "insecure": True}
    certificate, key = authority.issue(name)
    files = {"certificate": certificate, "key": key, "ca": authority.certificate}
    kind, _, choice = transport.partition("+")
    opted = {"lane": {"II": "tcp"}} if choice == "lane" else {}
    return {"kind": kind, "tls": {role: str(file) for role, file in files.items()}, **opted}


def _peer(own: _Branch, other: _Branch) -> dict[str, object]:
    ends = zip(own.outer[other.id], other.outer[own.id], strict=True)
    return {
        "branch": f"b{other.id}",
        "id": other.id,
        "prefixes": [f"10.{other.id}.0.0/24", *(f"{host}/32" for host in other.hosts)],
        "groups": [{"id": 0, "paths": [{"local": near, "remote": far} for near, far in ends]}],
    }
