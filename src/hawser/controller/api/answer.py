"""Answers to requests that are refused: always `Problem`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy import exc
from starlette.exceptions import HTTPException

from hawser.controller import errors
from hawser.controller.access.oidc_provider import ProviderError
from hawser.controller.api.model import FieldProblem, Problem
from hawser.spec.validate import Issue

_log = logging.getLogger(__name__)

AWAY: Final = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)
"""What the database raises that does not answer, or has no connection left."""

_CODES: Final[Mapping[type[errors.Refused], int]] = {
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Invalid: 422,
    errors.TooMany: 429,
    ProviderError: 502,
}
_MEANINGS: Final = {
    400: "The request is not JSON.",
    401: "The caller is not authenticated.",
    403: "The caller lacks a permission.",
    404: "It does not exist.",
    409: "The request does not fit the current state.",
    413: "The body is too large.",
    422: "Fields are wrong.",
    429: "Too many attempts: `Retry-After` says when to try again.",
    502: "The OpenID provider does not answer as it should.",
    503: "The database does not answer.",
}


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe answers to refused requests, for the OpenAPI document."""
    return {code: {"model": Problem, "description": _MEANINGS[code]} for code in codes}


def problem(code: int, error: str, issues: tuple[Issue, ...] = ()) -> JSONResponse:
    """Answer that a request is refused."""
    fields = tuple(
        FieldProblem(field=errors.field_of(each), message=each.message) for each in issues
    )
    return JSONResponse(Problem(error=error, errors=fields).model_dump(), code)


def install(app: FastAPI) -> None:
    """Install the handlers in an application."""
    app.add_exception_handler(errors.Refused, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RecursionError, _nested)
    for kind in AWAY:
        app.add_exception_handler(kind, _unavailable)


def _refused(_request: Request, error: Exception) -> JSONResponse:
    issues = error.issues if isinstance(error, errors.Invalid) else ()
    code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
    answer = problem(code, "fields are wrong" if issues else str(error), issues)
    if isinstance(error, errors.TooMany):
        answer.headers["Retry-After"] = str(int(error.wait_s) + 1)
    if code == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _malformed(_request: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    # The input is not repeated in the answer: it may be a password.
    issues = tuple(Issue(tuple(each["loc"]), str(each["msg"])) for each in found)
    return problem(422, "fields are wrong", issues)


def _http(_request: Request, error: Exception) -> JSONResponse:
    code = error.status_code if isinstance(error, HTTPException) else 500
    answer = problem(code, str(getattr(error, "detail", "")))
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _nested(_request: Request, _error: Exception) -> JSONResponse:
    return problem(422, "the body is nested too deeply")


def _unavailable(_request: Request, error: Exception) -> JSONResponse:
    return unavailable(error)


def unavailable(error: Exception) -> JSONResponse:
    """Answer that the database does not answer."""
    _log.error("database: %s", error)
    answer = problem(503, "the database does not answer")
    answer.headers["Retry-After"] = "1"
    return answer
