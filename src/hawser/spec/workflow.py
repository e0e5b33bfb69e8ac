"""The workflow: one experiment, complete. `load` makes it from a file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from hawser.spec.attack import Attacks
from hawser.spec.capture import Capture
from hawser.spec.chain import Chain, Function
from hawser.spec.cloud import Cloud
from hawser.spec.collector import Collector
from hawser.spec.controller import Controller
from hawser.spec.measurement import Measurement
from hawser.spec.model import Model, Name
from hawser.spec.overlay import Overlay
from hawser.spec.published import PublishedItem
from hawser.spec.replay import Replay
from hawser.spec.topology import Topology
from hawser.spec.tunnel import Tunnel
from hawser.spec.units import Duration, Rate, Ratio, Size

Labels = dict[str, str]
"""Which value a variant takes on each axis: axis name -> value name."""


ELEMENT = r"^(link|path|port|bottleneck|function|controller):.+$"


class Change(Model):
    """New values for both directions of an element; values left out stay the same."""

    rate: Rate | None = None
    """New rate of an element that has one."""
    queue: Size | None = None
    """New queue size of a link or path that has a rate."""
    delay: Duration | None = None
    """New constant one-way delay of a link or path."""
    jitter: Duration | None = None
    """New standard deviation of the one-way delay of a link or path."""
    loss: Ratio | None = None
    """New loss ratio of a link or path."""
    up: bool | None = None
    """False takes the element down, or kills a function or controller; true brings it back."""
    network: dict[str, JsonValue] | None = None
    """Change of a controller's network by a call of its API, as a JSON merge patch (RFC 7396)."""


class Event(Model):
    """Something that happens while a measurement runs."""

    at: Duration
    """Time since the start of the trial's first measurement."""
    element: Annotated[str, Field(pattern=ELEMENT)]
    """`link:NAME`, `path:NAME`, `port:NODE.PORT`, `bottleneck:NAME`, `function:NAME` or
    `controller:NODE`."""
    change: Change
    """New values of the element."""

    @property
    def kind(self) -> str:
        """Kind of the element."""
        return self.element.partition(":")[0]


class Scenario(Model):
    """What one variant deploys and measures, completely resolved."""

    topology: Topology
    """Nodes and the links between them."""
    overlay: Overlay | None = None
    """The SD-WAN over the topology."""
    controller: Controller | None = None
    """The controller that the SD-WAN's gateways join. Default: the lab configures them."""
    measurements: Annotated[dict[Name, Measurement], Field(min_length=1)]
    """Measurements by name, in the order in which they run."""
    events: tuple[Event, ...] = ()
    """What happens while the measurements run."""
    tunnels: dict[Name, Tunnel] = {}
    """Third-party VPN tunnels over links, by name."""
    functions: dict[Name, Function] = {}
    """Service functions, by name."""
    chains: dict[Name, Chain] = {}
    """Service function chains, by name. A packet that matches several passes the first."""
    cloud: Cloud | None = None
    """Elements of a cloud, which become nodes, links and tunnels."""
    capture: dict[Name, Capture] = {}
    """Captures of packets at ports while measurements run, by name."""
    attacks: Attacks | None = None
    """Attacks and benign traffic with labels, beside the measurements."""
    replay: Replay | None = None
    """A capture with labels that is sent through a chain, beside the measurements."""
    collector: Collector | None = None
    """Where the records of all sensors go. Default: they stay in the sensors' logs."""

    @property
    def disrupted(self) -> bool:
        """Whether events take something down that packets pass."""
        return any(event.change.up is False and event.kind != "controller" for event in self.events)


class Variant(Model):
    """One point of the experiment."""

    labels: Labels
    scenario: Scenario


class Reference(Model):
    """A published value, shown beside the measured one."""

    variant: Labels = {}
    """The variants that it applies to: those with all these labels."""
    metric: str
    """Name of the metric, such as `goodput`."""
    measurement: Name | None = None
    """The measurement of the metric. Default: any that has it."""
    value: float
    """The published value."""
    unit: str
    """Unit of the value; it must be the metric's."""
    source: str
    """Publication and place of the value."""


LINE_FROM = 3
"""Points that a line needs to be judged."""


class Assertion(Model):
    """A condition on the results; if it fails, the run ends with exit code 1."""

    variant: Labels = {}
    """The variants that it applies to: those with all these labels."""
    metric: str
    """Name of the metric, such as `goodput`."""
    measurement: Name | None = None
    """The measurement of the metric. Default: every one that has it."""
    statistic: Literal["median", "mean", "min", "max", "sd"] = "median"
    """Statistic to check: `median` or `mean` of the variant, or `min`, `max` or standard deviation
    (`sd`) of the trials."""
    relative_to: Labels = {}
    """Labels in which the variant of comparison differs; bounds are then multiples of its value."""
    across: str | None = None
    """Axis over whose values to take the geometric mean of the multiples."""
    linear_in: Name | None = None
    """Axis whose values are numbers: the bounds apply to the coefficient of determination (R^2) of
    the least-squares line through the statistics of its variants, 0 to 1."""
    at_least: float | None = None
    """Lower bound, in the metric's unit; with `relative_to` a multiple."""
    at_most: float | None = None
    """Upper bound, likewise."""
    min_n: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Fewest trials for a decision. Default: 3; 30 for a mean, 1 for min and max."""
    claim: Annotated[str | None, StringConstraints(min_length=1, max_length=300)] = None
    """What a publication found and this condition tests, as a sentence for its readers."""


Undecided = Literal["estimate", "pass", "fail"]
"""Result of an assertion that trials do not decide: by the estimate, or always the same."""


class Until(Model):
    """As many trials of each variant as a precision needs."""

    until: Ratio
    """Half of the width of the median's 95 % interval, as a share of the median, at most."""
    metric: str
    """Of which the median is meant, such as `goodput`."""
    measurement: Name | None = None
    """The measurement that gives it; every one that does if left out."""
    least: Annotated[int, Field(ge=5, le=10_000)] = 10
    """Trials of each variant before the precision is looked at."""
    limit: Annotated[int, Field(ge=5, le=10_000)]
    """Trials of each variant at most, also where that precision is not reached."""


class Workflow(Model):
    """An experiment: variants, number of trials, and what results are compared with."""

    name: Name
    title: str
    description: str = ""
    source: str | None = None
    """Publication that the experiment is from."""
    driver: Literal["local"] = "local"
    repeat: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Trials of each variant; with `until`, the least."""
    until: Until | None = None
    """What more trials are made for."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of the order of trials."""
    settle: Duration = Duration(1)
    """Time between the deployment of a trial and its first measurement."""
    variants: tuple[Variant, ...]
    published: tuple[PublishedItem, ...] = ()
    reference: tuple[Reference, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    undecided: Undecided = "estimate"
    baseline: Labels = {}
    """Labels of the variant that all others are compared with. Default: the best one."""
    rates: float = 1.0
    """Factor by which all rates of the file were multiplied for a run."""
