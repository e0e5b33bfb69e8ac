"""Chains: what is refused, and why."""

from __future__ import annotations

import pytest
from spec_files import loaded, mistakes

WORKFLOW = """\
hawser: 1
name: chains
title: Chains
topology:
  nodes: [client, a, b, server, alone, v1, v2, far, end]
  links:
    in: {ends: [client.eth, a.in]}
    between: {ends: [a.b, b.a], mtu: 1600}
    out: {ends: [b.out, server.eth]}
    direct: {ends: [client.direct, v1.in]}
    tunnelled: {ends: [v1.out, v2.out]}
    far: {ends: [v2.in, far.v2], mtu: 600}
    end: {ends: [far.end, end.eth]}
measurements:
  rtt: {probe: ping, from: client, to: server}
tunnels:
  t: {kind: strongswan, ends: [v1.out, v2.out]}
functions:
  fa: {kind: forwarder, node: a}
  fa2: {kind: forwarder, node: a}
  fb: {kind: forwarder, node: b}
  fb2: {kind: forwarder, node: b}
  ff: {kind: forwarder, node: far}
  fv: {kind: forwarder, node: v1}
  fw: {kind: firewall, node: a, rules: [{action: deny, protocol: udp}]}
  two: {kind: forwarder, node: a, instances: 2}
  fp: {kind: forwarder, node: a, proxy: dynamic}
  lost: {kind: forwarder, node: alone}
  px: {kind: proxy, node: a, command: [sleep, "@server@"]}
  rt: {kind: router, node: b, routes: [{to: 10.9.0.0/16, action: drop}]}
  ps: {kind: proxy, node: a, proxy: static, command: [sleep, "1"]}
  rs: {kind: router, node: b, proxy: masquerading}
  enc: {kind: ipsec, node: a, peer: dec}
  dec: {kind: ipsec, node: b, peer: enc}
chains:
  c: CHAIN
"""


@pytest.mark.parametrize(
    "chain",
    [
        "{from: client, to: server, functions: [fa, fb, fa2, fw, two], fail: open}",
        "{from: client, to: server, functions: [fa, fb], steering: srv6}",
        "{from: client, to: server, functions: [fa, fb], steering: routes}",
        "{from: client, to: server, functions: [fp], steering: srv6, srv6: {mode: encap.red}}",
        "{from: client, to: server, functions: [fp, fb], steering: srv6, srv6: {ipv6: true}}",
        "{from: client, to: server, functions: [ps, rs], steering: srv6, srv6: {ipv6: true}}",
        (
            "{from: client, to: server, functions: [fa, fb], steering: srv6,"
            " srv6: {function: End.X, last: End.DT46}}"
        ),
        (
            "{from: client, to: server, functions: [fa, rs], steering: srv6,"
            " srv6: {ipv6: true, mode: insert}}"
        ),
        "{from: client, to: server, functions: [fb, fa], symmetric: false, match: {dscp: 4}}",
        "{from: server, to: end, functions: [fa, fa2], symmetric: false}",
        "{from: client, to: server, functions: [fw, px, enc, dec, rt], fail: open}",
        "{from: client, to: server, functions: [px, enc, dec, rt], steering: routes, fail: open}",
    ],
)
def test_these_can_be(chain: str) -> None:
    assert loaded(WORKFLOW.replace("CHAIN", chain)).variants[0].scenario.chains


