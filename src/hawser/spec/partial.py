"""The valid parts of a scenario that has errors.

Checks that need a valid model still run on these parts, so that the first run reports as many
errors as possible. An invalid field is dropped, along with the entry it belongs to if that entry
requires it. In the rest of a topology, nodes and ends are checked, but nothing that depends on the
whole topology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hawser.spec.chain import Chain, Function
from hawser.spec.explain import Loc
from hawser.spec.measurement import Measurement
from hawser.spec.model import Model, Name
from hawser.spec.overlay import Overlay
from hawser.spec.published import PublishedItem
from hawser.spec.topology import Topology
from hawser.spec.tree import Items, Scalar, Table, Tree
from hawser.spec.validate import Issue, M, validate
from hawser.spec.workflow import Assertion, Event, Reference, Scenario


@dataclass(frozen=True)
class Parts:
    """The valid parts of a scenario. A part is None if it is invalid or absent."""

    whole: Scenario | None
    topology: Topology | None
    overlay: Overlay | None
    measurements: Mapping[str, Measurement]
    events: Mapping[int, Event]
    """Events by position in the list."""
    functions: Mapping[str, Function]
    chains: Mapping[str, Chain]
    rest: Topology | None = None
    """The valid rest of a topology that is invalid as a whole."""
    wrong: frozenset[Loc] = frozenset()
    """Fields that were dropped. Further issues about them would only be consequential errors."""
    ends: Mapping[Loc, str] = field(default_factory=dict)
    """Node names at the ends of measurements that are otherwise invalid."""

    @property
    def all_measured(self) -> bool:
        """Whether no measurement was dropped."""
        return not any(loc[:1] == ("measurements",) for loc in self.wrong)

    def said(self, issue: Issue) -> bool:
        """Whether an issue concerns a field that is already reported as invalid."""
        return any(issue.loc[: len(loc)] == loc for loc in self.wrong)


class _Measurements(Model):
    measurements: dict[Name, Measurement] = {}


class _Functions(Model):
    functions: dict[Name, Function] = {}


class _Chains(Model):
    chains: dict[Name, Chain] = {}


def parts(scenario: Scenario | None, tree: Table, issues: Iterable[Issue]) -> Parts:
    """Return the valid parts of a scenario.

    Args:
        scenario: the whole scenario if it is valid, else None.
        tree: the tree it was parsed from.
        issues: the validation errors.
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
        kept = kept.without("chains")  # chains refer to functions, and some of those are missing
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
    """Return the references and assertions that are valid, if need be without minor fields."""
    references = _sound_items(Reference, tree.get("reference"))
    assertions = _sound_items(Assertion, tree.get("assert"), ("statistic", "min_n"))
    return {
        **{("reference", index): item for index, item in references.items()},
        **{("assert", index): item for index, item in assertions.items()},
    }


def published_items(tree: Table) -> dict[Loc, PublishedItem]:
    """Return the published items that are valid, if need be without minor fields."""
    items = _sound_items(PublishedItem, tree.get("published"), ("finding", "differs"))
    return {("published", index): item for index, item in items.items()}


def _sound_items(model: type[M], tree: Tree | None, ignored: Collection[str] = ()) -> dict[int, M]:
    """Return, by position, the entries of a list that are valid, if need be without some fields.

    Args:
        model: model of one entry.
        tree: the list.
        ignored: fields that are dropped if invalid, because no check depends on them. Unknown
            fields are dropped too.
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
    """Return the field that a location belongs to. A location inside a list is the whole list."""
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
"""Mappings from which a single entry can be dropped."""


def _entry(loc: Loc) -> Loc:
    """Return the entry that a field belongs to, such as one measurement; empty if none."""
    for start in _ENTRIES:
        if loc[: len(start)] == start and len(loc) > len(start):
            return loc[: len(start) + 1]
    return ()


def _names_nodes(loc: Loc) -> bool:
    """Tell whether an error concerns the node names, so that the set of nodes is unknown."""
    return loc[:2] == ("topology", "nodes") and len(loc) <= 3


def _group(loc: Loc) -> Loc:
    """Return the path group that a field belongs to; empty if none."""
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
