"""Workflow files for tests, given as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from hawser.spec import SpecErrors, Workflow, load

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / "workflows").glob("*.yaml"))
MALFORMED = sorted((Path(__file__).parent / "malformed").glob("*.yaml"))

SMALL = """\
hawser: 1
name: small
title: Small
topology: {nodes: [a, b], links: {cable: {ends: [a.eth, b.eth], rate: 1 Mbit/s}}}
measurements: {rtt: {probe: ping, from: a, to: b}}
"""


def read(path: str) -> bytes:
    """Give the content of a file on disk."""
    return Path(path).read_bytes()


def small(more: str = "", overrides: tuple[str, ...] = (), **files: str) -> Workflow:
    """Load the smallest workflow with more text behind it."""
    return loaded(SMALL + textwrap.dedent(more), overrides, **files)


def loaded(text: str, overrides: tuple[str, ...] = (), **files: str) -> Workflow:
    """Load a workflow from text; `files` are those that it may extend, without their ending."""
    named: Mapping[str, str] = {f"{name}.yaml": content for name, content in files.items()}

    def content(name: str) -> str:
        if name == "x.yaml":
            return text
        if name not in named:
            raise FileNotFoundError(2, "No such file or directory")
        return named[name]

    return load("x.yaml", content, overrides)


def mistakes(text: str, overrides: tuple[str, ...] = (), **files: str) -> list[str]:
    """Give the mistakes of a workflow, as they are written out."""
    try:
        loaded(text, overrides, **files)
    except SpecErrors as errors:
        return [str(error) for error in errors.errors]
    return []