@pytest.mark.parametrize(
    ("chain", "wanted"),
    [
        (
            "{from: client, to: server, functions: [f9]}",
            "functions.0: found 'f9', which is no function; ",
        ),
        (
            "{from: client, to: server, functions: [px], steering: srv6}",
            (
                "functions.0: found px, of kind proxy, which cannot be steered by srv6; expected"
                " steering: nsh, or a"
            ),
        ),
        (
            "{from: client, to: server, functions: [enc, dec], steering: srv6}",
            (
                "functions.0: found enc, of kind ipsec, which cannot be steered by srv6; expected"
                " steering: nsh"
            ),
        ),
        (
            "{from: client, to: server, functions: [ps], steering: routes}",
            "functions.0: found ps, which has a proxy for srv6; expected steering: srv6",
        ),
        (
            "{from: client, to: server, functions: [fa], steering: srv6, srv6: {mode: insert}}",
            (
                "srv6.mode: found insert, but no IPv6 packets pass the chain; expected ipv6: true"
                " with it"
            ),
        ),
        (
            (
                "{from: client, to: server, functions: [ps], steering: srv6,"
                " srv6: {ipv6: true, mode: insert}}"
            ),
            (
                "functions.0: found ps, whose proxy (static) removes the outer header, but with"
                " mode: insert"
            ),
        ),
        (
            "{from: client, to: server, functions: [px], match: {dscp: 4}}",
            "match.dscp: found a code point, which the proxy of px cannot use to identify flows",
        ),
        (
            "{from: client, to: server, functions: [enc, fb, dec]}",
            "functions.0: found enc without dec next to it, where its tunnel ends",
        ),
        (
            "{from: client, to: server, functions: [fa, fa]}",
            "functions.1: found fa again: packets would loop",
        ),
        (
            "{from: a, to: server, functions: [fa]}",
            "from: found a, the node of function fa; expected a node beyond it",
        ),
        (
            "{from: client, to: server, functions: [lost]}",
            "to: no links connect its ends and its functions' nodes",
        ),
        (
            "{from: a, to: b, functions: [ff]}",
            "to: found a link from a, expected a node between to classify packets",
        ),
        (
            "{from: client, to: client, functions: [fa]}",
            "to: found the same node as from, expected another",
        ),
        (
            "{from: client, to: server, functions: [fa, fb, fa2, fb2], steering: routes}",
            "steering: found routes, but packets reach b by a 2 times:",
        ),
        (
            "{from: client, to: server, functions: [ff], match: {dscp: 70}}",
            "match.dscp: found 70, expected at most 63",
        ),
        (
            "{from: client, to: end, functions: [ff]}",
            "functions: found v1 on its path, where tunnel t ends",
        ),
        (
            "{from: server, to: end, functions: [ff]}",
            "steering: nsh leaves 526 bytes for a packet on the links it passes, expected at least",
        ),
        (
            "{from: server, to: end, functions: [ff], steering: srv6}",
            "steering: found srv6 over tunnel t, which carries no IPv6",
        ),
        (
            "{from: server, to: end, functions: [ff], steering: srv6}",
            "steering: found srv6 over a link of 600 bytes, expected an mtu of at least 1280",
        ),
        (
            "{from: client, to: server, functions: [fa], steering: routes, match: {dscp: 4}}",
            "match.dscp: found a code point, which routes cannot match; expected steering: nsh",
        ),
        (
            "{from: client, to: server, functions: [fw], steering: srv6}",
            (
                "functions.0: found fw, of kind firewall, which cannot be steered by srv6; expected"
                " steering: nsh"
            ),
        ),
        (
            "{from: client, to: server, functions: [two], steering: routes}",
            "functions.0: found two, which has 2 instances; expected steering: nsh",
        ),
        (
            "{from: client, to: server, functions: [fp]}",
            "functions.0: found fp, which has a proxy for srv6; expected steering: srv6",
        ),
        (
            (
                "{from: client, to: server, functions: [fa], steering: srv6, srv6: {ipv6: true},"
                " symmetric: false}"
            ),
            (
                "srv6.ipv6: found ipv6 with symmetric: false, but replies outside of chains are"
                " IPv4 only; expected"
            ),
        ),
        (
            (
                "{from: client, to: server, functions: [fa], steering: srv6, srv6: {ipv6: true},"
                " match: {source: 10.0.0.0/8}}"
            ),
            "srv6.ipv6: found ipv6 and a match on IPv4 addresses, expected one without addresses",
        ),
        (
            "{from: client, to: server, functions: [fa], srv6: {mode: encap.red}}",
            "srv6: found settings of srv6, but the chain is steered by nsh",
        ),
        (
            (
                "{from: client, to: server, functions: [fp], steering: srv6}\n"
                "  d: {from: server, to: client, functions: [fp], steering: srv6}"
            ),
            "functions.0: found fp, whose proxy (dynamic) can serve only chain c",
        ),
        (
            (
                "{from: client, to: server, functions: [fa]}\n"
                "  d: {from: server, to: client, functions: [fb, fa], steering: srv6}"
            ),
            "functions.1: found fa, which chain c steers by nsh",
        ),
        (
            "{from: client, to: server, functions: [fa], match: {source_ports: [9, 8]}}",
            "match.source_ports: found ports without their protocol, expected protocol: tcp or udp",
        ),
    ],
)
def test_these_cannot(chain: str, wanted: str) -> None:
    found = mistakes(WORKFLOW.replace("CHAIN", chain))
    assert any(": chains." in text and wanted in text for text in found), found


