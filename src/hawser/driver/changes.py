"""Changes of a running lab: the shapers of an element before and after. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.driver.base import DriverError
from hawser.node.change import ShaperChange
from hawser.overlay.lab.plan import ClassPlan, LinkPlan, NetworkPlan, ShaperPlan
from hawser.spec.workflow import Change

DIRECTIONS = ("forward", "reverse")


def planned(plan: NetworkPlan, element: str, change: Change) -> tuple[ShaperChange, ...]:
    """What a change of an element means, forward first.

    An element has the shaper, or the classes, that carry its name and direction. Where a shaper
    has the name of the element and its classes have others (the paths into a port), the rate is
    the shaper's; queue, up and down are those of each class.

    Raises:
        DriverError: there is no such element.
    """
    found = tuple(_directions(plan, element, change))
    if not found:
        known = ", ".join(elements(plan)) or "none"
        raise DriverError(f"no element {element!r} in this lab; there are: {known}")
    return found


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
    shaped = {name.rpartition(":")[0] for name in named if name.endswith(DIRECTIONS)}
    return tuple(sorted(shaped | {_element(link) for link in plan.links}))


def _directions(plan: NetworkPlan, element: str, change: Change) -> Iterator[ShaperChange]:
    for place, direction in enumerate(DIRECTIONS):
        name = f"{element}:{direction}"
        shapers = [shaper for shaper in plan.shapers if name in _names(shaper)]
        for shaper in shapers:
            yield _changed(shaper, shaper, name, change)
        if not shapers and (bare := _bare(plan, element, place)) is not None:
            yield _changed(None, bare, name, change)


def _changed(
    before: ShaperPlan | None, shaper: ShaperPlan, name: str, change: Change
) -> ShaperChange:
    """Change what of a shaper carries a name; `before` is None where it is still to be made."""
    whole = shaper.name == name
    classes = tuple(
        _class(each, change, rate=each.name == name) if whole or each.name == name else each
        for each in shaper.classes
    )
    rate = change.rate if whole and change.rate is not None else shaper.rate
    touched = [each.name for each in shaper.classes if whole or each.name == name]
    up = {} if change.up is None else dict.fromkeys(touched, change.up)
    after = shaper.model_copy(update={"rate": rate, "classes": classes})
    return ShaperChange(before=before, after=after, up=up)


def _class(plan: ClassPlan, change: Change, *, rate: bool) -> ClassPlan:
    values = change.model_dump(include={"queue", "delay", "jitter", "loss"}, exclude_none=True)
    if rate and change.rate is not None:
        values["rate"] = change.rate
    return plan.model_copy(update=values)


def _bare(plan: NetworkPlan, element: str, end: int) -> ShaperPlan | None:
    """A shaper that limits nothing, for a link end that has none."""
    link = next((link for link in plan.links if _element(link) == element), None)
    if link is None:
        return None
    node, interface = link.ends[end]
    if any((each.node, each.interface) == (node, interface) for each in plan.shapers):
        return None
    name = f"{element}:{DIRECTIONS[end]}"
    return ShaperPlan(node=node, interface=interface, name=name, classes=(ClassPlan(name=name),))


def _element(link: LinkPlan) -> str:
    """Name of a link as an element; that of a WAN port is called after the port, `node.port`."""
    if ":" in link.name:
        return link.name
    return f"port:{link.name}" if "." in link.name else f"link:{link.name}"


def _names(shaper: ShaperPlan) -> tuple[str, ...]:
    return (shaper.name, *(each.name for each in shaper.classes))
