"""Health checks of functions, run by forwarders and classifiers.

Daemons are queried over their control sockets; of third-party programs the process is watched. A
function that depends on a proxy or on both ends of a tunnel has a check for each. Functions that
the kernel alone carries have none and are never down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from hawser.overlay.config.classifier import ClassifierConfig, Rule, RuledPath
from hawser.overlay.config.function import ServicePath as CheckedPath
from hawser.overlay.config.health import (
    ByControl,
    ByProcess,
    Check,
    Function,
    PidFile,
    Socket,
)
from hawser.overlay.config.health import Instance as CheckedInstance
from hawser.overlay.lab.chain import sfc_unaware
from hawser.overlay.lab.chain.layout import Instance, Layout, SteeredChain
from hawser.overlay.lab.plan import FIRST_RULE, ClassifierDaemon, NodePlan, RulePlan, pid_file
from hawser.spec.chain import FunctionKind, Steering
from hawser.spec.service_path import ServicePath


def functions(layout: Layout, names: Iterable[str]) -> tuple[Function, ...]:
    """Give the checks of those of these functions whose health can be checked."""
    return tuple(_checked(layout, name) for name in dict.fromkeys(names) if checks(layout, name))


def path(layout: Layout, steered: SteeredChain, spi: int, sfp: ServicePath) -> CheckedPath | None:
    """Give a path with the functions that it depends on; None if none of them can be down."""
    names = _checkable(layout, sfp)
    return CheckedPath(spi=spi, fail=steered.chain.fail, functions=names) if names else None


def classifiers(
    layout: Layout, nodes: Iterable[NodePlan], tables: dict[int, list[int]]
) -> Iterator[ClassifierDaemon]:
    """Give the classifiers of chains that the kernel steers, for all nodes with their rules.

    Args:
        layout: of all chains.
        nodes: with their rules.
        tables: by number of a service path, the routing tables that rules select for its packets.
    """
    found = [
        (steered, number, c)
        for steered in layout.steered
        for number, c in steered.service_paths.items()
    ]
    for node in nodes:
        rules = list(enumerate(node.rules, FIRST_RULE))
        paths = [
            RuledPath(
                name=f"{steered.name}:{sfp.direction}",
                fail=steered.chain.fail,
                functions=names,
                rules=tuple(_rule(rule, priority) for priority, rule in own),
            )
            for steered, number, sfp in found
            if (own := [each for each in rules if each[1].table in tables.get(number, ())])
            and (names := _checkable(layout, sfp))
        ]
        if paths:
            name = f"{node.name}.classifier"
            config = ClassifierConfig(
                control=PurePosixPath(f"{name}.sock"),
                functions=functions(layout, (name for each in paths for name in each.functions)),
                service_paths=tuple(paths),
            )
            yield ClassifierDaemon(node=node.name, name=name, config=config)


def _checkable(layout: Layout, sfp: ServicePath) -> tuple[str, ...]:
    return tuple(name for name in sfp.functions if checks(layout, name))


def _rule(rule: RulePlan, priority: int) -> Rule:
    return Rule(
        priority=priority,
        table=rule.table,
        family="ipv6" if rule.family == 6 else "ipv4",
        incoming=rule.incoming,
        source=rule.source,
        destination=rule.to,
        protocol=rule.protocol,
        source_ports=rule.source_ports,
        destination_ports=rule.destination_ports,
    )


def _checked(layout: Layout, name: str) -> Function:
    instances = layout.instances[name]
    by = [tuple(_checks(layout, name, each)) for each in instances]
    pairs = zip(instances, by, strict=True)
    return Function(
        name=name,
        instances=tuple(CheckedInstance(name=each.name, checks=found) for each, found in pairs),
    )


def checks(layout: Layout, name: str) -> bool:
    """Whether the health of a function can be checked. Its instances are all alike."""
    return any(_checks(layout, name, layout.instances[name][0]))


def _checks(layout: Layout, name: str, instance: Instance) -> Iterator[Check]:
    function = instance.function
    # A sensor's packets pass on in the kernel when its daemon is dead.
    aware = not function.kind.sfc_unaware and function.kind is not FunctionKind.IDS
    if aware and layout.steering_of(name) is Steering.NSH:
        yield _control(PurePosixPath(f"{instance.name}.sock"))
    if function.kind is FunctionKind.PROXY and function.command:
        yield Check(by=ByProcess(process=PidFile(pid_file=pid_file(instance.name))))
    if function.kind is FunctionKind.IPSEC:
        for end in sfc_unaware.tunnels(layout):
            if instance.name in (end.node, end.peer):
                yield _control(end.control)
    if instance.proxy:
        yield _control(PurePosixPath(f"{instance.proxy}.sock"))


def _control(socket: PurePosixPath) -> Check:
    return Check(by=ByControl(control=Socket(socket=socket)))
