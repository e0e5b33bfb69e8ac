"""What the controller refuses, by whose fault. The API gives each a status code."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.spec.validate import Issue


class DirectoryError(Exception):
    """A directory that is no controller's, or cannot become one."""


class Refused(Exception):  # noqa: N818 (it is the tree's root)
    """A request that is not carried out; nothing has changed."""


class Unauthorized(Refused):
    """Who asks is not known."""


class Forbidden(Refused):
    """Who asks may not."""


class NotFound(Refused):
    """There is no such thing."""


class Conflict(Refused):
    """The state is another one than who asks believes."""


class TooMany(Refused):
    """Too many attempts; it may be tried again later."""

    def __init__(self, message: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class Invalid(Refused):
    """What is asked for is wrong in itself, with every place."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(f"{field_of(each)}: {each.message}" for each in issues))


def field_of(issue: Issue) -> str:
    """Where it is, as a dotted path."""
    return ".".join(map(str, issue.loc))
