"""Configurations of an SD-WAN's gateways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from hawser.overlay.config import gateway as config
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.sdwan.branch import Branch
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Path
from hawser.overlay.sdwan.switch import switches
from hawser.spec.overlay import (
    ClassRule,
    Encryption,
    Settings,
    SwitchKind,
    TrafficType,
    Transport,
)
from hawser.spec.pair import branch_of
from hawser.spec.policy import ClassPolicy, Sla

TUN = "hawser0"
_IPIP_HEADER, _IPIP_HEADER6 = 20, 40
"""Bytes that IP in IP adds to a packet, in IPv4 (RFC 2003) and IPv6 (RFC 2473)."""
_PKI = PurePosixPath("pki")


def configurations(fabric: Fabric) -> dict[str, GatewayConfig]:
    """Give the configuration of every branch's gateway, by the branch's name.

    File paths in it are relative: the control socket is named after the gateway; certificates are
    in the folder `pki`, named after the branch. The result is empty if the transport is `none`.
    """
    if fabric.settings.transport is Transport.NONE:
        return {}
    switching = switches(fabric)
    return {name: _configuration(fabric, name, switching.get(name)) for name in fabric.branches}


def without_peers(fabric: Fabric) -> Iterator[tuple[str, GatewayConfig]]:
    """Give the branches' configurations, each without its peers; see `peer`."""
    if fabric.settings.transport is not Transport.NONE:
        switching = switches(fabric)
        for name in fabric.branches:
            yield name, _without_peers(fabric, name, switching.get(name))


def _configuration(fabric: Fabric, name: str, switch: config.Switch | None) -> GatewayConfig:
    peers = tuple(peer(fabric, name, other) for other in fabric.peers(name))
    return _without_peers(fabric, name, switch).model_copy(update={"peers": peers})


def _without_peers(fabric: Fabric, name: str, switch: config.Switch | None) -> GatewayConfig:
    branch, settings = fabric.branches[name], fabric.settings
    return GatewayConfig(
        branch=branch_of(name),
        id=branch.id,
        control=PurePosixPath(f"{branch.gateway}.sock"),
        tun=config.Tun(name=TUN, mtu=_mtu(fabric)),
        source=branch.source,
        local=branch.prefixes,
        services=branch.services,
        prohibited=fabric.prohibited(name),
        transport=_transport(settings, branch_of(name)),
        rendezvous=_rendezvous(fabric, name),
        queue_bytes=int(settings.queue),
        peers=(),
        placement=settings.placement,
        max_rate_bps=_max_rate(fabric),
        classifier=_classifier(fabric, branch),
        switch=switch,
        wan=wan_filter(fabric, branch),
    )


def _rendezvous(fabric: Fabric, name: str) -> str | None:
    """Give the branch that introduces a gateway to others, if the gateway has a tunnel to it."""
    found = fabric.settings.rendezvous
    return found if found == name or found in fabric.peers(name) else None


def wan_filter(fabric: Fabric, branch: Branch) -> config.Wan | None:
    """Give what WAN interfaces take. The ports of an OpenFlow switch are not the gateway's."""
    if branch.wan_services is None or fabric.switch is SwitchKind.OPENFLOW:
        return None
    interfaces = dict.fromkeys(port.interface for port in branch.ports.values())
    return config.Wan(interfaces=tuple(interfaces), services=branch.wan_services)


def _mtu(fabric: Fabric) -> int:
    """Largest inner packet, bytes. With IP in IP it must fit into one outer packet."""
    if fabric.settings.transport is not Transport.IPIP:
        return 1500
    ports = (port for branch in fabric.branches.values() for port in branch.ports.values())
    return fabric.mtu - (_IPIP_HEADER6 if any(port.address6 for port in ports) else _IPIP_HEADER)


def _transport(settings: Settings, branch: str) -> config.Transport:
    if settings.transport is Transport.IPIP:
        return config.IpipTransport(insecure=True)
    if settings.encryption is Encryption.NONE:
        return config.MptcpTransport(insecure=True)
    tls = config.Tls(
        certificate=_PKI / f"{branch}.pem", key=_PKI / f"{branch}.key", ca=_PKI / "ca.pem"
    )
    if settings.transport is Transport.MPTCP:
        return config.MptcpTransport(tls=tls)
    return config.QuicTransport(
        tls=tls,
        tcp_proxy=settings.tcp_proxy,
        congestion=settings.congestion,
        recovery=settings.recovery,
        resequence=settings.resequence,
        header_compression=settings.header_compression,
        oversize=settings.oversize,
        label_bits=settings.label_bits,
    )


def peer(fabric: Fabric, name: str, other: str) -> config.Peer:
    """Give another branch as a gateway is configured to reach it.

    It follows from the other branch, and from the groups to it.
    """
    branch = fabric.branches[other]
    return config.Peer(
        branch=other,
        id=branch.id,
        prefixes=branch.prefixes,
        groups=tuple(_group(fabric, name, group) for group in fabric.to(name, other)),
    )


def _group(fabric: Fabric, name: str, group: Group) -> config.Group:
    """Give a group with its paths' local and remote addresses, as seen from this branch."""
    turn: Literal[1, -1] = -1 if group.branches[1] == name else 1
    paths = tuple(_path(fabric, path, turn) for path in group.paths)
    granted = fabric.policy.get(group.traffic, ClassPolicy())
    return config.Group(
        id=group.number,
        paths=paths,
        traffic=group.traffic,
        sla=_sla(granted.sla) if granted.sla else None,
        otherwise=granted.otherwise,
    )


def _path(fabric: Fabric, path: Path, turn: Literal[1, -1]) -> config.Path:
    """Give a path as its first end sees it, or with -1 its second.

    The address of an end behind a NAT is not told; without a switch such a path has one hop.
    """
    local, remote = path.agents[::turn]
    there = path.hops[-1][1] if turn == 1 else path.hops[0][0]
    return config.Path(local=local, remote=None if fabric.port(there).behind_nat else remote)


def _sla(sla: Sla) -> config.Sla:
    def whole(value: float | None, unit: float) -> int | None:
        return None if value is None else round(value / unit)

    return config.Sla(
        rate_bps=whole(sla.rate, 1),
        delay_us=whole(sla.delay, 1e-6),
        jitter_us=whole(sla.jitter, 1e-6),
        loss_ppm=whole(sla.loss, 1e-6),
        margin_ppm=round(sla.margin * 1e6),
        leave_after_ms=round(sla.leave_after * 1e3),
        enter_after_ms=round(sla.enter_after * 1e3),
    )


def _max_rate(fabric: Fabric) -> config.MaxRate:
    rates = {traffic: each.max_rate for traffic, each in fabric.policy.items()}
    found = {traffic.value: int(rate) for traffic, rate in rates.items() if rate is not None}
    return config.MaxRate.model_validate(found)


def _classifier(fabric: Fabric, branch: Branch) -> config.Classifier | None:
    """Give the rules. A limit of Type III needs a classifier without any, too."""
    classes = fabric.settings.classes
    if not classes and fabric.policy.get(TrafficType.III, ClassPolicy()).max_rate is None:
        return None
    rules = tuple(_rule(name, rule) for name, rule in classes.items())
    return config.Classifier(lan=branch.lan, rules=rules)


def _rule(name: str, rule: ClassRule) -> config.ClassifierRule:
    return config.ClassifierRule(name=name, **dict(rule))
