"""Label files: which packets of a capture belong to which attack (docs/guide/detection.md)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import Any, Final

from hawser.store import files
from hawser.store.errors import BundleError

BENIGN: Final = "benign"
_NEEDED: Final = ("label", "first_us", "last_us")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_LARGEST_PORT: Final = 65_535
_LARGEST_PROTOCOL: Final = 255
_LARGEST_TIME: Final = 2**63 - 1

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Ports:
    """A range of ports, both ends included."""

    first: int
    last: int


@dataclass(frozen=True)
class Label:
    """One row: a name for all flows that match. None matches anything."""

    label: str
    """`benign`, or the name of an attack."""
    first_us: int
    """Begin, microseconds since 1970."""
    last_us: int
    """End, included."""
    detail: str = ""
    """Tool or application."""
    protocol: int | None = None
    """IP protocol number."""
    source: Network | None = None
    """The end that began."""
    source_ports: Ports | None = None
    target: Network | None = None
    target_ports: Ports | None = None


@dataclass(frozen=True)
class Flow:
    """What a label depends on: a flow in its forward direction. Ports are 0 where it has none."""

    protocol: int
    source: Address
    source_port: int
    target: Address
    target_port: int
    first_us: int
    last_us: int

    @property
    def exchanged(self) -> Flow:
        """The same flow in its backward direction."""
        return Flow(
            self.protocol,
            self.target,
            self.target_port,
            self.source,
            self.source_port,
            self.first_us,
            self.last_us,
        )


class Labels:
    """The rows of a label file, applied to flows. Rows with two single addresses are indexed."""

    def __init__(self, rows: Iterable[Label]) -> None:
        """Index the rows; their order decides between several that match."""
        self._pairs: dict[frozenset[Address], list[tuple[int, Label]]] = {}
        self._flows: dict[frozenset[tuple[Address, int]], list[tuple[int, Label]]] = {}
        self._others: list[tuple[int, Label]] = []
        for number, row in enumerate(rows):
            self._bucket(row).append((number, row))

    def of(self, flow: Flow) -> str:
        """Give the label of a flow: that of the first row that matches, or `benign`."""
        found = self.row(flow)
        return found.label if found is not None else BENIGN

    def row(self, flow: Flow) -> Label | None:
        """Give the first row that matches a flow; None if none does."""
        matching = (
            (number, row)
            for bucket in self._buckets(flow)
            for number, row in bucket
            if matches(row, flow)
        )
        return min(matching, default=(0, None), key=lambda found: found[0])[1]

    def _bucket(self, row: Label) -> list[tuple[int, Label]]:
        source, target = _single(row.source), _single(row.target)
        if source is None or target is None:
            return self._others
        ports = _exact(row.source_ports), _exact(row.target_ports)
        if ports[0] is None or ports[1] is None:
            return self._pairs.setdefault(frozenset((source, target)), [])
        return self._flows.setdefault(frozenset(((source, ports[0]), (target, ports[1]))), [])

    def _buckets(self, flow: Flow) -> Iterator[list[tuple[int, Label]]]:
        ends = (flow.source, flow.source_port), (flow.target, flow.target_port)
        yield self._flows.get(frozenset(ends), [])
        yield self._pairs.get(frozenset((flow.source, flow.target)), [])
        yield self._others


def matches(row: Label, flow: Flow) -> bool:
    """Tell whether a row is about a flow, in either direction."""
    if flow.first_us > row.last_us or flow.last_us < row.first_us:
        return False
    if row.protocol is not None and row.protocol != flow.protocol:
        return False
    return _fits(row, flow) or _fits(row, flow.exchanged)


def _fits(row: Label, flow: Flow) -> bool:
    return (
        (row.source is None or flow.source in row.source)
        and (row.target is None or flow.target in row.target)
        and _within(row.source_ports, flow.source_port)
        and _within(row.target_ports, flow.target_port)
    )


def _within(ports: Ports | None, port: int) -> bool:
    return ports is None or ports.first <= port <= ports.last


def _single(network: Network | None) -> Address | None:
    if network is None or network.prefixlen != network.max_prefixlen:
        return None
    return network.network_address


def _exact(ports: Ports | None) -> int | None:
    return ports.first if ports is not None and ports.first == ports.last else None


def write(path: Path, rows: Iterable[Label]) -> None:
    """Write a label file, whole or not at all."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_PARSERS)
    table.writerows(map(_cells, rows))
    files.write(path, text.getvalue().encode())


