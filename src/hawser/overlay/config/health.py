"""Health checks of service functions, in configurations of forwarders and classifiers."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.base import OMIT_NONE, Mac, Part, Place, omit

Milliseconds = Annotated[int, Field(ge=5, le=60_000)]
Threshold = Annotated[int, Field(ge=1, le=100)]


class Socket(Part):
    """A control socket."""

    socket: Place


class ByControl(Part):
    """A daemon of this project answers at its control socket, and is ready."""

    control: Socket


class PidFile(Part):
    """A file with a process id."""

    pid_file: Place


class ByProcess(Part):
    """A process runs, and is not stopped."""

    process: PidFile


class Through(Part):
    """A function beside this node, and what it forwards."""

    interface: str
    mac: Mac
    """The function's there."""
    address: IPv4Address
    """Of this node, to which the function forwards."""
    returns: Annotated[str | None, OMIT_NONE] = None
    """Interface by which packets come back, if it is another."""


class ByForwarding(Part):
    """A packet that is sent to the function comes back."""

    forwarding: Through


class Endpoint(Part):
    """Where a service listens."""

    address: str
    """Address and port."""


class ByTcp(Part):
    """A TCP connection is accepted."""

    tcp: Endpoint


class HttpEndpoint(Endpoint):
    """What a web server is asked for."""

    path: Annotated[str, omit("/")] = "/"


class ByHttp(Part):
    """An HTTP request is answered with a status below 500."""

    http: HttpEndpoint


class Check(Part):
    """A health check."""

    by: ByControl | ByProcess | ByForwarding | ByTcp | ByHttp
    """How it is done."""
    interval_ms: Annotated[Milliseconds, omit(250)] = 250
    """Between checks while all succeed."""
    retry_ms: Annotated[Milliseconds, omit(20)] = 20
    """Between checks after a failure and while the instance is down."""
    timeout_ms: Annotated[Milliseconds, omit(250)] = 250
    """After which a check without an answer has failed."""
    rise: Annotated[Threshold, omit(2)] = 2
    """Successes in a row that bring the check up."""
    fall: Annotated[Threshold, omit(2)] = 2
    """Failures in a row that take it down."""


class Instance(Part):
    """An instance of a function, which is up when all its checks are."""

    name: str
    checks: tuple[Check, ...]


class Function(Part):
    """A function, which is up when one of its instances is."""

    name: str
    instances: tuple[Instance, ...]


Fail = Literal["closed", "open"]
"""What becomes of packets while a function is down: dropped, or led past all functions."""
