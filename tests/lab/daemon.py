"""`hawserd` in a namespace: started, waited for, asked, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from lab import ROOT, control
from lab.waiting import PATIENCE, until


def hawserd() -> Path:
    """The daemon: $HAWSERD, else the newest build."""
    chosen = os.environ.get("HAWSERD")
    builds = [ROOT / "target" / kind / "hawserd" for kind in ("release", "debug")]
    found = [Path(chosen)] if chosen else [build for build in builds if build.exists()]
    if not found:
        raise FileNotFoundError("hawserd is not built: run `cargo build --release`")
    return max(found, key=lambda build: build.stat().st_mtime)


class Daemon:
    """One `hawserd` with a control API; `role` is its subcommand."""

    def __init__(
        self, namespace: str, role: str, config: dict[str, Any], folder: Path, name: str
    ) -> None:
        self.namespace = namespace
        self.config = config
        self.folder = folder
        self.name = name
        self.process: subprocess.Popen[str] | None = None
        self._role = role

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            RuntimeError: it ended; its log is the message.
        """
        path = self.folder / f"{self.name}.json"
        path.write_text(json.dumps(self.config))
        command = ["ip", "netns", "exec", self.namespace, str(hawserd()), *self._role.split()]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(path)], stderr=log, stdout=log, text=True
            )
        until(lambda: self.answers() or self.ended(), f"{self.name} answers")
        if self.ended():
            raise RuntimeError(self.log.read_text())

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/v1/status")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """One request to the control API: its status and body."""
        return control.ask(Path(self.config["control"]), method, path, body)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request to the control API: its status and its JSON, or text where it is none."""
        status, text = self.ask(method, path, body)
        return status, json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path: str) -> Any:  # noqa: ANN401 (JSON)
        """What the control API says, which must not be an error."""
        status, text = self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {text}")
        return json.loads(text)

    def stop(self, sign: int = signal.SIGTERM) -> int | None:
        """Send a signal, wait for the end, and give the exit code; none where it does not run."""
        if self.process is None:
            return None
        self.process.send_signal(sign)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code
