"""What the OpenFlow controller knows of its switches."""

from __future__ import annotations

import pytest

from hawser.openflow.state import Count, State
from hawser.overlay.config.openflow import ControllerConfig
from worked_example import entries, switch


def config(**update: object) -> ControllerConfig:
    one = switch(1) | {"socket": "of"} | update
    return ControllerConfig.model_validate({"control": "s", "switches": [one]})


def installed(state: State, session: object) -> None:
    """The session found everything as it should be."""
    wanted = state.switch("gw1").wanted
    state.read("gw1", session, wanted, dict.fromkeys(wanted, Count()))


def test_a_switch_is_ready_when_it_has_what_is_wanted() -> None:
    state, session = State(config()), object()
    assert not state.ready()
    state.begin("gw1", session)
    assert not state.ready()
    installed(state, session)
    assert state.ready()


def test_an_earlier_connection_does_not_end_a_later_one() -> None:
    state, earlier, later = State(config()), object(), object()
    state.begin("gw1", earlier)
    state.begin("gw1", later)
    installed(state, later)
    state.end("gw1", earlier, "is gone")
    assert state.ready()
    assert state.switch("gw1").fault is None
    state.end("gw1", later, "is gone")
    assert not state.switch("gw1").connected
    assert state.switch("gw1").fault == "is gone"


def test_other_entries_are_to_be_installed() -> None:
    state, session = State(config()), object()
    state.begin("gw1", session)
    installed(state, session)
    before = state.switch("gw1").wanted
    state.configure(config(entries=entries(1)[:2]))
    assert not state.ready()
    assert state.switch("gw1").changed.is_set()
    state.read("gw1", session, before, dict.fromkeys(before, Count()))
    assert not state.ready()  # what was read is not what is wanted now
    installed(state, session)
    assert state.ready()


def relayed(*gateways: int) -> ControllerConfig:
    """Switches that the network's controller passes on."""
    switches = [switch(number) for number in gateways]
    return ControllerConfig.model_validate({"control": "s", "relay": "r", "switches": switches})


def test_switches_that_are_passed_on_come_and_go() -> None:
    state, session = State(relayed()), object()
    assert state.begin("gw1", session) is None, "nobody knows it"
    state.configure(relayed(1, 2))
    assert state.expected() == {"gw1", "gw2"}
    gone = state.begin("gw1", session)
    assert gone is not None
    gone.changed.clear()
    state.configure(relayed(2))
    assert state.expected() == {"gw2"}
    assert gone.removed
    assert gone.changed.is_set()
    state.read("gw1", session, {}, {})
    state.end("gw1", session, "is gone")
    assert state.find("gw1") is None
    state.configure(relayed(1, 2))
    assert state.find("gw1") is not gone


def test_sockets_of_switches_do_not_change() -> None:
    state = State(config())
    with pytest.raises(ValueError, match="the same switches"):
        state.configure(config(name="gw2"))
    assert state.config == config()
