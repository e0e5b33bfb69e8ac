"""Import of TOSCA descriptors (Simple Profile in YAML, with Tacker's types) as workflow files.

The input is VNF descriptors, one per network function, and forwarding graphs (VNFFG), whose paths
(`tosca.nodes.nfv.FP.*`) lead through functions. Scripts, images and anything else a descriptor
would execute are ignored.

OASIS TOSCA Simple Profile in YAML 1.0; OpenStack Tacker's `tosca.nodes.nfv` types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import Field

from hawser.spec.errors import Place, Problems
from hawser.spec.foreign import (
    LINK,
    PROTOCOLS,
    Imported,
    Open,
    kind,
    listed,
    names,
    read,
    shown,
    words,
)
from hawser.spec.names import RESERVED
from hawser.spec.tree import Table, place_of
from hawser.spec.validate import validate

MAX_FILES = 64
_MAX_CPUS = 1024
_ENDS = ("client", "server")
_USUAL_NODE = "node"

_REASONS = {
    "forwarder": "whatever its image does",
    "firewall": "as its name or image says; it has no rules and allows everything",
}

Text = Annotated[str, Field(min_length=1, max_length=253)]


class _Template(Open):
    type: Text
    properties: dict[str, Any] = {}
    capabilities: dict[str, Any] = {}


class _Group(Open):
    type: Text = ""
    properties: dict[str, Any] = {}
    members: Annotated[tuple[Text, ...], Field(max_length=64)] = ()


class _Topology(Open):
    node_templates: Annotated[dict[Text, _Template], Field(min_length=1, max_length=256)]
    groups: Annotated[dict[Text, _Group], Field(max_length=64)] = {}
    inputs: dict[str, Any] = {}


class _File(Open):
    tosca_definitions_version: Text
    topology_template: _Topology
    metadata: dict[str, Any] = {}


class _Forwarder(Open):
    forwarder: Text
    capability: str = ""


class _Path(Open):
    path: Annotated[tuple[_Forwarder, ...], Field(min_length=1, max_length=64)]
    policy: dict[str, Any] = {}


@dataclass(frozen=True)
class _Vnf:
    """A network function."""

    node: str = _USUAL_NODE
    cpus: int | None = None
    kind: str = "forwarder"


@dataclass(frozen=True)
class _Read:
    """A descriptor file that has been parsed and matches the expected form."""

    file: str
    content: _File
    tree: Table

    def place(self, *loc: str) -> Place:
        """Return where a part of a node template is written."""
        return place_of(self.tree, ("topology_template", "node_templates", *loc))

    def templates(self, kind: str) -> Iterator[tuple[str, _Template]]:
        """Yield the node templates of a type, in file order."""
        for name, template in self.content.topology_template.node_templates.items():
            if template.type.startswith(f"tosca.nodes.nfv.{kind}"):
                yield name, template


def imported(files: Mapping[str, str | bytes], name: str = "tosca") -> Imported:
    """Convert VNF descriptors and forwarding graphs to one workflow.

    Args:
        files: contents by file name; messages cite the name.
        name: name of the resulting workflow.

    Raises:
        SpecErrors: lists every error in the files with its place.
    """
    problems = Problems()
    expected = "a mapping with tosca_definitions_version and topology_template"
    found = []
    for file, text in files.items():
        content = read(_File, text, file, expected, problems)
        if content is not None:
            found.append(_Read(file, *content))
    writer = _Writer(found, problems, name)
    if not problems:
        writer.look()
    if problems:
        raise problems.failure()
    return writer.written()


@dataclass
class _Writer:
    """Writes one workflow."""

    files: Sequence[_Read]
    problems: Problems
    name: str
    left: list[str] = field(default_factory=list)
    vnfs: dict[str, _Vnf] = field(default_factory=dict)
    paths: dict[str, tuple[list[str], str | None, bool]] = field(default_factory=dict)
    """Path -> its functions in order, its protocol, and whether replies pass them too."""

    def look(self) -> None:
        """Collect functions and paths, and record every error in them."""
        for each in self.files:
            if any(each.templates("VDU")):
                self._vnf(each)
        for each in self.files:
            for name, template in each.templates("FP"):
                self._path(each, name, template)
            if not any(each.templates("VDU")) and not any(each.templates("FP")):
                message = "found neither a VDU nor a forwarding path (FP), expected one of them"
                self.problems.add(each.place(), "topology_template.node_templates", message)
        if self.files and not self.paths and not self.problems:
            message = "found no forwarding path in any file, expected a VNFFG"
            self.problems.add(Place(self.files[0].file, 1, 1), "", message)

    def _vnf(self, each: _Read) -> None:
        told = each.content.metadata.get("template_name")
        name = told if isinstance(told, str) and told else PurePath(each.file).stem
        if name in self.vnfs:
            message = f"found {name!r}, which another file describes"
            self.problems.add(Place(each.file, 1, 1), "metadata.template_name", message)
        vdus = list(each.templates("VDU"))
        inputs = each.content.topology_template.inputs
        vdu = vdus[0][1]
        zone = _value(vdu.properties.get("availability_zone"), inputs)
        node = zone if isinstance(zone, str) and zone else _USUAL_NODE
        cpus = _cpus(vdu, inputs)
        found = kind(name, _value(vdu.properties.get("image"), inputs))
        self.vnfs[name] = _Vnf(node, cpus, found)
        self._left(each.file, f"{shown(name)} is a {found}, {_REASONS[found]}")
        for more, _ in vdus[1:]:
            self._left(f"{each.file}: {more}", "a function is one machine here")
        for key in sorted({key for _, template in vdus for key in template.properties}):
            if key != "availability_zone":
                self._left(f"{each.file}: VDU property {shown(key)}", "a lab has no use for it")

    def _path(self, each: _Read, name: str, template: _Template) -> None:
        loc = ("topology_template", "node_templates", name, "properties")
        below: Any = each.tree
        for step in loc:
            below = below.get(step) if isinstance(below, Table) else None
        if not isinstance(below, Table):
            message = "expected properties with a path"
            self.problems.add(each.place(name), ".".join(loc[:3]), message)
            return
        before = len(self.problems)
        path = self._checked(below, loc)
        if path is None:
            return
        functions = [key for key, _ in groupby(hop.forwarder for hop in path.path)]
        for number, hop in enumerate(path.path):
            where = (*loc[2:], "path", number)
            if functions.count(hop.forwarder) > 1:
                message = f"found {hop.forwarder!r} again, and others between"
                at = place_of(each.tree, (*loc, "path", number))
                self.problems.add(at, ".".join(map(str, where)), message)
        if len(self.problems) == before:
            protocol = self._protocol(f"{each.file}: {name}", path, each)
            self.paths[name] = (functions, protocol, _symmetrical(each, name, template))
            self._unknown(each.file, functions)

    def _checked(self, below: Table, loc: tuple[str, ...]) -> _Path | None:
        found, issues = validate(_Path, below)
        for issue in issues:
            at = place_of(below, issue.loc, key=issue.key)
            self.problems.add(at, ".".join(map(str, (*loc, *issue.loc))), issue.message)
        return found

    def _unknown(self, file: str, functions: Sequence[str]) -> None:
        for function in functions:
            if function not in self.vnfs:
                self.vnfs[function] = _Vnf(kind=kind(function))
                told = f"{shown(function)} has no descriptor here; it is a {kind(function)}"
                self._left(file, told)

    def _protocol(self, place: str, path: _Path, each: _Read) -> str | None:
        found = None
        inputs = each.content.topology_template.inputs
        for key, given in _criteria(path.policy):
            value = _value(given, inputs)
            if key == "ip_proto" and str(value) in PROTOCOLS:
                found = PROTOCOLS[str(value)]
            else:
                reason = "measurements choose their own ports and addresses"
                self._left(f"{place}: classifier {shown(key)}", reason)
        return found

    def _left(self, place: str, reason: str) -> None:
        self.left.append(f"{place}: {reason}")

    def written(self) -> Imported:
        """Return the workflow, and the list of what it leaves out."""
        used = list(dict.fromkeys(f for functions, *_ in self.paths.values() for f in functions))
        for name in self.vnfs:
            if name not in used:
                self._left("paths", f"none passes {shown(name)}, which is left out")
        nodes = names("n", [self.vnfs[name].node for name in used])
        taken = (*_ENDS, *nodes.values(), *RESERVED)
        ours = dict(zip(used, words(used, taken), strict=True))
        for zone, node in nodes.items():
            self._left("placement", f"{shown(zone)} is node {node}")
        self._left("ends", "client and server are new: a descriptor has no sender")
        lines = [
            "hawser: 1",
            f"name: {self.name}",
            "title: Chains of functions, as TOSCA descriptors give them",
            *_topology(list(nodes.values())),
            "functions:",
            *(self._function(name, ours[name], nodes) for name in used),
            "chains:",
            *self._chains(ours),
            "measurements:",
            *self._measurements(),
        ]
        return Imported("\n".join(lines) + "\n", tuple(self.left))

    def _function(self, name: str, ours: str, nodes: Mapping[str, str]) -> str:
        vnf = self.vnfs[name]
        cpu = f", cpu: {vnf.cpus}" if vnf.cpus else ""
        return f"  {ours}: {{kind: {vnf.kind}, node: {nodes[vnf.node]}{cpu}}}"

    def _chains(self, ours: Mapping[str, str]) -> Iterator[str]:
        for number, (functions, protocol, symmetric) in enumerate(self.paths.values(), 1):
            match = f", match: {{protocol: {protocol}}}" if protocol else ""
            one_way = "" if symmetric else ", symmetric: false"
            led = f"functions: {listed([ours[each] for each in functions])}, steering: nsh"
            yield f"  chain{number}: {{from: client, to: server, {led}{one_way}{match}}}"

    def _measurements(self) -> Iterator[str]:
        asked = {protocol for _, protocol, _ in self.paths.values()}
        ends = "from: client, to: server"
        if asked & {None, "icmp"}:
            yield f"  rtt: {{{ends}, probe: ping, count: 20}}"
        if asked & {None, "tcp"}:
            yield f"  tcp: {{{ends}, probe: iperf3, duration: 5 s, warmup: 1 s}}"
        if "udp" in asked:
            wanted = "rate: 100 Mbit/s, length: 1200 B, duration: 5 s, warmup: 1 s"
            yield f"  udp: {{{ends}, probe: iperf3, protocol: udp, {wanted}}}"


def _topology(nodes: Sequence[str]) -> Iterator[str]:
    """Yield a topology that joins the nodes in a row between client and server."""
    yield "topology:"
    yield f"  nodes: {listed(['client', *nodes, 'server'])}"
    yield "  links:"
    yield f"    client: {{ends: [client.eth, {nodes[0]}.client]}}"
    for number, (one, other) in enumerate(pairwise(nodes), 1):
        yield f"    row{number}: {{ends: [{one}.next, {other}.last], {LINK}}}"
    yield f"    server: {{ends: [{nodes[-1]}.server, server.eth]}}"


def _cpus(vdu: _Template, inputs: Mapping[str, Any]) -> int | None:
    compute = vdu.capabilities.get("nfv_compute")
    properties = compute.get("properties") if isinstance(compute, dict) else None
    value = _value(properties.get("num_cpus"), inputs) if isinstance(properties, dict) else None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_CPUS:
        return value
    return None


def _value(given: object, inputs: Mapping[str, Any]) -> object:
    """Return a value, or the default of the input if it is a `get_input`."""
    if isinstance(given, dict) and set(given) == {"get_input"}:
        told = inputs.get(str(given["get_input"]))
        return told.get("default") if isinstance(told, dict) else None
    return given


def _criteria(policy: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the match fields of a classifier, written in the older form (list) or the newer."""
    criteria = policy.get("criteria")
    for each in criteria if isinstance(criteria, list) else ():
        if isinstance(each, dict):
            inner = each.get("classifier")
            yield from (inner if isinstance(inner, dict) else each).items()


def _symmetrical(each: _Read, name: str, template: _Template) -> bool:
    """Tell whether replies follow the path too: the path or its graph must say so."""
    groups = each.content.topology_template.groups.values()
    told = [group.properties.get("symmetrical") for group in groups if name in group.members]
    return any(value is True for value in (template.properties.get("symmetrical"), *told))
