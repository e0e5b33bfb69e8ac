"""An OpenID provider that runs beside a test: `oidc-provider` of npm, on Node.js."""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from lab import ROOT

HERE = Path(__file__).parent
SECRET = "a-secret-of-the:client"  # noqa: S105 (of a test)
_INSTALLED = ROOT / "target" / "oidc-provider"


class OidcProvider:
    """A provider with the client `hawser`."""

    def __init__(self, folder: Path, redirect: str) -> None:
        _install()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{self.port}"
        command = ["node", "provider.mjs", str(self.port), SECRET, redirect]
        with (folder / "provider.log").open("w") as errors:
            self._process = subprocess.Popen(
                command, cwd=_INSTALLED, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line == "ready\n", (folder / "provider.log").read_text()

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=30)

    def log_in(self, url: str, name: str) -> str:
        """Log in and consent as a browser does, and give the URL to which that is sent back."""
        with httpx.Client(trust_env=False) as browser:
            for _ in range(10):
                answer = browser.get(url)
                while answer.is_redirect:
                    url = str(answer.next_request.url) if answer.next_request else ""
                    if not url.startswith(self.issuer):
                        return url
                    answer = browser.get(url)
                form = _Form(answer.text)
                asked = {"prompt": form.prompt, "login": name, "password": "x"}
                answer = browser.post(f"{self.issuer}{form.action}", data=asked)
                assert answer.is_redirect, answer.text
                url = str(answer.next_request.url) if answer.next_request else ""
        raise AssertionError("the provider asks without end")


class _Form(HTMLParser):
    """The form of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action = self.prompt = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.action = "/" + (found.get("action") or "").split("/", 3)[-1]
        if tag == "input" and found.get("name") == "prompt":
            self.prompt = found.get("value") or ""


def _install() -> None:
    """Install the packages of package-lock.json, once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed (Debian packages nodejs, npm)")
    _INSTALLED.mkdir(parents=True, exist_ok=True)
    with (_INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        _fill()


def _fill() -> None:
    wanted, done = (HERE / "package-lock.json").read_bytes(), _INSTALLED / "installed"
    if not done.exists() or done.read_bytes() != wanted:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, _INSTALLED / name)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=_INSTALLED, check=True, timeout=300)
        done.write_bytes(wanted)
    shutil.copy(HERE / "provider.mjs", _INSTALLED / "provider.mjs")
