from __future__ import annotations

from typing import Any

import pytest

from hawser.control.model import FunctionStatus


def status(*checks: dict[str, Any], up: bool = True) -> FunctionStatus:
    instance = {"name": "f1", "up": up, "since_s": 1.0, "changes": 0, "reason": "gone"}
    function = {"name": "f", "up": up, "instances": [{**instance, "checks": checks}]}
    return FunctionStatus.model_validate(
        {"role": "sff", "version": "1", "pid": 1, "uptime_s": 1.0, "functions": [function]}
        | {"ready": True}
    )


@pytest.mark.parametrize(
    ("checks", "failures", "unconfirmed"),
    [(0, 0, ("f1",)), (1, 1, ("f1",)), (1, 0, ()), (9, 8, ())],
)
def test_a_function_is_confirmed_once_each_check_has_succeeded(
    checks: int, failures: int, unconfirmed: tuple[str, ...]
) -> None:
    sound = {"by": "process", "checks": 3, "failures": 0}
    found = status(sound, {"by": "http", "checks": checks, "failures": failures})
    assert found.unconfirmed == unconfirmed
    assert found.down == ()


def test_what_is_down_has_its_reason() -> None:
    assert status(up=False).down == ("f1: gone",)
