"""Long texts of a resolved workflow are in files of their own, once."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.engine.source import read
from hawser.store import Bundle, BundleError, files, texts
from hawser.store.archive import archive, restore
from hawser.store.texts import TEXTS
from synthetic import write

LONG = json.dumps({"nodes": list(range(3000)), "name": "é\n"})
WORKFLOW = """\
hawser: 1
name: traces
title: Two links with one trace
topology:
  nodes: [a, b, c]
  links:
    one: {ends: [a.e, b.e], trace: long.trace}
    two: {ends: [b.f, c.e], trace: long.trace}
measurements: {rtt: {probe: ping, from: a, to: c}}
variants: {product: {transport: {ipomp: {}, ipip-best: {}}}}
repeat: 1
"""


def stored(folder: Path, document: object) -> bytes:
    short, long = texts.split(json.dumps(document).encode())
    (folder / TEXTS).mkdir(exist_ok=True)
    for name, content in long.items():
        (folder / name).write_bytes(content)
    return short


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from([LONG, LONG[1:], "x" * 4096]),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_was_split_is_joined(
    tmp_path_factory: pytest.TempPathFactory, document: object
) -> None:
    folder = tmp_path_factory.mktemp("bundle")
    short = stored(folder, document)
    assert json.loads(texts.joined(short, folder)) == document
    assert LONG not in str(json.loads(short))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "long.trace").write_text("".join(f"{ms}\n" for ms in range(1, 2000)))
    (tmp_path / "traces.yaml").write_text(WORKFLOW)
    return write(tmp_path / "runs", read(tmp_path / "traces.yaml", []).workflow)


def test_a_trace_of_links_and_variants_is_kept_once(run: Path, tmp_path: Path) -> None:
    (text,) = (run / TEXTS).iterdir()
    trace = (tmp_path / "long.trace").read_text()
    assert text.read_text() == trace
    assert (run / "resolved.json").read_text().count(f"{TEXTS}/{text.name}") == 4
    file = tmp_path / "results.tar.gz"
    archive(Bundle.open(run), file, only_results=True)
    for bundle in (Bundle.open(run), restore(file, tmp_path / "elsewhere")):
        links = bundle.workflow.variants[1].scenario.topology.links
        assert [link.trace for link in links.values()] == [trace, trace]


def test_a_damaged_text_is_named(run: Path) -> None:
    (text,) = (run / TEXTS).iterdir()
    content = text.read_bytes()
    text.write_bytes(content[:-1])
    with pytest.raises(BundleError, match=f"{text.name}: damaged"):
        _ = Bundle.open(run).workflow
    text.unlink()
    with pytest.raises(BundleError, match=f"{text.name}: No such file"):
        _ = Bundle.open(run).workflow
    binary = text.with_name(sha256(b"\xff").hexdigest())
    binary.write_bytes(b"\xff")
    resolved = run / "resolved.json"
    resolved.write_text(resolved.read_text().replace(text.name, binary.name))
    with pytest.raises(BundleError, match="not a text"):
        _ = Bundle.open(run).workflow


def test_many_references_to_a_long_text_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = stored(tmp_path, [LONG] * 100)
    monkeypatch.setattr(files, "LARGEST", 50 * len(LONG))
    with pytest.raises(BundleError, match="larger than"):
        texts.joined(short, tmp_path)
