"""The configuration that each gateway should have. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hawser.overlay.config.base import Need
from hawser.overlay.config.gateway import GatewayConfig, IpipTransport, Transport
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.overlay.sdwan.staged import staged
from hawser.spec.network import Network


@dataclass(frozen=True)
class Desired:
    """A gateway's configuration. Its paths are relative to the gateway's directory."""

    version: int
    """Version of the network that it follows from."""
    document: str
    """JSON (schemas/gateway-config.schema.json)."""
    digest: str
    """SHA-256 of the document: two that are equal need no change."""
    needs: frozenset[Need] = frozenset()
    """What the gateway's machine must have for it."""


def desired(network: Network, version: int, revoked: Sequence[str]) -> Mapping[str, Desired]:
    """Compute the configurations of all gateways, by branch.

    Args:
        network: a network without issues (`spec.check.network`).
        version: its version.
        revoked: fingerprints of certificates that no gateway may accept.
    """
    return _all(fabric_of(network), version, revoked)


def desired_in_stages(
    before: tuple[Network, int],
    after: tuple[Network, int],
    moved: Collection[str],
    revoked: Sequence[str],
) -> Mapping[str, Desired]:
    """Compute the configurations of all gateways while some have moved to a new version.

    Args:
        before: the network that the others still have, and its version.
        after: the new one.
        moved: branches whose gateways should have the new one.
        revoked: fingerprints of certificates that no gateway may accept.
    """
    if set(after[0].overlay.branches) <= set(moved):
        return desired(*after, revoked)
    old, new = fabric_of(before[0]), fabric_of(after[0])
    changed = _all(staged(old, new, moved), after[1], revoked)
    same = _all(old, before[1], revoked)
    staying = {branch: each for branch, each in same.items() if branch not in moved}
    return staying | {branch: each for branch, each in changed.items() if branch in moved}


def _all(fabric: Fabric, version: int, revoked: Sequence[str]) -> Mapping[str, Desired]:
    return {
        branch: _desired(version, _without(config, tuple(sorted(revoked))))
        for branch, config in configurations(fabric).items()
    }


def _without(config: GatewayConfig, revoked: tuple[str, ...]) -> GatewayConfig:
    """Give a configuration that refuses certificates."""
    transport: Transport = config.transport
    if isinstance(transport, IpipTransport) or transport.tls is None:
        return config
    tls = transport.tls.model_copy(update={"revoked": revoked})
    return config.model_copy(update={"transport": transport.model_copy(update={"tls": tls})})


def _desired(version: int, config: GatewayConfig) -> Desired:
    document = config.model_dump_json()
    return Desired(version, document, digest_of(document), config.needs())


def digest_of(document: str) -> str:
    """Give the digest of a configuration, however it is laid out."""
    text = json.dumps(json.loads(document), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
