"""Kernel settings of a network namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hawser.node.base import NodeError

CONGESTION_CONTROL = "net.ipv4.tcp_congestion_control"

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


def allow_congestion_control(algorithm: str) -> None:
    """Let namespaces of this machine have `algorithm` as their default.

    A namespace other than the machine's first takes only what the machine allows to everybody
    (`tcp_set_default_congestion_control` of the kernel), at first only the machine's own default.
    The list is the machine's and stays longer than a lab; it lets unprivileged programs choose.

    Raises:
        NodeError: the kernel does not have it, or this is not the machine's first namespace.
    """
    allowed = _ROOT / "net/ipv4/tcp_allowed_congestion_control"
    available = (_ROOT / "net/ipv4/tcp_available_congestion_control").read_text().split()
    now = allowed.read_text().split()
    if algorithm not in available:
        raise NodeError(
            f"congestion control {algorithm!r}: this kernel has only {', '.join(available)}"
        )
    if algorithm not in now:
        try:
            allowed.write_text(" ".join([*now, algorithm]))
        except OSError as error:
            raise NodeError(
                f"congestion control {algorithm!r}: this machine does not allow it in namespaces:"
                f" add it to net.ipv4.tcp_allowed_congestion_control ({error.strerror})"
            ) from error


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
