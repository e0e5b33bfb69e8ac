"""Workflows with a chain from client to server, and their plans, for tests.

   client                  n1                                n2
  +----------------+      +--------------------------+      +------------------+
  | eth 10.255.0.1 |--in--| in  .0.2        far .0.5 |------| near .0.6        |   between
  +----------------+      |                          |      |                  |
   server                 |                          |      |                  |
  +----------------+      |                          |      |                  |
  | eth 10.255.0.10|-out--| out .0.9                 |      |                  |
  +----------------+      +---- sf1 ---- sf2 --------+      +------ sf3 -------+
                                 |        |                          |
                                f0       f0                         f0
                                f1       f3 (or g)                  f2 (or x)

Each function is a node with one cable (10.253.0.0/16), f0 at its end, to the node it stands beside.
In `chain`, functions f1 and f3 are at n1 and f2 is at n2. In `chain_with`, functions f1 and g are
at n1, and the tested one is x at n2, between the two; with SRv6 its SFC proxy x-proxy is a node
between n2 and x, which then has f0 and f1.
"""

from __future__ import annotations

from collections.abc import Sequence

from documents import Document, planned, with_
from hawser.overlay.lab.plan import NetworkPlan

SERVER = "10.255.0.10"
CLIENT = "10.255.0.1"

_TOPOLOGY: Document = {
    "nodes": ["client", "n1", "n2", "server"],
    "links": {
        "in": {"ends": ["client.eth", "n1.in"]},
        "between": {"ends": ["n1.far", "n2.near"]},
        "out": {"ends": ["n1.out", "server.eth"]},
    },
}
_PING: Document = {"rtt": {"probe": "ping", "from": "client", "to": "server"}}

WORKFLOW: Document = {
    "hawser": 1,
    "name": "chains",
    "title": "A chain",
    "topology": _TOPOLOGY,
    "functions": {
        "f1": {"kind": "forwarder", "node": "n1"},
        "f2": {"kind": "forwarder", "node": "n2"},
        "f3": {"kind": "forwarder", "node": "n1"},
        "fw": {
            "kind": "firewall",
            "node": "n1",
            "stateful": True,
            "otherwise": "deny",
            "rules": [
                {"protocol": "icmp", "action": "allow"},
                {
                    "protocol": "tcp",
                    "destination_ports": [5201, 5201],
                    "source": "10.255.0.1/32",
                    "action": "allow",
                },
            ],
        },
    },
    "measurements": _PING,
}

SFC_UNAWARE_WORKFLOW: Document = {
    "hawser": 1,
    "name": "sfc-unaware",
    "title": "A chain",
    "topology": _TOPOLOGY,
    "functions": {
        "f1": {"kind": "forwarder", "node": "n1"},
        "g": {"kind": "forwarder", "node": "n1"},
    },
    "measurements": _PING,
}


def _proxy(**fields: object) -> Document:
    return {"kind": "proxy", "node": "n2", **fields}


def _nft(rules: str, files: Document | None = None, **fields: object) -> Document:
    """A proxy for rules of nftables."""
    files = {"rules.nft": rules, **(files or {})}
    return _proxy(setup=[["nft", "-f", "rules.nft"]], files=files, **fields)


FILTER = _nft("""\
table ip filter {
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip daddr @server@ tcp dport 5300 counter reject with tcp reset
    ip daddr @server@ tcp dport 5301 counter reject
    ip daddr @server@ udp dport 5302 counter drop
  }
}
""")
MASQUERADE = _nft("""\
table ip nat {
  chain out { type nat hook postrouting priority 100; ip daddr @server@ masquerade; }
}
""")
SLEEPER = _proxy(command=["sleep", "infinity"])

NGINX = _nft(
    """\
table ip nat
delete table ip nat
table ip nat {
  chain in { type nat hook prerouting priority -100; tcp dport 80 redirect to :8080; }
}
""",
    command=["nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr"],
    files={
        "nginx.conf": """\
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
  access_log off;
  server { listen 8080; location / { proxy_pass http://@server@; } }
}
"""
    },
)


def chain(
    functions: Sequence[str] = ("f1", "f2"), document: Document = WORKFLOW, **fields: object
) -> NetworkPlan:
    """Give a chain of SFC-aware functions, or of a firewall; `fields` are the chain's."""
    return planned(with_(document, "chains.c", _chain(functions, fields)))


def chain_with(
    function: Document, *, more: Document | None = None, **fields: object
) -> NetworkPlan:
    """Give a chain with an SFC-unaware function.

    `fields` are the chain's, `more` are further chains.
    """
    fields = {"steering": "nsh", **fields}
    if fields["steering"] == "srv6":
        function = {**function, "proxy": "static"}
    document = with_(SFC_UNAWARE_WORKFLOW, "functions.x", function)
    chains = {"c": _chain(("f1", "x", "g"), fields), **(more or {})}
    return planned(with_(document, "chains", chains))


def chain_with_tunnel(steering: str) -> NetworkPlan:
    """Give a chain with the two ends of a tunnel, one at n1 and one at n2."""
    document = SFC_UNAWARE_WORKFLOW
    for name, node, peer in (("enc", "n1", "dec"), ("dec", "n2", "enc")):
        end = {"kind": "ipsec", "node": node, "peer": peer}
        document = with_(document, f"functions.{name}", end)
    return planned(
        with_(document, "chains.c", _chain(("f1", "enc", "dec"), {"steering": steering}))
    )


def behind_proxy(proxy: str) -> Document:
    """Give the workflow of `chain` with f1 behind a segment routing proxy."""
    return with_(WORKFLOW, "functions.f1.proxy", proxy)


def far(**channel: object) -> Document:
    """Give the workflow of `chain` with a link between n1 and n2 that is like this."""
    between = _TOPOLOGY["links"]["between"]
    return with_(WORKFLOW, "topology.links.between", {**between, **channel})


def _chain(functions: Sequence[str], fields: Document) -> Document:
    return {"from": "client", "to": "server", "functions": list(functions), **fields}