def _cells(row: Label) -> list[str]:
    return [
        row.label,
        row.detail,
        "" if row.protocol is None else str(row.protocol),
        _shown(row.source),
        _range(row.source_ports),
        _shown(row.target),
        _range(row.target_ports),
        str(row.first_us),
        str(row.last_us),
    ]


def _shown(network: Network | None) -> str:
    single = _single(network)
    return str(single if single is not None else network or "")


def _range(ports: Ports | None) -> str:
    if ports is None:
        return ""
    return str(ports.first) if ports.first == ports.last else f"{ports.first}-{ports.last}"


def read(path: Path) -> list[Label]:
    """Read a label file.

    Raises:
        BundleError: it cannot be read or is none; the message names line and column.
    """
    try:
        text = files.read(path).decode("utf-8-sig")
        lines = csv.DictReader(io.StringIO(text), strict=True)
        if missing := [name for name in _NEEDED if name not in (lines.fieldnames or ())]:
            raise BundleError(path, f"line 1: no column {missing[0]}")
        return [_row(path, lines.line_num, cells) for cells in lines]
    except UnicodeDecodeError as error:
        raise BundleError(path, f"not UTF-8 (byte {error.start})") from error
    except csv.Error as error:
        raise BundleError(path, f"not CSV: {error}") from error


def _row(path: Path, line: int, cells: Mapping[str, str | None]) -> Label:
    found: dict[str, Any] = {}
    for column, (field, parse) in _PARSERS.items():
        text = (cells.get(column) or "").strip()
        try:
            found[field] = parse(text)
        except ValueError as error:
            place = f"line {line}, column {column}"
            raise BundleError(path, f"{place}: found {text!r:.80}: {error}") from error
    if found["last_us"] < found["first_us"]:
        raise BundleError(path, f"line {line}: last_us is before first_us")
    return Label(**found)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("expected lower-case letters, digits and dashes, at most 63")
    return text


def _number(text: str, largest: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > largest:
        raise ValueError(f"expected a number from 0 to {largest}")
    return int(text)


def _time(text: str) -> int:
    return _number(text, _LARGEST_TIME)


def _protocol(text: str) -> int | None:
    return _number(text, _LARGEST_PROTOCOL) if text else None


def _network(text: str) -> Network | None:
    return ip_network(text) if text else None


def _ports(text: str) -> Ports | None:
    if not text:
        return None
    first, _, last = text.partition("-")
    low, high = _number(first, _LARGEST_PORT), _number(last or first, _LARGEST_PORT)
    if high < low:
        raise ValueError("expected the lower port first")
    return Ports(low, high)


_PARSERS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "label": ("label", _name),
    "detail": ("detail", str),
    "protocol": ("protocol", _protocol),
    "source": ("source", _network),
    "source_port": ("source_ports", _ports),
    "target": ("target", _network),
    "target_port": ("target_ports", _ports),
    "first_us": ("first_us", _time),
    "last_us": ("last_us", _time),
}
"""How each column is read, and the field it becomes."""


def flow(record: Mapping[str, str]) -> Flow:
    """Give the flow of a record as `hawserd flows` writes it, by the names of its columns.

    Raises:
        ValueError: an address or number is none.
        KeyError: a column is missing.
    """
    return Flow(
        int(record["proto"]),
        ip_address(record["srcip"]),
        int(record["srcport"]),
        ip_address(record["dstip"]),
        int(record["dstport"]),
        int(record["first_us"]),
        int(record["last_us"]),
    )
