"""Small plans, written by hand, for tests of the local driver.

`pair`, whose cable x is shaped from a to b:

   a                               b
  +---------------+               +---------------+
  | e 10.0.0.1/24 |-------x-------| e 10.0.0.2/24 |
  +---------------+               +---------------+

`branches(N)`, n from 1 to N; a WAN port carries 40 Mbit/s, a pair of ports 10 Mbit/s:

   hn                    gwn                                    internet
  +-----------------+   +------------------------------+       +------------------------+
  | lan 10.n.0.2/24 |---| lan 10.n.0.1/24              |       |                        |
  +-----------------+   |               a 198.18.n.2/30|-------| gwn-a  198.18.n.1/30   |
                        |               b 198.18.n.6/30|-------| gwn-b  198.18.n.5/30   |
                        +------------------------------+       +------------------------+
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import PurePosixPath

from hawser.overlay.config.gateway import GatewayConfig, MptcpTransport, Tls, Tun
from hawser.overlay.lab.plan import (
    ClassPlan,
    GatewayDaemon,
    InterfacePlan,
    LinkPlan,
    MptcpEndpoint,
    NetworkPlan,
    NodePlan,
    RoutePlan,
    RulePlan,
    ShaperPlan,
)
from hawser.spec.units import Rate, Size

ANY = IPv4Network("0.0.0.0/0")
MBIT = 1_000_000
FRAME = 1514
PORT_RATE = Rate(40 * MBIT)
PATH_RATE = Rate(10 * MBIT)
QUEUE = Size(50 * FRAME)

QUIET = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.tcp_congestion_control": "cubic",
}
"""No traffic but the test's own, and the same TCP on every machine."""

A, B = "10.0.0.1", "10.0.0.2"

_FORWARD = "link:x:forward"
LEVELS = (
    ClassPlan(name=f"{_FORWARD}:I", marked=True, priority=0, queue=Size(20 * FRAME)),
    ClassPlan(name=f"{_FORWARD}:II", marked=True, priority=1, queue=Size(20 * FRAME)),
    ClassPlan(name=f"{_FORWARD}:III", priority=2, queue=Size(20 * FRAME)),
)
"""Classes of strict priority for `pair`; packets name all but the last."""


def interface(name: str, *addresses: str, offload: bool = False, mtu: int = 1500) -> InterfacePlan:
    return InterfacePlan(
        name=name,
        addresses=tuple(IPv4Interface(address) for address in addresses),
        mtu=mtu,
        offload=offload,
    )


def pair(
    *classes: ClassPlan,
    rate: float | None = None,
    offload: bool = False,
    more: tuple[str, ...] = (),
    daemons: tuple[GatewayDaemon, ...] = (),
    sysctl: dict[str, str] | None = None,
) -> NetworkPlan:
    """Two nodes and one cable `x`; its direction from a to b has these classes."""
    addresses = (f"{A}/24", *more)
    nodes = (
        NodePlan(
            name="a",
            role="host",
            interfaces=(interface("e", *addresses, offload=offload),),
            sysctl={**QUIET, **(sysctl or {})},
        ),
        NodePlan(name="b", role="host", interfaces=(interface("e", f"{B}/24"),), sysctl=QUIET),
    )
    shaper = ShaperPlan(
        node="a",
        interface="e",
        name="link:x:forward",
        rate=None if rate is None else Rate(rate),
        classes=classes,
    )
    return NetworkPlan(
        nodes=nodes,
        links=(LinkPlan(name="x", ends=(("a", "e"), ("b", "e"))),),
        shapers=(shaper,) if classes else (),
        daemons=daemons,
        addresses={"a": IPv4Address(A), "b": IPv4Address(B)},
    )


def whole(rate: float | None = None, queue: float | None = None) -> ClassPlan:
    """The only class of a link's direction."""
    return ClassPlan(
        name="link:x:forward",
        rate=None if rate is None else Rate(rate),
        queue=None if queue is None else Size(queue),
    )


