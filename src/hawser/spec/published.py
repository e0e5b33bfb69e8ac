"""What of a publication a workflow reproduces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hawser.spec.model import Model, Name

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class PublishedItem(Model):
    """A table, figure or section of a publication, and which results are its counterpart.

    References and assertions with a claim belong to the item if they are about one of its metrics
    and do not contradict its labels.
    """

    document: str
    """Key of the publication, such as `lee`; see `hawser.spec.data.publications`."""
    item: str
    """The table or figure, such as `Table I`."""
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    """Metrics that it shows."""
    measurements: tuple[Name, ...] = ()
    """Measurements that give them. Default: all that do."""
    variant: dict[str, str] = {}
    """Only variants with these labels are its counterpart."""
    finding: Text
    """What the publication says it shows, in one or two sentences."""
    differs: tuple[Text, ...] = ()
    """In what the workflow differs from the published experiment."""

    def concerns(self, labels: dict[str, str]) -> bool:
        """Whether labels do not contradict those of the item."""
        return all(labels.get(axis, value) == value for axis, value in self.variant.items())
