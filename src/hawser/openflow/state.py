"""What each switch should have, and what it said last. Shared by all threads of the controller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from hawser.openflow.errors import Errors
from hawser.overlay.config.openflow import ControllerConfig, OpenFlowSwitch
from hawser.overlay.sdwan.flow import Flow, flows


@dataclass(frozen=True)
class Count:
    """Packets of one flow since it was installed; bytes of IP, without the Ethernet header."""

    packets: int = 0
    bytes: int = 0


@dataclass
class Switch:
    """One switch."""

    config: OpenFlowSwitch
    wanted: Mapping[int, Flow] = field(default_factory=dict)
    """Flows by cookie."""
    session: object | None = None
    """The latest connection; what earlier ones have to say no longer counts."""
    installed: bool = False
    """Whether the switch has exactly the flows that it should have."""
    fault: str | None = None
    """Why it has not."""
    counts: Mapping[int, Count] = field(default_factory=dict)
    """By cookie, as read last."""
    errors: Errors = field(default_factory=Errors)
    """What is done with the ICMP errors that it hands over."""
    changed: threading.Event = field(default_factory=threading.Event)
    """Set when there is something to do before the next reading is due."""

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
        """Let the switches have other entries. Which switches there are does not change.

        Raises:
            ValueError: it names other switches, or another control socket.
        """
        if _fixed(config) != _fixed(self.config):
            raise ValueError("expected the same control socket, and the same switches")
        tables = {each.name: _by_cookie(each) for each in config.switches}
        with self._condition:
            self.config = config
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

    def switches(self) -> Iterable[Switch]:
        """Give all switches, in the configuration's order."""
        return tuple(self._switches[each.name] for each in self.config.switches)

    def begin(self, name: str, session: object) -> None:
        """Note that a switch is connected, by this session now."""
        with self._condition:
            switch = self._switches[name]
            switch.session, switch.installed = session, False

    def end(self, name: str, session: object, fault: str) -> None:
        """Note that a session is over. A switch may have begun another one before."""
        with self._condition:
            switch = self._switches[name]
            if switch.session is session:
                switch.session, switch.installed, switch.fault = None, False, fault
            self._condition.notify_all()

    def read(
        self, name: str, session: object, wanted: Mapping[int, Flow], counts: Mapping[int, Count]
    ) -> None:
        """Note what a switch has counted; it is as it should be if that is still what is wanted."""
        with self._condition:
            switch = self._switches[name]
            if switch.session is not session:
                return
            switch.counts, switch.fault = counts, None
            switch.installed = switch.wanted is wanted
            self._condition.notify_all()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition about the switches holds; False when it does not in time."""
        with self._condition:
            return self._condition.wait_for(condition, seconds)

    def settled(self) -> bool:
        """Whether every connected switch has what it should have."""
        return all(each.installed for each in self._switches.values() if each.connected)

    def ready(self) -> bool:
        """Whether every switch is connected and has what it should have."""
        return all(each.connected and each.installed for each in self._switches.values())


def _fixed(
    config: ControllerConfig,
) -> tuple[PurePosixPath, frozenset[tuple[str, PurePosixPath]]]:
    return config.control, frozenset((each.name, each.socket) for each in config.switches)


def _by_cookie(config: OpenFlowSwitch) -> dict[int, Flow]:
    return {flow.cookie: flow for flow in flows(config)}