def branches(count: int) -> NetworkPlan:
    """This number of branches with two WAN ports each; every port pair is a path of 10 Mbit/s."""
    numbers = range(1, count + 1)
    ports = [(number, port) for number in numbers for port in "ab"]
    internet = NodePlan(
        name="internet",
        role="internet",
        interfaces=tuple(interface(f"gw{n}-{p}", f"{_wan(n, p, 1)}/30") for n, p in ports),
        sysctl={**QUIET, "net.ipv4.ip_forward": "1"},
    )
    return NetworkPlan(
        nodes=(*map(_host, numbers), *map(_gateway, numbers), internet),
        links=(
            *(
                LinkPlan(name=f"lan{n}", ends=((f"h{n}", "lan"), (f"gw{n}", "lan")))
                for n in numbers
            ),
            *(
                LinkPlan(name=f"gw{n}.{p}", ends=((f"gw{n}", p), ("internet", f"gw{n}-{p}")))
                for n, p in ports
            ),
        ),
        shapers=(*(_upload(n, p) for n, p in ports), *(_download(n, p, ports) for n, p in ports)),
        daemons=(),
        addresses={f"gw{n}.{p}": IPv4Address(_wan(n, p, 2)) for n, p in ports},
    )


def gateway_daemon(name: str, node: str, tls: str | None = None) -> GatewayDaemon:
    """A gateway without peers."""
    pki = PurePosixPath("pki")
    files = Tls(certificate=pki / f"{tls}.pem", key=pki / f"{tls}.key", ca=pki / "ca.pem")
    config = GatewayConfig(
        branch=tls or "b1",
        id=1,
        control=PurePosixPath(f"{name}.sock"),
        tun=Tun(name="hawser0", mtu=1500),
        transport=MptcpTransport(tls=files if tls else None, insecure=not tls),
        peers=(),
    )
    return GatewayDaemon(node=node, name=name, config=config)


def _wan(number: int, port: str, host: int) -> str:
    return f"198.18.{number}.{4 * 'ab'.index(port) + host}"


def _host(number: int) -> NodePlan:
    route = RoutePlan(to=ANY, via=IPv4Address(f"10.{number}.0.1"), interface="lan")
    return NodePlan(
        name=f"h{number}",
        role="host",
        interfaces=(interface("lan", f"10.{number}.0.2/24", offload=True),),
        routes=(route,),
        sysctl=QUIET,
    )


def _gateway(number: int) -> NodePlan:
    wan = {port: IPv4Address(_wan(number, port, 1)) for port in "ab"}
    return NodePlan(
        name=f"gw{number}",
        role="gateway",
        interfaces=(
            interface("lan", f"10.{number}.0.1/24", offload=True),
            *(interface(port, f"{_wan(number, port, 2)}/30") for port in "ab"),
        ),
        routes=(
            RoutePlan(to=ANY, via=wan["a"], interface="a"),
            *(
                RoutePlan(to=ANY, via=via, interface=port, table=101 + place)
                for place, (port, via) in enumerate(wan.items())
            ),
        ),
        rules=tuple(
            RulePlan(source=IPv4Network(_wan(number, port, 2)), table=101 + place)
            for place, port in enumerate("ab")
        ),
        mptcp=tuple(
            MptcpEndpoint(
                address=IPv4Address(_wan(number, port, 2)),
                interface=port,
                flags=("subflow", "fullmesh"),
            )
            for port in "ab"
        ),
        sysctl={
            **QUIET,
            "net.ipv4.ip_forward": "1",
            "net.ipv4.conf.a.rp_filter": "0",
        },
    )


def _upload(number: int, port: str) -> ShaperPlan:
    name = f"port:gw{number}.{port}:forward"
    classes = (ClassPlan(name=name, rate=PORT_RATE, queue=QUEUE),)
    return ShaperPlan(
        node=f"gw{number}", interface=port, name=name, rate=PORT_RATE, classes=classes
    )


def _download(number: int, port: str, ports: list[tuple[int, str]]) -> ShaperPlan:
    classes = tuple(
        ClassPlan(
            name=f"path:{other}{by}-{number}{port}:forward",
            source=IPv4Network(_wan(other, by, 2)),
            rate=PATH_RATE,
            queue=QUEUE,
        )
        for other, by in ports
        if other != number
    )
    return ShaperPlan(
        node="internet",
        interface=f"gw{number}-{port}",
        name=f"port:gw{number}.{port}:reverse",
        rate=PORT_RATE,
        classes=classes,
    )
