"""Commands inside a namespace: run to their end, or started and stopped later."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from hawser.node.base import Completed, NodeError, tail
from hawser.node.netns import cgroup, namespace


def run(
    where: str,
    command: Sequence[str],
    *,
    timeout: float,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Completed:
    """Run a command in the namespace `where`; see `hawser.node.base.Node.run`."""
    process = _spawn(
        where, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, folder=folder
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise NodeError(f"{_shown(where, command)}: took longer than {timeout:g} s") from None
    finally:
        _kill(process)
    done = Completed(process.returncode, _text(output), _text(errors))
    if check and done.returncode != 0:
        said = tail(done.stderr or done.stdout)
        raise NodeError(f"{_shown(where, command)}: failed with exit code {done.returncode}{said}")
    return done


class Background:
    """A command that runs in the background, in a session and process group of its own."""

    def __init__(
        self,
        where: str,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start it.

        Raises:
            NodeError: there is no such program or namespace.
        """
        self._completed: Completed | None = None
        with contextlib.ExitStack() as files:
            self._output, self._errors = _files(log)
            files.callback(self._close)
            self._process = _spawn(
                where,
                command,
                stdout=self._output,
                stderr=self._errors or self._output,
                env=env,
                folder=folder,
            )
            files.pop_all()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait for its end, for ever, and return its exit code."""
        return self._process.wait()

    def kill(self) -> None:
        """End it and its process group at once, as a crash would."""
        _signal(self._process.pid, signal.SIGKILL)

    def stop(self, grace: float = 2.0) -> Completed:
        """End it and its process group: SIGTERM, after `grace` seconds SIGKILL. Idempotent."""
        if self._completed is None:
            if self.running():
                _signal(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
            _kill(self._process)
            output, errors = _content(self._output), _content(self._errors)
            self._completed = Completed(self._process.returncode, output, errors)
            self._close()
        return self._completed

    def _close(self) -> None:
        for file in (self._output, self._errors):
            if file is not None:
                file.close()


def _files(log: Path | None) -> tuple[IO[bytes], IO[bytes] | None]:
    if log is not None:
        return log.open("ab"), None
    return tempfile.TemporaryFile(), tempfile.TemporaryFile()


def _content(file: IO[bytes] | None) -> str:
    if file is None or not file.readable():
        return ""
    file.seek(0)
    return _text(file.read())


def _spawn(
    where: str,
    command: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    env: Mapping[str, str] | None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in the namespace and in the control group of the same name.

    A child is in the namespace of the thread that forks it, from its first instruction on, and in
    its control group of version 1; into one of version 2 it is put as soon as its program runs.
    """

    def fork() -> subprocess.Popen[bytes]:
        cgroup.enter(where)
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            cwd=folder,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "LC_ALL": "C", **(env or {})},
            start_new_session=True,
        )

    try:
        process = namespace.inside(where, fork)
    except OSError as error:
        raise NodeError(f"{_shown(where, command)}: cannot be started: {error.strerror}") from error
    cgroup.join(where, process.pid)
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _signal(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _shown(where: str, command: Sequence[str]) -> str:
    return f"{where}: {shlex.join(command)}"


def _text(output: bytes) -> str:
    return output.decode(errors="replace")
