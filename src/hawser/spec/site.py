"""Branches that are made of a template, with variables for what differs between them.

    templates:
      small:
        branch: {id: "${id}", gateway: "${gateway}", wan: [wa], lan: lan0, prefix: "${lan}"}
        ports: {wa: {address: "${address}", next_hop: "${router}", label: lte}}
    sites:
      b7: {template: small, variables: {id: 7, gateway: gw7, lan: 10.7.0.0/24, ...}}

A site becomes an entry of `overlay.branches` and its gateway's entries of `ports` when the document
is read. The document keeps the template, so that a change of it reaches all its sites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from hawser.spec.errors import Place, Problems, choices
from hawser.spec.model import Model, Name, PortName
from hawser.spec.tree import Data, Items, Scalar, Table, Tree, empty
from hawser.spec.variables import NAME, WHOLE, Variables

if TYPE_CHECKING:
    from hawser.spec.network import Network

_WHOLE = re.compile(WHOLE)
VariableName = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]


class Template(Model):
    """What sites have in common. Any value may be a variable, `${name}`."""

    branch: dict[str, Any]
    """As in `overlay.branches`."""
    ports: dict[PortName, dict[str, Any]] = {}
    """WAN ports, as in `ports`, without the gateway's name."""
    prefixes: Any = ()
    """As in `prefixes`."""


class Site(Model):
    """A branch that is made of a template."""

    template: Name
    """Its template."""
    variables: Annotated[dict[VariableName, Any], Field(max_length=64)] = {}
    """Values of the template's variables; all have to be used."""


def expanded(document: Table, problems: Problems) -> Table:
    """Give a document in which sites are branches and ports too; mistakes go to `problems`."""
    sites, templates = document.get("sites"), document.get("templates")
    if not isinstance(sites, Table):
        return document
    known = templates if isinstance(templates, Table) else empty(sites.place)
    for name, site in sites.nodes.items():
        if isinstance(site, Table):
            document = _with(document, name, site, known, problems)
    return document


def _with(document: Table, name: str, site: Table, known: Table, problems: Problems) -> Table:
    chosen = site.get("template")
    template = known.get(str(chosen.value)) if isinstance(chosen, Scalar) else None
    if chosen is None or not isinstance(template, Table):
        place, value = (chosen or site).place, getattr(chosen, "value", None)
        message = f"found {value}, which is no template; {choices(known.nodes, value)}"
        problems.add(place, f"sites.{name}.template", message)
        return document
    made = _filled(name, site, template, problems)
    branch, ports, prefixes = (made.get(key) for key in ("branch", "ports", "prefixes"))
    gateway = branch.get("gateway") if isinstance(branch, Table) else None
    if branch is None or not isinstance(gateway, Scalar):
        problems.add(template.place, f"sites.{name}", "found no branch with a gateway")
        return document
    overlay = document.get("overlay")
    if isinstance(overlay, Table):
        branches = _added(overlay, "branches", name, branch, problems)
        document = document.put("overlay", branches)
    for port, line in ports.nodes.items() if isinstance(ports, Table) else ():
        document = _added(document, "ports", f"{gateway.value}.{port}", line, problems)
    if prefixes is not None:
        document = _added(document, "prefixes", name, prefixes, problems)
    return document


def _filled(name: str, site: Table, template: Table, problems: Problems) -> Table:
    """Put a site's variables into a template."""
    given = site.get("variables")
    values = given if isinstance(given, Table) else empty(site.place)
    used = sorted(set(_used(template)))
    for variable, node in values.nodes.items():
        if variable not in used:
            message = f"found {variable}, which the template does not use"
            message += f"; {choices(used, variable)}"
            problems.add(node.place, f"sites.{name}.variables.{variable}", message)
    key = f"sites.{name}"
    made = Variables(values, problems).table(
        Table(template.place, {key: template}, {key: site.place})
    )
    found = made.nodes[key]
    assert isinstance(found, Table)  # noqa: S101 (a mapping stays one)
    return found


def _used(node: Tree) -> Iterator[str]:
    match node:
        case Scalar(value=str(text)) if _WHOLE.fullmatch(text):
            yield text[2:-1]
        case Items() | Table():
            nodes = node.nodes if isinstance(node, Items) else node.nodes.values()
            for each in nodes:
                yield from _used(each)
        case _:
            return


def _added(table: Table, section: str, key: str, node: Tree, problems: Problems) -> Table:
    """Add an entry to a section, which must not have it."""
    old = table.get(section)
    entries = old if isinstance(old, Table) else empty(table.place)
    if (other := entries.get(key)) is not None:
        message = f"found {key}, which is made by a site too"
        problems.add(other.place, f"{section}.{key}", message)
        return table
    return table.put(section, entries.put(key, node, node.place))


def document_of(network: Network) -> Any:  # noqa: ANN401 (JSON)
    """Give a network as JSON, as it is stored and exported: without what sites become."""
    made = network.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in network.sites:
        branch = made["overlay"]["branches"].pop(name, None)
        gateway = f"{branch['gateway']}." if branch else ""
        made["ports"] = {
            port: line
            for port, line in made["ports"].items()
            if not gateway or not port.startswith(gateway)
        }
        made["prefixes"].pop(name, None)
    return made


def tree_of(document: Data) -> Tree:
    """Give the tree of JSON that was written in no file. Each value has a place of its own."""
    count = 0

    def made(value: Data) -> Tree:
        nonlocal count
        count += 1
        place = Place("", 0, count)
        if isinstance(value, dict):
            nodes = {key: made(each) for key, each in value.items()}
            return Table(place, nodes, {key: node.place for key, node in nodes.items()})
        if isinstance(value, list):
            return Items(place, tuple(made(each) for each in value))
        return Scalar(place, value, str(value))

    return made(document)
