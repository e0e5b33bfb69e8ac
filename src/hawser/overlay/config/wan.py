"""Configuration of `hawserd wan`, the WAN emulator (schemas/wan-config.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hawser.overlay.config.base import (
    OMIT_NONE,
    Configuration,
    Network,
    Part,
    Place,
    omit,
    replace_old_names,
)
from hawser.spec.topology import Distribution

Carries = Literal["both", "forward", "reverse"]
Direction = Literal["forward", "reverse"]
Probability = Annotated[float, Field(ge=0, le=1)]


class Wire(Part):
    """Two interfaces: frames received at one are sent at the other."""

    name: str
    ends: tuple[str, str]
    carries: Carries = "both"
    """Directions that the emulator forwards; the kernel forwards the other."""


class Bottleneck(Part):
    """A rate, constant or from a trace, behind a queue that drops at the tail."""

    rate_bit_per_s: Annotated[int | None, OMIT_NONE] = None
    trace: Annotated[str | None, OMIT_NONE] = None
    """Delivery opportunities in mahimahi's format."""
    queue_bytes: int


class Jitter(Part):
    """Variation of the delay (jitter)."""

    deviation_us: float
    distribution: Distribution = Distribution.NORMAL
    correlation: Probability = 0.0
    reorders: bool = False
    """Whether packets may overtake one another."""


class BernoulliLoss(Part):
    """Independent losses."""

    model: Literal["bernoulli"] = "bernoulli"
    probability: Probability


class GilbertElliottLoss(Part):
    """Bursts of losses: a Markov chain of two states, with a transition before each packet."""

    model: Literal["gilbert_elliott"] = "gilbert_elliott"
    to_bad: Probability
    to_good: Probability
    good: Probability = 0.0
    bad: Probability = 1.0


class Reordering(Part):
    """Packets with an extra delay, so that later packets overtake them."""

    share: Probability
    extra_delay_us: float

    @model_validator(mode="before")
    @classmethod
    def _old_names(cls, data: object) -> object:
        return replace_old_names(data, by_us="extra_delay_us")


class Path(Part):
    """Impairments of packets in one direction of a wire: of all, or of those of a prefix."""

    name: str
    wire: str
    direction: Direction
    source: Annotated[Network | None, OMIT_NONE] = None
    destination: Annotated[Network | None, OMIT_NONE] = None
    bottleneck: Annotated[Bottleneck | None, OMIT_NONE] = None
    delay_us: Annotated[float, omit(0.0)] = 0.0
    jitter: Annotated[Jitter | None, OMIT_NONE] = None
    loss: Annotated[
        BernoulliLoss | GilbertElliottLoss | None, Field(discriminator="model"), OMIT_NONE
    ] = None
    duplication: Annotated[Probability, omit(0.0)] = 0.0
    reordering: Annotated[Reordering | None, OMIT_NONE] = None


class WanConfig(Configuration):
    """One WAN emulator."""

    control: Place
    """Unix socket of the control API."""
    seed: int = 0
    """Seed of all random streams."""
    buffer_bytes: Annotated[int, omit(256_000_000)] = 256_000_000
    """Memory for packets in flight, bytes."""
    wires: tuple[Wire, ...]
    emulated: Annotated[tuple[Path, ...], Field(alias="paths")]
    """Impairments, by direction and prefix."""
