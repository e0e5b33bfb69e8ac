"""One connection of a switch: read its flows, compare, install what is missing.

Every reading of the counters also repairs the flows. Whatever happened before (a first connection,
a restart of either side, somebody's `ovs-ofctl del-flows`), a round ends with the wanted flows.
Flows that are already correct are not touched and keep their counters.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from hawser.openflow import message
from hawser.openflow.errors import PER_SECOND
from hawser.openflow.message import Datapath, Message
from hawser.openflow.state import Count, State, Switch
from hawser.overlay.config.openflow import Role
from hawser.overlay.sdwan.flow import Flow

_ANSWER_WITHIN = 5.0
"""Seconds after which a silent switch is considered gone; it answers in milliseconds."""
_INBOX = 4096
"""Most queued messages; a full table of 16 000 flows arrives in about 200."""
_AT_ONCE = 256
"""Changes written to the connection in one call."""
_ETHERNET = 14
"""Bytes of a frame's header."""
_SHARE = 0.1
"""Largest fraction of time spent reading one switch, ..."""
_LONGEST_S = 10.0
"""... unless it would then be read less often than this: flows that somebody removed are missing
until the next reading, and a busy machine can make a small table as slow to read as a large one."""

_log = logging.getLogger(__name__)


class SwitchError(Exception):
    """A switch refused, did not answer, or is gone."""


class RefusedError(SwitchError):
    """A switch refused a request."""


class Session:
    """One connection, from the handshake to its end."""

    def __init__(
        self,
        datapath: Datapath,
        state: State,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._datapath = datapath
        self._name: str = datapath.name
        self._state = state
        self._clock = clock
        self._inbox: queue.Queue[Message | None] = queue.Queue(_INBOX)
        self._role: Role | None = None
        """The role that the switch has given."""

    def deliver(self, reply: Message | None) -> None:
        """Queue a message from the switch; None means the connection ended. Thread-safe."""
        try:
            self._inbox.put_nowait(reply)
        except queue.Full:
            self._datapath.close()
        if reply is None and (switch := self._state.find(self._name)):
            switch.changed.set()  # wakes `_rest`

    def run(self) -> None:
        """Keep the switch's flows correct until the connection ends."""
        switch = self._state.begin(self._name, self)
        fault = "the session failed"
        try:
            if self._state.config.role is None:
                self._limit()
            while switch and not switch.removed:
                self._rest(switch, self._round(switch))
            _log.info("switch %s: is none of this controller any more", self._name)
        except SwitchError as error:
            fault = str(error)
            _log.warning("switch %s: %s", self._name, error)
        finally:
            self._state.end(self._name, self, fault)
            self._datapath.close()

    def _claim(self) -> bool:
        """Ask for the role that is wanted, if that has changed; tell whether flows may be changed.

        Raises:
            SwitchError: another controller is master, with a newer generation.
        """
        wanted = self._state.config.role
        if wanted is None:
            return True
        if wanted != self._role:
            request = message.role(
                self._datapath, master=wanted.master, generation=wanted.generation
            )
            try:
                self._ask(request)
            except RefusedError as error:
                raise SwitchError(f"generation {wanted.generation} is old: {error}") from error
            self._role = wanted
            if wanted.master:
                self._limit()
        return wanted.master

    def _limit(self) -> None:
        """Limit the switch's packet-ins to what `Errors` processes, if it supports meters."""
        *limits, barrier = message.limit(self._datapath, PER_SECOND)
        for each in limits:
            self._send(each)
        try:
            self._ask(barrier)
        except RefusedError as error:  # `Errors` limits them as well
            _log.info("switch %s has no meters: %s", self._name, error)

    def _round(self, switch: Switch) -> float:
        """Read the flows and install what is missing. Returns the seconds that reading took."""
        switch.changed.clear()
        master = self._claim()
        wanted, begun = switch.wanted, self._clock()
        found = self._read()
        took = self._clock() - begun
        same = found.keys() == wanted.keys()
        if master and not same:
            self._install(wanted, found)
        counts = {c: Count(*_counts(found[c])) if c in found else Count() for c in wanted}
        self._state.read(self._name, self, wanted, counts, same=master or same)
        return took

    def _rest(self, switch: Switch, took: float) -> None:
        """Wait until the next reading is due or the wanted flows change."""
        switch.changed.wait(pause(self._state.config.poll_s, took))

    def _read(self) -> dict[int, Any]:
        """Read the switch's flows, by cookie."""
        replies = self._ask(message.everything(self._datapath))
        return {found.cookie: found for reply in replies for found in reply.body}

    def _install(self, wanted: Mapping[int, Flow], found: Mapping[int, object]) -> None:
        """Replace the flows that differ, atomically: no packet sees a mixture of old and new."""
        datapath = self._datapath
        stale, new = found.keys() - wanted.keys(), wanted.keys() - found.keys()
        _log.info("switch %s: %d flows go, %d come", self._name, len(stale), len(new))
        self._ask(message.bundle_open(datapath))
        changes = message.changes(datapath, stale, (wanted[cookie] for cookie in new))
        while some := b"".join(islice(changes, _AT_ONCE)):
            if not datapath.send(some):
                raise SwitchError("is gone")
        self._ask(message.bundle_close(datapath))
        self._ask(message.bundle_commit(datapath))

    def _ask(self, request: Message) -> list[Message]:
        """Send a request and collect all parts of its answer.

        Raises:
            SwitchError: the switch refused, did not answer, or is gone.
        """
        self._send(request)
        deadline = self._clock() + _ANSWER_WITHIN
        parts: list[Message] = []
        more = True
        while more:
            part = self._next(deadline)
            if part.xid == request.xid:
                parts.append(part)
                more = bool(getattr(part, "flags", 0) & self._more(part))
        return parts

    def _more(self, part: Message) -> int:
        """Give the flag for more parts to follow; 0 for messages that have no such flag."""
        reply = self._datapath.ofproto_parser.OFPMultipartReply
        return int(self._datapath.ofproto.OFPMPF_REPLY_MORE) if isinstance(part, reply) else 0

    def _send(self, what: Message) -> None:
        if not self._datapath.send_msg(what):
            raise SwitchError("is gone")

    def _next(self, deadline: float) -> Message:
        try:
            reply = self._inbox.get(timeout=max(0.0, deadline - self._clock()))
        except queue.Empty:
            raise SwitchError(f"did not answer in {_ANSWER_WITHIN:g} s") from None
        if reply is None:
            raise SwitchError("is gone")
        if isinstance(reply, self._datapath.ofproto_parser.OFPErrorMsg):
            raise RefusedError(f"refused: error {_error(reply)}")
        return reply


def pause(poll_s: float, took: float) -> float:
    """Give the seconds from one reading of a switch to the next.

    Args:
        poll_s: wanted seconds; at least so many.
        took: seconds that the last reading took.
    """
    return max(poll_s, min(took / _SHARE, _LONGEST_S))


def _counts(found: Any) -> tuple[int, int]:  # noqa: ANN401 (os-ken has no types)
    """Packets and their bytes, without the Ethernet headers that the switch counts."""
    return found.packet_count, found.byte_count - _ETHERNET * found.packet_count


def _error(reply: Message) -> str:
    """Type and code (OpenFlow 1.3.5, 7.5.4); experimenter errors have `exp_type`, no code."""
    number = getattr(reply, "code", None)
    return f"type {reply.type}, code {reply.exp_type if number is None else number}"
