"""Import of SFCPerf workflow files (JSON), with a list of what cannot be converted.

SFCPerf imports any Python module that a file names. Here only the modules shipped with SFCPerf are
accepted; a file that names another is refused. Connection data (user, password, manager address)
is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

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

_PING_COUNT, _SECONDS, _LENGTH = 10, 10, 1400
_RATE = "10 Mbit/s"
_UNITS = {"": "bit/s", "k": "kbit/s", "m": "Mbit/s", "g": "Gbit/s"}
_RATE_TEXT = re.compile(r"([0-9]+\.?[0-9]*)([kKmMgG]?)")
_CONNECTIONS = ("SSH", "Mock_SSH")
_CONNECTIONS_AT_ONCE = 20_000


_REASONS = {
    "forwarder": "whatever its descriptor",
    "firewall": "as its name or descriptor says; it has no rules and allows everything",
}


class _Test(Open):
    src: Annotated[str, Field(min_length=1, max_length=253)]
    dst: Annotated[str, Field(min_length=1, max_length=253)]
    test: Literal["Ping", "Iperf", "Httperf"]
    param: tuple[Any, ...] = ()
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 1


class _Vnf(Open):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    node: Annotated[str, Field(min_length=1, max_length=253)] = "nova"
    descriptor: Any = None

    @property
    def kind(self) -> str:
        """What it is here."""
        return kind(self.name, self.descriptor)


class _Chain(Open):
    name: str = "chain"
    chain: Annotated[tuple[_Vnf, ...], Field(min_length=1, max_length=64)]


class _Classifier(Open):
    name: str = ""
    match_rule: Annotated[str, Field(alias="matchRule", max_length=1000)] = ""


class _Sfc(Open):
    chain: Annotated[_Chain, Field(alias="Chain")]
    classifier: Annotated[_Classifier, Field(alias="Classifier")] = _Classifier()
    management: Annotated[Any, Field(alias="Management")] = None


class _File(Open):
    tests: Annotated[tuple[_Test, ...], Field(min_length=1, max_length=64)]
    sfc: Annotated[_Sfc | None, Field(alias="SFC")] = None
    connection: Any = None
    connection_params: Any = None
    visualize: Annotated[Any, Field(alias="Visualize")] = None


def imported(text: str | bytes, file: str, name: str = "sfcperf") -> Imported:
    """Convert an SFCPerf workflow file.

    Args:
        text: content of the file.
        file: name of the file, for messages.
        name: name of the resulting workflow.

    Raises:
        SpecErrors: lists every error in the file with its place.
    """
    problems = Problems()
    read_file = read(_File, text, file, "a mapping with tests", problems)
    found = read_file[0] if read_file else None
    if found is not None:
        for place, message in _modules(found):
            problems.add(Place(file, 1, 1), place, message)
    if found is None or problems:
        raise problems.failure()
    return _Writer(found, name).written()


def _modules(file: _File) -> Iterator[tuple[str, str]]:
    """Yield the modules that the file names but SFCPerf does not ship."""
    management = file.sfc.management if file.sfc else None
    inner = management.get("connection") if isinstance(management, dict) else None
    for place, part, known in (
        ("connection", file.connection, _CONNECTIONS),
        ("Visualize", file.visualize, ("Kibana",)),
        ("SFC.Management", management, ("Tacker",)),
        ("SFC.Management.connection", inner, _CONNECTIONS),
    ):
        named = part.get("type") if isinstance(part, dict) else part
        if named is not None and named not in known:
            expected = " or ".join(known)
            yield place, f"found the name of a Python module, which is not run; expected {expected}"


@dataclass
class _Writer:
    """Writes one workflow."""

    file: _File
    name: str
    left: list[str] = field(default_factory=list)

    def written(self) -> Imported:
        """Return the workflow, and the list of what it leaves out."""
        ends = [(test.src, test.dst) for test in self.file.tests]
        hosts = names("h", [address for pair in ends for address in pair])
        vnfs = self.file.sfc.chain.chain if self.file.sfc else ()
        nodes = names("n", [vnf.node for vnf in vnfs] or ["n1"])
        taken = (*hosts.values(), *nodes.values(), *RESERVED)
        functions = words([vnf.name for vnf in vnfs], taken)
        lines = [
            "hawser: 1",
            f"name: {self.name}",
            "title: A chain of functions, as an SFCPerf workflow describes it",
            f"repeat: {max(test.rounds for test in self.file.tests)}",
            *self._topology(hosts, list(nodes.values())),
        ]
        if vnfs:
            kinds = [vnf.kind for vnf in vnfs]
            lines += self._chains(functions, kinds, [nodes[vnf.node] for vnf in vnfs], hosts)
        lines += ["measurements:", *self._measurements(hosts)]
        self._told(hosts)
        return Imported("\n".join(lines) + "\n", tuple(self.left))

    def _topology(self, hosts: dict[str, str], nodes: Sequence[str]) -> Iterator[str]:
        """Yield a topology of the nodes in a row: senders at the first, receivers at the last."""
        yield "topology:"
        yield f"  nodes: {listed([*hosts.values(), *nodes])}"
        yield "  links:"
        for number, (one, other) in enumerate(pairwise(nodes), 1):
            yield f"    row{number}: {{ends: [{one}.next, {other}.last], {LINK}}}"
        senders = {test.src for test in self.file.tests}
        for address, host in hosts.items():
            node = nodes[0] if address in senders else nodes[-1]
            yield f"    {host}: {{ends: [{host}.eth, {node}.{host}]}}"

    def _chains(
        self,
        functions: Sequence[str],
        kinds: Sequence[str],
        nodes: Sequence[str],
        hosts: dict[str, str],
    ) -> Iterator[str]:
        yield "functions:"
        for name, is_a, node in zip(functions, kinds, nodes, strict=True):
            yield f"  {name}: {{kind: {is_a}, node: {node}}}"
        match = self._match()
        yield "chains:"
        pairs = dict.fromkeys((test.src, test.dst) for test in self.file.tests)
        for number, (source, target) in enumerate(pairs, 1):
            ends = f"from: {hosts[source]}, to: {hosts[target]}"
            led = f"functions: {listed(functions)}, steering: nsh"
            yield f"  chain{number}: {{{ends}, {led}{match}}}"

    def _match(self) -> str:
        rule = self.file.sfc.classifier.match_rule if self.file.sfc else ""
        found = ""
        for part in filter(None, (each.strip() for each in rule.split(","))):
            key, _, value = part.partition("=")
            protocol = PROTOCOLS.get(value.strip())
            if key.strip() in ("protocol", "ip_proto") and protocol:
                found = f", match: {{protocol: {protocol}}}"
            elif value.strip() != "0":
                reason = "measurements choose their own ports and addresses"
                self.left.append(f"SFC.Classifier.matchRule {key.strip()[:40]!r}: {reason}")
        return found

    def _measurements(self, hosts: dict[str, str]) -> Iterator[str]:
        for number, test in enumerate(self.file.tests):
            ends = f"from: {hosts[test.src]}, to: {hosts[test.dst]}"
            write = {"Ping": self._ping, "Iperf": self._iperf, "Httperf": self._httperf}[test.test]
            probe = write(f"tests.{number}.param", test.param)
            yield f"  {test.test.lower()}{number + 1}: {{{ends}, {probe}}}"
            if test.rounds != max(each.rounds for each in self.file.tests):
                told = f"found {test.rounds}: all measurements have as many rounds as the longest"
                self.left.append(f"tests.{number}.rounds: {told}")
            if "output_file" in (test.model_extra or {}):
                told = "results are in the run's folder (hawser report, hawser query)"
                self.left.append(f"tests.{number}.output_file: {told}")

    def _ping(self, place: str, param: Sequence[Any]) -> str:
        count = self._number(place, param, 0, _PING_COUNT, 100_000)
        return f"probe: ping, count: {count}"

    def _iperf(self, place: str, param: Sequence[Any]) -> str:
        seconds = self._number(place, param, 2, _SECONDS, 86_400)
        length = max(16, self._number(place, param, 3, _LENGTH, 65_507))
        if param:
            self.left.append(f"{place}.0: the port is chosen anew each time")
        wanted = f"rate: {self._rate(place, param)}, length: {length} B"
        return f"probe: iperf3, protocol: udp, {wanted}, duration: {seconds} s, warmup: 0 s"

    def _httperf(self, place: str, param: Sequence[Any]) -> str:
        port = f"port: {self._number(place, param, 0, 80, 65_535)}, " if param else ""
        connections = self._number(place, param, 1, 1, _CONNECTIONS_AT_ONCE)
        if len(param) > 1:
            told = "connections are open at the same time, for a time, not made so many in all"
            self.left.append(f"{place}.1: {told}")
        wanted = f"{port}connections: {connections}, keepalive: false"
        return f"probe: http, {wanted}, duration: {_SECONDS} s"

    def _number(self, place: str, param: Sequence[Any], at: int, usual: int, most: int) -> int:
        value = param[at] if len(param) > at else None
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        if value is not None:
            self.left.append(f"{place}.{at}: not a number from 1 to {most}; {usual} instead")
        return usual

    def _rate(self, place: str, param: Sequence[Any]) -> str:
        """Convert a rate in iperf 2 syntax: bits per second, optionally with k, M or G."""
        value = str(param[1]) if len(param) > 1 and isinstance(param[1], str | int | float) else ""
        match = _RATE_TEXT.fullmatch(value)
        if match and 0 < float(match[1]) < 1e12:
            return f"{float(match[1]):.12g} {_UNITS[match[2].lower()]}"
        self.left.append(f"{place}.1: no rate; {_RATE} instead")
        return _RATE

    def _told(self, hosts: dict[str, str]) -> None:
        """Record what else is left out. For connections, record only that there are some."""
        for address, host in hosts.items():
            self.left.append(f"tests: {shown(address)} is node {host}, with an address of the lab")
        if self.file.connection is not None or self.file.connection_params is not None:
            self.left.append("connection: a lab needs none; users and passwords are not carried")
        if self.file.visualize is not None:
            self.left.append("Visualize: reports are made by `hawser report`")
        if self.file.sfc is None:
            return
        for number, vnf in enumerate(self.file.sfc.chain.chain):
            place = f"SFC.Chain.chain.{number}"
            self.left.append(f"{place}: {shown(vnf.name)} is a {vnf.kind}, {_REASONS[vnf.kind]}")
        if self.file.sfc.management is not None:
            self.left.append("SFC.Management: the lab makes functions itself")
