"""Workflows with a chain from client to server, and their plans, for tests.

client --in-- n1 --between-- n2
              n1 --out-- server

In `chain`, functions f1 and f3 are at n1, f2 is at n2. In `chain_with`, functions f1 and g are at
n1, and what the test is about is x at n2, between the two.
"""

from __future__ import annotations

from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec import load

SERVER = "10.255.0.10"
CLIENT = "10.255.0.1"

WORKFLOW = """\
hawser: 1
name: chains
title: A chain
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near]BETWEEN}
    out: {ends: [n1.out, server.eth]}
functions:
  f1: {kind: forwarder, node: n1}
  f2: {kind: forwarder, node: n2}
  f3: {kind: forwarder, node: n1}
  fw:
    kind: firewall
    node: n1
    stateful: true
    otherwise: deny
    rules:
      - {protocol: icmp, action: allow}
      - {protocol: tcp, destination_ports: [5201, 5201], source: 10.255.0.1/32, action: allow}
chains:
  c: {from: client, to: server, functions: [f1, f2], CHAIN}
measurements:
  rtt: {probe: ping, from: client, to: server}
"""

BARE_WORKFLOW = """\
hawser: 1
name: bare
title: A chain
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near]}
    out: {ends: [n1.out, server.eth]}
functions:
  f1: {kind: forwarder, node: n1}
  g: {kind: forwarder, node: n1}
  x: FUNCTION
chains:
  c: {from: client, to: server, functions: [f1, x, g], CHAIN}
  MORE
measurements:
  rtt: {probe: ping, from: client, to: server}
"""

FILTER = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    files:
      rules.nft: |
        table ip filter {
          chain forward {
            type filter hook forward priority 0; policy accept;
            ip daddr @server@ tcp dport 5300 counter reject with tcp reset
            ip daddr @server@ tcp dport 5301 counter reject
            ip daddr @server@ udp dport 5302 counter drop
          }
        }
"""
MASQUERADE = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    files:
      rules.nft: |
        table ip nat {
          chain out { type nat hook postrouting priority 100; ip daddr @server@ masquerade; }
        }
"""
SLEEPER = "{kind: proxy, node: n2, command: [sleep, infinity]}"

NGINX = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    command: [nginx, -p, ., -c, nginx.conf, -e, stderr]
    files:
      rules.nft: |
        table ip nat
        delete table ip nat
        table ip nat {
          chain in { type nat hook prerouting priority -100; tcp dport 80 redirect to :8080; }
        }
      nginx.conf: |
        daemon off; master_process off; pid nginx.pid; error_log stderr;
        events {}
        http {
          access_log off;
          server { listen 8080; location / { proxy_pass http://@server@; } }
        }
"""

PAIR = """enc: {kind: ipsec, node: n1, peer: dec}
  dec: {kind: ipsec, node: n2, peer: enc}"""


def chain(
    chain: str, between: str = "", functions: str = "[f1, f2]", workflow: str = WORKFLOW
) -> NetworkPlan:
    """Give a chain of functions that know of chains, or of a firewall."""
    text = workflow.replace("CHAIN", chain).replace("BETWEEN", between)
    return _planned(text.replace("[f1, f2]", functions))


def chain_with(function: str, chain: str = "steering: nsh", more: str = "") -> NetworkPlan:
    """Give a chain with a function that knows nothing of chains; `more` are further chains."""
    if "srv6" in chain:
        proxy = ", proxy: static" if function.startswith("{") else "\n    proxy: static"
        function = function.replace("node: n2", f"node: n2{proxy}")
    text = BARE_WORKFLOW.replace("FUNCTION", function).replace("CHAIN", chain)
    return _planned(text.replace("MORE", more))


def chain_with_tunnel(steering: str) -> NetworkPlan:
    """Give a chain with the two ends of a tunnel, one at n1 and one at n2."""
    text = BARE_WORKFLOW.replace("x: FUNCTION", PAIR).replace("[f1, x, g]", "[f1, enc, dec]")
    return _planned(text.replace("CHAIN", f"steering: {steering}").replace("MORE", ""))


def behind_proxy(proxy: str) -> str:
    """Give the workflow of `chain` with f1 behind a segment routing proxy."""
    return WORKFLOW.replace("node: n1}\n  f2:", f"node: n1, proxy: {proxy}}}\n  f2:", 1)


def _planned(text: str) -> NetworkPlan:
    return network(load("x.yaml", lambda _: text.encode()).variants[0].scenario)
