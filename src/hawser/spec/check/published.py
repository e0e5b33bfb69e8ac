"""Published items: the publication, table, metrics, measurements and variants exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hawser.spec.check.result import carried_labels
from hawser.spec.check.topology import near
from hawser.spec.data.publications import PUBLICATIONS
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.metric import METRICS, units
from hawser.spec.published import PublishedItem
from hawser.spec.validate import Issue
from hawser.spec.variants import Variants
from hawser.spec.workflow import Labels, Scenario


def published(
    items: Mapping[Loc, PublishedItem],
    variants: Variants,
    resolved: Sequence[tuple[Labels, Scenario | None]],
) -> Iterator[Issue]:
    """Check published items, by the place where they are written."""
    scenarios = [scenario for _, scenario in resolved]
    measured = {name for one in scenarios if one is not None for name in one.measurements}
    for loc, item in items.items():
        yield from _place(loc, item)
        yield from carried_labels((*loc, "variant"), item.variant, variants)
        for index, metric in enumerate(item.metrics):
            if not units(metric):
                yield Issue((*loc, "metrics", index), near(METRICS, metric, "metric"))
        for index, name in enumerate(item.measurements):
            if name not in measured and None not in scenarios:
                yield Issue((*loc, "measurements", index), near(measured, name, "measurement"))


def _place(loc: Loc, item: PublishedItem) -> Iterator[Issue]:
    """Check that the publication is known and has this table or figure."""
    publication = PUBLICATIONS.get(item.document)
    if publication is None:
        yield Issue((*loc, "document"), near(PUBLICATIONS, item.document, "publication"))
    elif item.item in publication.others:
        message = (
            f"found {found(item.item)}, which shows no result: {publication.others[item.item]}"
        )
        yield Issue((*loc, "item"), message)
    elif item.item not in publication.results:
        yield Issue((*loc, "item"), near(publication.results, item.item, "result of it"))
