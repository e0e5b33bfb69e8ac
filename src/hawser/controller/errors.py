"""Why the controller refuses a request. The API maps each to a status code."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.spec.validate import Issue


class DirectoryError(Exception):
    """A directory that is no controller's, or cannot become one."""


class Refused(Exception):  # noqa: N818 (it is the tree's root)
    """A request that is not carried out; nothing has changed."""


class Unauthorized(Refused):
    """The caller is not authenticated."""


class Forbidden(Refused):
    """The caller lacks a permission."""


class NotFound(Refused):
    """What the request names does not exist."""


class Conflict(Refused):
    """The request does not fit the current state."""


class TooMany(Refused):
    """Too many attempts; the caller may try again later."""

    def __init__(self, message: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class Invalid(Refused):
    """The request's content is wrong; lists every field."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(f"{field_of(each)}: {each.message}" for each in issues))


def field_of(issue: Issue) -> str:
    """Give the place of an issue as a dotted path."""
    return ".".join(map(str, issue.loc))
