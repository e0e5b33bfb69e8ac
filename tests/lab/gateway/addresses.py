"""A branch with two accesses whose addresses come late and change, and one with a fixed address.

   PREFIX-1 (b1)              PREFIX-0, router                  PREFIX-2 (b2)
  +------------------+       +-----------------------+         +------------------+
  | wa  198.18.1.2   |-------| ia 198.18.1.1         |         |                  |
  |                  |       |         198.18.3.1 i2 |---------| wa 198.18.3.2    |
  | wb  198.18.2.2   |-------| ib 198.18.2.1         |         |                  |
  +------------------+       +-----------------------+         +------------------+

Both accesses of b1 have a default route in the main table, with metrics 1 and 2, and no rules: that
packets of `wb` leave by `wb` is up to the gateway. IPv6 has fd00:N::1 and ::2 in place of 198.18.N.
"""

from __future__ import annotations

from typing import Any

from lab.gateway.pair import Gateway, Lab, pki
from lab.waiting import until

B2 = "198.18.3.2"
NETS = {"wa": 1, "wb": 2}


def accesses(lab: Lab, *interfaces: str, v6: bool = False) -> Lab:
    """The topology above. Only these interfaces of b1 have their addresses yet."""
    for number in range(3):
        lab.namespace(number)
    lab.at(0, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for wan, net in NETS.items():
        lab.cable((1, wan, f"198.18.{net}.99/24"), (0, f"i{wan[1]}", f"198.18.{net}.1/24"))
        lab.at(1, "ip", "addr", "flush", "dev", wan, "scope", "global")
    lab.cable((2, "wa", f"{B2}/24"), (0, "i2", "198.18.3.1/24"))
    lab.at(2, "ip", "route", "add", "default", "via", "198.18.3.1")
    if v6:
        for port, net in (("ia", 1), ("ib", 2), ("i2", 3)):
            lab.at(0, "ip", "addr", "add", f"fd00:{net}::1/64", "dev", port, "nodad")
        lab.at(2, "ip", "addr", "add", "fd00:3::2/64", "dev", "wa", "nodad")
        lab.at(2, "ip", "-6", "route", "add", "default", "via", "fd00:3::1")
    for wan in interfaces:
        give(lab, wan)
    lab.wans = {1: ["198.18.1.2"], 2: [B2]}
    for number in (1, 2):
        lab.at(number, "sysctl", "-qw", "net.mptcp.pm_type=1")
    return lab


def give(lab: Lab, wan: str, host: int = 2) -> None:
    """Give an interface of b1 this address, and a default route."""
    net = NETS[wan]
    lab.at(1, "ip", "addr", "add", f"198.18.{net}.{host}/24", "dev", wan)
    route = ("default", "via", f"198.18.{net}.1", "dev", wan, "metric", str(net))
    lab.at(1, "ip", "route", "replace", *route)


def take(lab: Lab, wan: str) -> None:
    """Take the IPv4 addresses of an interface of b1 away, and with them its routes."""
    lab.at(1, "ip", "-4", "addr", "flush", "dev", wan)


def mobile_pair(
    lab: Lab,
    kind: str,
    ours: list[dict[str, Any]],
    theirs: list[dict[str, Any]] | None = None,
) -> tuple[Gateway, Gateway]:
    """Both gateways, started; `ours` are the paths of b1. Those of b2 know no remote address.

    Their WAN interfaces take only what they asked for: addresses, names and tunnels.
    """
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, paths in ((one, ours), (two, theirs or [{"local": B2}] * len(ours))):
        tls = files[gateway.config["branch"]]
        gateway.config["transport"] = {"kind": kind, "tls": tls}
        gateway.config["peers"][0]["groups"][0]["paths"] = paths
        gateway.config["wan"] = {"interfaces": list(NETS)}
        gateway.start()
    return one, two


def group(gateway: Gateway) -> dict[str, Any]:
    """What the status says of the first group."""
    found: dict[str, Any] = gateway.get("/v1/status")["peers"][0]["groups"][0]
    return found


def stayed_connected(gateway: Gateway, gone: float) -> bool:
    """Whether the first group still has its first connections.

    If it had no address for `gone` s, the idle timeout of 10 s may have ended one.
    """
    return group(gateway)["reconnects"] == 0 or gone > 8


def waiting(gateway: Gateway) -> dict[int, str]:
    """Why paths of the first group cannot be used, by their number."""
    return {path["member"]: path["reason"] for path in group(gateway).get("waiting", [])}


def both_up(one: Gateway, two: Gateway, paths: int) -> None:
    """Wait until so many paths are up at both ends."""
    until(lambda: min(one.subflows(), two.subflows()) >= paths, f"{paths} paths are up")


def received(gateway: Gateway) -> int:
    """Bytes that came from the peer."""
    return int(gateway.group()["received"]["bytes"])


def goes_on(gateway: Gateway, amount: float = 1e6) -> None:
    """Wait until so many bytes more have come from the peer."""
    came = received(gateway)
    until(lambda: received(gateway) > came + amount, "the transfer goes on", 60)


def sent_by(lab: Lab, interface: str) -> int:
    """Bytes that an interface of b1 has sent."""
    path = f"/sys/class/net/{interface}/statistics/tx_bytes"
    return int(lab.at(1, "cat", path))
