"""The controller of a lab's SD-WAN, which gateways join as they would in production."""

from __future__ import annotations

from hawser.spec.model import Model, Name


class Controller(Model):
    """A controller (SSC). Gateways join it with a token each and get their configurations from it.

    Without one, the lab configures its gateways itself.
    """

    node: Name
    """The node that it runs on, which has an internet port and is no gateway."""
