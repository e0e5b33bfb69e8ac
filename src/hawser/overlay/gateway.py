"""Configurations of the gateways' daemons (schemas/gateway-config.schema.json)."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.address import Addresses
from hawser.overlay.group import Groups, Path, groups
from hawser.overlay.plan import DaemonPlan
from hawser.spec.overlay import Encryption, Overlay, Transport
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
    every = groups(overlay)
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
    return {"kind": kind, "tls": files}


def _peer(
    overlay: Overlay, addresses: Addresses, every: Groups, name: str, other: str
) -> dict[str, object]:
    listens = (other, name) in every
    return {
        "branch": other,
        "id": overlay.branches[other].id,
        "prefixes": [str(overlay.branches[other].prefix)],
        "groups": [
            {
                "id": number,
                "paths": [_path(overlay, addresses, path, listens=listens) for path in paths],
            }
            for number, paths in enumerate(_towards(every, name, other))
        ],
    }


def _towards(every: Groups, name: str, other: str) -> list[list[Path]]:
    """Give the groups of a pair as seen from one of its branches."""
    if (name, other) in every:
        return every[name, other]
    return [[(second, first) for first, second in paths] for paths in every[other, name]]


def _path(overlay: Overlay, addresses: Addresses, path: Path, *, listens: bool) -> dict[str, str]:
    local, remote = (addresses.wan[port] for port in path)
    if overlay.transport is not Transport.MPTCP:
        return {"local": str(local.port.ip), "remote": str(remote.port.ip)}
    if listens:
        return {"local": str(local.listen.ip), "remote": str(remote.port.ip)}
    return {"local": str(local.port.ip), "remote": str(remote.listen.ip)}
