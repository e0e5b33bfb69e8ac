"""The gateway's OpenFlow switch: it takes the WAN ports over, and gives them back.

Addresses move, with their routes, to ports towards the gateway's daemon: docs/design/openflow.md.

    mpa_0          mpa_1            hold the WAN addresses
      |              |
    ofs_0          ofs_1
  +----------------------+
  |  Open vSwitch        |---- Unix socket ---- agent ---- TLS ---- controller
  +----------------------+
      |   ^          |   ^
      v   |          v   |           out_0 to wan_0, redirected to a
        a              b             WAN ports; the kernel drops what it would take from them itself

The controller fills the switch, with the entries of the configuration that the gateway says it has.
The agent does so when it starts a switch, which the connection to the controller has to pass, and
when it returns to the configuration before, as the controller may be out of reach.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pyroute2 import IPRoute, NetlinkError

from hawser.agent.openvswitch import OpenVSwitch
from hawser.control.client import ControlError
from hawser.node.base import NodeError
from hawser.node.netns import ethtool, nft, takeover, tc
from hawser.openflow.text import lines
from hawser.overlay.config.bridge import Bridge, BridgePort, Stations
from hawser.overlay.config.openflow import (
    FIRST_AGENT,
    FIRST_OUT,
    FIRST_WAN,
    agent_port,
    behind_port,
    inner_port,
    output_port,
)
from hawser.overlay.sdwan.flow import flows
from hawser.pki.file import replace_private
from hawser.spec.model import Model

_log = logging.getLogger(__name__)

_TABLE: Final = "hawser_ofs"
_RESOLVE_S: Final = 2.0
"""Seconds in which a next hop has to answer ARP, to be reached from the first packet."""
_CONF: Final = Path("/proc/sys/net")


class _Taken(Model):
    """A port that was taken over."""

    port: BridgePort
    offload: tuple[str, ...]
    """Features of the interface that were turned off."""
    whole: bool = False
    """Whether nothing is left to be done; an agent may be killed before."""


_TAKEN: TypeAdapter[tuple[_Taken, ...]] = TypeAdapter(tuple[_Taken, ...])


class GatewayBridge:
    """The switch of this machine's gateway. It forwards without the agent."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "taken.json"
        self._folder = folder
        self._switch = OpenVSwitch(folder)
        self._bridge: Bridge | None = None
        self.digest: str | None = None
        """Digest of the configuration whose entries the switch should have."""
        self.stations: Mapping[str, Stations] = {}
        """Ethernet addresses at the WAN ports, which the controller has to know."""
        self._complaint = ""

    @property
    def socket(self) -> Path:
        """Unix socket to which the switch connects as to its controller."""
        return self._switch.controller

    def interfaces(self) -> Mapping[str, str]:
        """Give the interfaces of WAN ports that the switch has taken over, by the ports' names."""
        bridge = self._bridge
        return {port.name: port.interface for port in bridge.ports} if bridge else {}

    def apply(self, bridge: Bridge | None, digest: str | None = None, *, install: bool) -> None:
        """Make the switch; None gives the ports back.

        Args:
            bridge: the switch.
            digest: of the configuration that it is a part of.
            install: whether to put its entries in force, rather than wait for the controller.

        Raises:
            ControlError: it is not possible.
        """
        self._bridge = bridge
        try:
            if bridge is None:
                self._release()
                return
            begun = self._ensure(bridge)
            self.digest = digest
            if begun or install:
                self._install(bridge)
        except (OSError, NodeError, NetlinkError) as error:
            raise ControlError(f"OpenFlow switch: {_reason(error)}") from error

    def refresh(self) -> None:
        """Start what has ended, and learn Ethernet addresses that have changed."""
        bridge, complaint = self._bridge, ""
        if bridge is None:
            return
        try:
            begun = self._ensure(bridge)
            found = self._stations(bridge)
            if begun or found != self.stations:
                self.stations = found
                self._install(bridge)
        except (ControlError, OSError, NodeError, NetlinkError) as error:
            complaint = _reason(error)
            if complaint != self._complaint:
                _log.warning("OpenFlow switch: %s", complaint)
        self._complaint = complaint

    def _install(self, bridge: Bridge) -> None:
        self._switch.install(lines(flows(bridge.switch("gateway", self.stations))))

    def _ensure(self, bridge: Bridge) -> bool:
        """Make what is not there; tell whether the switch was started, and so is empty."""
        taken = self._taken()
        same = tuple(each.port for each in taken if each.whole) == bridge.ports
        if not same or not _cabled(len(taken)):
            self._release()
            self._take(bridge)
            return True
        self.stations = self.stations or self._stations(bridge)
        if self._switch.runs():
            return False
        self._start(bridge)
        return True

    def _start(self, bridge: Bridge) -> None:
        self._switch.start(_numbers(bridge.ports))

    def _take(self, bridge: Bridge) -> None:
        """Take the ports over.

        Raises:
            ControlError: there is no such interface, or it lacks an address.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with IPRoute() as route:
            links = [_wan(route, port) for port in bridge.ports]
            off = [ethtool.disable_offload(port.interface) for port in bridge.ports]
            pairs = zip(bridge.ports, off, strict=True)
            taken = [_Taken(port=port, offload=names) for port, names in pairs]
            self._remember(taken)
            try:
                for place, link in enumerate(links):
                    _cable(route, place, link, bridge.ports[place].interface)
                self._start(bridge)
                self.stations = self._resolved(route, bridge)
                self._install(bridge)
                for place, link in enumerate(links):
                    takeover.move(route, link.index, _index(route, agent_port(place)))
                nft.apply(_rules(bridge.ports))
                self._remember(each.model_copy(update={"whole": True}) for each in taken)
            except BaseException:
                self._release()
                raise

    def _release(self) -> None:
        """Give all ports back. Idempotent."""
        taken = self._taken()
        if not taken:
            return
        with contextlib.suppress(NodeError):
            nft.apply(f"table netdev {_TABLE}\ndelete table netdev {_TABLE}\n")
        with IPRoute() as route:
            for place, each in enumerate(taken):
                agent, wan = (
                    takeover.link(route, name) for name in (agent_port(place), each.port.interface)
                )
                if agent is not None and wan is not None:
                    takeover.move(route, agent.index, wan.index)
                for name in (agent_port(place), output_port(place)):
                    if (link := takeover.link(route, name)) is not None:
                        route.link("delete", index=link.index)
                with contextlib.suppress(OSError):
                    ethtool.enable(each.port.interface, each.offload)
        self._switch.stop()
        self._file.unlink(missing_ok=True)
        self.stations = {}

    def _resolved(self, route: IPRoute, bridge: Bridge) -> Mapping[str, Stations]:
        """Give the Ethernet addresses at ports that are about to be taken over."""
        deadline = time.monotonic() + _RESOLVE_S
        while True:
            found = {port.name: _station(route, port.interface, port) for port in bridge.ports}
            if all(each.next_hop for each in found.values()) or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def _stations(self, bridge: Bridge) -> Mapping[str, Stations]:
        """Give the Ethernet addresses now; a next hop that does not answer keeps its own."""
        found = {}
        with IPRoute() as route:
            for place, port in enumerate(bridge.ports):
                now = _station(route, agent_port(place), port)
                if now.next_hop is None and (before := self.stations.get(port.name)):
                    now = now.model_copy(update={"next_hop": before.next_hop})
                found[port.name] = now
        return found

    def _taken(self) -> tuple[_Taken, ...]:
        try:
            return _TAKEN.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return ()

    def _remember(self, taken: Iterable[_Taken]) -> None:
        document = [each.model_dump(mode="json") for each in taken]
        replace_private(self._file, json.dumps(document, indent=1).encode())


def _numbers(ports: tuple[BridgePort, ...]) -> Iterator[tuple[str, int]]:
    for place, port in enumerate(ports):
        yield port.interface, FIRST_WAN + place
        yield output_port(place), FIRST_OUT + place
        yield inner_port(place), FIRST_AGENT + place


def _wan(route: IPRoute, port: BridgePort) -> takeover.Link:
    """Give the interface of a WAN port."""
    found = takeover.link(route, port.interface)
    if found is None:
        raise ControlError(f"port {port.name}: there is no interface {port.interface}")
    have = takeover.addresses(route, found.index)
    for address in map(str, port.addresses):
        if address not in have:
            what = f"expected the address {address}, found {', '.join(have) or 'none'}"
            raise ControlError(f"port {port.name}: interface {port.interface}: {what}")
    return found


def _cable(route: IPRoute, place: int, wan: takeover.Link, interface: str) -> None:
    """Make the cables of a port: to the daemon, with its Ethernet address, and to the port."""
    for one, other in (
        (agent_port(place), inner_port(place)),
        (output_port(place), behind_port(place)),
    ):
        own = {"address": wan.station} if one == agent_port(place) else {}
        peer = {"ifname": other, "mtu": wan.mtu}
        route.link("add", ifname=one, kind="veth", mtu=wan.mtu, peer=peer, **own)
        for name in (one, other):
            ethtool.disable_offload(name)
            with contextlib.suppress(OSError):  # this kernel has no IPv6
                (_CONF / "ipv6/conf" / name / "disable_ipv6").write_text("1")
            route.link("set", index=_index(route, name), state="up")
    loose = (_CONF / "ipv4/conf" / interface / "rp_filter").read_text()
    (_CONF / "ipv4/conf" / agent_port(place) / "rp_filter").write_text(loose)
    tc.redirect(route, _index(route, behind_port(place)), wan.index)


def _cabled(ports: int) -> bool:
    names = [name for place in range(ports) for name in (agent_port(place), output_port(place))]
    with IPRoute() as route:
        return all(takeover.link(route, name) is not None for name in names)


def _station(route: IPRoute, interface: str, port: BridgePort) -> Stations:
    """Give the Ethernet addresses of a port, as an interface has them."""
    link = takeover.link(route, interface)
    if link is None:
        raise ControlError(f"port {port.name}: there is no interface {interface}")
    return Stations(
        own=link.station, next_hop=takeover.neighbour(route, link.index, str(port.next_hop))
    )


def _index(route: IPRoute, name: str) -> int:
    return int(route.link_lookup(ifname=name)[0])


def _rules(ports: tuple[BridgePort, ...]) -> str:
    """Drop what arrives at the switch's ports, after it has taken it by packet sockets."""
    names = [name for place, port in enumerate(ports) for name in _heard(place, port)]
    devices = ", ".join(f'"{name}"' for name in names)
    return (
        f"table netdev {_TABLE}\ndelete table netdev {_TABLE}\n"
        f"table netdev {_TABLE} {{\nchain ports {{\n"
        f"type filter hook ingress devices = {{ {devices} }} priority 0; policy drop;\n}}\n}}\n"
    )


def _heard(place: int, port: BridgePort) -> tuple[str, ...]:
    return port.interface, inner_port(place), output_port(place)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())
