"""Python packages that are installed when first used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hawser.cli import extras
from hawser.engine.errors import LackingError
from hawser.spec import Workflow, load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with its own environment, in which an extra's module is not installed."""
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(extras, "_MODULES", {"query": ("module_of_an_extra",)})
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def installer(checkout: Path, text: str) -> None:
    file = checkout / "tools/setup"
    file.write_text(f'#!/bin/sh\ncd "{checkout}"; echo "$@" >> calls\n{text}\n')
    file.chmod(0o755)


def test_what_is_missing_is_installed_once(checkout: Path) -> None:
    installer(checkout, "touch module_of_an_extra.py")
    extras.need("query", checkout)
    extras.need("query", checkout)
    assert (checkout / "calls").read_text() == "--extra query\n"


@pytest.mark.parametrize("text", ["exit 1", "true"])
def test_what_cannot_be_installed_is_named(checkout: Path, text: str) -> None:
    installer(checkout, text)
    with pytest.raises(LackingError, match=r"tools/setup --extra query"):
        extras.need("query", checkout)


def test_another_environment_is_left_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer(checkout, "touch module_of_an_extra.py")
    monkeypatch.setattr(sys, "prefix", "/usr")
    with pytest.raises(LackingError, match=r"pip install -r requirements-query\.lock"):
        extras.need("query", checkout)
    assert not (checkout / "calls").exists()


def workflow(name: str, *overrides: str) -> Workflow:
    path = str(ROOT / "workflows" / name)
    return load(path, lambda each: Path(each).read_bytes(), overrides)


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("quickstart.yaml", set()),
        ("mms-network.yaml", set()),
        ("switch-kinds.yaml", {"openflow"}),
        ("aws-sfc-ohio.yaml", set()),
    ],
)
def test_a_workflow_needs_only_what_it_uses(name: str, needed: set[str]) -> None:
    assert set(extras._of(workflow(name))) == needed


def test_a_search_by_mlrsearch_needs_its_library() -> None:
    searching = workflow("aws-sfc-ohio.yaml", "measurements.search.mode=mlr")
    assert set(extras._of(searching)) == {"search"}


def pins(name: str) -> set[str]:
    return set(re.findall(r"^[a-z][\w.-]*==\S+", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", sorted(set(extras._MODULES) - {"spark"}))
def test_an_extra_changes_no_version(name: str) -> None:
    """What one lock pins the development environment has too, so all fit together."""
    assert pins(f"requirements-{name}.lock") <= pins("requirements-dev.lock")
    assert pins("requirements.lock") <= pins("requirements-dev.lock")


def test_spark_changes_no_version() -> None:
    """It is too large for every development environment, but fits into one."""
    ours, theirs = (
        dict(pin.split("==") for pin in pins(f"requirements-{name}.lock"))
        for name in ("spark", "dev")
    )
    shared = ours.keys() & theirs.keys()
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
    assert len(shared) > 1


def test_the_connector_is_of_sparks_version() -> None:
    pom = (ROOT / "src/hawser/ids/cluster/spark.pom.xml").read_text()
    version = next(pin for pin in pins("requirements-spark.lock") if pin.startswith("pyspark=="))
    assert pom.count(f"<version>{version.partition('==')[2]}</version>") == 2
