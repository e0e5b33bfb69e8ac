"""The report in the format of JUnit, for continuous integration: one test case a judgement."""

from __future__ import annotations

from xml.etree import ElementTree as Xml  # writes only

from hawser.report.model import Checked, Outcome, Regression, Report
from hawser.report.words import clean, effect_interval, effect_value, number, probability, term
from hawser.store import label


def junit(report: Report) -> str:
    """Write the cases: validity of the run, assertions, and comparisons with an earlier run.

    An undecided assertion that passes is a skipped case.
    """
    manifest = report.manifest
    suite = Xml.Element("testsuite", name=clean(manifest.workflow))
    suite.set("timestamp", f"{manifest.started:%Y-%m-%dT%H:%M:%S}")
    seconds = (manifest.finished - manifest.started).total_seconds() if manifest.finished else 0.0
    suite.set("time", f"{seconds:.0f}")
    suite.set("id", manifest.run)
    _valid(suite, report)
    for outcome in report.outcomes:
        _outcome(suite, outcome)
    for one in report.regressions:
        _regression(suite, one)
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.set("errors", "0")
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _case(suite: Xml.Element, group: str, name: str) -> Xml.Element:
    parent = f"{suite.get('name')}.{group}"
    return Xml.SubElement(suite, "testcase", classname=parent, name=clean(name, 300))


def _valid(suite: Xml.Element, report: Report) -> None:
    case = _case(suite, "run", "the run is valid")
    for problem in report.problems:
        _said(case, "failure", "not valid", problem)


def _outcome(suite: Xml.Element, outcome: Outcome) -> None:
    if not outcome.checked:
        case = _case(suite, "assertion", outcome.text)
        _said(case, "failure", "fails", "not measured")
    for one in outcome.checked:
        case = _case(suite, "assertion", f"{outcome.text} [{label(one.variant)}]")
        if not one.ok:
            _said(case, "failure", one.verdict, _found(one))
        elif one.verdict == "undecided":
            _said(case, "skipped", one.verdict, _found(one))


def _found(one: Checked) -> str:
    bounds = [
        f"{words} {number(limit)}"
        for words, limit in (("at least", one.low), ("at most", one.high))
        if limit is not None
    ]
    parts = [f"found {number(one.value)}", *bounds, f"{one.n} trials", f"p {probability(one.p)}"]
    return ", ".join([one.verdict, *parts, *([one.reason] if one.reason else [])])


def _regression(suite: Xml.Element, one: Regression) -> None:
    of = " ".join(filter(None, (one.measurement, one.subject)))
    what = f"{term(one.metric).title} of {of} is not worse [{label(one.variant)}]"
    case = _case(suite, "regression", what)
    found = one.effect
    if found.kind == "ratio":
        text = f"{effect_value(found)} the value before"
    elif found.kind == "order":
        text = f"{effect_value(found)} repeats (p {probability(found.adjusted)})"
    else:
        text = f"{effect_value(found)} {one.unit} compared with before"
    if found.interval:
        text += f" (95 % CI {effect_interval(found)}, p {probability(found.adjusted)})"
    if one.worse:
        _said(case, "failure", "regression", text)
    elif found.verdict is None:
        _said(case, "skipped", "too few repeats", text)
    else:
        Xml.SubElement(case, "system-out").text = text


def _said(case: Xml.Element, kind: str, word: str, text: str) -> None:
    Xml.SubElement(case, kind, type=clean(word), message=clean(text, 2000))
