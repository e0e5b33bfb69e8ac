"""The WAN emulator in a plan: a node between the ends of links that delay, vary or lose packets.

       node a                 wan                  node b
    HTB: rate, queue     delay, jitter, loss    HTB: rate, queue
    p --------------- w0a |  hawserd wan  | w0b --------------- q

A packet first waits for the rate, then travels. A direction in which nothing but the rate matters
is the kernel's: what comes in at one of the two interfaces goes out at the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from hawser.overlay.config.wan import (
    BernoulliLoss,
    Bottleneck,
    Carries,
    Direction,
    GilbertElliottLoss,
    Jitter,
    Path,
    Reordering,
    WanConfig,
    Wire,
)
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import (
    ClassPlan,
    InterfacePlan,
    LinkPlan,
    NetworkPlan,
    NodePlan,
    ShaperPlan,
    WanDaemon,
)
from hawser.overlay.lab.sysctl import ALIKE
from hawser.spec.topology import Distribution, Impairment

EMULATOR = "wan"
"""Name of the node, and of its daemon."""

_MICROSECONDS = 1e6
_KERNELS = frozenset({"delay", "loss", "duplication"})
"""What netem does as asked. Its jitter reorders packets and has another distribution."""


def kernel_suffices(plan: NetworkPlan) -> bool:
    """Tell whether netem, if available, can emulate all impairments of the plan."""
    classes = [each for shaper in plan.shapers for each in shaper.classes if each.impaired]
    return all(
        set(each.model_dump(include=set(Impairment.model_fields), exclude_none=True)) <= _KERNELS
        for each in classes
    )


def realised(plan: NetworkPlan, facts: Facts) -> NetworkPlan:
    """Choose what impairs packets: netem where the machines have it and it will do.

    Else the WAN emulator does. A plan that has the emulator already stays as it is.
    """
    return plan if facts.netem and kernel_suffices(plan) else emulated(plan)


def kernels(plan: NetworkPlan) -> Iterator[str]:
    """Give the names of classes that the kernel impairs."""
    for shaper in plan.shapers:
        yield from (each.name for each in shaper.classes if each.impaired and not each.emulated)


def seeded(plan: NetworkPlan, seed: int) -> NetworkPlan:
    """Give a plan another seed for random impairments."""
    return configured(plan.model_copy(update={"seed": seed}))


def emulated(plan: NetworkPlan) -> NetworkPlan:
    """Give all impairments of a plan to the WAN emulator, unless it has none or has one already."""
    if configuration(plan) is not None:
        return plan
    shapers = tuple(_marked(shaper) for shaper in plan.shapers)
    number = 0
    links: list[LinkPlan] = []
    for link in plan.links:
        if any(_impaired(shapers, end) for end in link.ends):
            links.append(link.model_copy(update={"wire": (f"w{number}a", f"w{number}b")}))
            number += 1
        else:
            links.append(link)
    if not number:
        return plan
    wired = plan.model_copy(update={"shapers": shapers, "links": tuple(links)})
    nodes = (*_receiving(wired), _node(wired))
    return configured(wired.model_copy(update={"nodes": nodes}))


def configured(plan: NetworkPlan) -> NetworkPlan:
    """Give the emulator of a plan the configuration that fits its shapers."""
    others = tuple(each for each in plan.daemons if not isinstance(each, WanDaemon))
    if not any(link.wire for link in plan.links):
        return plan
    daemon = WanDaemon(node=EMULATOR, name=EMULATOR, config=_config(plan))
    return plan.model_copy(update={"daemons": (*others, daemon)})


def configuration(plan: NetworkPlan) -> WanConfig | None:
    """Give the emulator's configuration, where it has one."""
    return next((each.config for each in plan.daemons if isinstance(each, WanDaemon)), None)


def unwired(plan: NetworkPlan) -> Iterator[str]:
    """Give the names of classes that ask for what only the emulator does, where it is not."""
    wired = {end for link in plan.links if link.wire for end in link.ends}
    for shaper in plan.shapers:
        for each in shaper.classes:
            if each.impaired and each.emulated and (shaper.node, shaper.interface) not in wired:
                yield each.name


def _receiving(plan: NetworkPlan) -> Iterator[NodePlan]:
    """Let threads of the hosts take in what the emulator sends: it would be late if it did.

    What gateways' daemons take are datagrams: less work than the wake-ups of a thread.
    """
    ends = {end for link in plan.links if link.wire for end in link.ends}
    relaying = {daemon.node for daemon in plan.daemons}
    for node in plan.nodes:
        if node.role in {"host", "gateway"} and node.name not in relaying:
            interfaces = tuple(
                each.model_copy(update={"threaded": (node.name, each.name) in ends})
                for each in node.interfaces
            )
            yield node.model_copy(update={"interfaces": interfaces})
        else:
            yield node


