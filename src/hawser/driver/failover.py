"""What happens to chains when a function ends, and when it runs again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from hawser.driver import daemon, state
from hawser.driver.base import DriverError
from hawser.driver.daemon import SupervisedDaemon, SupervisedProcess
from hawser.driver.roles import ROLES
from hawser.node.base import Node, NodeError
from hawser.node.change import RuleChange, Settings
from hawser.overlay.config.function import SffConfig
from hawser.overlay.lab.chain.failure import configurations, passed_by
from hawser.overlay.lab.plan import NetworkPlan

_POLL = 0.01
_FORWARDING = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding")


class Failover:
    """Tells the forwarders of a lab which instances of functions run, and rules with them.

    A function that is killed is known at once: its process is a child of this one. So its chain
    fails as it is meant to within some milliseconds.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        directory: Path,
        plan: NetworkPlan,
        daemons: Mapping[str, SupervisedDaemon],
    ) -> None:
        self._nodes = nodes
        self._directory = directory
        self._plan = plan
        self._daemons = daemons
        self._programs: dict[str, SupervisedProcess] = {}
        self._down: set[str] = set()
        self._lock = threading.Lock()
        self._passed_by: frozenset[int] = frozenset()
        """Routing tables that nothing is led to."""
        self._told: dict[str, SffConfig] = dict(configurations(plan, ()))

    def watch(self, programs: Iterable[SupervisedProcess]) -> None:
        """Be told of every function's end, and of its start.

        Args:
            programs: those of others that are functions.
        """
        for each in self._daemons.values():
            if ROLES[each.role].served:
                each.when_changed = self._changed
        for program in programs:
            self._programs[program.name] = program
            program.when_changed = self._ended

    def _ended(self, name: str, running: bool) -> None:
        """What the kernel forwards past a program that has ended would be nobody's work."""
        if running and not self._programs[name].ready():
            return
        plan = next(node for node in self._plan.nodes if node.name == name)
        forwarding = {key: "1" if running else "0" for key in _FORWARDING if key in plan.sysctl}
        with contextlib.suppress(NodeError):  # the lab is being removed
            self._nodes[name].apply(Settings(values=forwarding))
        self._changed(name, running)

    def _changed(self, name: str, running: bool) -> None:
        daemon = self._daemons.get(name)
        if running and daemon is not None and not self._ready(daemon):
            return
        with self._lock:
            (self._down.discard if running else self._down.add)(name)
            for forwarder, config in configurations(self._plan, self._down):
                if config != self._told[forwarder]:
                    self._tell(forwarder, config)
            self._lead()

    def _lead(self) -> None:
        """Let rules lead packets to functions, or past them where a chain fails open."""
        before, after = self._passed_by, passed_by(self._plan, self._down)
        self._passed_by = after
        for node in self._nodes.values():
            with contextlib.suppress(NodeError):  # the lab is being removed
                node.apply(RuleChange(tables=after - before, there=False))
                node.apply(RuleChange(tables=before - after, there=True))

    def _tell(self, forwarder: str, config: SffConfig) -> None:
        """Tell a forwarder; one that does not answer now finds it when it is started again."""
        self._told[forwarder] = config
        try:
            daemon.reconfigure(self._daemons[forwarder], self._directory, config)
        except DriverError:
            state.write_config(self._directory, forwarder, config.placed(self._directory))

    def _ready(self, function: SupervisedDaemon) -> bool:
        """Wait until a function serves packets; False when it ended again."""
        while function.running():
            if daemon.is_ready(function):
                return True
            time.sleep(_POLL)
        return False
