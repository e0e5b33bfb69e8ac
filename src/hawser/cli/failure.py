"""Errors as the user sees them: one clear message and the right exit code, never a traceback."""

from __future__ import annotations

import errno
import json
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer

from hawser.agent.errors import AgentError
from hawser.control.https import ApiError
from hawser.controller.errors import DirectoryError, Invalid, field_of
from hawser.driver.base import MissingCapability
from hawser.engine.errors import BusyError, InputError, Interrupted, LackingError
from hawser.ids.errors import Fenced, IdsError, Lacking, Unavailable
from hawser.node.base import NodeError
from hawser.probe.base import ProbeError
from hawser.spec.errors import SpecErrors
from hawser.store.errors import StoreError

FAILED: Final = 1
BAD_INPUT: Final = 2
LACKING: Final = 3
INTERNAL: Final = 70
"""`EX_SOFTWARE` of sysexits.h: an internal error."""

_SERVERS_FAULT = 500
"""The first status code of HTTP that is no mistake of who asks."""

_ENVIRONMENT = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE)
"""Errors of the operating system that are not internal errors."""


@dataclass(frozen=True)
class Failure:
    """Message and exit code of an error."""

    code: int
    text: str
    """The message."""
    document: Mapping[str, object]
    """The JSON document for `--json`."""


def explain(error: BaseException) -> Failure:
    """Give message and exit code of an error."""
    return _refused(error) or _failed(error) or _internal(error)


def _refused(error: BaseException) -> Failure | None:
    """Nothing was done: the input is bad, or the machine lacks something."""
    match error:
        case SpecErrors():
            errors = [asdict(one) for one in error.errors]
            return Failure(BAD_INPUT, str(error), _document("bad input", errors))
        case InputError():
            problems = [{"message": problem} for problem in error.problems]
            return Failure(BAD_INPUT, "\n".join(error.problems), _document("bad input", problems))
        case LackingError():
            lacks = [{"message": lack} for lack in error.lacks]
            text = "\n  ".join(("This machine lacks what this needs:", *error.lacks))
            return Failure(LACKING, text, _document("this machine lacks something", lacks))
        case MissingCapability() | Lacking():
            return _plain(LACKING, str(error))
        case typer.TyperException():
            return _plain(error.exit_code, error.format_message())
        case StoreError() | DirectoryError() | AgentError() | IdsError():
            return _plain(BAD_INPUT, str(error))
        case Invalid():
            problems = [{"field": field_of(each), "message": each.message} for each in error.issues]
            text = "\n".join(f"{each['field']}: {each['message']}" for each in problems)
            return Failure(BAD_INPUT, text, _document("bad input", problems))
        case ApiError(status=int() as status) if status < _SERVERS_FAULT:
            return _plain(BAD_INPUT, str(error))
    return None


def _failed(error: BaseException) -> Failure | None:
    """The command failed or was interrupted while it ran."""
    match error:
        case NodeError() | ProbeError() | ApiError() | Fenced() | Unavailable():
            return _plain(FAILED, str(error))
        case Interrupted(resume=Path() as bundle):
            text = f"interrupted; finished trials are kept: hawser run --resume {bundle}"
            return Failure(FAILED, text, _document("interrupted", []) | {"resume": str(bundle)})
        case BusyError(resume=Path() as bundle):
            text = f"{error}; go on later: hawser run --resume {bundle}"
            return Failure(FAILED, text, _document(str(error), []) | {"resume": str(bundle)})
        case Interrupted() | KeyboardInterrupt():
            return _plain(FAILED, "interrupted")
        case OSError(errno=number) if number in _ENVIRONMENT:
            place = f"{error.filename}: " if error.filename else ""
            return _plain(FAILED, f"{place}{error.strerror}")
    return None


def _plain(code: int, text: str) -> Failure:
    return Failure(code, text, _document(text, []))


def _internal(error: BaseException) -> Failure:
    with tempfile.NamedTemporaryFile(
        "w", prefix="hawser-error-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    text = f"internal error: {type(error).__name__}: {error}\nDetails are in {file.name}"
    return _plain(INTERNAL, text)


def _document(error: str, errors: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {"error": error, "errors": errors}


def tell(failure: Failure, *, as_json: bool) -> None:
    """Write a failure out."""
    if as_json:
        json.dump(failure.document, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        sys.stderr.write(f"{failure.text}\n")
