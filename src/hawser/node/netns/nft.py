"""Packets that a node refuses or translates, by nftables in the namespace of the calling thread."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Sequence

from hawser.node.base import NodeError
from hawser.overlay.lab.plan import NatPlan
from hawser.spec.address import SEGMENTS
from hawser.spec.topology import Nat

_SRH = 4
"""Routing type of a segment routing header (RFC 8754 section 2)."""


def apply(rules: str) -> None:
    """Run a script of nft.

    Raises:
        OSError: there is no nft.
        NodeError: it refuses the script.
    """
    program = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise OSError(errno.ENOENT, "there is no nft")
    done = subprocess.run(
        [program, "-f", "-"], input=rules, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NodeError(done.stderr.splitlines()[0] if done.stderr else "nft refuses it")


def refuse_segments(interfaces: Sequence[str]) -> None:
    """Drop and count packets from these interfaces to segments, or with a segment routing header.

    `nft list counters` shows them as `untrusted_sid` and `untrusted_srh`.
    """
    names = ", ".join(f'"{name}"' for name in interfaces)
    apply(f"""
        table ip6 hawser_edge {{
            counter untrusted_sid {{ }}
            counter untrusted_srh {{ }}
            chain edge {{
                type filter hook prerouting priority raw
                iifname != {{ {names} }} accept
                ip6 daddr {SEGMENTS} counter name untrusted_sid drop
                rt type {_SRH} counter name untrusted_srh drop
            }}
        }}
    """)


def translate(plan: NatPlan) -> None:
    """Give packets that leave by an interface its address, and drop what is no answer to them."""
    rule = "masquerade"  # keeps the port if it is free
    if plan.mapping is Nat.ADDRESS_AND_PORT_DEPENDENT:
        rule += " random,fully-random"
    apply(f"""
        table ip hawser_nat {{
            chain out {{
                type nat hook postrouting priority srcnat
                oifname "{plan.outside}" {rule}
            }}
            chain own {{
                type filter hook input priority filter
                iifname "{plan.outside}" ct state new,invalid drop
            }}
        }}
    """)