def test_a_jumbo_link_has_no_room_for_programs() -> None:
    chain = "{from: client, to: server, functions: [fa, fb]}"
    text = WORKFLOW.replace("CHAIN", chain).replace("mtu: 1600", "mtu: 9000")
    wanted = "chains.c.steering: found nsh over a link of 9000 bytes, expected at most 3400"
    assert any(wanted in found for found in mistakes(text)), mistakes(text)


def test_a_gateway_leads_its_own_packets() -> None:
    chain = "{from: client, to: server, functions: [fa]}"
    overlay = """\
overlay:
  branches:
    b1: {id: 1, gateway: a, wan: [w], lan: in, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: b, wan: [w], lan: out, prefix: 10.2.0.0/24}
"""
    text = WORKFLOW.replace("CHAIN", chain) + overlay
    text = text.replace("  links:", "  internet: {ports: {a.w: {}, b.w: {}}}\n  links:")
    wanted = "chains.c.functions: found a on its path, a branch's gateway; expected other nodes"
    assert any(wanted in found for found in mistakes(text)), mistakes(text)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        ("{kind: proxy, node: a}", "kind: found proxy without command and setup"),
        ("{kind: proxy, node: a, setup: [[]]}", "setup.0: found no command"),
        ("{kind: proxy, node: a, command: [x, '@nobody@']}", "command.1: found 'nobody'"),
        ("{kind: proxy, node: a, command: [x], files: {a.b: '@a.no@'}}", "files.a.b: found 'a.no'"),
        ("{kind: proxy, node: a, command: [x], files: {../b: ''}}", "files"),
        ("{kind: forwarder, node: a, command: [x]}", "command: found command, but only a proxy"),
        (
            "{kind: router, node: a, peer: fa}",
            "peer: found peer, but only a function of kind ipsec",
        ),
        ("{kind: router, node: a, routes: [{to: 1.2.3.4/8}]}", "routes.0.to: "),
        (
            "{kind: router, node: a, routes: [{to: 10.0.0.0/8}, {to: 10.0.0.0/8}]}",
            "routes.1.to: found 10.0.0.0/8 again",
        ),
        ("{kind: ipsec, node: a}", "kind: found ipsec without peer"),
        (
            "{kind: ipsec, node: a, peer: fa}",
            "peer: found 'fa', which is no function of kind ipsec",
        ),
        ("{kind: ipsec, node: a, peer: enc}", "peer: found enc, whose peer is dec"),
        ("{kind: ipsec, node: a, peer: x}", "peer: found x, whose peer is x"),
        ("{kind: ipsec, node: a, peer: dec, instances: 2}", "instances: found 2, but a tunnel"),
    ],
)
def test_a_function_has_what_its_kind_has(function: str, wanted: str) -> None:
    chain = "{from: client, to: server, functions: [fa]}"
    text = WORKFLOW.replace("CHAIN", chain).replace(
        "functions:\n", f"functions:\n  x: {function}\n", 1
    )
    found = mistakes(text)
    assert any(f"functions.x.{wanted}" in each for each in found), found
