"""Checks across fields, which a single field's model cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.attack import attacks, attacks_arrive
from hawser.spec.check.bottleneck import bottlenecks
from hawser.spec.check.capture import captures
from hawser.spec.check.chain import chains, functions
from hawser.spec.check.classifier import classifier
from hawser.spec.check.cloud import cloud as cloud
from hawser.spec.check.collector import collector
from hawser.spec.check.controller import controller
from hawser.spec.check.event import events, times
from hawser.spec.check.family import families, link_mtus
from hawser.spec.check.measurement import ends, nodes, roles, settings, sound_ends
from hawser.spec.check.nat import nats
from hawser.spec.check.overlay import overlay, overlay_on
from hawser.spec.check.path_group import path_groups
from hawser.spec.check.reach import reachability
from hawser.spec.check.replay import replay
from hawser.spec.check.topology import topology
from hawser.spec.check.tunnel import tunnels
from hawser.spec.partial import Parts
from hawser.spec.validate import Issue


def scenario(parts: Parts) -> Iterator[Issue]:
    """Find the errors of one variant, or of its valid parts.

    What measurements do to each other and whom they reach is judged only where all else is right.
    """
    issues = [i for i in (*_alone(parts), *_together(parts)) if not parts.said(i)]
    if not any(issue.loc[0] in ("topology", "functions", "tunnels") for issue in issues):
        issues += _chained(parts)
    yield from issues
    if parts.whole is not None and not issues:
        yield from roles(parts.whole)
        yield from families(parts.whole)
        yield from reachability(parts.whole)
        yield from attacks_arrive(parts.whole)


def _alone(parts: Parts) -> Iterator[Issue]:
    yield from settings(parts.measurements)
    if parts.rest is not None:
        yield from topology(parts.rest)
    if parts.topology is not None:
        yield from topology(parts.topology)
        yield from link_mtus(parts.topology)
        yield from bottlenecks(parts.topology)
        yield from functions(parts.functions, parts.topology)
    if parts.overlay is not None:
        yield from overlay(parts.overlay)


def _chained(parts: Parts) -> Iterator[Issue]:
    """Judge chains where what they pass is right."""
    if parts.topology is not None and parts.chains:
        topology_, tunnels_ = parts.topology, parts.whole.tunnels if parts.whole else {}
        yield from chains(parts.chains, parts.functions, topology_, parts.overlay, tunnels_)


def _together(parts: Parts) -> Iterator[Issue]:
    if parts.all_measured:
        yield from times(parts.events, parts.measurements)
    if parts.rest is not None:
        yield from nodes({**parts.ends, **sound_ends(parts.measurements)}, parts.rest)
    if parts.topology is None:
        return
    yield from nodes(parts.ends, parts.topology)
    yield from ends(parts.measurements, parts.topology)
    yield from events(parts.events, parts.topology, parts.functions, parts.chains)
    if parts.whole is not None:
        yield from tunnels(parts.whole)
        yield from captures(parts.whole.capture, parts.topology)
        yield from attacks(parts.whole.attacks, parts.topology, parts.whole.capture)
        yield from replay(parts.whole)
        yield from collector(parts.whole)
        yield from controller(parts.whole)
    if parts.overlay is not None:
        misfits = list(overlay_on(parts.topology, parts.overlay))
        yield from misfits
        wrong = list(path_groups(parts.topology, parts.overlay))
        yield from wrong
        if not misfits:
            yield from classifier(parts.topology, parts.overlay)
        if not misfits and not wrong:
            yield from nats(parts.topology, parts.overlay)