def _marked(shaper: ShaperPlan) -> ShaperPlan:
    classes = tuple(each.model_copy(update={"emulated": True}) for each in shaper.classes)
    return shaper.model_copy(update={"classes": classes})


def _impaired(shapers: tuple[ShaperPlan, ...], end: tuple[str, str]) -> bool:
    return any(each.impaired for each in _classes(shapers, end))


def _classes(shapers: tuple[ShaperPlan, ...], end: tuple[str, str]) -> list[ClassPlan]:
    """Classes of what leaves by an interface, the longest source prefix first.

    Marks end with the node: what the marked ones ask for, the one for the rest does for all.
    """
    found = (s for s in shapers if (s.node, s.interface) == end)
    classes = [each for shaper in found for each in shaper.classes if not each.marked]
    return sorted(classes, key=lambda each: -each.source.prefixlen if each.source else 1)


def _node(plan: NetworkPlan) -> NodePlan:
    wires = [(link, link.wire) for link in plan.links if link.wire]
    interfaces = [
        InterfacePlan(name=name, addresses=(), mtu=_mtu(plan, link), offload=False)
        for link, wire in wires
        for name in wire
    ]
    redirects = tuple(
        way
        for link, wire in wires
        for end, way in zip(link.ends, (wire, wire[::-1]), strict=True)
        if not _impaired(plan.shapers, end)
    )
    return NodePlan(
        name=EMULATOR,
        role="wan",
        interfaces=tuple(interfaces),
        redirects=redirects,
        sysctl=dict(ALIKE),
    )


def _mtu(plan: NetworkPlan, link: LinkPlan) -> int:
    node, interface = link.ends[0]
    interfaces = next(each.interfaces for each in plan.nodes if each.name == node)
    return next(each.mtu for each in interfaces if each.name == interface)


def _config(plan: NetworkPlan) -> WanConfig:
    wired = [(link, link.wire) for link in plan.links if link.wire]
    return WanConfig(
        control=PurePosixPath(f"{EMULATOR}.sock"),
        seed=plan.seed,
        wires=tuple(
            Wire(name=link.name, ends=wire, carries=_carries(plan, link)) for link, wire in wired
        ),
        emulated=tuple(path for link, _ in wired for path in _paths(plan, link)),
    )


def _carries(plan: NetworkPlan, link: LinkPlan) -> Carries:
    redirects = next(each.redirects for each in plan.nodes if each.name == EMULATOR)
    if link.wire in redirects:
        return "reverse"
    return "forward" if link.wire and link.wire[::-1] in redirects else "both"


def _paths(plan: NetworkPlan, link: LinkPlan) -> Iterator[Path]:
    carries = _carries(plan, link)
    ways: tuple[Direction, ...] = ("forward", "reverse")
    for direction, end in zip(ways, link.ends, strict=True):
        if carries in ("both", direction):
            for each in _classes(plan.shapers, end):
                yield _path(link.name, direction, each)


def _path(wire: str, direction: Direction, plan: ClassPlan) -> Path:
    return Path(
        name=plan.name,
        wire=wire,
        direction=direction,
        source=plan.source,
        bottleneck=_bottleneck(plan),
        delay_us=_micros(plan.delay or 0),
        jitter=_jitter(plan),
        loss=_loss(plan),
        duplication=float(plan.duplication or 0),
        reordering=_reordering(plan),
    )


def _bottleneck(plan: ClassPlan) -> Bottleneck | None:
    if plan.trace is None:
        return None
    return Bottleneck(trace=plan.trace, queue_bytes=int(plan.queue or 0))


def _jitter(plan: ClassPlan) -> Jitter | None:
    if not plan.jitter:
        return None
    return Jitter(
        deviation_us=_micros(plan.jitter),
        distribution=plan.jitter_distribution or Distribution.NORMAL,
        correlation=float(plan.jitter_correlation or 0),
        reorders=bool(plan.jitter_reorders),
    )


def _loss(plan: ClassPlan) -> BernoulliLoss | GilbertElliottLoss | None:
    chain = plan.gilbert_elliott
    if chain is not None:
        return GilbertElliottLoss(
            to_bad=float(chain.to_bad),
            to_good=float(chain.to_good),
            good=float(chain.good),
            bad=float(chain.bad),
        )
    return BernoulliLoss(probability=float(plan.loss)) if plan.loss else None


def _reordering(plan: ClassPlan) -> Reordering | None:
    if not plan.reordering:
        return None
    delay = _micros(plan.reordering_delay or 0)
    return Reordering(share=float(plan.reordering), extra_delay_us=delay)


def _micros(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, 3)
