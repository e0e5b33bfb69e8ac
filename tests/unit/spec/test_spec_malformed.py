"""Malformed files: each begins with what it must be answered with, place and message.

A line `# expect LINE:COLUMN TEXT` asks for a mistake at this place whose message begins so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spec_files import MALFORMED, read

from hawser.spec import SpecErrors, load

EXPECT = re.compile(r"# expect (\d+:\d+) (.+)")


def expected(path: Path) -> list[tuple[str, str]]:
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    return [(m[1], m[2]) for line in lines if (m := EXPECT.fullmatch(line))]


def test_there_are_many() -> None:
    assert len(MALFORMED) >= 20


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: path.stem)
def test_every_mistake_is_told_at_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with pytest.raises(SpecErrors) as caught:
        load(path.name, read)
    found = [
        (f"{e.line}:{e.column}", f"{e.field}: {e.message}" if e.field else e.message)
        for e in caught.value.errors
    ]
    wanted = expected(path)
    assert wanted
    assert len(found) == len(wanted), str(caught.value)
    for (place, text), (wanted_place, wanted_text) in zip(found, wanted, strict=True):
        assert place == wanted_place
        assert text.startswith(wanted_text)
    assert all(error.file == path.name for error in caught.value.errors)


def test_rendering_names_the_place() -> None:
    path = next(path for path in MALFORMED if path.stem == "units")
    with pytest.raises(SpecErrors) as caught:
        load(str(path), read)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{path}:12:34: topology.links.l1.rate: found '10 Mbps', expected a ")
