"""Path labels: what outer ports say of a member path's way (004 section III.A).

The narrow label is one port, which the switch writes: of Multipath TCP, whose agents cannot choose
the other. The wide one is both ports of UDP, which the agents of `quic` choose themselves.
"""

from __future__ import annotations

MEMBERS = range(1, 17)
"""Numbers of member paths. The sixteenth is 0 in the label; before the switch, 0 is any."""


def agent_port(destination: int, group: int) -> int:
    """Port on which the agent of a branch takes the connections of a group: 0xd00g."""
    return destination << 12 | group


def label(destination: int, source: int, member: int, group: int) -> int:
    """Port that a subflow has on its way: 0xdsmg.

    Args:
        destination: number of the branch that listens, 1 to 15: 0 never does.
        source: number of the branch that connects, 0 to 15.
        member: number of the member path in its group, 1 to 16; of branch 0, to 15.
        group: number of the path group, 0 to 15.
    """
    return destination << 12 | source << 8 | (member % 16) << 4 | group


def wide_label(destination: int, source: int, member: int, group: int) -> tuple[int, int]:
    """Ports of who connects and of who listens, which together are a wide label.

    Forward they are source and destination port. Ten bits of each are a branch, from 64 on, so that
    ports below 4096 are no label.

    Args:
        destination: number of the branch that listens, to 959; the higher one of the two.
        source: number of the branch that connects, from 0.
        member: number of the member path in its group, 1 to 64.
        group: number of the path group, 0 to 63.
    """
    return source + 64 << 6 | member % 64, destination + 64 << 6 | group
