"""Reading of a workflow file and those that it extends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hawser.engine.errors import InputError
from hawser.spec import Workflow, load, sfcperf, tosca
from hawser.spec.foreign import Imported
from hawser.spec.renamed import SpecWarning

LARGEST = 4 * 1024 * 1024
"""Bytes of the largest file that is read."""


@dataclass(frozen=True)
class Source:
    """A workflow and the text it was made from."""

    workflow: Workflow
    files: Mapping[str, bytes]
    """Under the names they have in a bundle: `workflow.yaml` is the file as given."""
    warnings: tuple[SpecWarning, ...] = ()
    """Old names in the files and overrides."""


def read(file: Path, overrides: Iterable[str] = ()) -> Source:
    """Read a workflow file.

    Raises:
        SpecErrors: everything that is wrong, each with its place.
    """
    texts: dict[str, bytes] = {}

    def content(name: str) -> bytes:
        texts[name] = _content(Path(name))
        return texts[name]

    warnings: list[SpecWarning] = []
    workflow = load(str(file), content, overrides, warnings.append)
    extended = {Path(name).name: text for name, text in texts.items() if name != str(file)}
    return Source(workflow, {**extended, "workflow.yaml": texts[str(file)]}, tuple(warnings))


def imported(kind: Literal["sfcperf", "tosca"], files: Sequence[Path]) -> Imported:
    """Convert files of other tools into a workflow file.

    Raises:
        SpecErrors: everything that is wrong, each with its place.
        InputError: one cannot be read, or there are more than such a workflow is made of.
    """
    most = 1 if kind == "sfcperf" else tosca.MAX_FILES
    if len(files) > most:
        raise InputError([f"found {len(files)} files, expected at most {most} of {kind}"])
    texts = {}
    for file in files:
        try:
            texts[str(file)] = _content(file)
        except OSError as error:
            raise InputError([f"cannot read {file}: {error.strerror or error}"]) from error
    if kind == "tosca":
        return tosca.imported(texts)
    return sfcperf.imported(texts[str(files[0])], str(files[0]))


def _content(path: Path) -> bytes:
    with path.open("rb") as stream:
        text = stream.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise OSError(f"larger than {LARGEST} bytes")
    return text
