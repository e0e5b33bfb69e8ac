"""Network namespaces by name: created, entered and removed.

Nothing here changes the namespace of a thread that goes on: work runs in a thread of its own that
enters the namespace and ends there. What that thread opens or starts (sockets, processes) stays
in the namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pyroute2 import netns

from hawser.node.base import NodeError

DIRECTORY = Path(netns.NETNS_RUN_DIR)
"""Where `ip netns` looks: a namespace that has a name is a mount there."""

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def create(name: str) -> None:
    """Create an empty namespace.

    Raises:
        NodeError: it exists, or the kernel refuses.
    """

    def bind() -> None:
        with _one_at_a_time():
            netns.attach(name, threading.get_native_id())

    try:
        _in_thread(_unshare, bind)
    except OSError as error:
        raise NodeError(f"namespace {name}: {error.strerror or error}") from error


def inside(name: str, work: Callable[[], T]) -> T:
    """Do `work` inside the namespace and return its result.

    Raises:
        NodeError: there is no such namespace. Errors of `work` pass through.
    """
    return _in_thread(lambda: _enter(name), work)


def scratch(work: Callable[[], T]) -> T:
    """Do `work` inside a new namespace without a name, which is gone afterwards."""
    return _in_thread(_unshare, work)


def remove(name: str) -> None:
    """Remove the name; the namespace ends with its last process. Idempotent."""
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NodeError(f"namespace {name}: cannot be removed: {error.strerror}") from error


def names(prefix: str) -> tuple[str, ...]:
    """Names of the namespaces that begin with `prefix`, also of half-made ones."""
    try:
        found = sorted(path.name for path in DIRECTORY.iterdir() if path.name.startswith(prefix))
    except FileNotFoundError:
        return ()
    return tuple(found)


@contextmanager
def identity(name: str) -> Iterator[tuple[int, int] | None]:
    """Device and inode of a namespace, kept from others meanwhile; None for a half-made one."""
    try:
        handle = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # gone, or a file without a namespace mounted on it and without permissions
        yield None
        return
    try:
        status = os.fstat(handle)
        yield (status.st_dev, status.st_ino)
    finally:
        os.close(handle)


def _in_thread(enter: Callable[[], None], work: Callable[[], T]) -> T:
    result: Future[T] = Future()

    def body() -> None:
        if not result.set_running_or_notify_cancel():
            return
        try:
            enter()
            result.set_result(work())
        except BaseException as error:  # handed to the caller, whatever it is
            result.set_exception(error)

    try:
        threading.Thread(target=body, name="hawser-namespace", daemon=True).start()
        return result.result()
    except BaseException:  # an interrupt, perhaps: what has begun must not go on behind our back
        if not result.cancel():
            wait([result])
        raise


def _enter(name: str) -> None:
    try:
        netns.setns(str(DIRECTORY / name), flags=0)
    except OSError as error:
        raise NodeError(f"namespace {name}: cannot be entered: {error}") from error


def _unshare() -> None:
    if _libc.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two that find `/run/netns` not yet mounted would mount it twice, and one would be hidden."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    handle = os.open(DIRECTORY.parent, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
