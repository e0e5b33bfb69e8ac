"""Configuration of `hawserd function classifier` (schemas/classifier-config.schema.json)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.base import (
    OMIT_EMPTY,
    OMIT_NONE,
    Configuration,
    Network,
    Part,
    Place,
    PortRange,
    omit,
)
from hawser.overlay.config.health import Fail, Function


class Rule(Part):
    """A routing rule; what is left out matches everything."""

    priority: Annotated[int, Field(ge=1, le=32_765)]
    """Lower ones come first."""
    table: Annotated[int, Field(ge=1)]
    """Routing table that leads along the path."""
    family: Annotated[Literal["ipv4", "ipv6"], omit("ipv4")] = "ipv4"
    incoming: Annotated[str | None, OMIT_NONE] = None
    """Interface that packets come in by."""
    source: Annotated[Network | None, OMIT_NONE] = None
    destination: Annotated[Network | None, OMIT_NONE] = None
    protocol: Annotated[int | None, OMIT_NONE] = None
    source_ports: Annotated[PortRange | None, OMIT_NONE] = None
    destination_ports: Annotated[PortRange | None, OMIT_NONE] = None


class RuledPath(Part):
    """A path that routing rules put packets on."""

    name: str
    fail: Annotated[Fail, omit("closed")] = "closed"
    """What happens while a function is down: rules are removed (`open`) or drop (`closed`)."""
    functions: tuple[str, ...]
    rules: tuple[Rule, ...]


class ClassifierConfig(Configuration):
    """The classifier of chains that the kernel leads."""

    control: Place
    """Unix socket of the control API."""
    functions: Annotated[tuple[Function, ...], OMIT_EMPTY] = ()
    """Functions whose health is checked."""
    service_paths: tuple[RuledPath, ...]
