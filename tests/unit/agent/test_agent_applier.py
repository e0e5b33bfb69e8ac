"""Applying configurations, with a daemon that is a record of what it was told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from hawser.agent.applier import Applier
from hawser.agent.bridge import GatewayBridge
from hawser.agent.daemon import GatewayDaemon, needs_restart
from hawser.agent.errors import AgentError
from hawser.agent.state import Joined, Kept, StateDirectory
from hawser.agent.steering import Chains, UnreachedError
from hawser.agent.trial import PATIENCE_S
from hawser.control.client import ControlError
from hawser.control.link import Configure, Confirm, Outcome, Trying
from hawser.control.model import GatewayStatus
from hawser.overlay.config.bridge import Bridge
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.steering import Steering
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType


def config(**settings: Any) -> GatewayConfig:  # noqa: ANN401 (JSON)
    branches = {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": ["a"],
            "lan": "l",
            "prefix": f"10.{n}.0.0/24",
        }
        for n in (1, 2)
    }
    ports = {
        f"gw{n}.a": {"address": f"192.0.2.{4 * n + 2}", "next_hop": f"192.0.2.{4 * n + 1}"}
        for n in (1, 2)
    }
    overlay = {"transport": "quic", "branches": branches} | settings
    network = Network.model_validate({"name": "acme", "overlay": overlay, "ports": ports})
    return configurations(fabric_of(network))["b1"]


def message(version: int, **settings: Any) -> Configure:  # noqa: ANN401 (JSON)
    document = config(**settings).model_dump_json()
    return Configure(version=version, digest=f"{version:064x}", document=document)


@dataclass
class Daemon:
    """A daemon that takes every configuration but those that it is told to refuse."""

    applied: list[GatewayConfig] = field(default_factory=list)
    refuses: bool = False
    healthy: bool = True
    stopped: int = 0

    def status(self) -> GatewayStatus | None:
        if not self.applied or not self.healthy:
            return None
        return GatewayStatus(role="gateway", branch="b1", version="1", uptime_s=1, ready=True)

    def apply(self, config: GatewayConfig) -> None:
        if self.refuses:
            self.refuses = False
            raise ControlError("422: peers[0].id: found 1, expected another")
        self.applied.append(config)

    def stop(self) -> None:
        self.stopped += 1


@dataclass
class Kernel:
    """Chains of a kernel that has some interfaces only."""

    applied: list[Steering | None] = field(default_factory=list)
    away: bool = False
    """Whether the function cannot be reached."""

    def apply(self, _config: GatewayConfig, steering: Steering | None) -> None:
        if steering is not None and steering.lan != "l":
            raise ControlError("service functions: there is no interface of this name")
        self.applied.append(steering)
        if steering is not None and self.away:
            raise UnreachedError("service functions: there is no interface fw0")


@dataclass
class Switch:
    """An OpenFlow switch that notes what is asked of it."""

    applied: list[tuple[Bridge | None, str | None, bool]] = field(default_factory=list)

    def apply(self, bridge: Bridge | None, digest: str | None = None, *, install: bool) -> None:
        self.applied.append((bridge, digest and digest[-1], install))


class Machine:
    """An applier, its daemon and a clock."""

    def __init__(self, path: Path, daemon: Daemon | None = None) -> None:
        self.now = 0.0
        self.state = StateDirectory(path)
        self.daemon = daemon or Daemon()
        self.chains = Kernel()
        self.switch = Switch()
        parts = (
            cast("GatewayDaemon", self.daemon),
            cast("Chains", self.chains),
            cast("GatewayBridge", self.switch),
        )
        self.applier = Applier(self.state, *parts, lambda: self.now)

    def keep(self, sent: Configure) -> None:
        self.applier.configure(sent)
        asked = self.applier.advance()
        assert asked == Trying(digest=sent.digest)
        self.applier.confirm(Confirm(digest=sent.digest))
        kept = self.applier.advance()
        assert kept == Outcome(digest=sent.digest, version=sent.version, result="kept")
        self.applier.note_sent(kept)
        assert self.applier.advance() is None


def test_a_confirmed_configuration_is_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.keep(message(2, placement="least_loaded"))
    assert [each.placement for each in machine.daemon.applied] == ["flow_hash", "least_loaded"]
    again = Machine(tmp_path)
    assert again.applier.good is not None
    assert again.applier.good.version == 2
    again.applier.restore()
    assert again.daemon.applied == machine.daemon.applied[1:]


def steered(version: int, lan: str = "l") -> Configure:
    """A configuration with a service function."""
    firewall = {"name": "firewall", "interface": "fw0", "next_hop": "192.0.2.99"}
    back = {"return_interface": "fw0", "return_next_hop": "192.0.2.99"}
    document = json.loads(config().model_dump_json())
    document["steering"] = {"lan": lan, "chains": {"II": [firewall | back]}}
    return Configure(version=version, digest=f"{version:064x}", document=json.dumps(document))


def test_chains_are_put_in_force_and_returned_from_with_the_rest(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.keep(steered(2))
    first, second = machine.chains.applied
    assert first is None
    assert second is not None
    assert [each.name for each in second.chains[TrafficType.II]] == ["firewall"]
    assert machine.daemon.applied[0] == machine.daemon.applied[1], "the daemon knows nothing of it"
    machine.applier.configure(steered(3, lan="other"))
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.detail) == (
        "refused",
        "service functions: there is no interface of this name",
    )
    assert machine.chains.applied[-1] == second
    machine.keep(message(4))
    assert machine.chains.applied[-1] is None


def test_a_function_that_is_away_stops_its_classes_and_no_others(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(steered(1))
    again = Machine(tmp_path)
    again.chains.away = True
    again.applier.restore()
    assert again.chains.applied[-1] is not None
    assert len(again.daemon.applied) == 1, "the gateway works"
    again.applier.configure(steered(2))
    told = again.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.detail) == ("refused", "service functions: there is no interface fw0")


def test_an_openflow_switch_is_the_controllers_but_for_what_is_returned_from(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    machine.keep(bridged(1))
    (first,) = machine.switch.applied
    assert first[0] is not None
    assert first[0].ports[0].interface == "a"
    assert first[1:] == ("1", False), "the controller installs the entries"
    machine.daemon.refuses = True
    machine.applier.configure(bridged(2, next_hop="192.0.2.99"))
    tried, returned = machine.switch.applied[1:]
    assert tried[0] != first[0]
    assert tried[1:] == ("2", False)
    assert returned == (first[0], "1", True), "the controller may be out of reach"
    again = Machine(tmp_path)
    again.applier.restore()
    assert again.switch.applied == [returned]
    machine.keep(message(3))
    assert machine.switch.applied[-1] == (None, "3", False), "the ports are given back"


def bridged(version: int, next_hop: str = "192.0.2.5") -> Configure:
    """A configuration with an OpenFlow switch."""
    port = {"name": "a", "interface": "a", "addresses": ["192.0.2.6"], "next_hop": next_hop}
    document = json.loads(config().model_dump_json())
    document["bridge"] = {"ports": [port], "entries": []}
    return Configure(version=version, digest=f"{version:064x}", document=json.dumps(document))


def test_an_agent_that_knows_no_chains_refuses_them() -> None:
    with pytest.raises(ValueError, match="steering"):
        GatewayConfig.model_validate_json(steered(1).document)


def test_what_the_daemon_refuses_is_not_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.daemon.refuses = True
    machine.applier.configure(message(2, placement="least_loaded"))
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.version) == ("refused", 2)
    assert "peers[0].id" in told.detail
    assert machine.daemon.applied[-1].placement == "flow_hash"
    assert machine.applier.good is not None
    assert machine.applier.good.version == 1


def test_what_is_not_confirmed_is_returned_from(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.applier.configure(message(2, placement="least_loaded"))
    machine.now = PATIENCE_S - 0.1
    assert isinstance(machine.applier.advance(), Trying)
    machine.now = PATIENCE_S
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.detail) == ("returned", "the controller did not confirm it")
    assert machine.daemon.applied[-1].placement == "flow_hash"
    # It is told until it has been heard.
    assert machine.applier.advance() is told
    machine.applier.note_sent(told)
    assert machine.applier.advance() is None


def test_a_first_configuration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.applier.configure(message(1))
    machine.daemon.healthy = False
    machine.now = PATIENCE_S
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.detail) == ("returned", "the daemon does not answer")
    assert machine.daemon.stopped == 1
    assert machine.state.good() is None


def test_an_agent_killed_in_a_trial_puts_the_last_good_one_in_force(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.applier.configure(message(2, placement="least_loaded"))
    again = Machine(tmp_path, machine.daemon)
    again.applier.restore()
    assert again.daemon.applied[-1].placement == "flow_hash"


def test_a_newer_configuration_takes_the_place_of_one_on_trial(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.keep(message(1))
    machine.applier.configure(message(2, placement="least_loaded"))
    machine.applier.confirm(Confirm(digest=message(3).digest))  # of another: nothing
    machine.keep(message(3, placement="round_robin"))
    # And going back to the one that is kept ends the trial.
    machine.applier.configure(message(4))
    machine.applier.configure(message(3, placement="round_robin"))
    assert machine.daemon.applied[-1].placement == "round_robin"
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert (told.result, told.version) == ("kept", 3)


def test_a_configuration_that_is_none_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.applier.configure(Configure(version=1, digest="0" * 64, document='{"version": 1}'))
    told = machine.applier.advance()
    assert isinstance(told, Outcome)
    assert told.result == "refused"


def test_what_needs_a_restart() -> None:
    base = config()
    assert not needs_restart(base, base.model_copy(update={"queue_bytes": 5}))
    assert needs_restart(base, config(congestion="cubic"))
    for changed in ({"label_bits": 5}, {"oversize": "fragment"}):
        assert needs_restart(base, config(**changed)), changed
    assert needs_restart(base, base.model_copy(update={"id": 7}))


def test_certificates_change_all_at_once(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    for number in range(3):
        text = f"{number}".encode()
        state.put_pki("b1", b"ca" + text, b"certificate" + text, b"key" + text)
        found = {each.name: each.read_bytes() for each in state.pki.iterdir()}
        assert set(found) == {"ca.pem", "b1.pem", "b1.key"}
        assert all(content.endswith(text) for content in found.values())
        assert (state.pki / "b1.key").stat().st_mode & 0o777 == 0o600
    assert len([each for each in tmp_path.iterdir() if each.name.startswith("pki")]) == 2


def test_a_directory_without_a_network(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    with pytest.raises(AgentError, match="has not joined"):
        state.joined()
    state.join(Joined(host="192.0.2.1", port=8444, branch="b1"))
    assert state.joined().branch == "b1"
    state.keep(Kept(version=1, digest="0" * 64, document=config().model_dump_json()))
    kept = state.good()
    assert kept is not None
    assert str(kept.config().control) == "gateway.sock"
