"""Configuration of `hawserd wan`, the WAN emulator (schemas/wan-config.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.base import OMIT_NONE, Configuration, Network, Part, Place, omit
from hawser.spec.topology import Distribution

Carries = Literal["both", "forward", "reverse"]
Direction = Literal["forward", "reverse"]
Probability = Annotated[float, Field(ge=0, le=1)]


class Wire(Part):
    """A cable in which the emulator stands: its two interfaces."""

    name: str
    ends: tuple[str, str]
    carries: Carries = "both"
    """Directions that are the emulator's; the kernel passes the other on."""


class Bottleneck(Part):
    """A rate with a queue in front of it: a fixed one, or one that varies."""

    rate_bit_per_s: Annotated[int | None, OMIT_NONE] = None
    trace: Annotated[str | None, OMIT_NONE] = None
    """Times at which packets may pass, in mahimahi's format."""
    queue_bytes: int


class Jitter(Part):
    """Variation of the delay."""

    deviation_us: float
    distribution: Distribution = Distribution.NORMAL
    correlation: Probability = 0.0
    reorders: bool = False
    """Whether packets may overtake one another."""


class BernoulliLoss(Part):
    """Each packet is lost with the same probability."""

    model: Literal["bernoulli"] = "bernoulli"
    probability: Probability


class GilbertElliottLoss(Part):
    """Loss in bursts: a chain of two states that may change before each packet."""

    model: Literal["gilbert_elliott"] = "gilbert_elliott"
    to_bad: Probability
    to_good: Probability
    good: Probability = 0.0
    bad: Probability = 1.0


class Reordering(Part):
    """Packets that are held back, so that others overtake them."""

    share: Probability
    by_us: float


class Path(Part):
    """What happens to packets of one direction of a wire: to all, or to those of a prefix."""

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
    """Of all chance."""
    buffer_bytes: Annotated[int, omit(256_000_000)] = 256_000_000
    """Bytes of packets under way."""
    wires: tuple[Wire, ...]
    emulated: Annotated[tuple[Path, ...], Field(alias="paths")]
    """What happens to packets, by direction and prefix."""
