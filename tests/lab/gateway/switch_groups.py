"""Three groups of paths between branches 1 and 2, in the lab of lab/gateway/switch.py.

b1                           b2
1a ------------------------- 2a        group 0
1a ------ 3a b3 3b --------- 2a        group 1
1b ------------------------- 2b        group 2, class I; 1b is a leased line
"""

from __future__ import annotations

from typing import Any

from lab.gateway.pair import Gateway, Lab
from lab.gateway.switch import address, entries, gateways, start, switch
from lab.namespace import run

GROUPS = {
    0: {1: ("1a", "2a", "1a>2a")},
    1: {1: ("1a", "2a", "1a>3a>3b>2a")},
    2: {1: ("1b", "2b", "1b>2b")},
}


def grouped(lab: Lab, **changes: Any) -> dict[int, Gateway]:  # noqa: ANN401 (JSON)
    """Three gateways, with three groups between branches 1 and 2; running."""
    made = gateways(lab, 0, GROUPS[0])
    found = {group: entries(group, paths) for group, paths in GROUPS.items()}
    for number, gateway in made.items():
        all_entries = [entry for group in GROUPS for entry in found[group][number]]
        gateway.config["switch"] = switch(number, all_entries)
        for peer in gateway.config["peers"]:
            peer["groups"] = [group(number, g) for g in GROUPS]
    made[1].config["switch"]["ports"][1]["type"] = "leased"
    made[1].config |= changes
    start(made, len(GROUPS))
    return made


def group(number: int, which: int) -> dict[str, Any]:
    """A group of branch 1 or 2 as a configuration has it."""
    x, y, _ = GROUPS[which][1]
    local, remote = (x, y) if number == 1 else (y, x)
    path = {"local": address(local), "remote": address(remote)}
    return {"id": which, "class": "I" if which == 2 else "II", "paths": [path]}


def cut_group_1(lab: Lab) -> None:
    """Cut the path of group 1 silently, in the middle."""
    run("ip", "-n", f"{lab.prefix}-3", "link", "set", "wb", "down")


def mend_group_1(lab: Lab) -> None:
    """Undo what `cut_group_1` did."""
    run("ip", "-n", f"{lab.prefix}-3", "link", "set", "wb", "up")
    via = ("default", "via", "198.18.32.1", "dev", "wb")
    run("ip", "-n", f"{lab.prefix}-3", "route", "replace", *via, "table", "101", check=False)


def pings(lab: Lab) -> bool:
    """Whether a few pings between the branches are all answered within a second."""
    said = lab.at(1, "ping", "-q", "-c5", "-i0.02", "-W1", "10.2.0.1", check=False)
    return " 0% packet loss" in said
