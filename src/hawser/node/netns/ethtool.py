"""Offloads of an interface, by the ethtool ioctl (linux/ethtool.h)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from pyroute2.ethtool.ioctl import IoctlEthtool, NotSupportedError

_OFFLOAD = re.compile(r"tx-checksum-.*|tx-.*segmentation|tx-gso-.*|rx-gro.*")
"""Features by which a packet is larger than the MTU, or without its checksum."""


def disable_offload(interface: str) -> tuple[str, ...]:
    """Let no packet be larger than the MTU or without its checksum; in the thread's namespace.

    Returns:
        The features that were on.

    Raises:
        OSError: there is no such interface.
    """
    on = []
    with contextlib.closing(IoctlEthtool(interface)) as control:
        features = control.get_features()
        for name, active, available, _, _ in features:
            if active and available and _OFFLOAD.fullmatch(name):
                features[name] = False
                on.append(str(name))
        # Said also where all was done, but others went with it that need a checksum.
        with contextlib.suppress(NotSupportedError):
            control.set_features(features)
    return tuple(on)


def enable_gro(interface: str) -> None:
    """Let an interface without a program of its own take frames that programs send to it.

    Raises:
        OSError: there is no such interface.
    """
    enable(interface, ("rx-gro",))


def enable(interface: str, names: Iterable[str]) -> None:
    """Turn features on, such as those that `disable_offload` has turned off.

    Raises:
        OSError: there is no such interface.
    """
    with contextlib.closing(IoctlEthtool(interface)) as control:
        features = control.get_features()
        for name in names:
            features[name] = True
        with contextlib.suppress(NotSupportedError):
            control.set_features(features)
