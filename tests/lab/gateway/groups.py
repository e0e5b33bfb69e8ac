"""Two groups of one path each between two gateways, in `Lab.paths` of lab/gateway/pair.py.

b1 wa -- 1a ---- 2a -- wa b2        group 0
   wb -- 1b ---- 2b -- wb           group 1
"""

from __future__ import annotations

from lab.gateway.pair import Gateway, Lab
from lab.waiting import until

GROUP_PORTS = (("1a", "2a"), ("1b", "2b"))
"""The ports of the path of each group."""


def two_groups(lab: Lab) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with both groups up."""
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for own, other, gateway in ((1, 2, one), (2, 1, two)):
        paths = lab.member_paths(own, other)
        groups = [{"id": 0, "paths": [paths[0]]}, {"id": 1, "paths": [paths[3]]}]
        gateway.config["peers"][0]["groups"] = groups
        gateway.start()
    until(lambda: one.subflows() == two.subflows() == 2, "both groups are up")
    return one, two


def busiest(gateway: Gateway) -> int:
    """The group that has sent most."""
    groups = gateway.get("/v1/counters")["peers"][0]["groups"]
    return int(max(groups, key=lambda group: int(group["sent"]["bytes"]))["id"])
