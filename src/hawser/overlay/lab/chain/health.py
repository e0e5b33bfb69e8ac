"""How the health of functions is checked, and where: by forwarders, and by classifiers.

A daemon of a function is asked over its control socket; of a program of others, the process is
watched. A function has more checks where packets pass more with it: a proxy, or both ends of a
tunnel. What is the kernel's alone has none, and is never down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from hawser.overlay.config.classifier import ClassifierConfig, Rule, RuledPath
from hawser.overlay.config.function import ServicePath
from hawser.overlay.config.health import (
    ByControl,
    ByProcess,
    Check,
    Function,
    PidFile,
    Socket,
)
from hawser.overlay.config.health import Instance as CheckedInstance
from hawser.overlay.lab.chain import bare
from hawser.overlay.lab.chain.layout import Instance, Layout, Led
from hawser.overlay.lab.plan import FIRST_RULE, ClassifierDaemon, NodePlan, RulePlan, pid_file
from hawser.spec.chain import FunctionKind, Steering
from hawser.spec.course import Course


def functions(layout: Layout, names: Iterable[str]) -> tuple[Function, ...]:
    """Give those of these functions whose health can be checked, with their checks."""
    return tuple(_checked(layout, name) for name in dict.fromkeys(names) if checks(layout, name))


def path(layout: Layout, led: Led, spi: int, course: Course) -> ServicePath | None:
    """Give a path with the functions that it depends on; None where none is ever down."""
    names = _checkable(layout, course)
    return ServicePath(spi=spi, fail=led.chain.fail, functions=names) if names else None


def classifiers(
    layout: Layout, nodes: Iterable[NodePlan], tables: dict[int, list[int]]
) -> Iterator[ClassifierDaemon]:
    """Give the classifiers of chains that are led by the kernel, at all nodes that have its rules.

    Args:
        layout: of all chains.
        nodes: with their rules.
        tables: routing tables to which rules lead the packets of a course, by its number.
    """
    found = [(led, number, c) for led in layout.led for number, c in led.courses.items()]
    for node in nodes:
        rules = list(enumerate(node.rules, FIRST_RULE))
        paths = [
            RuledPath(
                name=f"{led.name}:{course.direction}",
                fail=led.chain.fail,
                functions=names,
                rules=tuple(_rule(rule, priority) for priority, rule in own),
            )
            for led, number, course in found
            if (own := [each for each in rules if each[1].table in tables.get(number, ())])
            and (names := _checkable(layout, course))
        ]
        if paths:
            name = f"{node.name}.classifier"
            config = ClassifierConfig(
                control=PurePosixPath(f"{name}.sock"),
                functions=functions(layout, (name for each in paths for name in each.functions)),
                service_paths=tuple(paths),
            )
            yield ClassifierDaemon(node=node.name, name=name, config=config)


def _checkable(layout: Layout, course: Course) -> tuple[str, ...]:
    return tuple(name for name in course.functions if checks(layout, name))


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
    if not function.kind.bare and layout.steering_of(name) is Steering.NSH:
        yield _control(PurePosixPath(f"{instance.name}.sock"))
    if function.kind is FunctionKind.PROXY and function.command:
        yield Check(by=ByProcess(process=PidFile(pid_file=pid_file(instance.name))))
    if function.kind is FunctionKind.IPSEC:
        for end in bare.tunnels(layout):
            if instance.name in (end.node, end.peer):
                yield _control(end.control)
    if instance.proxy:
        yield _control(PurePosixPath(f"{instance.proxy}.sock"))


def _control(socket: PurePosixPath) -> Check:
    return Check(by=ByControl(control=Socket(socket=socket)))
