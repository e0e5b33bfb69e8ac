"""The workflow: one experiment, complete. `load` makes it from a file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hawser.spec.chain import Chain, Function
from hawser.spec.measurement import Measurement
from hawser.spec.model import Model, Name
from hawser.spec.overlay import Overlay
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel
from hawser.spec.units import Duration, Rate, Ratio, Size

Labels = dict[str, str]
"""Which value a variant takes on each axis: axis name -> value name."""


ELEMENT = r"^(link|path|port|bottleneck|function):.+$"


class Change(Model):
    """New values for a channel in both directions; what is left out stays."""

    rate: Rate | None = None
    """New rate, of an element that has one."""
    queue: Size | None = None
    """New bytes that may wait, of a link or path that has a rate."""
    delay: Duration | None = None
    """New constant one-way delay, of a link or path."""
    jitter: Duration | None = None
    """New standard deviation of the one-way delay, of a link or path."""
    loss: Ratio | None = None
    """New share of packets lost, of a link or path."""
    up: bool | None = None
    """False takes the element down, True brings it back; a function is killed."""


class Event(Model):
    """Something that happens while a measurement runs."""

    at: Duration
    """Time after the trial's first measurement starts."""
    element: Annotated[str, Field(pattern=ELEMENT)]
    """`link:NAME`, `path:NAME`, `port:NODE.PORT`, `bottleneck:NAME` or `function:NAME`."""
    change: Change
    """The values it takes."""


class Scenario(Model):
    """What one variant deploys and measures: everything resolved, nothing left to choose."""

    topology: Topology
    """Nodes and what joins them."""
    overlay: Overlay | None = None
    """The SD-WAN over the topology."""
    measurements: Annotated[dict[Name, Measurement], Field(min_length=1)]
    """What is measured, one after the other, in this order."""
    events: tuple[Event, ...] = ()
    """What happens while the measurements run."""
    tunnels: dict[Name, Tunnel] = {}
    """Tunnels of other people's software over the links, by name."""
    functions: dict[Name, Function] = {}
    """Service functions, by name."""
    chains: dict[Name, Chain] = {}
    """Service function chains, by name. Of several that a packet fits, the first leads it."""

    @property
    def disrupted(self) -> bool:
        """Whether events take something down."""
        return any(event.change.up is False for event in self.events)


class Variant(Model):
    """One point of the experiment."""

    labels: Labels
    scenario: Scenario


class Reference(Model):
    """A published figure, shown beside ours."""

    variant: Labels = {}
    """The variants it belongs to: those that carry all these labels."""
    metric: str
    """What is counted, such as `goodput`."""
    measurement: Name | None = None
    """The measurement that gives it; any that does if left out."""
    value: float
    """The published figure."""
    unit: str
    """The metric's unit, to be sure that the figures compare."""
    source: str
    """Where it is published."""


class Assertion(Model):
    """What must hold of the results; else the run ends with exit code 1."""

    variant: Labels = {}
    """The variants it must hold for: those that carry all these labels."""
    metric: str
    """What is counted, such as `goodput`."""
    measurement: Name | None = None
    """The measurement that gives it; every one that does if left out."""
    statistic: Literal["median", "mean", "min", "max"] = "median"
    """Of the variant, `median` or `mean`; of the trials tried, `min` (of all) or `max`."""
    relative_to: Labels = {}
    """Labels of the variant that the bounds are multiples of; it carries all others of its own."""
    across: str | None = None
    """An axis over whose values the multiples are taken together, as their geometric mean."""
    at_least: float | None = None
    """In the metric's unit; a multiple where `relative_to` is given."""
    at_most: float | None = None
    """Likewise."""
    min_n: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Trials below which it is undecided; 3 if left out, 30 for a mean, 1 for min and max."""


Undecided = Literal["estimate", "pass", "fail"]
"""What becomes of an assertion that trials do not decide: as the value found says, or always so."""


class Workflow(Model):
    """An experiment: variants, how often each is tried, and what the results are held against."""

    name: Name
    title: str
    description: str = ""
    source: str | None = None
    """Where the experiment was first described."""
    driver: Literal["local"] = "local"
    repeat: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Trials of each variant."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Of the order of trials."""
    settle: Duration = Duration(1)
    """Time between the deployment of a trial and its first measurement."""
    variants: tuple[Variant, ...]
    reference: tuple[Reference, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    undecided: Undecided = "estimate"
    baseline: Labels = {}
    """Labels of the variant that every other is compared with; the leader's if left out."""
