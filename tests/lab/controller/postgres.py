"""A PostgreSQL of the test's, where this machine has one."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from pathlib import Path

INITDB = shutil.which("initdb") or next(
    iter(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
)


class Postgres:
    """A PostgreSQL on a Unix socket."""

    def __init__(self, folder: Path) -> None:
        assert INITDB
        self._bin, self._folder = Path(INITDB).resolve().parent, folder
        self._databases = 0
        # PostgreSQL does not run as root.
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "hawser", "--no-sync")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-o", options, "start")

    def _run(self, program: str, *arguments: str) -> None:
        user = self._user if os.geteuid() == 0 else None
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True,
            user=user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def new(self) -> str:
        """URL of a new database."""
        self._databases += 1
        name = f"network{self._databases}"
        self._run("createdb", "-h", str(self._folder), "-U", "hawser", name)
        return f"postgresql://hawser@/{name}?host={self._folder}"

    def end(self) -> None:
        """Stop it, if it runs."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "stop")
