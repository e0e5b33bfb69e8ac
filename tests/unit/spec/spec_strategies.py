"""Random scenarios that are right, and random files that need not be."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from spec_files import WORKFLOWS

PORTS = "abcdef"
RATES = st.sampled_from(["1 Mbit/s", "37.5 Mbit/s", "1 Gbit/s"])


@st.composite
def channels(draw: st.DrawFn) -> dict[str, Any]:
    """Values of one direction."""
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["rate"] = draw(RATES)
        if draw(st.booleans()):
            found["queue"] = "30 kB"
    extra = {"delay": "35 ms", "jitter": "1.5 ms", "loss": "0.3 %"}
    found |= {field: value for field, value in extra.items() if draw(st.integers(0, 5)) == 0}
    if draw(st.integers(0, 3)) == 0:
        found["reverse"] = {"rate": draw(RATES)}
    return found


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """A workflow file with up to six branches, a chain of routers behind each, and no mistake."""
    branches = {
        f"b{i}": {
            "id": i,
            "gateway": f"gw{i}",
            "wan": list(PORTS[: draw(st.integers(1, 3))]),
            "lan": "lan",
            "prefix": f"10.{i}.0.0/24",
        }
        for i in draw(st.lists(st.integers(1, 15), min_size=2, max_size=6, unique=True))
    }
    nodes, links = [], {}
    for i in (branch["id"] for branch in branches.values()):
        chain = [f"gw{i}", f"h{i}", *(f"r{i}-{n}" for n in range(draw(st.integers(0, 3))))]
        nodes += chain
        links[f"lan{i}"] = {"ends": [f"gw{i}.lan", f"h{i}.lan"], **draw(channels())}
        for n, (first, second) in enumerate(pairwise(chain[1:])):
            links[f"in{i}-{n}"] = {"ends": [f"{first}.down{n}", f"{second}.up{n}"]}
    wan = [f"gw{b['id']}.{port}" for b in branches.values() for port in b["wan"]]
    ends = list(branches.values())
    source, target = (f"h{ends[draw(st.integers(0, 1)) * k]['id']}" for k in (0, 1))
    return {
        "hawser": 1,
        "name": "random",
        "title": "Random",
        "topology": {
            "nodes": nodes,
            "links": links,
            "internet": {
                "ports": {port: draw(channels()) for port in wan},
                "path": {k: v for k, v in draw(channels()).items() if k != "reverse"},
                "paths": {"p1": {"ends": [f"gw{b['id']}.a" for b in ends[:2]], **draw(channels())}},
            },
        },
        "overlay": {
            "transport": draw(st.sampled_from(["mptcp", "ipip"])),
            "encryption": draw(st.sampled_from(["tls13", "none"])),
            "branches": branches,
        },
        "measurements": {
            "rtt": {"probe": "ping", "from": source, "to": f"gw{ends[1]['id']}"}
            if source == target
            else {"probe": "ping", "from": source, "to": target},
        },
        "events": [{"at": "1 s", "element": f"port:{wan[0]}", "change": {"up": False}}],
    }


SCRAPS = (
    *("", "\t", "\n", "null", "{}", "[]", "${x}", '"${duration}"', ": ", "- ", "&a", "*a", "!!x"),
    *("1e999", "-1", "yes", "10 Mbit/s", "h1", "gw1.a", "b1.a>b2.a", "..", "#", "'", "<<: *a"),
)

WORDS = """
    hawser name title vars variants product zip exclude topology nodes links ends internet ports
    path paths rate queue delay loss reverse overlay branches transport path_groups measurements
    probe from to count events at element change reference assert metric variant extends repeat
    published document item metrics measurements finding differs claim
    capture at filter size snap cloud elements kind vpc region nodes attachments between tunnel
    tunnels scale
    seed a b gw1 gw1.a topology.nodes measurements.a.count
"""


def texts() -> st.SearchStrategy[str]:
    """Files with damage: parts cut out, doubled, or replaced by what is often a mistake."""
    originals = st.sampled_from([path.read_text() for path in WORKFLOWS])
    scraps = st.one_of(st.sampled_from(SCRAPS), st.text(max_size=5))
    cuts = st.tuples(st.floats(0, 1), st.integers(0, 30), scraps)
    return st.builds(_damaged, originals, st.lists(cuts, min_size=1, max_size=4))


def _damaged(text: str, cuts: list[tuple[float, int, str]]) -> str:
    for where, length, scrap in cuts:
        start = int(where * len(text))
        text = text[:start] + scrap + text[start + length :]
    return text


def trees() -> st.SearchStrategy[str]:
    """Files made of the right words in the wrong places."""
    words = st.sampled_from(WORDS.split())
    values = st.one_of(
        st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(), words, st.text(max_size=4)
    )
    tree = st.recursive(
        values,
        lambda part: st.one_of(st.lists(part, max_size=4), st.dictionaries(words, part)),
        max_leaves=25,
    )
    return st.dictionaries(words, tree).map(lambda found: json.dumps({"hawser": 1, **found}))


FIELDS = """
    topology.nodes topology.nodes.h1 topology.nodes.gw1.sysctl topology.links topology.links.lan1
    topology.links.lan1.ends topology.links.lan1.ends.0 topology.links.lan1.mtu
    topology.links.lan2.reverse topology.internet topology.internet.ports topology.internet.path
    topology.internet.ports.gw1.a topology.internet.ports.gw1.c topology.internet.ports.gw2.b.rate
    topology.internet.paths overlay overlay.transport overlay.branches overlay.branches.b1.id
    overlay.branches.b1.wan overlay.branches.b1.lan overlay.branches.b2.prefix
    overlay.branches.b2.gateway overlay.branches.b3 overlay.path_groups measurements
    measurements.tcp.from measurements.tcp.to measurements.tcp.protocol measurements.tcp.rate
    measurements.rtt events events.0.element events.0.change events.1.at variants assert vars name
"""

VALUES = (
    *("null", "{}", "[]", "a", "0", "1", "-1", "[a]", "[a, b]", "[b, a]", "lan", "h1", "h2", "gw1"),
    *("gw1.a", "gw2.b", "h1.lan", "[h1.lan, gw1.lan]", "[h1.x, h2.y]", "[gw1.x, gw2.y]", "udp"),
    *(
        "mptcp",
        "ipip",
        "none",
        "5 Mbit/s",
        "1500",
        "{rate: 3 Mbit/s}",
        "{p: {ends: [gw1.a, gw2.b]}}",
    ),
    *("10.1.0.0/24", "10.9.0.0/30", "10.0.0.0/8", "link:lan1", "path:p", "port:gw2.b", "1 s"),
    "{id: 3, gateway: gw3, wan: [a], lan: lan, prefix: 10.3.0.0/24}",
    "{g: {paths: [b1.a>b2.a]}}",
    "{m: {probe: ping, from: h1, to: gw1}}",
    "{m: {probe: iperf3, from: gw2.b, to: gw1.a, protocol: mptcp}}",
    "[h1, h2, gw1, gw2, gw3]",
)


def overrides() -> st.SearchStrategy[str]:
    """Overrides of the workflow `link-down`."""
    values = st.one_of(st.sampled_from(VALUES), st.text(max_size=5))
    return st.builds("{}={}".format, st.sampled_from(FIELDS.split()), values)
