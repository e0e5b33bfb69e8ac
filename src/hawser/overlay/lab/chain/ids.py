"""Intrusion detection sensors of a lab, and their way to the firewall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from hawser.overlay.config.function import (
    Evidence,
    Ids,
    IdsConfig,
    Port,
    Records,
    RestClient,
    Trust,
    Verdicts,
)
from hawser.overlay.lab.chain.layout import OWN_PORT, Instance, Layout
from hawser.overlay.lab.plan import IdsDaemon, RoutePlan
from hawser.spec.chain import Detection


def daemon(layout: Layout, instance: Instance, ports: tuple[Port, ...]) -> IdsDaemon:
    """Give a sensor with its model; records and blocks are in the lab's directory."""
    name, detection = instance.name, instance.function.detection or Detection()
    model = f"{name}.model.json"
    settings = Ids(
        model=PurePosixPath(model) if detection.model else None,
        records=Records(folder=PurePosixPath(f"{name}.records")),
        verdicts=_verdicts(layout, name, detection) if detection.model else None,
    )
    config = IdsConfig(control=PurePosixPath(f"{name}.sock"), ports=ports, ids=settings)
    files = {model: detection.model} if detection.model else {}
    return IdsDaemon(node=name, name=name, config=config, files=files)


def routes(layout: Layout) -> Iterator[tuple[Instance, RoutePlan]]:
    """Give the routes between sensors and their firewalls, by way of the node beside both."""
    for sensor in layout.every():
        for firewall in _firewalls(layout, sensor.function.detection):
            yield sensor, _route(sensor, firewall)
            yield firewall, _route(firewall, sensor)


def _route(source: Instance, target: Instance) -> RoutePlan:
    own, there = source.ends[0], target.ends[1]
    return RoutePlan(to=there.network, via=own.ip, interface=OWN_PORT)


def _firewalls(layout: Layout, detection: Detection | None) -> tuple[Instance, ...]:
    """Give the instances of a sensor's firewall: any of them may get a flow."""
    name = detection.firewall if detection else None
    return tuple(layout.instances.get(name, ())) if name else ()


def _verdicts(layout: Layout, name: str, detection: Detection) -> Verdicts:
    """Give what is done with malicious flows: reported only, if no chain has the firewall."""
    firewalls = tuple(_client(each) for each in _firewalls(layout, detection))
    needed = detection.evidence
    return Verdicts(
        firewalls=firewalls,
        blocks_file=PurePosixPath(f"{name}.blocks.json"),
        scope=detection.scope,
        evidence=Evidence(
            flows=needed.flows,
            within_s=round(needed.within),
            records=needed.records,
            packets=needed.packets,
        ),
        lifetime_s=max(2, round(detection.lifetime)),
        per_minute=detection.per_minute,
        allow=tuple(str(network) for network in detection.allow),
        dry_run=not firewalls,
    )


def _client(firewall: Instance) -> RestClient:
    """Give the way to a firewall; its certificate and token are made by the driver."""
    return RestClient(
        address=f"{firewall.ends[1].ip}:{firewall.function.rest}",
        token_file=PurePosixPath("pki", f"{firewall.name}.token"),
        tls=Trust(authority=PurePosixPath("pki", "ca.pem"), name=firewall.name),
    )
