"""UNSW-NB15: files of 49 columns without a header (N. Moustafa, J. Slay, MilCIS 2015)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import cache
from typing import Final

from hawser.store.labels import field
from hawser.store.labels.rows import BENIGN, Label

COLUMNS: Final = 49
_START, _END, _CATEGORY, _IS_ATTACK = 28, 29, 47, 48
_SECOND: Final = 1_000_000

_COMMON: Final = {"icmp": 1, "tcp": 6, "udp": 17, "ipv6-icmp": 58, "sctp": 132}
"""Protocols that are known even where the machine has no /etc/protocols."""


def is_first(row: Sequence[str]) -> bool:
    """Say whether this may be the first line of such a file."""
    return len(row) == COLUMNS and row[_IS_ATTACK].strip() in ("0", "1", "Label")


def label(row: Sequence[str]) -> Label | None:
    """Parse a line; None for a header, and for protocols that are not IP's.

    Raises:
        ValueError: a field is wrong; the message says how.
    """
    if len(row) != COLUMNS:
        raise ValueError(f"found {len(row)} fields, expected {COLUMNS}")
    fields = [each.strip() for each in row]
    protocol = _protocol(fields[4].lower())
    if fields[_IS_ATTACK] == "Label" or protocol is None:
        return None
    return Label(
        label=_label(fields[_IS_ATTACK], fields[_CATEGORY]),
        first_us=int(fields[_START]) * _SECOND,
        last_us=(int(fields[_END]) + 1) * _SECOND - 1,
        protocol=protocol,
        source=field.host(fields[0]),
        source_ports=field.port(fields[1], protocol),
        target=field.host(fields[2]),
        target_ports=field.port(fields[3], protocol),
    )


@cache
def _protocol(name: str) -> int | None:
    if name in _COMMON:
        return _COMMON[name]
    try:
        return socket.getprotobyname(name)
    except OSError:
        return None


def _label(is_attack: str, category: str) -> str:
    if is_attack not in ("0", "1"):
        raise ValueError(f"Label: found {is_attack!r}, expected 0 or 1")
    # The set's files write both `Backdoor` and `Backdoors`.
    return BENIGN if is_attack == "0" else field.name(category).replace("backdoors", "backdoor")
