"""Configurations of an SD-WAN's gateways."""

from __future__ import annotations

from pathlib import PurePosixPath

from hawser.overlay.config import gateway as config
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.sdwan.branch import Branch
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Path
from hawser.overlay.sdwan.switch import switches
from hawser.spec.overlay import ClassRule, Encryption, Settings, Transport

TUN = "hawser0"
_IPIP_HEADER = 20
"""Bytes that IP in IP adds to a packet (RFC 2003)."""
_PKI = PurePosixPath("pki")


def configurations(fabric: Fabric) -> dict[str, GatewayConfig]:
    """Give the configuration of every branch's gateway, by the branch's name.

    Its paths are relative: the control socket has the gateway's name, and certificates are in a
    folder `pki`, by the branch's name. There are none where the transport is `none`.
    """
    if fabric.settings.transport is Transport.NONE:
        return {}
    switching = switches(fabric)
    return {
        name: GatewayConfig(
            branch=name,
            id=branch.id,
            control=PurePosixPath(f"{branch.gateway}.sock"),
            tun=config.Tun(name=TUN, mtu=_mtu(fabric)),
            source=branch.source,
            transport=_transport(fabric.settings, name),
            queue_bytes=int(fabric.settings.queue),
            peers=tuple(_peer(fabric, name, other) for other in fabric.branches if other != name),
            placement=fabric.settings.placement,
            switch=switching.get(name),
            classifier=_classifier(fabric.settings, branch),
        )
        for name, branch in fabric.branches.items()
    }


def _mtu(fabric: Fabric) -> int:
    """Size of inner packets. On a stream they need not fit into outer ones."""
    ipip = fabric.settings.transport is Transport.IPIP
    return fabric.mtu - _IPIP_HEADER if ipip else 1500


def _transport(settings: Settings, branch: str) -> config.Transport:
    if settings.transport is Transport.IPIP:
        return config.IpipTransport()
    if settings.encryption is Encryption.NONE:
        return config.MptcpTransport()
    tls = config.Tls(
        certificate=_PKI / f"{branch}.pem", key=_PKI / f"{branch}.key", ca=_PKI / "ca.pem"
    )
    if settings.transport is Transport.MPTCP:
        return config.MptcpTransport(tls=tls)
    return config.QuicTransport(
        tls=tls,
        lane=settings.lane,
        congestion=settings.congestion,
        recovery=settings.recovery,
        resequence=settings.resequence,
        header_compression=settings.header_compression,
    )


def _peer(fabric: Fabric, name: str, other: str) -> config.Peer:
    branch = fabric.branches[other]
    return config.Peer(
        branch=other,
        id=branch.id,
        prefixes=branch.prefixes,
        groups=tuple(_group(fabric, name, group) for group in fabric.between(name, other)),
    )


def _group(fabric: Fabric, name: str, group: Group) -> config.Group:
    listens = group.branches[1] == name
    paths = tuple(_path(fabric, path, listens=listens) for path in group.paths)
    return config.Group(id=group.number, paths=paths, traffic=group.traffic)


def _path(fabric: Fabric, path: Path, *, listens: bool) -> config.Path:
    """Give a path's addresses as one of its ends knows them; Multipath TCP has a second one."""
    connects, takes = map(fabric.port, path.agents)
    ends = connects.address, takes.address
    if fabric.settings.transport is Transport.MPTCP:
        ends = connects.address, takes.listen
    local, remote = ends[::-1] if listens else ends
    return config.Path(local=local, remote=remote)


def _classifier(settings: Settings, branch: Branch) -> config.Classifier | None:
    if not settings.classes:
        return None
    rules = tuple(_rule(name, rule) for name, rule in settings.classes.items())
    return config.Classifier(lan=branch.lan, rules=rules)


def _rule(name: str, rule: ClassRule) -> config.ClassifierRule:
    return config.ClassifierRule(name=name, **dict(rule))
