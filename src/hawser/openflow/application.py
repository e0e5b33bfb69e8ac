"""The os-ken application, and where switches connect: Unix sockets, one per switch, or TLS.

A connection is identified by its socket, which lies in a directory that only root may enter, by
its certificate, or by the network's controller, which passes it on.
os-ken's own listener is never started: it would accept connections from anybody on all addresses.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar, cast

from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller as os_ken_controller  # registers what Datapath reads
from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.controller.ofp_handler import OFPHandler
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3, ofproto_v1_3_parser

from hawser.openflow import message
from hawser.openflow.session import Session
from hawser.openflow.state import State
from hawser.openflow.tls import Listener

_NAME_S = 5.0
_NAME_MOST = 128
"""Bytes of a switch's name."""

_log = logging.getLogger(__name__)


class _Stream(socket.socket):
    """A Unix stream that ignores TCP options: os-ken sets TCP_NODELAY on every connection."""

    def setsockopt(self, level: int, *arguments: Any) -> None:  # noqa: ANN401
        """Set an option, unless it is one of TCP."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *arguments)


class Connection(os_ken_controller.Datapath):  # type: ignore[misc] # os-ken has no types
    """A switch's connection. `name` is the switch whose socket accepted it."""

    def __init__(self, stream: socket.socket, name: str) -> None:
        self.name = name
        self.session: Session | None = None
        super().__init__(_Stream(fileno=stream.detach()), name)

    def _recv_loop(self) -> None:
        """Also end the sending thread: with native threads os-ken would wait for it forever."""
        try:
            super()._recv_loop()
        finally:
            self.set_state(DEAD_DISPATCHER)
            self.send(b"", close_socket=True)


class Handshake(OFPHandler):  # type: ignore[misc]
    """Hello, features and echo as os-ken does them, on Unix sockets instead of TCP."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    def start(self) -> None:
        """Listen for every switch."""
        OSKenApp.start(self)
        config, expected = self._state.config, self._state.expected
        for switch in config.switches:
            if switch.socket is not None:
                hub.spawn(_listen, Path(switch.socket), switch.name)
        if config.listen is not None:
            hub.spawn(Listener(config.listen, expected, _hand).run)
        if config.relay is not None:
            hub.spawn(_relayed, Path(config.relay), expected)


_Handler = TypeVar("_Handler", bound=Callable[..., None])


def _handles(events: object, states: object) -> Callable[[_Handler], _Handler]:
    """Give os-ken's decorator for event handlers a type."""
    return cast("Callable[[_Handler], _Handler]", set_ev_cls(events, states))


class FlowTables(OSKenApp):  # type: ignore[misc]
    """Opens a session for every switch that connects, and passes its messages to the session."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    @_handles(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def connection(self, event: Any) -> None:  # noqa: ANN401
        """Begin or end a session."""
        datapath = event.datapath
        if event.state == DEAD_DISPATCHER:
            if datapath.session is not None:
                datapath.session.deliver(None)
        else:
            datapath.session = Session(datapath, self._state)
            hub.spawn(datapath.session.run)

    @_handles(
        [
            ofp_event.EventOFPBarrierReply,
            ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventONFBundleCtrlMsg,
            ofp_event.EventOFPErrorMsg,
            ofp_event.EventOFPRoleReply,
        ],
        MAIN_DISPATCHER,
    )
    def answer(self, event: Any) -> None:  # noqa: ANN401
        """Pass an answer to the session."""
        if event.msg.datapath.session is not None:
            event.msg.datapath.session.deliver(event.msg)

    @_handles(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def handed_over(self, event: Any) -> None:  # noqa: ANN401
        """Translate an ICMP error and send the result through the switch."""
        datapath = event.msg.datapath
        switch = self._state.find(datapath.name)
        if switch and (answer := switch.errors.take(bytes(event.msg.data))):
            datapath.send_msg(message.sending(datapath, *answer))


def start(state: State) -> None:
    """Start the applications. They run in their own threads until the process ends."""
    message.read_briefly(ofproto_v1_3_parser)
    manager = AppManager.get_instance()
    applications = [manager.instantiate(each, state) for each in (Handshake, FlowTables)]
    for application in applications:
        application.start()


def _hand(stream: socket.socket, name: str) -> None:
    hub.spawn(_serve, stream, name)


def _listen(path: Path, name: str) -> None:
    path.unlink(missing_ok=True)  # left by a controller that was killed
    hub.StreamServer((str(path),), lambda stream, _: _serve(stream, name)).serve_forever()


def _relayed(path: Path, expected: Callable[[], Collection[str]]) -> None:
    """Serve switches that the network's controller passes on, each after its name."""

    def serve(stream: socket.socket, _: object) -> None:
        name = _name_of(stream)
        if name in expected():
            _serve(stream, name)
        else:
            _log.warning("refused a switch: %r is none here", name)
            stream.close()

    path.unlink(missing_ok=True)
    hub.StreamServer((str(path),), serve).serve_forever()


def _name_of(stream: socket.socket) -> str:
    """Read a name up to its newline, and nothing after it."""
    stream.settimeout(_NAME_S)
    name = b""
    with contextlib.suppress(OSError):
        while len(name) < _NAME_MOST and (part := stream.recv(1)) != b"\n":
            if not part:
                break
            name += part
        stream.settimeout(None)
    return name.decode(errors="replace")


def _serve(stream: socket.socket, name: str) -> None:
    with contextlib.closing(Connection(stream, name)) as connection:
        connection.serve()
