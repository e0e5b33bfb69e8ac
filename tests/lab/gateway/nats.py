"""Two branches behind NATs, and one with a public address that introduces them.

  PREFIX-1 (b1)      PREFIX-11, NAT     PREFIX-0, internet  PREFIX-12, NAT     PREFIX-2 (b2)
 +--------------+   +----------------+  +---------------+  +----------------+  +---------------+
 | wa 10.99.1.2 |---| in   10.99.1.1 |  |               |  | 10.99.2.1   in |--| wa 10.99.2.2  |
 +--------------+   | out 198.18.1.2 |--| i1 .1   i2 .1 |--| 198.18.2.2 out |  +---------------+
                    +----------------+  | i3 198.18.3.1 |  +----------------+
                                        +-------|-------+
                                                +-- wa 198.18.3.2, PREFIX-3 (b3)

A NAT drops what comes from outside and belongs to nothing inside, as any home router does.
"""

from __future__ import annotations

from typing import Any

from lab.gateway.pair import Gateway, Lab, pki

KEEPS_PORTS = "masquerade"
"""The source port stays if it is free: in effect endpoint-independent (RFC 4787 section 4.1)."""
ANY_PORT = "masquerade random,fully-random"
"""Address and port-dependent mapping."""

INTRODUCES = 3


def behind_nats(lab: Lab, *rules: str) -> Lab:
    """The topology above; `rules` are what the NATs of b1 and b2 do."""
    for number in (0, 1, 2, 3, 11, 12):
        lab.namespace(number)
    for number in (0, 11, 12):
        lab.at(number, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for number, rule in zip((1, 2), rules, strict=True):
        nat = 10 + number
        lab.cable((number, "wa", f"10.99.{number}.2/24"), (nat, "in", f"10.99.{number}.1/24"))
        lab.cable((nat, "out", f"198.18.{number}.2/24"), (0, f"i{number}", f"198.18.{number}.1/24"))
        lab.at(number, "ip", "route", "add", "default", "via", f"10.99.{number}.1")
        lab.at(nat, "ip", "route", "add", "default", "via", f"198.18.{number}.1")
        translate(lab, number, rule)
    lab.wans = {number: [] for number in (1, 2, 3)}
    lab.cable((3, "wa", "198.18.3.2/24"), (0, "i3", "198.18.3.1/24"))
    lab.at(3, "ip", "route", "add", "default", "via", "198.18.3.1")
    return lab


def translate(lab: Lab, branch: int, rule: str) -> None:
    """Let the NAT of a branch translate by another rule, from now on."""
    rules = f"""
        table ip nat
        delete table ip nat
        table ip nat {{
          chain out {{
            type nat hook postrouting priority srcnat;
            oifname "out" {rule}
          }}
          chain own {{
            type filter hook input priority filter;
            iifname "out" ct state new,invalid drop
          }}
        }}
    """
    path = lab.folder / f"nat{branch}.nft"
    path.write_text(rules)
    lab.at(10 + branch, "nft", "-f", str(path))


def forget(lab: Lab, branch: int, host: int) -> None:
    """Give the NAT of a branch another public address: it forgets all translations."""
    nat = 10 + branch
    lab.at(nat, "ip", "-4", "addr", "flush", "dev", "out")
    lab.at(nat, "ip", "addr", "add", f"198.18.{branch}.{host}/24", "dev", "out")
    lab.at(nat, "ip", "route", "add", "default", "via", f"198.18.{branch}.1")


def gateways(lab: Lab) -> dict[int, Gateway]:
    """The three gateways, started: only the address of b3 is known to the others."""
    files = pki(lab.folder, ["b1", "b2", "b3"])
    found = {}
    for number in (3, 1, 2):
        own = {"local": "198.18.3.2"} if number == INTRODUCES else {"interface": "wa"}
        peers = [_peer(number, other, own) for other in (1, 2, 3) if other != number]
        gateway = lab.gateway(number, number, peers=peers, rendezvous=f"b{INTRODUCES}")
        gateway.config["transport"] = {"kind": "quic", "tls": files[f"b{number}"]}
        gateway.start()
        found[number] = gateway
    return found


def _peer(number: int, other: int, own: dict[str, str]) -> dict[str, Any]:
    to = {"remote": "198.18.3.2"} if other == INTRODUCES else {}
    groups = [{"id": 0, "paths": [own | to]}]
    return {
        "branch": f"b{other}",
        "id": other,
        "prefixes": [f"10.{other}.0.0/24"],
        "groups": groups,
    }


def group(gateway: Gateway, peer: int) -> dict[str, Any]:
    """What the status says of the group to a peer."""
    peers = {each["branch"]: each for each in gateway.get("/v1/status")["peers"]}
    found: dict[str, Any] = peers[f"b{peer}"]["groups"][0]
    return found


def path(gateway: Gateway, peer: int) -> dict[str, Any]:
    """What the status says of the path to a peer."""
    found: dict[str, Any] = group(gateway, peer)["paths"][0]
    return found


def counters(gateway: Gateway, peer: int) -> dict[str, Any]:
    """Counters of the group to a peer."""
    peers = {each["branch"]: each for each in gateway.get("/v1/counters")["peers"]}
    found: dict[str, Any] = peers[f"b{peer}"]["groups"][0]
    return found
