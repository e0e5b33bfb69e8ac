"""Elements of a cloud: their fields fit their kind, and what they name exists and fits together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from hawser.spec import region
from hawser.spec.check.topology import near
from hawser.spec.cloud import Cloud, Element, ElementKind
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.validate import Issue

_COMMON: Final = {"kind", "rate", "queue", "gb_usd"}
_NEEDED: Final[dict[ElementKind, set[str]]] = {
    ElementKind.VPC: {"region", "nodes"},
    ElementKind.TRANSIT_GATEWAY: {"region", "attachments"},
    ElementKind.PEERING: {"between"},
    ElementKind.VPN: {"between", "tunnel"},
    ElementKind.INTERNET_GATEWAY: {"vpc"},
}
_POSSIBLE: Final[dict[ElementKind, set[str]]] = {
    ElementKind.VPC: set(),
    ElementKind.TRANSIT_GATEWAY: {"hourly_usd"},
    ElementKind.PEERING: {"delay"},
    ElementKind.VPN: {"delay", "tunnels", "hourly_usd"},
    ElementKind.INTERNET_GATEWAY: {"detour", "hourly_usd"},
}
_LONGEST_PORT = 15
_ROUTERS = (ElementKind.VPC, ElementKind.TRANSIT_GATEWAY)


def cloud(described: Cloud, nodes: Collection[str], links: Collection[str]) -> Iterator[Issue]:
    """Check a cloud against the nodes and links of its topology; locations start with `cloud`."""
    for name, element in described.elements.items():
        loc: Loc = ("cloud", "elements", name)
        if name in nodes or name in links:
            what = "node" if name in nodes else "link"
            yield Issue(loc, f"found {name!r}, the name of a {what} too; expected another", True)
        yield from _fields(loc, element)
        yield from _names(loc, described, element)
    yield from _members(described, nodes)
    if not described.scale:
        yield Issue(("cloud", "scale"), "found 0 %, expected more")


def _fields(loc: Loc, element: Element) -> Iterator[Issue]:
    """Check that an element has the fields of its kind and no others."""
    given = element.model_fields_set
    needed = _NEEDED[element.kind]
    for name in sorted(needed - given):
        yield Issue((*loc, name), f"missing, needed by kind {element.kind}")
    for name in sorted(given - needed - _POSSIBLE[element.kind] - _COMMON):
        yield Issue((*loc, name), f"found {name}, which kind {element.kind} does not have", True)


def _names(loc: Loc, described: Cloud, element: Element) -> Iterator[Issue]:
    """Check that regions and other elements are known and of the right kind."""
    if element.region is not None and not region.known(element.region):
        yield Issue((*loc, "region"), near(region.names(), element.region, "region"))
    for index, name in enumerate(element.between or ()):
        yield from _kind((*loc, "between", index), described, name, _ROUTERS)
    if element.between is not None and len(set(element.between)) == 1:
        yield Issue((*loc, "between"), f"found {element.between[0]} twice, expected two elements")
    elif element.kind is ElementKind.PEERING:
        yield from _alike(loc, described, element)
    if element.vpc is not None:
        yield from _kind((*loc, "vpc"), described, element.vpc, (ElementKind.VPC,))
    for index, name in enumerate(element.attachments):
        at = (*loc, "attachments", index)
        yield from _kind(at, described, name, (ElementKind.VPC,))
        vpc = described.elements.get(name)
        if vpc is not None and vpc.region != element.region:
            message = f"found {name} in {vpc.region}, expected one in {element.region}"
            yield Issue(at, message)


def _kind(loc: Loc, described: Cloud, name: str, kinds: Collection[ElementKind]) -> Iterator[Issue]:
    element = described.elements.get(name)
    if element is None:
        yield Issue(loc, near(described.elements, name, "element of the cloud"))
    elif element.kind not in kinds:
        wanted = " or ".join(kinds)
        yield Issue(loc, f"found {name} of kind {element.kind}, expected {wanted}")


def _alike(loc: Loc, described: Cloud, element: Element) -> Iterator[Issue]:
    """Check that a peering joins two VPCs or two transit gateways."""
    kinds = {e.kind for n in element.between or () if (e := described.elements.get(n)) is not None}
    if len(kinds) > 1 and kinds <= set(_ROUTERS):
        yield Issue((*loc, "between"), "found a VPC and a transit gateway, expected two alike")


def _members(described: Cloud, nodes: Collection[str]) -> Iterator[Issue]:
    """Check that VPCs have nodes of the topology, each once, whose names can be port names."""
    taken: dict[str, str] = {}
    for name, element in described.elements.items():
        for index, node in enumerate(element.nodes):
            loc: Loc = ("cloud", "elements", name, "nodes", index)
            if node not in nodes:
                yield Issue(loc, near(nodes, node, "node"))
            elif len(node) > _LONGEST_PORT:
                message = f"found {found(node)}, expected at most {_LONGEST_PORT} characters"
                yield Issue(loc, f"{message}: it names a port of the VPC's router")
            elif node in taken:
                yield Issue(loc, f"found {node}, which is in {taken[node]}; expected it in one VPC")
            taken.setdefault(node, name)
