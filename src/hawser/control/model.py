"""What the control API answers. Fields that a newer daemon adds are ignored."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """A frozen answer of a daemon."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class GroupStatus(Answer):
    """One path group to a peer: one connection of the transport."""

    id: int
    up: bool
    subflows: int = 0
    """Member paths in use."""
    reconnects: int = 0
    """How often the connection was made again."""
    remote: str | None = None


class PeerStatus(Answer):
    """Another branch, as this gateway sees it."""

    branch: str
    up: bool
    """Whether packets reach it now: at least one group is up."""
    groups: tuple[GroupStatus, ...] = ()


class GatewayStatus(Answer):
    """State of a gateway (`GET /v1/status`)."""

    version: str
    role: str
    branch: str
    uptime_s: float
    ready: bool
    """Whether it carries packets: its TUN device is there and it listens."""
    peers: tuple[PeerStatus, ...] = ()

    @property
    def connected(self) -> bool:
        """Whether every group to every peer is up."""
        return self.ready and all(group.up for peer in self.peers for group in peer.groups)


class FieldError(Answer):
    """One thing wrong with a configuration."""

    field: str
    found: object = None
    expected: object = None

    def __str__(self) -> str:
        return f"{self.field}: found {self.found!r}, expected {self.expected}"
