"""A process of its own that answers questions, one after the other.

If it dies or takes too long, the next question starts another one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

from hawser.optimise.solver import ProgramError

_NICE: Final = 10
"""The API and the gateways' connections come first."""

Answering = Callable[[Any], object]


class Apart:
    """The process. To be used by one thread at a time."""

    def __init__(self, name: str, begin: Callable[..., Answering], patience_s: float) -> None:
        """Say what it does; it is started by the first question.

        Args:
            name: what it is called.
            begin: gives in the process, from `beginning`, what answers questions.
            patience_s: how long to wait for an answer.
        """
        self._name, self._begin, self._patience_s = name, begin, patience_s
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    @property
    def number(self) -> int | None:
        """Number of the process; None while there is none."""
        return self._process.pid if self._process else None

    def ask(self, asked: object, *beginning: object) -> object:
        """Have the process answer; start it where there is none.

        Args:
            asked: the question.
            beginning: for a process that is started.

        Raises:
            ProgramError: the solver or the process has failed.
        """
        pipe, found = self._pipe or self._start(beginning), None
        try:
            pipe.send(asked)
            if pipe.poll(self._patience_s):
                found = pipe.recv()
        except (EOFError, OSError) as error:
            self.stop()
            raise ProgramError(f"the {self._name}'s process has ended") from error
        if found is None:
            self.stop()
            raise ProgramError(f"the {self._name} has not answered for {self._patience_s:.0f} s")
        if isinstance(found, str):
            raise ProgramError(found)
        return found

    def _start(self, beginning: tuple[object, ...]) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would have the service's sockets
        ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, self._begin, beginning), daemon=True, name=self._name
        )
        self._process.start()
        theirs.close()
        self._pipe = ours
        return ours

    def stop(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _work(pipe: Connection, begin: Callable[..., Answering], beginning: tuple[object, ...]) -> None:
    """Answer questions until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends this
    os.nice(_NICE)
    answer = begin(*beginning)
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(answer(asked))
        except ProgramError as error:
            pipe.send(str(error))
