"""The page about reproductions: which value, claim and run stands where."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import synthetic
from hawser.report.reproduction.gather import chapters, outcomes
from hawser.report.reproduction.model import Chapter, Exhibit, Source
from hawser.report.reproduction.page import page
from hawser.spec.data.publications import PUBLICATIONS
from hawser.spec.published import PublishedItem
from hawser.spec.workflow import Assertion, Workflow
from hawser.store import Bundle, notes

AHEAD = "IPoMP carries more than one path"
EVEN = "IPoMP does not depend on the rates"


def workflow(repeat: int = 5) -> Workflow:
    """Table I with two claims: one that the invented numbers bear out, one that they do not."""
    made = synthetic.table1(repeat)
    wide = {"scheme": "tcp-ipomp"}
    return made.model_copy(
        update={
            "published": (
                PublishedItem(
                    document="lee",
                    item="Table I",
                    metrics=("goodput",),
                    finding="The more unequal the paths, the <b>less</b>.",
                    differs=("Nothing is | policed.",),
                ),
            ),
            "assertions": (
                Assertion(
                    variant=wide,
                    metric="goodput",
                    relative_to={"scheme": "ipip-best"},
                    at_least=1.05,
                    claim=AHEAD,
                ),
                Assertion(
                    variant={**wide, "rates": "1:2:4:33"},
                    metric="goodput",
                    relative_to={"rates": "10:10:10:10"},
                    at_least=1.2,
                    claim=EVEN,
                ),
                Assertion(metric="goodput", at_least=1000),
            ),
        }
    )


def bundle(folder: Path, made: Workflow, *, day: int = 5, **settings: float) -> Bundle:
    """A run of that day of January."""
    path = synthetic.write(folder / "new", made, **settings)  # type: ignore[arg-type]  # numbers only
    run = f"mms-table1-202601{day:02}T120000-c0de"
    manifest = json.loads((path / "manifest.json").read_text())
    manifest |= {"run": run, "started": f"2026-01-{day:02}T12:00:00Z"}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return Bundle.open(path.rename(folder / run))


def table_i(found: tuple[Chapter, ...]) -> Exhibit:
    chapter = next(one for one in found if one.key == "lee")
    return next(one for one in chapter.exhibits if one.name == "Table I")


@pytest.fixture
def source() -> Source:
    return Source("workflows/mms-table1.yaml", workflow())


def test_every_result_of_every_publication_is_listed(source: Source) -> None:
    found = chapters([source], [])
    assert [one.key for one in found] == list(PUBLICATIONS)
    for chapter in found:
        assert [one.name for one in chapter.exhibits] == list(chapter.publication.results)
    text = page(found, Path("docs"))
    for publication in PUBLICATIONS.values():
        for name in (*publication.results, *publication.others):
            assert name in text


def test_without_a_run_published_values_remain(source: Source) -> None:
    (entry,) = table_i(chapters([source], [])).entries
    assert len(entry.values) == 12
    assert {value.summary for value in entry.values} == {None}
    assert [claim.verdict for claim in entry.claims] == ["not run", "not run"]
    text = page(chapters([source], []), Path("docs"))
    assert "| 10:10:10:10 | tcp-ipomp | 36.5 | not\N{NO-BREAK SPACE}run |" in text
    assert "Not run." in text


def test_values_ratios_and_claims_of_a_run(source: Source, tmp_path: Path) -> None:
    exhibit = table_i(chapters([source], [bundle(tmp_path, workflow())]))
    (entry,) = exhibit.entries
    published = {
        (value.variant["rates"], value.variant["scheme"]): value
        for value in entry.values
        if value.published is not None
    }
    value = published["1:2:4:33", "tcp-ipomp"]
    assert value.published == 16.4
    assert value.summary is not None
    assert value.ratio == pytest.approx(value.summary.median / 16.4)
    assert {claim.text: claim.verdict for claim in entry.claims} == {
        AHEAD: "holds", EVEN: "fails",
    }  # fmt: skip
    assert [claim.checks for claim in entry.claims] == [4, 1]
    assert entry.measured == entry.planned == 20


def test_too_few_trials_decide_nothing(tmp_path: Path) -> None:
    few = workflow(repeat=1)
    (entry,) = table_i(
        chapters([Source("workflows/mms-table1.yaml", few)], [bundle(tmp_path, few)])
    ).entries
    assert [claim.verdict for claim in entry.claims] == ["agrees", "disagrees"]


def test_newest_valid_run_counts(source: Source, tmp_path: Path) -> None:
    old = bundle(tmp_path, workflow(), day=5)
    new = bundle(tmp_path, workflow(), day=6, scale=0.5)
    newest = bundle(tmp_path, workflow(), day=7, scale=0.1)
    first = next(path for path in sorted((newest.path / "trials").iterdir()))
    shutil.rmtree(first)  # a missing trial makes it invalid
    exhibit = table_i(chapters([source], [old, newest, new]))
    assert [run.run for run in exhibit.runs] == [new.manifest.run]
    (run,) = table_i(chapters([source], [newest])).runs
    assert run.problems
    assert "invalid: 1 of 100 trials are missing" in page(
        chapters([source], [newest]), Path("docs")
    )


def test_part_of_a_workflow_leaves_the_rest(source: Source, tmp_path: Path) -> None:
    whole = workflow()
    part = whole.model_copy(
        update={"variants": tuple(v for v in whole.variants if "10:10" in v.labels["rates"])}
    )
    chosen = [bundle(tmp_path, part, day=8), bundle(tmp_path, whole, day=5)]
    (entry,) = table_i(chapters([source], chosen)).entries
    runs = {v.variant["rates"]: v.run.run for v in entry.values if v.run is not None}
    assert runs["10:10:10:10"] == chosen[0].manifest.run
    assert runs["1:2:4:33"] == chosen[1].manifest.run
    text = page(chapters([source], chosen), Path("docs"))
    assert f"1. Run `{chosen[0].manifest.run}`, 2026-01-08 12:00 UTC, Synthetic CPU" in text
    assert "settings other" not in text
    (alone,) = table_i(chapters([source], chosen[:1])).entries
    assert (alone.measured, alone.planned) == (5, 20)


def test_other_settings_than_the_files_are_named(tmp_path: Path) -> None:
    run = bundle(tmp_path, workflow())
    variants = list(workflow().variants)
    variants[0] = variants[0].model_copy(
        update={"scenario": synthetic.scenario("mptcp", (1, 1, 1, 1))}
    )
    now = workflow().model_copy(update={"variants": tuple(variants)})
    text = page(chapters([Source("workflows/mms-table1.yaml", now)], [run]), Path("docs"))
    assert "settings other than those of the file now" in text


def test_the_page_is_sound_markdown(source: Source, tmp_path: Path) -> None:
    runs = [bundle(tmp_path, workflow())]
    text = page(chapters([source], runs), Path("docs"), outcomes([source], runs))
    assert "](../workflows/mms-table1.yaml)" in text
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "&lt;b&gt;less&lt;/b&gt;" in html
    assert "<b>less" not in html
    assert "Nothing is | policed." in html
    links = {part.split('"')[0] for part in html.split('href="#')[1:]}
    anchors = {part.split('"')[0] for part in html.split('<a id="')[1:]}
    assert links == anchors
    for line in text.splitlines():
        if line.startswith("| ") and "\\|" not in line:
            assert line.count("|") >= 3


def test_what_has_no_workflow_says_why(source: Source) -> None:
    text = page(chapters([source], []), Path("docs"))
    assert "No workflow reproduces this. It shows how the load of the cloud changes" in text
    assert "reproduces this. \n" not in text


def test_a_run_is_shown_with_its_notes_and_what_was_asked(source: Source, tmp_path: Path) -> None:
    run = bundle(tmp_path, workflow())
    command = ["hawser", "run", "w.yaml", "--repeat", "2", "--out", str(tmp_path), "--tag", "x"]
    manifest = json.loads((run.path / "manifest.json").read_text()) | {"command": command}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    notes.note(run.path, "Others compiled *much*.", synthetic.START)
    text = page(chapters([source], [Bundle.open(run.path)]), Path("docs"))
    assert "valid: `hawser run w.yaml --repeat 2`. Others compiled \\*much\\*." in text
    assert str(tmp_path) not in text


def test_runs_with_the_settings_of_the_file_go_first(source: Source, tmp_path: Path) -> None:
    as_it_is = bundle(tmp_path, workflow(), day=5)
    changed = workflow()
    variants = tuple(
        v.model_copy(update={"scenario": synthetic.scenario("mptcp", (1, 1, 1, 1))})
        for v in changed.variants
    )
    other = bundle(tmp_path, changed.model_copy(update={"variants": variants}), day=6)
    exhibit = table_i(chapters([source], [as_it_is, other]))
    assert [run.run for run in exhibit.runs] == [as_it_is.manifest.run]


def test_runs_at_other_rates_or_seeds_stand_apart(source: Source, tmp_path: Path) -> None:
    made = workflow()
    runs = [
        bundle(tmp_path, made, day=5),
        bundle(tmp_path, made.model_copy(update={"rates": 1.2}), day=6),
        bundle(tmp_path, made.model_copy(update={"seed": made.seed + 1}), day=7),
    ]
    assert [one.run for one in table_i(chapters([source], runs)).runs] == [
        "mms-table1-20260105T120000-c0de"
    ]
    found = outcomes([source], reversed(runs))
    assert [one.run.started.day for one in found] == [5, 6, 7]
    assert {(one.measured, one.planned) for one in found} == {(20, 20)}
    assert all(0 < one.true < one.checks for one in found)


def test_all_runs_are_listed_with_their_options(source: Source, tmp_path: Path) -> None:
    run = bundle(tmp_path, workflow(), day=7)
    path = run.path / "manifest.json"
    words = ["hawser", "run", "mms-table1.yaml", "--tag", "x", "--set", "vars.of=a|b c"]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"command": words}))
    runs = [Bundle.open(run.path)]
    written = page(chapters([source], runs), tmp_path, outcomes([source], runs))
    listed = written.partition("## All runs")[2]
    assert r"| `mms-table1` | `--set 'vars.of=a\|b c'` | 20 of 20 |" in listed
    assert "All runs" not in page(chapters([source], runs), tmp_path)


def test_a_run_of_a_workflow_that_reproduces_nothing_is_listed(tmp_path: Path) -> None:
    made = synthetic.table1(2)
    assert not made.published
    (found,) = outcomes([Source("own.yaml", made)], [bundle(tmp_path, made)])
    assert (found.measured, found.planned, found.run.problems) == (20, 20, ())
