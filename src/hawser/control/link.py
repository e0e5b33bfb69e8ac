"""What a gateway and its controller say to each other, over one connection.

The gateway connects (WebSocket, RFC 6455, over TLS 1.3; both show certificates of the controller's
authority) and begins with `Hello`. Messages are JSON in text frames. Statistics are packed in
binary ones (`hawser.control.series`), after a `Series` that names them, and kept by the gateway
until they are acknowledged.

    gateway                                   controller
    Hello        ------------------------->
                 <-------------------------   Configure
    Trying       ------------------------->                 it is in force, and the gateway healthy
                 <-------------------------   Confirm
    Outcome      ------------------------->                 kept, refused, or returned from
    Series, packed reports, Peers  ------->
                 <-------------------------   Acknowledge   they are stored
    Renew        ------------------------->
                 <-------------------------   Renewed
                 <-------------------------   Measure         an idle path, by trains of packets
    Measured     ------------------------->                   what it would carry

An OpenFlow switch has a connection of its own (`SWITCH_PATH`), which the gateway makes for it. It
begins with `SwitchHello`, which is said again where it changes; binary frames carry the bytes of
OpenFlow, both ways.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from hawser.control.series import NAME
from hawser.overlay.config.bridge import Stations

SERVER_NAME = "controller.hawser.internal"
"""The controller's name in its certificate. Names of branches have no dot."""
REVOKED = 4403
"""Close code: the gateway is not, or no longer, part of the network."""
MISUSED = 4400
"""Close code: what the gateway sent is not this protocol, or another version of it."""
REPLACED = 4409
"""Close code: the gateway has connected once more."""
PROTOCOL = 2
"""Version of these messages."""
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of a message; a configuration of 200 branches has less than a tenth."""
SWITCH_PATH = "/openflow"
"""Path of the connection of a gateway's OpenFlow switch."""
MAX_SERIES = 4096
"""Series of one gateway."""

Text = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Run = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
SeriesName = Annotated[str, Field(pattern=NAME, max_length=200)]
Pem = Annotated[str, Field(max_length=65536, pattern=r"^[^\x00]*$")]


class Message(BaseModel):
    """A frozen message. Fields that a newer program adds are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Hello(Message):
    """Who the gateway is, and what it does now."""

    kind: Literal["hello"] = "hello"
    protocol: int
    software: Text
    """Version of the gateway's programs."""
    time: float
    """The gateway's clock, seconds since 1970."""
    capabilities: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """What its machine can do, by the names of `hawser doctor`."""
    applied: Digest | None = None
    """The configuration that it keeps; None if it has none yet."""
    applied_version: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    measures: bool = False
    """Whether it takes `Measure`."""


class Configure(Message):
    """A configuration to try."""

    kind: Literal["configure"] = "configure"
    version: int
    """Version of the network that it follows from."""
    digest: Digest
    document: str
    """JSON of the gateway's configuration; its paths are relative to the gateway's directory."""
    expected: tuple[str, ...] = ()
    """Branches whose gateways are connected: packets should reach them."""


class Trying(Message):
    """The configuration is in force and the gateway healthy: may it stay?"""

    kind: Literal["trying"] = "trying"
    digest: Digest


class Confirm(Message):
    """It may stay."""

    kind: Literal["confirm"] = "confirm"
    digest: Digest


class Outcome(Message):
    """What became of a configuration."""

    kind: Literal["outcome"] = "outcome"
    digest: Digest
    version: Annotated[int, Field(ge=0, lt=2**31)]
    result: Literal["kept", "refused", "returned"]
    """`refused`: the daemon did not accept it. `returned`: it was in force, and the one before is
    again."""
    detail: Text = ""


class Peers(Message):
    """Other branches, and whether packets reach them."""

    kind: Literal["peers"] = "peers"
    up: Annotated[dict[Text, bool], Field(max_length=1024)]


class Series(Message):
    """Names of the values in the packed reports that follow."""

    kind: Literal["series"] = "series"
    run: Run
    """The run of the agent that numbers these reports."""
    names: Annotated[tuple[SeriesName, ...], Field(max_length=MAX_SERIES)]
    dropped: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Reports of this run that the agent had no room to keep."""


class Acknowledge(Message):
    """Reports are stored: the agent need not keep them any more."""

    kind: Literal["acknowledge"] = "acknowledge"
    run: Run
    sequence: Annotated[int, Field(ge=0, lt=2**63)]
    """All of that run up to this one."""


class Renew(Message):
    """Asks for another certificate."""

    kind: Literal["renew"] = "renew"
    request: Pem
    """Certificate signing request."""


class Renewed(Message):
    """A certificate."""

    kind: Literal["renewed"] = "renewed"
    certificate: Pem


class Place(Message):
    """A member path, from the gateway's end."""

    peer: Annotated[str, Field(max_length=63)]
    """Branch at the other end."""
    group: Annotated[int, Field(ge=0, le=255)]
    member: Annotated[int, Field(ge=0, le=255)]


class Measure(Message):
    """Asks what an idle path would carry."""

    kind: Literal["measure"] = "measure"
    place: Place
    port: Annotated[float, Field(gt=0)]
    """Declared rate of the path's port, bit/s."""
    seconds: Annotated[float, Field(gt=0, le=60)]
    """Over which trains are spread. They take at most 1 % of the port in that time."""


class Measured(Message):
    """What an idle path would carry, in the direction to the peer. Rates are bit/s."""

    kind: Literal["measured"] = "measured"
    place: Place
    available: Annotated[float, Field(ge=0)] = 0.0
    low: Annotated[float, Field(ge=0)] = 0.0
    high: Annotated[float, Field(ge=0)] = 0.0
    """Bounds of the 95 % interval."""
    trains: Annotated[int, Field(ge=0)] = 0
    """That the estimate rests on."""
    error: Text = ""
    """Why there is no estimate."""


class SwitchHello(Message):
    """What the gateway's OpenFlow switch should have."""

    kind: Literal["switch"] = "switch"
    protocol: int
    digest: Digest | None = None
    """Configuration that the gateway has or tries, whose entries are the switch's."""
    stations: Annotated[dict[Text, Stations], Field(max_length=64)] = {}
    """Ethernet addresses, by the names of WAN ports."""


FromGateway = Hello | Trying | Outcome | Peers | Series | Renew | Measured
FromController = Configure | Confirm | Renewed | Acknowledge | Measure

_FROM_GATEWAY: TypeAdapter[FromGateway] = TypeAdapter(
    Annotated[FromGateway, Field(discriminator="kind")]
)
_FROM_CONTROLLER: TypeAdapter[FromController] = TypeAdapter(
    Annotated[FromController, Field(discriminator="kind")]
)


def from_gateway(text: str) -> FromGateway:
    """Read a message.

    Raises:
        ValueError: it is none.
    """
    return _FROM_GATEWAY.validate_json(text)


def from_controller(text: str) -> FromController:
    """Read a message.

    Raises:
        ValueError: it is none.
    """
    return _FROM_CONTROLLER.validate_json(text)
