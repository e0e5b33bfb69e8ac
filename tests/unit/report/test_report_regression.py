"""Runs against an earlier one: what is worse, and how continuous integration learns of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

import jsonschema
import numpy as np
import pytest

import synthetic
from hawser.engine.against import beside
from hawser.report import document
from hawser.report.build import build
from hawser.report.model import Report
from hawser.report.render import render
from hawser.spec.workflow import Labels
from hawser.store import Bundle, RunWriter, Sample

EARLIER = "quickstart-20250101T000000-abcd"


Extra = Callable[[Labels, int], list[Sample]]
"""More samples of a trial, by its labels and repeat."""


def made(
    folder: Path, factor: float, repeat: int = 6, extra: Extra = lambda _labels, _repeat: []
) -> Report:
    """A run whose present variants have `factor` times the goodput, and the rest alike."""
    both = beside(synthetic.quickstart(repeat), synthetic.quickstart(repeat)).workflow
    plan = synthetic.manifest(both).model_copy(update={"against": EARLIER})
    random = np.random.default_rng(1)
    with RunWriter.create(folder, plan, both, {"workflow.yaml": b""}) as run:
        for place in plan.order:
            with run.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add(_samples(place.variant, random, factor))
                trial.add(extra(place.variant, place.repeat))
        run.finish("done")
    return build(Bundle.open(run.path))


def _samples(labels: Labels, random: np.random.Generator, factor: float) -> list[Sample]:
    plain = {"transport": labels["transport"]}
    return synthetic.samples(plain, random, scale=factor if labels["version"] == "now" else 1)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return made(tmp_path_factory.mktemp("runs"), 0.8)


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return made(tmp_path_factory.mktemp("runs"), 1.0)


def test_a_loss_of_goodput_is_a_regression(slower: Report) -> None:
    worse = [one for one in slower.regressions if one.worse]
    assert {one.metric for one in worse} == {"goodput"}
    assert len(worse) == 3
    assert worse[0].effect.value == pytest.approx(0.8, rel=0.05)
    assert worse[0].effect.paired
    assert slower.valid
    assert not slower.passed


def recovery(now: Sequence[float | None]) -> Extra:
    """Failover times now, None where traffic never recovered; before, it took 100 ms."""

    def extra(labels: Labels, repeat: int) -> list[Sample]:
        value = now[repeat - 1] if labels["version"] == "now" else 100.0 + repeat
        return [
            Sample(
                measurement="tcp",
                metric="failover_time",
                unit="ms",
                direction="forward",
                value=1500.0 if value is None else value,
                censored=value is None,
            )
        ]

    return extra


def recovered(report: Report) -> list[tuple[float, int, bool]]:
    return [
        (one.effect.value, one.effect.n, one.worse)
        for one in report.regressions
        if one.metric == "failover_time" and one.effect.kind == "order"
    ]


def test_traffic_that_no_longer_recovers_is_a_regression(tmp_path: Path) -> None:
    """Censored trials were left out: a gateway that never recovered passed."""
    report = made(tmp_path, 1.0, repeat=14, extra=recovery([None] * 14))
    assert recovered(report) == [(1.0, 14, True)] * 3
    assert not report.passed
    for form in ("text", "md", "html", "json", "junit"):
        assert "failover" in render(report, form).decode().lower()  # type: ignore[arg-type]
    jsonschema.Draft202012Validator(document.schema()).validate(json.loads(render(report, "json")))


def test_one_trial_that_does_not_recover_decides_nothing(tmp_path: Path) -> None:
    report = made(tmp_path, 1.0, repeat=8, extra=recovery([None, *[99.0] * 7]))
    assert recovered(report) == [(0.125, 8, False)] * 3


def lost(labels: Labels, repeat: int) -> list[Sample]:
    """Frames lost at two loads: now more at half load, and as many as before at full load."""
    half = 4.0 if labels["version"] == "now" else 1.0
    return [
        Sample(
            measurement="search",
            metric="frame_loss",
            unit="%",
            direction="forward",
            value=value + repeat / 100,
            subject=load,
        )
        for load, value in (("100%", 30.0), ("50%", half))
    ]


def test_what_is_worse_is_named_with_its_subject(tmp_path: Path) -> None:
    report = made(tmp_path, 1.0, extra=lost)
    worse = [one for one in report.regressions if one.metric == "frame_loss" and one.worse]
    assert {one.subject for one in worse} == {"50%"}
    assert "search frame_loss 50%" in render(report, "md").decode().replace("\\", "")
    failed = [
        case for case in suite(report).findall("testcase") if case.find("failure") is not None
    ]
    assert {case.attrib["name"].partition(" [")[0] for case in failed} == {
        "Frame loss rate of search 50% is not worse"
    }


def test_more_goodput_is_none(tmp_path: Path) -> None:
    report = made(tmp_path, 1.25)
    assert any(one.effect.clear for one in report.regressions)
    assert not any(one.worse for one in report.regressions)


def test_equal_runs_pass(same: Report) -> None:
    assert not any(one.worse for one in same.regressions)
    assert {one.metric for one in same.regressions} >= {"goodput", "rtt", "retransmissions"}


def test_too_few_repeats_judge_nothing(tmp_path: Path) -> None:
    report = made(tmp_path, 0.8, repeat=2)
    assert all(one.effect.verdict is None for one in report.regressions)
    assert report.passed == all(outcome.ok for outcome in report.outcomes)


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_every_form_names_it(slower: Report, form: str) -> None:
    text = render(slower, form).decode()  # type: ignore[arg-type]  # the test names a form
    assert EARLIER in text
    assert "worse" in text


def test_json_fits_the_schema(slower: Report) -> None:
    found = json.loads(render(slower, "json"))
    jsonschema.Draft202012Validator(document.schema()).validate(found)
    assert found["manifest"]["against"] == EARLIER
    assert sum(one["worse"] for one in found["regressions"]) == 3
    assert not found["passed"]


def suite(report: Report) -> Xml.Element:
    found = Xml.fromstring(render(report, "junit"))  # noqa: S314 (our own)
    assert found.tag == "testsuites"
    (one,) = found
    cases = one.findall("testcase")
    assert int(one.attrib["tests"]) == len(cases)
    for kind in ("failure", "skipped"):
        plural = "failures" if kind == "failure" else kind
        assert int(one.attrib[plural]) == sum(case.find(kind) is not None for case in cases)
    return one


def test_junit_fails_where_a_metric_is_worse(slower: Report) -> None:
    failed = [
        case.attrib["name"]
        for case in suite(slower).findall("testcase")
        if case.find("failure") is not None
    ]
    assert "Goodput of tcp is not worse [ipomp / now]" in failed
    assert len(failed) >= 3


def test_junit_has_a_case_for_each_judgement(same: Report) -> None:
    found = suite(same)
    groups = [case.attrib["classname"].partition(".")[2] for case in found.findall("testcase")]
    checked = sum(len(outcome.checked) for outcome in same.outcomes)
    assert groups.count("run") == 1
    assert groups.count("assertion") == checked
    assert groups.count("regression") == len(same.regressions)


def test_junit_gives_the_unit_of_a_difference(same: Report) -> None:
    changed = same.regressions[0].effect.model_copy(update={"kind": "difference", "value": 0.3})
    one = same.regressions[0].model_copy(update={"effect": changed, "unit": "%", "worse": True})
    found = suite(same.model_copy(update={"regressions": (one,)}))
    (case,) = (c for c in found if c.attrib.get("classname", "").endswith(".regression"))
    (failure,) = case
    assert failure.attrib["message"].startswith("+0.300 % compared with before")


def test_a_run_that_is_not_valid_fails(tmp_path: Path) -> None:
    void = dict.fromkeys(range(1, 9), "tool failed")
    report = build(Bundle.open(synthetic.write(tmp_path, synthetic.quickstart(3), void=void)))
    (first, *_) = suite(report).findall("testcase")
    assert first.attrib["name"] == "the run is valid"
    assert first.find("failure") is not None


def test_hostile_names_stay_text(hostile: Report) -> None:
    suite(hostile)


def test_an_undecided_assertion_that_passes_is_skipped(tmp_path: Path) -> None:
    report = build(Bundle.open(synthetic.write(tmp_path, synthetic.quickstart(2))))
    verdicts = {one.verdict for outcome in report.outcomes for one in outcome.checked}
    assert verdicts == {"undecided"}
    assert len(suite(report).findall("testcase/skipped")) == 4


def test_trials_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """The manifest's new field has a default."""
    path = synthetic.write(tmp_path, synthetic.quickstart(1))
    content = json.loads((path / "manifest.json").read_text())
    del content["against"]
    (path / "manifest.json").write_text(json.dumps(content))
    assert Bundle.open(path).manifest.against is None
