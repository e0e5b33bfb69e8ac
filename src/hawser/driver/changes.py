"""Changing a running lab: its shapers, and what becomes of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hawser.driver.base import DriverError
from hawser.overlay.plan import ClassPlan, NetworkPlan, ShaperPlan
from hawser.spec.workflow import Change

_DIRECTIONS = ("forward", "reverse")


@dataclass(frozen=True)
class ShaperChange:
    """One shaper before and after."""

    before: ShaperPlan | None
    """None where the interface had no shaper."""
    after: ShaperPlan
    up: dict[str, bool]
    """Classes to be taken down (False) or brought back."""


def planned(plan: NetworkPlan, element: str, change: Change) -> tuple[ShaperChange, ...]:
    """What a change of an element means, one entry a direction.

    Raises:
        DriverError: there is no such element, or it has no such value.
    """
    found = tuple(
        _changed(shaper, f"{element}:{direction}", change)
        for direction in _DIRECTIONS
        for shaper in plan.shapers
        if _carries(shaper, f"{element}:{direction}")
    )
    if found:
        return found
    return tuple(
        _changed(shaper, shaper.name, change, new=True) for shaper in _plain(plan, element)
    )


def applied(plan: NetworkPlan, changes: tuple[ShaperChange, ...]) -> NetworkPlan:
    """The plan after the changes."""
    shapers = list(plan.shapers)
    for change in changes:
        if change.before is None:
            shapers.append(change.after)
        else:
            shapers[shapers.index(change.before)] = change.after
    return plan.model_copy(update={"shapers": tuple(shapers)})


def elements(plan: NetworkPlan) -> tuple[str, ...]:
    """All elements that can be changed."""
    named = {name for shaper in plan.shapers for name in _names(shaper)}
    suffixes = tuple(f":{direction}" for direction in _DIRECTIONS)
    shaped = {name.rpartition(":")[0] for name in named if name.endswith(suffixes)}
    return tuple(sorted(shaped | {f"link:{link.name}" for link in plan.links}))


def _names(shaper: ShaperPlan) -> tuple[str, ...]:
    return (shaper.name, *(each.name for each in shaper.classes))


def _carries(shaper: ShaperPlan, name: str) -> bool:
    return name in _names(shaper)


def _plain(plan: NetworkPlan, element: str) -> tuple[ShaperPlan, ...]:
    """Shapers for a link that has none yet.

    Raises:
        DriverError: there is no such link either.
    """
    link = next((link for link in plan.links if f"link:{link.name}" == element), None)
    if link is None:
        known = ", ".join(elements(plan)) or "none"
        raise DriverError(f"no element {element!r} in this lab; there are: {known}")
    return tuple(
        ShaperPlan(
            node=node,
            interface=interface,
            name=f"{element}:{direction}",
            classes=(ClassPlan(name=f"{element}:{direction}"),),
        )
        for direction, (node, interface) in zip(_DIRECTIONS, link.ends, strict=True)
    )


def _changed(shaper: ShaperPlan, name: str, change: Change, *, new: bool = False) -> ShaperChange:
    single = len(shaper.classes) == 1
    values = {
        key: value
        for key, value in (("rate", change.rate), ("queue", change.queue))
        if value is not None
    }
    touched = [each for each in shaper.classes if each.name == name or shaper.name == name]
    after = shaper
    if shaper.name == name and not (single and shaper.classes[0].name == name):
        if change.queue is not None:
            raise DriverError(f"{name}: has no queue of its own; its paths have")
        after = shaper.model_copy(update=values)
    else:
        classes = tuple(
            each.model_copy(update=values) if each in touched else each for each in shaper.classes
        )
        after = shaper.model_copy(update={"classes": classes})
    up = {} if change.up is None else {each.name: change.up for each in touched}
    return ShaperChange(None if new else shaper, after, up)
