"""The sound parts of a scenario, so that their mistakes too are told in the first answer.

A field that is wrong is left out, and what it belongs to with it where it is needed. Nodes and ends
of the rest of a topology are checked, but not what follows from all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hawser.spec.chain import Chain, Function
from hawser.spec.explain import Loc
from hawser.spec.measurement import Measurement
from hawser.spec.model import Model, Name
from hawser.spec.overlay import Overlay
from hawser.spec.topology import Topology
from hawser.spec.tree import Items, Scalar, Table, Tree
from hawser.spec.validate import Issue, M, validate
from hawser.spec.workflow import Assertion, Event, Reference, Scenario


@dataclass(frozen=True)
class Parts:
    """What of a scenario is sound; None where a part is not, or not there."""

    whole: Scenario | None
    topology: Topology | None
    overlay: Overlay | None
    measurements: Mapping[str, Measurement]
    events: Mapping[int, Event]
    """By position."""
    functions: Mapping[str, Function]
    chains: Mapping[str, Chain]
    rest: Topology | None = None
    """Of a topology that is not sound, what is."""
    wrong: frozenset[Loc] = frozenset()
    """Fields left out: whatever is said of them only follows."""
    ends: Mapping[Loc, str] = field(default_factory=dict)
    """Ends of measurements that are not sound themselves."""

    @property
    def all_measured(self) -> bool:
        """Whether no measurement is missing."""
        return not any(loc[:1] == ("measurements",) for loc in self.wrong)

    def said(self, issue: Issue) -> bool:
        """Whether an issue is about a field that is wrong anyway."""
        return any(issue.loc[: len(loc)] == loc for loc in self.wrong)


class _Measurements(Model):
    measurements: dict[Name, Measurement] = {}


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
            dict(enumerate(scenario.events)),
            scenario.functions,
            scenario.chains,
        )
    wrong = frozenset(_field(issue.loc) for issue in issues if issue.loc[:1] != ("events",)) - {()}
    events, tree = _sound_items(Event, tree.get("events")), tree.without("events")
    pruned = _pruned(tree, wrong)
    kept = _pruned(pruned, {_entry(issue.loc) for issue in validate(Scenario, pruned)[1]} - {()})
    if any(loc[0] == "functions" for loc in wrong):
        kept = kept.without("chains")  # what they lead through is not all there
    measured = _sound(_Measurements, kept.only("measurements"))
    functions = _sound(_Functions, kept.only("functions"))
    chains = _sound(_Chains, kept.only("chains"))
    broken = any(loc[0] == "topology" for loc in wrong)
    topology = _sound(Topology, kept.get("topology"))
    found = measured.measurements if measured else {}
    return Parts(
        None,
        None if broken else topology,
        _sound(Overlay, _pruned(tree, {_group(loc) for loc in wrong} - {()}).get("overlay")),
        found,
        events,
        functions.functions if functions else {},
        chains.chains if chains else {},
        rest=topology if broken and not any(map(_names_nodes, wrong)) else None,
        wrong=wrong,
        ends=_ends(pruned, found),
    )


def expected(tree: Table) -> dict[Loc, Reference | Assertion]:
    """Give the references and assertions that are sound, without what is wrong in others."""
    references = _sound_items(Reference, tree.get("reference"))
    assertions = _sound_items(Assertion, tree.get("assert"), ("statistic", "min_n"))
    return {
        **{("reference", index): item for index, item in references.items()},
        **{("assert", index): item for index, item in assertions.items()},
    }


def _sound_items(model: type[M], tree: Tree | None, ignored: Collection[str] = ()) -> dict[int, M]:
    """Give the entries of a list that are sound, by position.

    Args:
        model: of an entry.
        tree: the list.
        ignored: fields that may be wrong, besides unknown ones: nothing else depends on them.
    """
    nodes = tree.nodes if isinstance(tree, Items) else ()
    found = {}
    for index, node in enumerate(nodes):
        if isinstance(node, Table):
            item, issues = validate(model, node)
            wrong = {_field(issue.loc) for issue in issues} - {()}
            if wrong and all(
                loc[0] in ignored or loc[0] not in model.model_fields for loc in wrong
            ):
                item = _sound(model, _pruned(node, wrong))
            if item is not None:
                found[index] = item
    return found


def _ends(tree: Table, sound: Mapping[str, Measurement]) -> dict[Loc, str]:
    measurements = tree.get("measurements")
    named = measurements.nodes if isinstance(measurements, Table) else {}
    return {
        ("measurements", name, end): node.value
        for name, measurement in named.items()
        if name not in sound and isinstance(measurement, Table)
        for end in ("from", "to")
        if isinstance(node := measurement.get(end), Scalar) and isinstance(node.value, str)
    }


def _sound(model: type[M], tree: Tree | None) -> M | None:
    return validate(model, tree)[0] if isinstance(tree, Table) else None


def _field(loc: Loc) -> Loc:
    """Give the field that a place belongs to: of a list, all of it."""
    at = next((at for at, step in enumerate(loc) if isinstance(step, int)), len(loc))
    return loc[:at]


_ENTRIES = (
    ("measurements",),
    ("functions",),
    ("chains",),
    ("topology", "nodes"),
    ("topology", "links"),
    ("topology", "internet", "ports"),
    ("topology", "internet", "paths"),
    ("topology", "internet", "bottlenecks"),
)
"""Mappings of which an entry can be left out."""


def _entry(loc: Loc) -> Loc:
    """Give the entry that a field belongs to, such as one measurement, if to one."""
    for start in _ENTRIES:
        if loc[: len(start)] == start and len(loc) > len(start):
            return loc[: len(start) + 1]
    return ()


def _names_nodes(loc: Loc) -> bool:
    """Tell whether something is wrong with the names of nodes: then nobody knows which exist."""
    return loc[:2] == ("topology", "nodes") and len(loc) <= 3


def _group(loc: Loc) -> Loc:
    """Give the path group that a field belongs to, if to one."""
    return loc[:3] if loc[:2] == ("overlay", "path_groups") and len(loc) > 2 else ()


def _pruned(tree: Table, locs: Iterable[Loc]) -> Table:
    for loc in locs:
        tree = _without(tree, loc)
    return tree


def _without(tree: Table, loc: Loc) -> Table:
    key, rest = str(loc[0]), loc[1:]
    if not rest:
        return tree.without(key)
    below = tree.get(key)
    return tree.put(key, _without(below, rest)) if isinstance(below, Table) else tree
