"""Network namespaces made with `ip`, and commands in them."""

from __future__ import annotations

import itertools
import os
import subprocess

from lab.waiting import PATIENCE

_numbers = itertools.count()


def run(*command: str, check: bool = True) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: it failed; the message is its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


class Namespaces:
    """Namespaces PREFIX-label. Leaving the context removes them."""

    def __init__(self, kind: str) -> None:
        self.prefix = f"{kind}-{os.getpid()}-{next(_numbers)}"
        self._made: list[str] = []

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(self, *_: object) -> None:
        while self._made:
            run("ip", "netns", "del", self._made.pop(), check=False)

    def name(self, label: str | int) -> str:
        return f"{self.prefix}-{label}"

    def add(self, label: str | int) -> str:
        """Make a namespace, and give its name."""
        name = self.name(label)
        run("ip", "netns", "add", name)
        self._made.append(name)
        return name

    def inside(self, label: str | int, *command: str) -> list[str]:
        """The command that runs a command in a namespace."""
        return ["ip", "netns", "exec", self.name(label), *command]

    def at(self, label: str | int, *command: str, check: bool = True) -> str:
        """Run a command in a namespace."""
        return run(*self.inside(label, *command), check=check)
