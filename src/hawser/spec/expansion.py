r"""A cloud's elements as the nodes, links and tunnels of a topology.

    node -- vpc -- transit gateway == peering == transit gateway -- vpc -- node
              \
               v-a1 == tunnel == v-b1      a VPN `v`: a pair of nodes for each tunnel, and
               v-a2 == tunnel == v-b2      routers that spread flows over them (ECMP)

Everything is written at the place of the element that it is made of, so that later errors name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from hawser.spec import check
from hawser.spec.cloud import Cloud, Element, ElementKind, cap
from hawser.spec.errors import Place
from hawser.spec.region import one_way_delay
from hawser.spec.tree import Data, Items, Scalar, Table, Tree, empty
from hawser.spec.units import Duration
from hawser.spec.validate import Issue, validate

MEMBER_PORT = "vpc"
"""Port of a node to its VPC."""
_INSIDE, _OUTSIDE = "in", "out"
"""Ports of the end of a tunnel."""

Part = tuple[str, str, dict[str, Data]]
"""Name, element that it is made of, description."""


def expanded(tree: Table) -> tuple[Table, list[Issue]]:
    """Put the parts of a scenario's cloud into its topology and tunnels.

    Returns:
        The scenario and what is wrong with the cloud; then nothing is put in.
    """
    node = tree.get("cloud")
    if not isinstance(node, Table):
        return tree, []
    cloud, issues = validate(Cloud, node)
    issues = [Issue(("cloud", *one.loc), one.message, one.key) for one in issues]
    if cloud is None:
        return tree, issues
    nodes, links = (_known(tree, part) for part in ("nodes", "links"))
    issues += check.cloud(cloud, nodes.nodes, links.nodes)
    if issues:
        return tree, issues
    elements = node.get("elements")
    parts = _Parts(cloud, elements.keys if isinstance(elements, Table) else {})
    issues += _clashes([*nodes.nodes], parts.nodes())
    issues += _clashes([*links.nodes], parts.links())
    return (tree, issues) if issues else (_put(tree, parts), [])


def _clashes(known: list[str], made: Iterable[Part]) -> Iterator[Issue]:
    """Find names that two parts would have."""
    taken = dict.fromkeys(known, "the topology")
    for name, element, _ in made:
        if name in taken:
            message = f"needs the name {name!r}, which {taken[name]} has; expected another name"
            yield Issue(("cloud", "elements", element), message, True)
        taken[name] = element


def _known(tree: Table, part: str) -> Table:
    topology = tree.get("topology")
    known = topology.get(part) if isinstance(topology, Table) else None
    return known if isinstance(known, Table) else empty(tree.place)


def _put(tree: Table, parts: _Parts) -> Table:
    topology = tree.get("topology")
    whole = topology if isinstance(topology, Table) else empty(tree.place)
    nodes, links = _known(tree, "nodes"), _known(tree, "links")
    for name, region in parts.members():
        member = nodes.get(name)
        if isinstance(member, Table) and member.get("region") is None:
            nodes = nodes.put(name, member.put("region", _tree(member.place, region)))
    for name, element, value in parts.nodes():
        nodes = nodes.put(name, _tree(parts.places[element], value), parts.places[element])
    for name, element, value in parts.links():
        links = links.put(name, _tree(parts.places[element], value), parts.places[element])
    tree = tree.put("topology", whole.put("nodes", nodes).put("links", links))
    given = tree.get("tunnels")
    tunnels = given if isinstance(given, Table) else empty(tree.place)
    for name, element, value in parts.tunnels():
        tunnels = tunnels.put(name, _tree(parts.places[element], value), parts.places[element])
    return tree.put("tunnels", tunnels) if tunnels.nodes else tree


def _tree(place: Place, value: Data) -> Tree:
    if isinstance(value, dict):
        nodes = {key: _tree(place, each) for key, each in value.items() if each is not None}
        return Table(place, nodes, dict.fromkeys(nodes, place))
    if isinstance(value, list):
        return Items(place, tuple(_tree(place, each) for each in value))
    return Scalar(place, value, str(value))


class _Parts:
    """The parts of a cloud that has been checked."""

    def __init__(self, cloud: Cloud, places: Mapping[str, Place]) -> None:
        self.places = places
        self._cloud = cloud
        self._elements = cloud.elements

    def members(self) -> Iterator[tuple[str, str]]:
        """Give nodes in VPCs with their regions."""
        for element in self._elements.values():
            yield from ((node, element.region or "") for node in element.nodes)

    def nodes(self) -> Iterator[Part]:
        """Give routers, gateways and ends of tunnels."""
        spread = {
            end
            for element in self._of(ElementKind.VPN).values()
            if element.tunnels > 1
            for end in element.between or ()
        }
        for name, element in self._elements.items():
            if element.kind in (ElementKind.VPC, ElementKind.TRANSIT_GATEWAY):
                ecmp = {"ecmp": True} if name in spread else {}
                yield name, name, {"region": element.region, **ecmp}
            elif element.kind is ElementKind.INTERNET_GATEWAY:
                yield name, name, {"region": self._region(element.vpc or "")}
            elif element.kind is ElementKind.VPN and element.between:
                for side, end in zip("ab", element.between, strict=True):
                    for number in range(1, element.tunnels + 1):
                        yield f"{name}-{side}{number}", name, {"region": self._region(end)}

    def links(self) -> Iterator[Part]:
        """Give the links of every element."""
        for name, element in self._elements.items():
            match element.kind:
                case ElementKind.VPC:
                    yield from self._vpc(name, element)
                case ElementKind.TRANSIT_GATEWAY:
                    yield from self._attachments(name, element)
                case ElementKind.PEERING:
                    one, other = element.between or ("", "")
                    ends: list[Data] = [f"{one}.{name}", f"{other}.{name}"]
                    yield name, name, self._capped(element, ends) | _delay(element)
                case ElementKind.VPN:
                    yield from self._vpn(name, element)
                case ElementKind.INTERNET_GATEWAY:
                    vpc = element.vpc
                    yield name, name, self._capped(element, [f"{vpc}.{name}", f"{name}.{vpc}"])
        yield from self._public()

    def tunnels(self) -> Iterator[Part]:
        """Give the tunnels of every VPN."""
        for name, element in self._of(ElementKind.VPN).items():
            for number in range(1, element.tunnels + 1):
                ends: list[Data] = [f"{name}-{side}{number}.{_OUTSIDE}" for side in "ab"]
                kind = element.tunnel.value if element.tunnel is not None else None
                yield f"{name}-{number}", name, {"kind": kind, "ends": ends, "group": name}

    def _of(self, kind: ElementKind) -> dict[str, Element]:
        return {name: each for name, each in self._elements.items() if each.kind is kind}

    def _region(self, name: str) -> str | None:
        return self._elements[name].region

    def _capped(self, element: Element, ends: list[Data]) -> dict[str, Data]:
        rate = cap(self._cloud, element)
        queue = None if element.queue is None else str(element.queue)
        return {"ends": ends, "rate": None if rate is None else str(rate), "queue": queue}

    def _vpc(self, name: str, element: Element) -> Iterator[Part]:
        for node in element.nodes:
            link = self._capped(element, [f"{node}.{MEMBER_PORT}", f"{name}.{node}"])
            yield _named(name, node), name, link

    def _attachments(self, name: str, element: Element) -> Iterator[Part]:
        for vpc in element.attachments:
            yield _named(name, vpc), name, self._capped(element, [f"{vpc}.{name}", f"{name}.{vpc}"])

    def _vpn(self, name: str, element: Element) -> Iterator[Part]:
        for side, router in zip("ab", element.between or (), strict=True):
            for number in range(1, element.tunnels + 1):
                end = f"{name}-{side}{number}"
                yield end, name, {"ends": [f"{router}.{end}", f"{end}.{_INSIDE}"]}
        for number in range(1, element.tunnels + 1):
            ends: list[Data] = [f"{name}-{side}{number}.{_OUTSIDE}" for side in "ab"]
            yield f"{name}-{number}", name, self._capped(element, ends) | _delay(element)

    def _public(self) -> Iterator[Part]:
        """Give the ways between internet gateways over the public internet."""
        gateways = self._of(ElementKind.INTERNET_GATEWAY)
        for (one, first), (other, second) in combinations(gateways.items(), 2):
            regions = [self._region(each.vpc or "") or "" for each in (first, second)]
            delay = one_way_delay(*regions)
            detour = max(first.detour, second.detour)
            late = None if delay is None else str(Duration(round(delay * detour, 6)))
            yield (
                _named(one, other),
                one,
                {"ends": [f"{one}.{other}", f"{other}.{one}"], "delay": late},
            )


def _delay(element: Element) -> dict[str, Data]:
    return {} if element.delay is None else {"delay": str(element.delay)}


def _named(first: str, second: str) -> str:
    return f"{first}-{second}"
