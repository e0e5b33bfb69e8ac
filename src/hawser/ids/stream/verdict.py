"""Verdicts as the topic has them (docs/guide/detection.md), and what a sensor is told. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

SCHEMA: Final = 1
LARGEST: Final = 16 << 10
"""Bytes of a message; one of the job on Spark has less than 1000."""
_LARGEST_PORT: Final = 0xFFFF
_LARGEST_PROTOCOL: Final = 255
_LARGEST_TIME: Final = 2**63 - 1
_LONGEST_ID: Final = 100
_HAVE_PORTS: Final = (6, 17)


@dataclass(frozen=True)
class Verdict:
    """A message of the topic."""

    id: str
    sensor: str | None
    """Whose records led to it; None if those of several did."""
    last_us: int
    """Time of the last packet that counted, microseconds since 1970."""
    is_over: bool
    """Whether the flow has ended, so that there is nothing left to block."""
    order: Mapping[str, Any]
    """What a sensor takes at `POST /v1/verdicts`."""


def parse(message: bytes) -> Verdict:
    """Read a message.

    Raises:
        ValueError: it is no verdict; the message says why.
    """
    if len(message) > LARGEST:
        raise ValueError(f"found {len(message)} bytes, expected at most {LARGEST}")
    try:
        found = json.loads(message)
    except RecursionError as error:
        raise ValueError("found nesting without end") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"expected a JSON object of schema {SCHEMA}")
    if found.get("kind") == "flow":
        return _flow(found)
    if found.get("kind") == "scan":
        return _scan(found)
    raise ValueError(f"kind: found {str(found.get('kind'))[:20]!r}, expected flow or scan")


def _flow(found: Mapping[str, Any]) -> Verdict:
    protocol = _number(found, "proto", _LARGEST_PROTOCOL)
    target: dict[str, Any] = {
        "source": _host(found),
        "destination": _address(found, "dstip"),
        "protocol": protocol,
    }
    if protocol in _HAVE_PORTS:
        target["source_port"] = _number(found, "srcport", _LARGEST_PORT)
        target["destination_port"] = _number(found, "dstport", _LARGEST_PORT)
    name = _text(found, "id")
    return Verdict(
        id=name,
        sensor=_text(found, "sensor"),
        last_us=_number(found, "last_us", _LARGEST_TIME),
        is_over=found.get("is_over") is True,
        order={
            "target": target,
            "by": f"model {_text(found, 'model')} on Spark",
            "score": _score(found),
            "flow": name,
        },
    )


def _scan(found: Mapping[str, Any]) -> Verdict:
    targets, sensors = (_number(found, each, _LARGEST_TIME) for each in ("targets", "sensors"))
    return Verdict(
        id=_text(found, "id"),
        sensor=None,
        last_us=_number(found, "last_us", _LARGEST_TIME),
        is_over=False,
        order={
            "target": {"source": _host(found)},
            "by": f"scan of {targets} targets in a minute, seen by {sensors} sensors",
        },
    )


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        raise ValueError(f"{name}: expected 1 to {_LONGEST_ID} characters")
    return value


def _number(found: Mapping[str, Any], name: str, largest: int) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError(f"{name}: expected a number, 0 to {largest}")
    return value


def _score(found: Mapping[str, Any]) -> float:
    value = found.get("score")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("score: expected a number, 0 to 1")
    return float(value)


def _host(found: Mapping[str, Any]) -> str:
    """Give the address of a source, which is that of one host."""
    address = ip_address(_address(found, "srcip"))
    if address.is_multicast or address.is_unspecified:
        raise ValueError(f"srcip: found {address}, expected the address of a host")
    return str(address)


def _address(found: Mapping[str, Any], name: str) -> str:
    try:
        return str(ip_address(_text(found, name)))
    except ValueError as error:
        raise ValueError(f"{name}: expected an address") from error
