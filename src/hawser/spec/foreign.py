"""What importers of other people's files share: how such a file is read, and how names are made."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ConfigDict

from hawser.spec.errors import Place, Problems
from hawser.spec.model import Model
from hawser.spec.syntax import parse
from hawser.spec.tree import Table
from hawser.spec.validate import report, validate

LINK = "rate: 1 Gbit/s, queue: 1 MB"
"""What joins nodes of the source's platform."""
_VALUES = {"false", "true", "null", "no", "yes", "off", "on", "n", "y"}
"""Words that are no text in YAML of one version or another."""
PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp"}


class Open(Model):
    """A part of a file that may have more than is known."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class Imported:
    """A workflow file of ours."""

    text: str
    left: tuple[str, ...]
    """What it does not have, or has otherwise, each with its place in the file that was read."""


M = TypeVar("M", bound=Model)


def read(
    model: type[M], text: str | bytes, file: str, expected: str, problems: Problems
) -> tuple[M, Table] | None:
    """Read a file, or note everything that is wrong with it.

    Args:
        model: what it is to be.
        text: its content.
        file: its name, for messages.
        expected: what it must be, in words.
        problems: takes the mistakes.
    """
    tree = parse(text, file, problems)
    if not isinstance(tree, Table):
        problems.add(Place(file, 1, 1), "", f"expected {expected}")
        return None
    found, issues = validate(model, tree)
    report(issues, tree, problems)
    return None if found is None else (found, tree)


def names(letter: str, found: Sequence[str]) -> dict[str, str]:
    """Number what was found, each once."""
    return {each: f"{letter}{place}" for place, each in enumerate(dict.fromkeys(found), 1)}


def words(wanted: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Make names of ours of any, each once and none of those taken."""
    found: list[str] = []
    for place, name in enumerate(wanted, 1):
        word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:25]
        good = re.fullmatch(r"[a-z][a-z0-9-]*", word) and word not in (*taken, *found, *_VALUES)
        found.append(word if good else f"function-{place}")
    return found


_FIREWALL = re.compile(r"(?<![a-z])(fire-?wall|fw)(?![a-z])")


def kind(*texts: object) -> str:
    """Give the kind of a function by its name, descriptor or image: a firewall if one says so."""
    named = any(isinstance(text, str) and _FIREWALL.search(text.lower()) for text in texts)
    return "firewall" if named else "forwarder"


def shown(text: str) -> str:
    """Quote a text of the file, cut short."""
    return json.dumps(text[:60])


def listed(found: Sequence[str]) -> str:
    """Give a list as YAML on one line."""
    return f"[{', '.join(found)}]"
