"""Path labels: outer port numbers that identify a member path (004 section III.A).

The narrow label is one TCP port, which the switch writes: agents of MPTCP cannot choose the other
one. The wide label is both UDP ports, which agents of `quic` choose themselves.
"""

from __future__ import annotations

MEMBERS = range(1, 17)
"""Numbers of member paths. 16 is encoded as 0; in an agent's port, 0 means any path."""


def agent_port(destination: int, group: int) -> int:
    """Port on which a branch's agent accepts the connections of a group: 0xd00g."""
    return destination << 12 | group


def label(destination: int, source: int, member: int, group: int) -> int:
    """Port of a subflow between two switches: 0xdsmg.

    Args:
        destination: number of the branch that listens, 1 to 15; branch 0 never does.
        source: number of the branch that connects, 0 to 15.
        member: number of the member path in its group, 1 to 16; to 15 if `source` is 0.
        group: number of the path group, 0 to 15.
    """
    return destination << 12 | source << 8 | (member % 16) << 4 | group


def wide_label(
    destination: int, source: int, member: int, group: int, *, bits: int
) -> tuple[int, int]:
    """Ports of the connecting and the listening branch, which together are a wide label.

    In the forward direction they are source and destination port. Each is 4096, so that no lower
    port is a label, plus the branch above the low bits, and in these the member or the group.

    Args:
        destination: number of the branch that listens; the higher of the two.
        source: number of the branch that connects, from 0.
        member: number of the member path in its group, 1 to `2 ** bits`.
        group: number of the path group, from 0.
        bits: number of low bits, 5 or 6.
    """
    connector = 4096 + (source << bits) + member % (1 << bits)
    return connector, 4096 + (destination << bits) + group
