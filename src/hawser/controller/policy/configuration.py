"""The configuration that each gateway should have. Pure."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hawser.overlay.config.base import Need
from hawser.overlay.config.bridge import FIELD as BRIDGE
from hawser.overlay.config.bridge import Bridge
from hawser.overlay.config.gateway import GatewayConfig, IpipTransport, Transport
from hawser.overlay.config.steering import FIELD as STEERING
from hawser.overlay.sdwan.automatic import Choice
from hawser.overlay.sdwan.branch import Branch
from hawser.overlay.sdwan.bridge import bridged
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.gateway import peer, without_peers
from hawser.overlay.sdwan.group import Group
from hawser.overlay.sdwan.network import fabric_of
from hawser.overlay.sdwan.staged import staged
from hawser.overlay.sdwan.steering import steering
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType
from hawser.spec.pair import branch_of
from hawser.spec.policy import ClassPolicy


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
    peers: frozenset[str] = frozenset()
    """Branches that the gateway has a tunnel to."""
    bridge: Bridge | None = None
    """The gateway's OpenFlow switch, if it has one."""


class Computer:
    """Computes configurations; what is the same as before is not computed again.

    A network of 400 branches in a full mesh has 160 000 peers, of which a change of one branch's
    line concerns 800: 7.7 s of a core for all of them, 0.6 s for these.
    """

    def __init__(self) -> None:
        self._fabric: Fabric | None = None
        """The newest."""
        self._peers: dict[tuple[str, str], _Known] = {}

    def copy(self) -> Computer:
        """Give another one that knows the same."""
        made = Computer()
        made._fabric, made._peers = self._fabric, dict(self._peers)
        return made

    def fabric(self, network: Network, chosen: Choice | None = None) -> Fabric:
        """Resolve a network without issues (`spec.check.network`)."""
        with _uncollected():
            self._fabric = fabric_of(network, self._fabric, chosen)
        return self._fabric

    def desired(
        self,
        network: Network,
        version: int,
        revoked: Sequence[str],
        chosen: Choice | None = None,
    ) -> Mapping[str, Desired]:
        """Compute the configurations of all gateways, by their names (`spec.pair`).

        Args:
            network: a network without issues.
            version: its version.
            revoked: fingerprints of certificates that no gateway may accept.
            chosen: member paths that were chosen automatically.
        """
        return self._all(self.fabric(network, chosen), version, revoked)

    def desired_in_stages(
        self,
        before: tuple[Network, int],
        after: tuple[Network, int],
        moved: Collection[str],
        revoked: Sequence[str],
        chosen: Choice | None = None,
    ) -> Mapping[str, Desired]:
        """Compute the configurations of all gateways while some have moved to a new version.

        Args:
            before: the network that the others still have, and its version.
            after: the new one.
            moved: branches whose gateways should have the new one.
            revoked: fingerprints of certificates that no gateway may accept.
            chosen: member paths that were chosen automatically.
        """
        if set(after[0].overlay.branches) <= set(moved):
            return self.desired(*after, revoked, chosen)
        old, new = self.fabric(before[0], chosen), self.fabric(after[0], chosen)
        same = self._all(old, before[1], revoked)
        changed = self._all(staged(old, new, moved), after[1], revoked)
        staying = {name: each for name, each in same.items() if branch_of(name) not in moved}
        return staying | {name: each for name, each in changed.items() if branch_of(name) in moved}

    def _all(self, fabric: Fabric, version: int, revoked: Sequence[str]) -> dict[str, Desired]:
        refused = tuple(sorted(revoked))
        with _uncollected():
            made = {
                name: self._desired(fabric, name, version, _without(config, refused))
                for name, config in without_peers(fabric)
            }
        self._forget(fabric)
        return made

    def _desired(self, fabric: Fabric, name: str, version: int, config: GatewayConfig) -> Desired:
        """Put a configuration together from its own part and those of its peers."""
        config, bridge = bridged(fabric.branches[name], config)
        own = json.loads(config.model_dump_json()) | {"peers": _PLACE}
        needs = config.needs()
        if bridge is not None:
            own |= {BRIDGE: json.loads(bridge.model_dump_json())}
            needs |= {"ovs-vswitchd"}
        if (chains := steering(fabric, name)) is not None:
            own |= {STEERING: json.loads(chains.model_dump_json())}
        peers = ",".join(self._peer(fabric, name, other) for other in fabric.peers(name))
        document = _canonical(own).replace(f'"{_PLACE}"', f"[{peers}]", 1)
        digest = sha256(document.encode()).hexdigest()
        return Desired(version, document, digest, needs, frozenset(fabric.peers(name)), bridge)

    def _peer(self, fabric: Fabric, name: str, other: str) -> str:
        branch, groups = fabric.branches[other], fabric.to(name, other)
        known = self._peers.get((name, other))
        new = known is None or known.branch is not branch or known.groups != groups
        if known is None or new or known.policy != fabric.policy:
            text = _canonical(json.loads(peer(fabric, name, other).model_dump_json()))
            known = self._peers[name, other] = _Known(branch, groups, fabric.policy, text)
        return known.text

    def _forget(self, fabric: Fabric) -> None:
        """Drop peers of branches that are no more, once they are many."""
        if len(self._peers) > 2 * sum(len(fabric.peers(name)) for name in fabric.branches) + 100:
            self._peers.clear()


@dataclass(frozen=True)
class _Known:
    """A peer that was computed."""

    branch: Branch
    groups: tuple[Group, ...]
    policy: Mapping[TrafficType, ClassPolicy]
    text: str


_PLACE = "peers go here"


def desired(network: Network, version: int, revoked: Sequence[str]) -> Mapping[str, Desired]:
    """Compute the configurations of all gateways once; see `Computer.desired`."""
    return Computer().desired(network, version, revoked)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the cycle collector away from millions of objects that are in no cycle.

    It took half of the time for 400 branches in a full mesh.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _without(config: GatewayConfig, revoked: tuple[str, ...]) -> GatewayConfig:
    """Give a configuration that refuses certificates."""
    transport: Transport = config.transport
    if isinstance(transport, IpipTransport) or transport.tls is None:
        return config
    tls = transport.tls.model_copy(update={"revoked": revoked})
    return config.model_copy(update={"transport": transport.model_copy(update={"tls": tls})})


def digest_of(document: str) -> str:
    """Give the digest of a configuration, however it is laid out."""
    return sha256(_canonical(json.loads(document)).encode()).hexdigest()


def _canonical(document: object) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
