"""Adds the WAN emulator to a plan: a node in the middle of links with delay, jitter or loss.

       node a                 wan                  node b
    HTB: rate, queue     delay, jitter, loss    HTB: rate, queue
    p --------------- w0a |  hawserd wan  | w0b --------------- q

A packet is first shaped, then delayed. A direction that has only a rate bypasses the daemon: the
kernel redirects packets from one of the two interfaces to the other. Paths of the internet into a
port without a rate are shaped in the emulator too: their queues are far from any sender, so none
needs the kernel's, and the kernel would set a timer for each frame.
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
"""Impairments that netem emulates. Its jitter reorders packets and has another distribution."""


def kernel_suffices(plan: NetworkPlan) -> bool:
    """Tell whether netem, if available, can emulate all impairments of the plan."""
    classes = [each for shaper in plan.shapers for each in shaper.classes if each.impaired]
    return all(
        set(each.model_dump(include=set(Impairment.model_fields), exclude_none=True)) <= _KERNELS
        for each in classes
    )


def realised(plan: NetworkPlan, facts: Facts) -> NetworkPlan:
    """Choose the emulator of impairments: netem if available and sufficient, else the WAN emulator.

    A plan that already has the WAN emulator is unchanged.
    """
    return plan if facts.netem and kernel_suffices(plan) else emulated(plan)


def kernels(plan: NetworkPlan) -> Iterator[str]:
    """Give the names of classes that netem impairs."""
    for shaper in plan.shapers:
        yield from (each.name for each in shaper.classes if each.impaired and not each.emulated)


def seeded(plan: NetworkPlan, seed: int) -> NetworkPlan:
    """Change the seed of a plan's random impairments."""
    return configured(plan.model_copy(update={"seed": seed}))


def emulated(plan: NetworkPlan) -> NetworkPlan:
    """Move a plan's impairments to the WAN emulator, unless it has none or already has one."""
    if configuration(plan) is not None:
        return plan
    shapers = tuple(_marked(plan, shaper) for shaper in plan.shapers)
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
    """Configure the plan's WAN emulator from its shapers."""
    others = tuple(each for each in plan.daemons if not isinstance(each, WanDaemon))
    if not any(link.wire for link in plan.links):
        return plan
    daemon = WanDaemon(node=EMULATOR, name=EMULATOR, config=_config(plan))
    return plan.model_copy(update={"daemons": (*others, daemon)})


def configuration(plan: NetworkPlan) -> WanConfig | None:
    """Give the WAN emulator's configuration, if the plan has one."""
    return next((each.config for each in plan.daemons if isinstance(each, WanDaemon)), None)


def unwired(plan: NetworkPlan) -> Iterator[str]:
    """Give the names of classes that need the WAN emulator on links without it."""
    wired = {end for link in plan.links if link.wire for end in link.ends}
    for shaper in plan.shapers:
        for each in shaper.classes:
            if each.impaired and each.emulated and (shaper.node, shaper.interface) not in wired:
                yield each.name


def _receiving(plan: NetworkPlan) -> Iterator[NodePlan]:
    """Make hosts receive from the emulator in their own threads (threaded NAPI).

    Otherwise the emulator's thread would do the receive processing, and send packets late. Nodes
    with a daemon receive datagrams, which cost less than waking a thread.
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


def _marked(plan: NetworkPlan, shaper: ShaperPlan) -> ShaperPlan:
    """Say what of a shaper the emulator does.

    Queues at hosts and gateways hold back who sends (TCP small queues), and a rate that classes
    share needs one tree: both remain HTB's.
    """
    internet = any(each.role == "internet" and each.name == shaper.node for each in plan.nodes)
    queues = internet and shaper.rate is None and any(each.impaired for each in shaper.classes)
    update = {"emulated": True, "queue_emulated": queues}
    classes = tuple(each.model_copy(update=update) for each in shaper.classes)
    return shaper.model_copy(update={"classes": classes})


def _impaired(shapers: tuple[ShaperPlan, ...], end: tuple[str, str]) -> bool:
    return any(each.impaired for each in _classes(shapers, end))


def _classes(shapers: tuple[ShaperPlan, ...], end: tuple[str, str]) -> list[ClassPlan]:
    """Classes of packets that leave by an interface, the longest source prefix first.

    Marks do not leave the node. The class of unmarked packets has the same impairments as the
    marked ones, and stands for all of them.
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
    queue = int(plan.queue or 0)
    if plan.trace is not None:
        return Bottleneck(trace=plan.trace, queue_bytes=queue)
    if plan.queue_emulated and plan.rate is not None:
        return Bottleneck(rate_bit_per_s=max(1, round(plan.rate)), queue_bytes=queue)
    return None


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
