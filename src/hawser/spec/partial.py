"""The sound parts of a scenario, so that their mistakes too are told in the first answer.

A part that is no model is left out and the others are checked. Of measurements, path groups,
functions and chains only those that are wrong themselves are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hawser.spec.chain import Chain, Function
from hawser.spec.explain import Loc
from hawser.spec.measurement import Measurement
from hawser.spec.model import Model, Name
from hawser.spec.overlay import Overlay
from hawser.spec.topology import Topology
from hawser.spec.tree import Table, Tree
from hawser.spec.validate import Issue, M, validate
from hawser.spec.workflow import Event, Scenario


@dataclass(frozen=True)
class Parts:
    """What of a scenario is sound; None where a part is not, or not there."""

    whole: Scenario | None
    topology: Topology | None
    overlay: Overlay | None
    measurements: Mapping[str, Measurement]
    events: Sequence[Event]
    functions: Mapping[str, Function]
    chains: Mapping[str, Chain]


class _Measurements(Model):
    measurements: dict[Name, Measurement] = {}


class _Events(Model):
    events: tuple[Event, ...] = ()


class _Functions(Model):
    functions: dict[Name, Function] = {}


class _Chains(Model):
    chains: dict[Name, Chain] = {}


def parts(scenario: Scenario | None, tree: Table, issues: Iterable[Issue]) -> Parts:
    """Give the sound parts of a scenario.

    Args:
        scenario: all of it, where all is sound.
        tree: what it was to be made of.
        issues: why it was not.
    """
    if scenario is not None:
        return Parts(
            scenario,
            scenario.topology,
            scenario.overlay,
            scenario.measurements,
            scenario.events,
            scenario.functions,
            scenario.chains,
        )
    wrong = [issue.loc for issue in issues]
    for loc in {_single(loc) for loc in wrong} - {()}:
        tree = _without(tree, loc)
    if any(loc[0] == "functions" for loc in wrong if loc):
        tree = tree.without("chains")  # what they lead through is not all there
    measured = _sound(_Measurements, tree.only("measurements"))
    events = _sound(_Events, tree.only("events"))
    functions = _sound(_Functions, tree.only("functions"))
    chains = _sound(_Chains, tree.only("chains"))
    return Parts(
        None,
        _sound(Topology, tree.get("topology")),
        _sound(Overlay, tree.get("overlay")),
        measured.measurements if measured else {},
        events.events if events else (),
        functions.functions if functions else {},
        chains.chains if chains else {},
    )


def _sound(model: type[M], tree: Tree | None) -> M | None:
    return validate(model, tree)[0] if isinstance(tree, Table) else None


def _single(loc: Loc) -> Loc:
    """Give the measurement, function, chain or path group that a field belongs to, if to one."""
    if loc[0] in ("measurements", "functions", "chains") and len(loc) > 1:
        return loc[:2]
    return loc[:3] if loc[:2] == ("overlay", "path_groups") and len(loc) > 2 else ()


def _without(tree: Table, loc: Loc) -> Table:
    key, rest = str(loc[0]), loc[1:]
    if not rest:
        return tree.without(key)
    below = tree.get(key)
    return tree.put(key, _without(below, rest)) if isinstance(below, Table) else tree
