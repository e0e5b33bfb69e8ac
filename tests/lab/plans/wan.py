"""The WAN emulator between two hosts, and between two ports of the internet.

   a                 wan: hawserd wan                 b
  +---+             +----------------+             +---+
  | e |-------------| w0a        w0b |-------------| e |        link w, both directions
  +---+             |                |             +---+
   c                |                |             internet
  +---+             |                |             +------+
  | e |-------------| w1a        w1b |-------------| wan0 |     path p from d to c
  +---+             |                |             |      |
   d                |                |             |      |
  +---+             |                |             |      |
  | e |-------------| w2a        w2b |-------------| wan1 |     path p from c to d
  +---+             +----------------+             +------+

A path is delayed where it leaves the internet; towards the internet the kernel passes frames on.
"""

from __future__ import annotations

from documents import Document, planned, with_
from hawser.control.client import DaemonClient
from hawser.control.model import WanInterface, WanPath
from hawser.driver.local import LocalLab
from hawser.overlay.lab.emulator import emulated
from hawser.overlay.lab.plan import NetworkPlan
from lab.waiting import PATIENCE

WORKFLOW: Document = {
    "hawser": 1,
    "name": "wan",
    "title": "Wan",
    "topology": {
        "nodes": ["a", "b", "c", "d"],
        "links": {"w": {"ends": ["a.e", "b.e"]}},
        "internet": {
            "ports": {"c.e": {}, "d.e": {}},
            "paths": {"p": {"ends": ["c.e", "d.e"]}},
        },
    },
    "measurements": {"rtt": {"probe": "ping", "from": "a", "to": "b"}},
}
TRACE = "4\n8\n12\n"
"""Three packets in 12 ms: 3 Mbit/s."""


def plan(link: Document | None = None, path: Document | None = None, seed: int = 1) -> NetworkPlan:
    """The network with these fields added to link `w` and path `p`."""
    topology = WORKFLOW["topology"]
    link = topology["links"]["w"] | (link or {})
    path = topology["internet"]["paths"]["p"] | (path or {})
    document = with_(WORKFLOW, "topology.links.w", link)
    document = with_(document, "topology.internet.paths.p", path)
    unseeded = planned(document, {"slow.trace": TRACE})
    return emulated(unseeded.model_copy(update={"seed": seed}))


def counted(lab: LocalLab, name: str) -> WanPath:
    with DaemonClient(lab.daemons["wan"].control) as client:
        return next(path for path in client.wan_counters().paths if path.name == name)


def interfaces(lab: LocalLab) -> tuple[WanInterface, ...]:
    with DaemonClient(lab.daemons["wan"].control) as client:
        return client.wan_counters().interfaces


def echoes(lab: LocalLab, source: str, target: str, count: int = 20) -> list[float]:
    """Round-trip times, ms."""
    node = lab.nodes[source]
    command = ["ping", "-n", "-c", str(count), "-i", "0.02", "-W", "5"]
    output = node.run(
        [*command, str(lab.plan.addresses[target])], timeout=PATIENCE, check=False
    ).stdout
    answers = (line for line in output.splitlines() if "time=" in line)
    return [float(line.split("time=")[1].split()[0]) for line in answers]
