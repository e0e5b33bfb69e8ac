"""Switches that connect over TLS: what is configured, and who they are."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hawser.openflow.state import State
from hawser.openflow.tls import name_of
from hawser.overlay.config.openflow import ControllerConfig
from worked_example import switch

LISTEN = {"address": "192.0.2.2", "certificate": "c.pem", "key": "c.key", "ca": "ca.pem"}


def document(**more: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    return {"control": "s", "switches": [switch(1)]} | more


def config(**more: Any) -> ControllerConfig:  # noqa: ANN401 (JSON)
    return ControllerConfig.model_validate(document(**more))


def test_a_switch_has_a_socket_or_connects_over_tls() -> None:
    with pytest.raises(ValidationError, match="expected listen, relay, or a socket of switch gw1"):
        config()
    found = config(listen=LISTEN)
    assert found.listen is not None
    assert found.listen.port == 6653
    assert "socket" not in found.switches[0].model_dump(mode="json")
    assert [str(each) for each in found.placed("/lab").paths()] == [
        "/lab/s",
        "/lab/c.pem",
        "/lab/c.key",
        "/lab/ca.pem",
    ]


def test_a_role_may_change_and_a_place_to_listen_may_not() -> None:
    state = State(config(listen=LISTEN, role={"master": False, "generation": 3}))
    state.switch("gw1").changed.clear()
    state.configure(config(listen=LISTEN, role={"master": True, "generation": 4}))
    assert state.switch("gw1").changed.is_set()
    with pytest.raises(ValueError, match="the same sockets"):
        state.configure(config(listen=LISTEN | {"port": 6654}))


@pytest.mark.parametrize("generation", [-1, 2**63])
def test_generations_have_63_bits(generation: int) -> None:
    with pytest.raises(ValidationError):
        config(listen=LISTEN, role={"master": True, "generation": generation})


def test_flows_that_another_controller_has_installed_count_if_they_are_the_same() -> None:
    state, session = State(config(listen=LISTEN)), object()
    state.begin("gw1", session)
    wanted = state.switch("gw1").wanted
    state.read("gw1", session, wanted, {}, same=False)
    assert not state.ready()
    state.read("gw1", session, wanted, {}, same=True)
    assert state.ready()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((("DNS", "gw1"),), "gw1"),
        ((("DNS", "other"), ("DNS", "gw2")), "gw2"),
        ((("IP Address", "gw1"),), None),
        ((("DNS", "gw1.example"),), None),
        ((), None),
    ],
)
def test_a_switch_is_whom_its_certificate_names(
    names: tuple[tuple[str, str], ...], expected: str | None
) -> None:
    assert name_of({"subjectAltName": names}, {"gw1", "gw2"}) == expected
    assert name_of(None, {"gw1"}) is None
