"""Two gateways with the `quic` transport (labs drawn in lab/gateway/pair.py)."""

from __future__ import annotations

from typing import Any

from lab.gateway.pair import Gateway, Lab, pki
from lab.waiting import until

MTU = 1472
"""MTU of every path of these labs, once discovered."""


def quic_pair(lab: Lab, *, paths: int = 1, **settings: object) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with `paths` paths up; `settings` are fields of the transport."""
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway in (one, two):
        name = gateway.config["branch"]
        gateway.config["transport"] = {"kind": "quic", "tls": files[name], **settings}
        gateway.start()
    until(lambda: min(one.subflows(), two.subflows()) >= paths, f"{paths} paths are up")
    until(lambda: mtu(one) == mtu(two) == MTU, "the paths' MTU is known")
    return one, two


def paths_of(gateway: Gateway) -> list[dict[str, Any]]:
    """What the status says of each path of the first group."""
    found: list[dict[str, Any]] = gateway.get("/v1/status")["peers"][0]["groups"][0]["paths"]
    return found


def mtu(gateway: Gateway) -> int:
    """The smallest discovered MTU of all paths."""
    return min(int(path["mtu"]) for path in paths_of(gateway))


def lose_large_packets(lab: Lab, one_in: int) -> None:
    """Drop one in `one_in` large QUIC packets at random, at the router."""
    hook = "type filter hook forward priority 0"
    rule = f"meta l4proto udp meta length > 1000 numgen random mod {one_in} == 0 counter drop"
    rules = f"table ip hawser_losses {{\nchain losses {{\n{hook};\n{rule}\n}}\n}}\n"
    (lab.folder / "losses.nft").write_text(rules)
    lab.at(0, "nft", "-f", str(lab.folder / "losses.nft"))
