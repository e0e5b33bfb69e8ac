"""Java programs, fetched by Maven in fixed versions and checked by their hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hawser.ids.errors import IdsError, Lacking

_HERE: Final = Path(__file__).parent
_TIMEOUT_S: Final = 600


def java() -> str:
    """Path of Java.

    Raises:
        Lacking: there is none.
    """
    return _program("java", "openjdk-17-jre-headless")


def folder(name: str) -> Path:
    """Folder with the jars of `kafka` or `spark`; they are fetched on first use.

    Raises:
        Lacking: Maven is missing.
        IdsError: they cannot be fetched, or are not those that were locked.
    """
    lock = _HERE / f"{name}.sha256"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hawser"
    final = home / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if final.is_dir():
        return final
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as temporary:
        fetched = Path(temporary) / "jars"
        fetch(name, fetched)
        check(fetched, lock)
        try:
            fetched.rename(final)
        except OSError:  # another process was first
            if not final.is_dir():
                raise
    return final


def fetch(name: str, target: Path) -> None:
    """Fetch the jars that `NAME.pom.xml` lists into a new folder.

    Raises:
        Lacking: Maven is missing.
        IdsError: they cannot be fetched.
    """
    maven = _program("mvn", "maven")
    with tempfile.TemporaryDirectory() as work:
        pom = Path(work) / "pom.xml"
        shutil.copy(_HERE / f"{name}.pom.xml", pom)
        done = subprocess.run(
            [
                *(maven, "--batch-mode", "--quiet", "--file", str(pom)),
                *("dependency:copy-dependencies", f"-DoutputDirectory={target}"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        problem = (done.stdout + done.stderr).strip().splitlines() or ["Maven failed"]
        raise IdsError(f"jars of {name}", problem[0])


def lock_of(jars: Path) -> str:
    """Give the lock of a folder: hash and name of each jar, as `sha256sum` writes them."""
    lines = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(jars.glob("*.jar"))
    )
    return "".join(lines)


def check(jars: Path, lock: Path) -> None:
    """Compare a folder with its lock.

    Raises:
        IdsError: a jar is missing, differs, or is not in the lock.
    """
    found = set(lock_of(jars).splitlines())
    wrong = sorted(found ^ set(lock.read_text().splitlines()))
    if wrong:
        raise IdsError(wrong[0].split()[-1], f"is not as {lock.name} says")


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Lacking(f"{name} is missing: apt-get install {package}")
    return found
