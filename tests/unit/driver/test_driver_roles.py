"""The table of roles: complete, and the same as what plans and statuses say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import pytest

from hawser.driver.base import DriverError
from hawser.driver.roles import ROLES, hawserd
from hawser.overlay.lab import plan
from hawser.overlay.lab.plan import Role
from lab import ROOT


def test_every_role_has_an_entry() -> None:
    assert set(ROLES) == set(get_args(Role))


def test_configurations_are_those_of_plans() -> None:
    kinds = get_args(get_args(plan.Daemon)[0])
    found = {kind.model_fields["role"].default: kind.model_fields["config"] for kind in kinds}
    assert {role: field.annotation for role, field in found.items()} == {
        role: entry.configuration for role, entry in ROLES.items() if role in found
    }
    assert set(ROLES) - set(found) == {"ipsec"}  # its configuration comes with its tunnel


def test_programs_are_named_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "hawserd"
    program.touch(mode=0o700)
    monkeypatch.setenv("HAWSERD", str(program))
    commands = {role: entry.program("").command for role, entry in ROLES.items()}
    assert commands["gateway"] == (str(program), "gateway")
    assert commands["sff"] == (str(program), "function", "sff")
    assert commands["openflow"] == (sys.executable, "-m", "hawser.openflow")


def test_a_plan_may_name_another_build(tmp_path: Path) -> None:
    program = tmp_path / "earlier"
    program.touch(mode=0o700)
    assert ROLES["gateway"].program(str(program)).command == (str(program), "gateway")
    command = (sys.executable, "-m", "hawser.openflow")
    assert ROLES["openflow"].program(str(program)).command == command


def test_a_program_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAWSERD", str(tmp_path / "none"))
    with pytest.raises(DriverError, match="hawserd is not built"):
        hawserd()


def test_only_the_choice_names_the_local_driver() -> None:
    source = ROOT / "src" / "hawser"
    found = [
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if "LocalDriver" in path.read_text(encoding="utf-8")
    ]
    assert set(found) == {"driver"}
