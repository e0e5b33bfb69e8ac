"""Wanted flows and last counters of every switch, shared by all threads of the controller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hawser.openflow.errors import Errors
from hawser.overlay.config.openflow import ControllerConfig, OpenFlowSwitch
from hawser.overlay.sdwan.flow import Flow, flows


@dataclass(frozen=True)
class Count:
    """Packets of one flow since it was installed, and their bytes without Ethernet headers."""

    packets: int = 0
    bytes: int = 0


@dataclass
class Switch:
    """One switch."""

    config: OpenFlowSwitch
    wanted: Mapping[int, Flow] = field(default_factory=dict)
    """Flows by cookie."""
    session: object | None = None
    """The latest connection; reports from earlier ones are ignored."""
    installed: bool = False
    """Whether the switch has exactly the wanted flows."""
    fault: str | None = None
    """Why the last session ended; None after a successful reading."""
    counts: Mapping[int, Count] = field(default_factory=dict)
    """Counters by cookie, as last read."""
    errors: Errors = field(default_factory=Errors)
    """Handles the ICMP errors that it sends to the controller."""
    changed: threading.Event = field(default_factory=threading.Event)
    """Set to start the next round early: the wanted flows or the connection changed."""
    removed: bool = False
    """Whether the configuration has it no more."""

    @property
    def connected(self) -> bool:
        """Whether it is connected now."""
        return self.session is not None


class State:
    """All switches, and the configuration in force."""

    def __init__(self, config: ControllerConfig) -> None:
        self._condition = threading.Condition()
        self._switches: dict[str, Switch] = {}
        self.config = config
        self.configure(config)

    def configure(self, config: ControllerConfig) -> None:
        """Replace the entries of all switches. Switches without a socket may come and go.

        Raises:
            ValueError: the configuration has other sockets, or another place to listen.
        """
        if _fixed(config) != _fixed(self.config):
            raise ValueError("expected the same sockets, and the same switches")
        tables = {each.name: _by_cookie(each) for each in config.switches}
        with self._condition:
            self.config = config
            for name in self._switches.keys() - tables.keys():
                gone = self._switches.pop(name)
                gone.removed = True
                gone.changed.set()
            for each in config.switches:
                switch = self._switches.setdefault(each.name, Switch(each))
                if dict(switch.wanted) != tables[each.name]:
                    switch.installed = False
                switch.config, switch.wanted = each, tables[each.name]
                switch.errors.configure(each)
                switch.changed.set()

    def switch(self, name: str) -> Switch:
        """Give a switch by its name. Its fields are replaced, never changed in place."""
        return self._switches[name]

    def find(self, name: str) -> Switch | None:
        """Give a switch by its name; None where there is none, or no longer."""
        return self._switches.get(name)

    def expected(self) -> frozenset[str]:
        """Give the names of switches that have no socket of their own."""
        with self._condition:
            switches = tuple(self._switches.values())
        return frozenset(each.config.name for each in switches if each.config.socket is None)

    def switches(self) -> Iterable[Switch]:
        """Give all switches, in the configuration's order."""
        with self._condition:
            return tuple(self._switches[each.name] for each in self.config.switches)

    def begin(self, name: str, session: object) -> Switch | None:
        """Record that a switch is connected by this session, and give it; None if unknown."""
        with self._condition:
            switch = self._switches.get(name)
            if switch is not None:
                switch.session, switch.installed = session, False
            return switch

    def end(self, name: str, session: object, fault: str) -> None:
        """Record that a session ended. The switch may already have opened another one."""
        with self._condition:
            switch = self._switches.get(name)
            if switch is not None and switch.session is session:
                switch.session, switch.installed, switch.fault = None, False, fault
            self._condition.notify_all()

    def read(
        self,
        name: str,
        session: object,
        wanted: Mapping[int, Flow],
        counts: Mapping[int, Count],
        *,
        same: bool = True,
    ) -> None:
        """Record a switch's counters.

        It counts as installed if it has the same flows, and `wanted` has not changed since.
        """
        with self._condition:
            switch = self._switches.get(name)
            if switch is None or switch.session is not session:
                return
            switch.counts, switch.fault = counts, None
            switch.installed = same and switch.wanted is wanted
            self._condition.notify_all()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition on the switches holds; False if it does not within `seconds`."""
        with self._condition:
            return self._condition.wait_for(condition, seconds)

    def settled(self) -> bool:
        """Whether every connected switch has its wanted flows."""
        return all(each.installed for each in self._switches.values() if each.connected)

    def ready(self) -> bool:
        """Whether every switch is connected and has its wanted flows."""
        return all(each.connected and each.installed for each in self._switches.values())


def _fixed(config: ControllerConfig) -> object:
    sockets = frozenset((each.name, each.socket) for each in config.switches if each.socket)
    return config.control, config.listen, config.relay, sockets


def _by_cookie(config: OpenFlowSwitch) -> dict[int, Flow]:
    return {flow.cookie: flow for flow in flows(config)}
