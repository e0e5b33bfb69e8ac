"""Configurations of the gateways' daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from hawser.overlay.config.gateway import (
    Classifier,
    ClassifierRule,
    GatewayConfig,
    IpipTransport,
    MptcpTransport,
    Peer,
    QuicTransport,
    Tls,
    Tun,
)
from hawser.overlay.config.gateway import Group as GroupConfig
from hawser.overlay.config.gateway import Path as PathConfig
from hawser.overlay.config.gateway import Transport as TransportConfig
from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.plan import GatewayDaemon
from hawser.overlay.lab.switch import switches
from hawser.overlay.sdwan.group import Group, Groups, Path, groups
from hawser.spec.overlay import Branch, Encryption, Overlay, Transport
from hawser.spec.workflow import Scenario

TUN = "hawser0"
IPIP_HEADER = 20
"""Bytes that IP in IP adds to a packet (RFC 2003)."""


def daemons(scenario: Scenario, addresses: Addresses) -> Iterator[GatewayDaemon]:
    """Give one gateway daemon a branch; none where the transport is `none`."""
    overlay = scenario.overlay
    if overlay is None or overlay.transport is Transport.NONE:
        return
    wan_mtu = scenario.topology.internet.mtu if scenario.topology.internet else 1500
    every, switching = groups(scenario.topology, overlay), switches(scenario, addresses)
    for name, branch in overlay.branches.items():
        config = GatewayConfig(
            branch=name,
            id=branch.id,
            control=PurePosixPath(f"{branch.gateway}.sock"),
            tun=Tun(name=TUN, mtu=_mtu(overlay, wan_mtu)),
            source=addresses.inner[f"{branch.gateway}.{branch.lan}"].ip,
            transport=_transport(overlay, name),
            queue_bytes=int(overlay.queue),
            peers=tuple(
                _peer(overlay, addresses, every, name, other)
                for other in overlay.branches
                if other != name
            ),
            placement=overlay.placement,
            switch=switching.get(name),
            classifier=_classifier(overlay, branch),
        )
        yield GatewayDaemon(node=branch.gateway, name=branch.gateway, config=config)


def _mtu(overlay: Overlay, wan_mtu: int) -> int:
    """Size of inner packets. On a stream they need not fit into outer ones."""
    return wan_mtu - IPIP_HEADER if overlay.transport is Transport.IPIP else 1500


def _transport(overlay: Overlay, branch: str) -> TransportConfig:
    if overlay.transport is Transport.IPIP:
        return IpipTransport()
    if overlay.encryption is Encryption.NONE:
        return MptcpTransport()
    pki = PurePosixPath("pki")
    tls = Tls(certificate=pki / f"{branch}.pem", key=pki / f"{branch}.key", ca=pki / "ca.pem")
    if overlay.transport is Transport.MPTCP:
        return MptcpTransport(tls=tls)
    return QuicTransport(
        tls=tls,
        lane=overlay.lane,
        congestion=overlay.congestion,
        recovery=overlay.recovery,
        resequence=overlay.resequence,
        header_compression=overlay.header_compression,
    )


def _peer(overlay: Overlay, addresses: Addresses, every: Groups, name: str, other: str) -> Peer:
    listens = (other, name) in every
    return Peer(
        branch=other,
        id=overlay.branches[other].id,
        prefixes=(overlay.branches[other].prefix,),
        groups=tuple(
            _group(overlay, addresses, group, listens=listens)
            for group in every[(other, name) if listens else (name, other)]
        ),
    )


def _group(overlay: Overlay, addresses: Addresses, group: Group, *, listens: bool) -> GroupConfig:
    paths = tuple(_path(overlay, addresses, path, listens=listens) for path in group.paths)
    return GroupConfig(id=group.number, paths=paths, traffic=group.traffic)


def _path(overlay: Overlay, addresses: Addresses, path: Path, *, listens: bool) -> PathConfig:
    local, remote = (addresses.wan[port] for port in path.agents[:: -1 if listens else 1])
    if overlay.transport is not Transport.MPTCP:
        return PathConfig(local=local.port.ip, remote=remote.port.ip)
    if listens:
        return PathConfig(local=local.listen.ip, remote=remote.port.ip)
    return PathConfig(local=local.port.ip, remote=remote.listen.ip)


def _classifier(overlay: Overlay, branch: Branch) -> Classifier | None:
    if not overlay.classes:
        return None
    rules = tuple(ClassifierRule(name=name, **dict(rule)) for name, rule in overlay.classes.items())
    return Classifier(lan=branch.lan, rules=rules)
