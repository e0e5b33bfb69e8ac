"""The parts of a workflow file that are the same for all variants, and the names of the others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from hawser.spec.model import Model, Name
from hawser.spec.published import PublishedItem
from hawser.spec.units import Duration
from hawser.spec.workflow import Assertion, Labels, Reference, Scenario, Undecided, Until


class Compared(Model):
    """What variants are compared with."""

    baseline: Labels = {}
    """Labels of the variant that all others are compared with. Default: the best one."""


class Results(Compared):
    """What results are compared with."""

    published: tuple[PublishedItem, ...] = ()
    """Tables and figures that the workflow reproduces, for `hawser reproductions`."""
    reference: tuple[Reference, ...] = ()
    """Published values, shown beside the measured ones."""
    assertions: Annotated[tuple[Assertion, ...], Field(alias="assert")] = ()
    """Conditions on the results; if one fails, the run ends with exit code 1."""
    undecided: Undecided = "estimate"
    """Result of assertions that trials do not decide: by the estimate, or always the same."""


def _kind_of_repeat(value: object) -> str:
    return "[until]" if isinstance(value, dict | Until) else "[count]"


class Header(Results):
    """The fields of a file that do not vary."""

    hawser: Literal[1]
    """Version of the file format."""
    name: Name
    """Name of the experiment, and first part of the names of its runs."""
    title: str
    """One line, the title of the report."""
    description: str = ""
    """What the experiment shows, and how it differs from its source."""
    source: str | None = None
    """Publication that the experiment is from."""
    driver: Literal["local"] = "local"
    """Where nodes come from."""
    repeat: Annotated[
        Annotated[int, Field(ge=1, le=10_000), Tag("[count]")] | Annotated[Until, Tag("[until]")],
        Discriminator(_kind_of_repeat),
    ] = 5
    """Trials of each variant, or the precision that they are to reach."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of the order of trials."""
    settle: Duration = Duration(1)
    """Time between the deployment of a trial and its first measurement."""


RESULTS = tuple(info.alias or name for name, info in Results.model_fields.items())
_OWN = tuple(name for name in Header.model_fields if name not in Results.model_fields)
HEADER = (*_OWN, *RESULTS)
SCENARIO = tuple(Scenario.model_fields)
STRUCTURE = ("extends", "vars", "variants")
EVERYTHING = (*HEADER, *STRUCTURE, *SCENARIO)
VARIED = ("vars", *SCENARIO)
"""What a variant may override."""
