"""Configurations of the gateways' daemons (schemas/gateway-config.schema.json)."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.plan import DaemonPlan
from hawser.overlay.lab.switch import Switch, switches
from hawser.overlay.sdwan.group import Group, Groups, Path, groups
from hawser.spec.overlay import (
    Branch,
    Congestion,
    Encryption,
    Overlay,
    Placement,
    Recovery,
    TrafficType,
    Transport,
)
from hawser.spec.workflow import Scenario

VERSION = 1
TUN = "hawser0"
IPIP_HEADER = 20
"""Bytes that IP in IP adds to a packet (RFC 2003)."""


def daemons(scenario: Scenario, addresses: Addresses) -> Iterator[DaemonPlan]:
    """Give one gateway daemon a branch; none where the transport is `none`."""
    overlay = scenario.overlay
    if overlay is None or overlay.transport is Transport.NONE:
        return
    wan_mtu = scenario.topology.internet.mtu if scenario.topology.internet else 1500
    every, switching = groups(scenario.topology, overlay), switches(scenario, addresses)
    for name, branch in overlay.branches.items():
        config: dict[str, object] = {
            "version": VERSION,
            "branch": name,
            "id": branch.id,
            "control": f"{branch.gateway}.sock",
            "tun": {"name": TUN, "mtu": _mtu(overlay, wan_mtu), "address": None},
            "source": str(addresses.inner[f"{branch.gateway}.{branch.lan}"].ip),
            "transport": _transport(overlay, name),
            "queue_bytes": int(overlay.queue),
            "peers": [
                _peer(overlay, addresses, every, name, other)
                for other in overlay.branches
                if other != name
            ],
            **_switching(overlay, switching.get(name)),
            **_classifier(overlay, branch),
        }
        yield DaemonPlan(node=branch.gateway, role="gateway", name=branch.gateway, config=config)


def _mtu(overlay: Overlay, wan_mtu: int) -> int:
    """Size of inner packets. On a stream they need not fit into outer ones."""
    return wan_mtu - IPIP_HEADER if overlay.transport is Transport.IPIP else 1500


def _transport(overlay: Overlay, branch: str) -> dict[str, object]:
    if overlay.transport is Transport.IPIP:
        return {"kind": "ipip"}
    if overlay.encryption is Encryption.NONE:
        return {"kind": "mptcp", "tls": None}
    kind = overlay.transport.value
    files = {"certificate": f"pki/{branch}.pem", "key": f"pki/{branch}.key", "ca": "pki/ca.pem"}
    transport: dict[str, object] = {"kind": kind, "tls": files}
    if overlay.lane:
        transport["lane"] = {traffic.value: way.value for traffic, way in overlay.lane.items()}
    if overlay.congestion is not Congestion.DELAY:
        transport["congestion"] = overlay.congestion.value
    if overlay.recovery is not Recovery.RESEND:
        transport["recovery"] = overlay.recovery.value
    if not overlay.resequence:
        transport["resequence"] = False
    if not overlay.header_compression:
        transport["header_compression"] = False
    return transport


def _peer(
    overlay: Overlay, addresses: Addresses, every: Groups, name: str, other: str
) -> dict[str, object]:
    listens = (other, name) in every
    return {
        "branch": other,
        "id": overlay.branches[other].id,
        "prefixes": [str(overlay.branches[other].prefix)],
        "groups": [
            _group(overlay, addresses, group, listens=listens)
            for group in every[(other, name) if listens else (name, other)]
        ],
    }


def _group(
    overlay: Overlay, addresses: Addresses, group: Group, *, listens: bool
) -> dict[str, object]:
    """Give a group; only what is not the default where gateways differ in what they know."""
    urgent = {"class": "I"} if group.traffic is TrafficType.I else {}
    paths = [_path(overlay, addresses, path, listens=listens) for path in group.paths]
    return {"id": group.number, "paths": paths, **urgent}


def _path(overlay: Overlay, addresses: Addresses, path: Path, *, listens: bool) -> dict[str, str]:
    local, remote = (addresses.wan[port] for port in path.agents[:: -1 if listens else 1])
    if overlay.transport is not Transport.MPTCP:
        return {"local": str(local.port.ip), "remote": str(remote.port.ip)}
    if listens:
        return {"local": str(local.listen.ip), "remote": str(remote.port.ip)}
    return {"local": str(local.port.ip), "remote": str(remote.listen.ip)}


def _switching(overlay: Overlay, switch: Switch | None) -> dict[str, object]:
    found: dict[str, object] = {}
    if overlay.placement is not Placement.FLOW_HASH:
        found["placement"] = overlay.placement.value
    if switch is not None:
        found["switch"] = switch.model_dump(mode="json", by_alias=True)
    return found


def _classifier(overlay: Overlay, branch: Branch) -> dict[str, object]:
    if not overlay.classes:
        return {}
    rules = [
        {"name": name, **rule.model_dump(mode="json")} for name, rule in overlay.classes.items()
    ]
    return {"classifier": {"lan": branch.lan, "rules": rules, "default": "II"}}
