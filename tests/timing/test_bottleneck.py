"""What limits a measurement is named, and nothing else, where programs get the time they want.

h1 --x-- fw --y-- h2            (drawn in lab/run/bottleneck.py)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hawser.driver.local import LocalDriver
from hawser.node.netns import cgroup
from lab.run.bottleneck import FREE, LIMITED, judged, scenario

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here"),
]


@pytest.mark.parametrize("name", LIMITED)
def test_only_the_limit_is_named(
    name: str, driver: LocalDriver, lab_name: str, tmp_path: Path
) -> None:
    kind, element, overrides, setups = LIMITED[name]
    verdict = judged(driver, lab_name, tmp_path, scenario(*overrides), *setups)
    assert [(cause.kind, cause.element) for cause in verdict.limits] == [(kind, element)]


@pytest.mark.parametrize("name", FREE)
def test_only_the_offered_load_is_named_where_nothing_else_limits(
    name: str, driver: LocalDriver, lab_name: str, tmp_path: Path
) -> None:
    overrides, setups = FREE[name]
    verdict = judged(driver, lab_name, tmp_path, scenario(*overrides), *setups)
    assert [(cause.kind, cause.element) for cause in verdict.limits] == [("load", "h1")]
    assert verdict.nearest is not None
