"""The elements of a workflow's clouds: caps, whole and as the lab has them, delays and prices."""

from __future__ import annotations

from hawser.report.tables import Table
from hawser.report.words import DASH
from hawser.spec.cloud import DEFAULTS, Cloud, Element, cap, full_cap, pieces
from hawser.spec.region import Figure
from hawser.spec.workflow import Workflow

COLUMNS = ("element", "kind", "cap", "cap here", "delay", "USD/h", "USD/GB")


def elements(workflow: Workflow) -> Table | None:
    """A row for each element and each set of values it has in some variant; None without any."""
    clouds = [v.scenario.cloud for v in workflow.variants if v.scenario.cloud is not None]
    rows = dict.fromkeys(
        _row(cloud, name, element) for cloud in clouds for name, element in cloud.elements.items()
    )
    if not rows:
        return None
    scales = dict.fromkeys(str(cloud.scale) for cloud in clouds if float(cloud.scale) < 1)
    scaled = f", caps scaled to {', '.join(scales)}" if scales else ""
    return Table(f"Elements of the cloud{scaled}", COLUMNS, tuple(rows), 2)


def _row(cloud: Cloud, name: str, element: Element) -> tuple[str, ...]:
    full, here = full_cap(cloud, element), cap(cloud, element)
    default = DEFAULTS[element.kind]
    number = pieces(element)
    each = f"{number} x " if number > 1 else ""
    hourly = _price(element.hourly_usd, default.hourly)
    return (
        name,
        element.kind + (f" ({element.tunnel})" if element.tunnel else ""),
        DASH if full is None else each + str(full),
        DASH if here is None else each + str(here),
        "regions" if element.delay is None else str(element.delay),
        hourly if hourly == DASH else each + hourly,
        _price(element.gb_usd, default.gb),
    )


def _price(given: float | None, default: Figure | None) -> str:
    if given is None:
        return DASH if default is None else f"{default.value:g}"
    return f"{given:g}"
