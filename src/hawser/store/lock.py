"""The writer's lock on a run. The kernel releases it when the process ends, even by a crash.

It is an open file description lock (fcntl(2)), which a reader can test without taking it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from hawser.store.errors import BundleError

_FLOCK = "hhqqi"  # struct flock: l_type, l_whence, l_start, l_len, l_pid
_NAME = ".lock"


class Lock:
    """Held from creation until `release`, or until the process ends.

    Raises:
        BundleError: another process holds it.
    """

    def __init__(self, bundle: Path) -> None:
        self._descriptor = os.open(bundle / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        except OSError as error:
            self.release()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise BundleError(bundle, "another process is writing this run") from error

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def held(bundle: Path) -> bool:
    """Whether a process is writing the run now."""
    try:
        descriptor = os.open(bundle / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
