"""Kernel settings of a network namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hawser.node.base import NodeError

_ROOT = Path("/proc/sys")
_KEY = re.compile(r"net(\.[a-zA-Z0-9_-]+){2,}")
_OF_INTERFACE = re.compile(r"net\.ipv[46]\.(conf|neigh)\.(?!all\.|default\.).*")


def of_interface(key: str) -> bool:
    """Whether a setting belongs to one interface, and so exists only once the interface does."""
    return _OF_INTERFACE.fullmatch(key) is not None


def write(settings: Mapping[str, str]) -> None:
    """Set values in the namespace of the calling thread, in their order.

    Raises:
        NodeError: a key that would reach beyond the namespace, or that the kernel does not take.
    """
    for key, value in settings.items():
        _write(key, value)


def _write(key: str, value: str) -> None:
    file = path(key)
    if not file.exists():
        raise NodeError(f"setting {key}: this kernel has none of that name in a network namespace")
    try:
        file.write_text(value)
    except OSError as error:
        raise NodeError(f"setting {key} = {value!r}: not accepted: {error.strerror}") from error


def path(key: str) -> Path:
    """File of a setting.

    Raises:
        NodeError: the key is not one of a network namespace (`net.*`).
    """
    if _KEY.fullmatch(key) is None:
        raise NodeError(f"setting {key!r}: expected one of a network namespace, net.*")
    return _ROOT.joinpath(*key.split("."))
