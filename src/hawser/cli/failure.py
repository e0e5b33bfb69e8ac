"""Errors as a user meets them: one clear message, the right exit code, never a traceback."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import typer

from hawser.driver.base import MissingCapability
from hawser.engine.errors import InputError, Interrupted, LackingError
from hawser.node.base import NodeError
from hawser.probe.base import ProbeError
from hawser.spec.errors import SpecErrors
from hawser.store.errors import StoreError

FAILED: Final = 1
BAD_INPUT: Final = 2
LACKING: Final = 3
INTERNAL: Final = 70
"""`EX_SOFTWARE` of sysexits.h: a mistake of this program, not of its user."""


@dataclass(frozen=True)
class Failure:
    """What is said of an error, and what is returned."""

    code: int
    text: str
    """For a person."""
    document: Mapping[str, object]
    """For `--json`."""


def explain(error: BaseException) -> Failure:
    """Give message and exit code of an error."""
    match error:
        case SpecErrors():
            errors = [asdict(one) for one in error.errors]
            return Failure(BAD_INPUT, str(error), _document("bad input", errors))
        case InputError():
            problems = [{"message": problem} for problem in error.problems]
            return Failure(BAD_INPUT, "\n".join(error.problems), _document("bad input", problems))
        case LackingError():
            lacks = [{"message": text} for text in error.lacks]
            text = "This machine lacks what this needs:\n" + "\n".join(
                f"  {one}" for one in error.lacks
            )
            return Failure(LACKING, text, _document("this machine lacks something", lacks))
        case typer.TyperException():
            return _plain(error.exit_code, error.format_message())
        case MissingCapability():
            return _plain(LACKING, str(error))
        case StoreError():
            return _plain(BAD_INPUT, str(error))
        case NodeError() | ProbeError():
            return _plain(FAILED, str(error))
        case Interrupted() | KeyboardInterrupt():
            return _plain(FAILED, "interrupted")
        case BrokenPipeError():
            return _plain(FAILED, "the output was closed")
        case _:
            return _internal(error)


def _plain(code: int, text: str) -> Failure:
    return Failure(code, text, _document(text, []))


def _internal(error: BaseException) -> Failure:
    with tempfile.NamedTemporaryFile(
        "w", prefix="hawser-error-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    text = f"internal error: {type(error).__name__}: {error}\nDetails are in {file.name}"
    return _plain(INTERNAL, text)


def _document(error: str, errors: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    return {"error": error, "errors": errors}


def tell(failure: Failure, *, as_json: bool) -> None:
    """Write a failure out."""
    if as_json:
        json.dump(failure.document, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        sys.stderr.write(f"{failure.text}\n")
